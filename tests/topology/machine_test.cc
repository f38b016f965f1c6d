#include "topology/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "tutti/error.h"

namespace tutti {
namespace {

Machine fixture(const std::string& name) { return load_machine(std::string(TUTTI_FIXTURES) + "/" + name); }

std::vector<int> count_to(int end) {
  std::vector<int> numbers(static_cast<std::size_t>(end));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// What must be true of every machine, however odd.
void expect_sane(const Machine& machine) {
  EXPECT_FALSE(machine.cores.empty());
  EXPECT_FALSE(machine.usable.empty());
  EXPECT_GE(machine.hardware_threads(), machine.cores.size());
  EXPECT_GT(machine.l2_bytes, 0u);
  for (const Machine::Core& core : machine.cores) {
    EXPECT_FALSE(core.hardware_threads.empty());
    EXPECT_LT(core.package, machine.packages);
    EXPECT_LT(core.numa_node, static_cast<int>(machine.numa_nodes.size()));
  }
  EXPECT_FALSE(describe(machine).empty());
}

TEST(Machine, TellsPackagesNodesCoresAndCachesOfAFile) {
  const Machine machine = fixture("two_packages.xml");
  EXPECT_EQ(machine.host, "node1");
  EXPECT_EQ(machine.product, "Test 2000");
  EXPECT_EQ(machine.cpu, "Example 16-Core Processor");
  EXPECT_EQ(machine.packages, 2);
  ASSERT_EQ(machine.numa_nodes.size(), 4u);
  EXPECT_EQ(machine.numa_nodes[3].os_number, 3);
  EXPECT_EQ(machine.numa_nodes[3].memory_bytes, 8'000'000'000u);
  ASSERT_EQ(machine.cores.size(), 8u);
  EXPECT_EQ(machine.hardware_threads(), 16u);
  EXPECT_EQ(machine.usable, count_to(16));
  EXPECT_FALSE(machine.flat);

  const Machine::Core& last = machine.cores.back();
  EXPECT_EQ(last.package, 1);
  EXPECT_EQ(last.numa_node, 3);
  EXPECT_EQ(last.l3, 3);
  EXPECT_EQ(last.hardware_threads, (std::vector<int>{14, 15}));
  EXPECT_EQ(last.l1_bytes, 48'000u);
  EXPECT_EQ(last.l2_bytes, 1'000'000u);
  EXPECT_EQ(last.l3_bytes, 32'000'000u);
  expect_sane(machine);
}

TEST(Machine, CountsOnlyACoresShareOfASharedL2) {
  const Machine machine = fixture("shared_l2.xml");
  EXPECT_EQ(machine.cores.front().l2_bytes, 4'000'000u);
  EXPECT_EQ(machine.l2_bytes, 1'000'000u) << "four cores share one cache";
}

TEST(Machine, TakesEveryHardwareThreadForACoreWhenNothingIsKnown) {
  const Machine machine = fixture("no_cores.xml");
  EXPECT_TRUE(machine.flat);
  EXPECT_EQ(machine.cores.size(), 4u);
  EXPECT_EQ(machine.l2_bytes, Machine::kAssumedL2Bytes);
  EXPECT_EQ(machine.cores.front().package, Machine::kUnknown);
  expect_sane(machine);
  EXPECT_NE(describe(machine).find("does not tell how they are arranged"), std::string::npos);
}

TEST(Machine, RefusesAFileThatIsNotThere) {
  try {
    fixture("missing.xml");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting);
    EXPECT_NE(std::string(error.what()).find("missing.xml"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("lstopo"), std::string::npos) << error.what();
  }
}

TEST(Machine, RefusesAFileThatIsCutOff) {
  std::ifstream whole(std::string(TUTTI_FIXTURES) + "/two_packages.xml");
  std::string text(3000, '\0');
  whole.read(text.data(), static_cast<std::streamsize>(text.size()));
  const std::string cut = testing::TempDir() + "tutti_cut.xml";
  std::ofstream(cut) << text;
  EXPECT_THROW(load_machine(cut), Error);
  std::filesystem::remove(cut);
}

TEST(Machine, SaysWhatItIsMadeOfInWords) {
  const std::string text = describe(fixture("two_packages.xml"));
  for (const char* part : {"node1, Test 2000, Example 16-Core Processor", "2 packages, 4 NUMA nodes, 8 cores",
                           "use 16 of them: 0-15", "package 1", "NUMA node 3, 7.5 GiB",
                           "2 cores, hardware threads 12-15: L1 46.9 KiB, L2 976.6 KiB, L3 30.5 MiB"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
  }
}

TEST(Machine, DiscoversTheOneItRunsOn) {
  const Machine machine = discover_machine();
  expect_sane(machine);
  EXPECT_FALSE(machine.host.empty());
  EXPECT_GT(machine.discovery_seconds, 0.0);
  RecordProperty("discovery_us", static_cast<int>(machine.discovery_seconds * 1e6));
}

TEST(Machine, MayUseWhatTheProcessIsBoundTo) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const Machine bound = discover_machine();
  EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  const Machine free = discover_machine();
  EXPECT_EQ(bound.usable, std::vector<int>{first});
  EXPECT_EQ(bound.cores.size(), free.cores.size()) << "binding hides no core";
  EXPECT_EQ(bound.l2_bytes, free.l2_bytes) << "all ranks of a host must get the same number";
}

TEST(Machine, IsDiscoveredWithoutMovingTheThread) {
  cpu_set_t before;
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  discover_machine();
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

// A sandbox without /sys, made in a child with a mount namespace of its own. Exit status: 0 right, 1 wrong, 2 this
// machine does not let it be made.
int discover_without_sys() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 && unshare(CLONE_NEWNS) != 0) return 2;
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 2;
  if (mount("none", "/sys", "tmpfs", 0, nullptr) != 0) return 2;
  testing::internal::CaptureStderr();
  const Machine machine = discover_machine();
  const std::string log = testing::internal::GetCapturedStderr();
  const std::size_t warning = log.find("/sys does not tell");
  const bool one_warning = warning != std::string::npos && log.find("/sys does not tell", warning + 1) == log.npos;
  const bool right = machine.flat && !machine.cores.empty() && !machine.usable.empty() && machine.l2_bytes > 0;
  if (!one_warning || !right) fprintf(stderr, "log: %s\n%s", log.c_str(), describe(machine).c_str());
  return one_warning && right ? 0 : 1;
}

TEST(Machine, IsFlatWithOneWarningWhereSysIsMissing) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(discover_without_sys());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "the child died";
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this machine allows no mount namespaces";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Descriptions of real machines, when a collection lies beside the checkout (or where TUTTI_TOPOLOGIES says).
TEST(Machine, LoadsEveryRecordedMachineOrRefusesItWithAReason) {
  const char* place = std::getenv("TUTTI_TOPOLOGIES");
  const std::filesystem::path folder =
      std::filesystem::path(place != nullptr ? place : TUTTI_COLLECTION) / "hwloc" / "xml-v2";
  if (!std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << "no collection of recorded machines here; TUTTI_TOPOLOGIES names its folder";
  }
  int loaded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".xml") continue;
    SCOPED_TRACE(entry.path());
    try {
      expect_sane(load_machine(entry.path()));
      ++loaded;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting);
    }
  }
  EXPECT_GE(loaded, 25);
}

}  // namespace
}  // namespace tutti
