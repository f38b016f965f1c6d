#include "topology/cpu_place.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace {

// Two packages with two NUMA nodes each, of two caches of two cores: 16 hardware threads.
const Machine& two_packages() {
  static const Machine machine = synthetic_machine("pack:2 numa:2 l3:2 core:2 pu:1");
  return machine;
}

CpuPlace place(std::vector<int> threads) { return place_of_threads(two_packages(), threads); }

TEST(CpuPlace, NamesObjectsByTheirLowestHardwareThread) {
  EXPECT_EQ(place({0}), (CpuPlace{0, 0, 0}));
  EXPECT_EQ(place({3}), (CpuPlace{0, 0, 2}));
  EXPECT_EQ(place({7}), (CpuPlace{0, 4, 6}));
  EXPECT_EQ(place({12, 13}), (CpuPlace{8, 12, 12}));
}

TEST(CpuPlace, IsUnknownWhereARankMayRunInSeveralObjects) {
  EXPECT_EQ(place({0, 3}), (CpuPlace{0, 0, Machine::kUnknown}));
  EXPECT_EQ(place({0, 5}), (CpuPlace{0, Machine::kUnknown, Machine::kUnknown}));
  EXPECT_EQ(place({0, 9}), CpuPlace{});
  EXPECT_EQ(place({}), CpuPlace{});
  EXPECT_EQ(place({0, 99}), CpuPlace{}) << "a hardware thread that hwloc does not know";
}

TEST(CpuPlace, IsUnknownOnAMachineThatTellsNothing) {
  Machine flat = two_packages();
  flat.flat = true;
  EXPECT_EQ(place_of_threads(flat, std::vector{0}), CpuPlace{});
}

TEST(LinkClass, SaysWhatIsTheSmallestObjectThatTwoRanksShare) {
  EXPECT_EQ(told_class(place({0}), place({1})), LinkClass::kNear);
  EXPECT_EQ(told_class(place({0}), place({2})), LinkClass::kFar);
  EXPECT_EQ(told_class(place({0}), place({4})), LinkClass::kNuma);
  EXPECT_EQ(told_class(place({0}), place({8})), LinkClass::kSocket);
}

TEST(LinkClass, SaysNothingOfRanksThatAreNotBoundCloselyEnough) {
  EXPECT_EQ(told_class(place({0, 3}), place({1})), std::nullopt) << "near or far";
  EXPECT_EQ(told_class(place({0, 3}), place({4})), LinkClass::kNuma);
  EXPECT_EQ(told_class(place({0, 3}), place({8, 15})), LinkClass::kSocket);
  EXPECT_EQ(told_class({}, place({0})), std::nullopt);
}

}  // namespace
}  // namespace tutti
