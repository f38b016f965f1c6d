#include "collectives/tuning.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "collectives/fitting.h"
#include "collectives/layouts.h"
#include "collectives/registry.h"
#include "collectives/selector.h"
#include "tutti/error.h"

namespace tutti {
namespace {

Tuning parse(const std::string& text) { return parse_tuning("t.json", text); }

// The message of the error for this text; "" when it is accepted.
std::string complaint(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting);
    return error.what();
  }
  return {};
}

std::string choice(const std::string& fields) { return R"({"tutti_tuning":1,"choices":[{)" + fields + "}]}"; }

TEST(TuningFile, MayBeNearlyEmpty) {
  const Tuning tuning = parse(R"({"tutti_tuning": 1})");
  EXPECT_NE(tuning.hash, 0u);
  EXPECT_TRUE(tuning.choices.empty());
  EXPECT_FALSE(tuning.step_ns);
  EXPECT_EQ(load_tuning("").hash, 0u);
}

TEST(TuningFile, SaysParametersAndChoices) {
  const Tuning tuning = parse(R"({"tutti_tuning": 1, "machine": "two cores", "step_ns": 2,
      "copied_bytes_per_ns": 70.5, "reduced_bytes_per_ns": 60,
      "links": {"near": {"latency_ns": 57, "bytes_per_ns": 33}, "remote": {"message_ns": 700}},
      "choices": [{"collective": "all_reduce", "ranks": 2, "hosts": 1, "from_bytes": 4096, "algorithm": "ring"},
                  {"collective": "all_reduce", "ranks": 2, "hosts": 1, "from_bytes": 0, "algorithm": "two_shot"}]})");
  EXPECT_EQ(tuning.links[0].latency_ns, 57);
  EXPECT_EQ(tuning.links[0].message_ns, std::nullopt);
  EXPECT_EQ(tuning.remote.message_ns, 700);
  EXPECT_EQ(tuning.copied_bytes_per_ns, 70.5);
  ASSERT_EQ(tuning.choices.size(), 2u);
  EXPECT_EQ(tuning.choices[0].algorithm, "two_shot") << "sorted by size";
  EXPECT_EQ(tuning.choices[1].from_bytes, 4096u);
}

TEST(TuningFile, IsRefusedWithFileFieldAndWhatIsAllowed) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "it is no JSON"},
      {"{", "it is no JSON"},
      {R"({"tutti_tuning":1}})", "it is no JSON"},
      {"[1]", "tutti_tuning"},
      {"{}", "the field tutti_tuning with the number of its format is missing"},
      {R"({"tutti_tuning":2})", "tutti_tuning must be 1"},
      {R"({"tutti_tuning":"1"})", "tutti_tuning must be 1"},
      {R"({"tutti_tuning":1,"machine":3})", "machine must be a text"},
      {R"({"tutti_tuning":1,"step":1})", "has no field \"step\": it takes tutti_tuning, machine, links"},
      {R"({"tutti_tuning":1,"step_ns":"fast"})", "step_ns must be a number from 0.001 to 1e+09"},
      {R"({"tutti_tuning":1,"step_ns":-1})", "step_ns must be a number"},
      {R"({"tutti_tuning":1,"copied_bytes_per_ns":1e300})", "copied_bytes_per_ns must be a number"},
      {R"({"tutti_tuning":1,"links":[]})", "links must be an object"},
      {R"({"tutti_tuning":1,"links":{"nearby":{}}})", "links has no field \"nearby\": it takes near, far"},
      {R"({"tutti_tuning":1,"links":{"far":7}})", "links.far must be an object"},
      {R"({"tutti_tuning":1,"links":{"far":{"latency_ns":0}}})", "links.far.latency_ns must be a number from 0.001"},
      {R"({"tutti_tuning":1,"choices":{}})", "choices must be a list of at most 4096"},
      {R"({"tutti_tuning":1,"choices":[3]})", "choices[0] must be an object"},
      {choice(R"("collective":"all_redce","ranks":2,"hosts":1,"from_bytes":0,"algorithm":"ring")"),
       "choices[0].collective must be one of all_reduce, all_gather"},
      {choice(R"("collective":"all_reduce","ranks":0,"hosts":1,"from_bytes":0,"algorithm":"ring")"),
       "choices[0].ranks must be a whole number from 1 to"},
      {choice(R"("collective":"all_reduce","ranks":2,"hosts":3,"from_bytes":0,"algorithm":"ring")"),
       "choices[0].hosts must be a whole number from 1 to 2"},
      {choice(R"("collective":"all_reduce","ranks":2,"hosts":1,"from_bytes":1.5,"algorithm":"ring")"),
       "choices[0].from_bytes must be a whole number"},
      {choice(R"("collective":"all_reduce","ranks":2,"hosts":1,"from_bytes":0,"algorithm":"rng")"),
       "choices[0].algorithm must be one of one_shot, two_shot"},
      {choice(R"("collective":"all_reduce","ranks":2,"hosts":1,"from_bytes":0)"),
       "choices[0].algorithm must be a text"},
      {R"({"tutti_tuning":1,"choices":[
         {"collective":"barrier","ranks":2,"hosts":1,"from_bytes":0,"algorithm":"one_shot"},
         {"collective":"barrier","ranks":2,"hosts":1,"from_bytes":0,"algorithm":"dissemination"}]})",
       "choices has two for barrier of 2 ranks on 1 host from 0 bytes"},
      {std::string(200, '['), "it is no JSON"},
  };
  for (const auto& [text, words] : wrong) {
    const std::string said = complaint(text);
    EXPECT_NE(said.find(words), std::string::npos) << text << "\n" << said;
    EXPECT_NE(said.find("tuning file t.json"), std::string::npos) << said;
    EXPECT_NE(said.find("tutti tune -o FILE"), std::string::npos) << said;
  }
}

TEST(TuningFile, ThatIsNotThereOrTooLargeIsRefused) {
  const auto refusal = [](const std::string& file) -> std::string {
    try {
      load_tuning(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting);
      return error.what();
    }
    return {};
  };
  EXPECT_NE(refusal("/nowhere/t.json").find("cannot be read: No such file"), std::string::npos);
  EXPECT_NE(refusal("/").find("cannot be read"), std::string::npos);
  const std::string file = testing::TempDir() + "tutti_large_tuning.json";
  std::ofstream(file) << std::string(Tuning::kMostBytes + 1, ' ');
  EXPECT_NE(refusal(file).find("more than 1048576 bytes"), std::string::npos);
  std::ofstream(file) << R"({"tutti_tuning": 1, "step_ns": 3})";
  EXPECT_EQ(load_tuning(file).step_ns, 3);
  std::remove(file.c_str());
}

TEST(TuningFile, DecidesForItsRanksAndSizesAndNothingElse) {
  SelectorOptions options;
  options.choices = parse(R"({"tutti_tuning": 1, "choices": [
      {"collective": "all_reduce", "ranks": 6, "hosts": 1, "from_bytes": 0, "algorithm": "double_tree"},
      {"collective": "all_reduce", "ranks": 6, "hosts": 1, "from_bytes": 65536, "algorithm": "ring"},
      {"collective": "all_to_all_v", "ranks": 6, "hosts": 1, "from_bytes": 0, "algorithm": "pairwise"},
      {"collective": "all_gather", "ranks": 6, "hosts": 1, "from_bytes": 0, "algorithm": "recursive_doubling"}]})")
                        .choices;
  const auto chosen = [](const Selector& selector, Collective collective, std::size_t bytes) {
    return algorithms()[selector.choose(collective, bytes).algorithm].name;
  };
  const Placement six(6);
  const Selector selector(six.layout(0), options);
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 8), "double_tree");
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 65535), "double_tree");
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 65536), "ring");
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, std::size_t{1} << 40), "ring");
  EXPECT_EQ(chosen(selector, Collective::kAllToAllV, 1 << 20), "pairwise");
  EXPECT_NE(chosen(selector, Collective::kAllGather, 8), "recursive_doubling") << "6 is no power of two";
  EXPECT_EQ(selector.explain(Collective::kAllReduce, 8).front().reason, "chosen by the tuning file");

  const Placement five(5);
  EXPECT_NE(chosen(Selector(five.layout(0), options), Collective::kAllReduce, 8), "double_tree");
  options.reproducible = true;
  EXPECT_NE(chosen(Selector(six.layout(0), options), Collective::kAllReduce, 65536), "ring");
  options.reproducible = false;
  options.algorithm = "all_reduce:two_shot";
  EXPECT_EQ(chosen(Selector(six.layout(0), options), Collective::kAllReduce, 65536), "two_shot");
}

TEST(Fitting, TakesWhatTheFileSaysThenWhatWasProbedThenWhatIsBelieved) {
  MeasuredHost host;
  host.links[0] = {1, 50, 20, 5, 10};
  host.copy_rate = 100;
  const Fitted probed = fit(host, {});
  EXPECT_EQ(probed.parameters.local.latency_ns, 50);
  EXPECT_GT(probed.parameters.local.bytes_per_ns, 20);
  EXPECT_EQ(probed.parameters.local.message_ns, CostParameters{}.local.message_ns);
  EXPECT_EQ(probed.parameters.remote.latency_ns, CostParameters{}.remote.latency_ns);
  const Fitted told = fit(host, parse(R"({"tutti_tuning":1,"links":{"near":{"latency_ns":70}},"step_ns":9})"));
  EXPECT_EQ(told.parameters.local.latency_ns, 70);
  EXPECT_EQ(told.parameters.step_ns, 9);
  for (const FittedParameter& parameter : told.origins) {
    const bool file = parameter.name == "links.near.latency_ns" || parameter.name == "step_ns";
    const bool measured = parameter.name == "links.near.bytes_per_ns" || parameter.name == "copied_bytes_per_ns" ||
                          parameter.name == "reduced_bytes_per_ns";
    EXPECT_EQ(parameter.origin, file ? Origin::kFile : measured ? Origin::kProbed : Origin::kDefault) << parameter.name;
  }
}

TEST(Fitting, CountsTheSlowestClassOfLinks) {
  MeasuredHost host;
  host.links[0] = {10, 50, 20, 5, 10};
  host.links[3] = {1, 400, 6, 1, 5};
  EXPECT_EQ(fit(host, {}).parameters.local.latency_ns, 400);
  EXPECT_EQ(fit(host, {}).origins.front().name, "links.socket.latency_ns");
  const Fitted grouped = fit(host, {}, LinkClass::kNear);
  EXPECT_EQ(grouped.parameters.local.latency_ns, 50);
  EXPECT_EQ(grouped.parameters.across.latency_ns, 400);
  host.links[3] = {1, 0, 0, 0, 0};  // hwloc knows it, and nobody has measured it
  EXPECT_GT(fit(host, {}).parameters.local.latency_ns, CostParameters{}.local.latency_ns);
  EXPECT_EQ(fit(host, {}).origins.front().origin, Origin::kDefault);
}

}  // namespace
}  // namespace tutti
