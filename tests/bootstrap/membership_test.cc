#include "bootstrap/membership.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/rank_limit.h"
#include "bootstrap/find_membership.h"
#include "bootstrap/hand_out.h"
#include "bootstrap/id_text.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using Variables = std::map<std::string, std::string>;

InterfaceRecord at(const std::string& name, const std::string& host) {
  InterfaceRecord record;
  record.name = name;
  record.address = SocketAddress::parse(host, 0);
  record.prefix = 24;
  return record;
}

const std::vector<InterfaceRecord> kHere = {at("lo", "127.0.0.1"), at("eth0", "10.1.0.1")};

Membership find(const Variables& variables, const std::vector<InterfaceRecord>& here = kHere) {
  const Environment environment = [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return find_membership(Config::from_environment(environment), environment, here);
}

std::string refusal(const Variables& variables, const std::vector<InterfaceRecord>& here = kHere) {
  try {
    find(variables, here);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting) << error.what();
    return error.what();
  }
  return "no error";
}

Variables operator+(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

bool same(const Key& a, const Key& b) { return equal_in_constant_time(a.bytes(), b.bytes()); }
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const Variables kSecret = {{"TUTTI_SECRET", "the secret of this job"}};
const Variables kByHand = {{"TUTTI_RANK", "1"}, {"TUTTI_NRANKS", "4"}, {"TUTTI_COMM_ID", "10.1.0.1:4000"}};
const Variables kTorchrun = {{"RANK", "1"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "10.1.0.1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "abc"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
// As Open MPI 4.1's mpirun sets them.
const Variables kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "1"},
    {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
    {"PMIX_NAMESPACE", "1968308225"},
    {"OMPI_MCA_orte_precondition_transports", "f13b9c978ec84a62-4bb37e089f776422"},
    {"OMPI_MCA_orte_hnp_uri", "1968308224.0;tcp://10.1.0.1,10.2.0.1:54999;tcp6://[fd00::2]:40329"}};
const Variables kSlurm = {{"SLURM_PROCID", "1"},
                          {"SLURM_NTASKS", "4"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "3"},
                          {"SLURM_STEP_NUM_NODES", "2"},
                          {"SLURM_STEP_NODELIST", "10.1.0.[1-2]"},
                          {"SLURM_LAUNCH_NODE_IPADDR", "10.1.0.99"}};

TEST(Membership, ByHandWithASecretMeetsAtTheGivenPlace) {
  const Membership one = find(kByHand + kSecret);
  EXPECT_EQ(one.rank, 1);
  EXPECT_EQ(one.ranks, 4);
  EXPECT_EQ(one.roots, (std::vector<HostPort>{{"10.1.0.1", 4000}}));
  EXPECT_TRUE(one.hand_out.empty());
  EXPECT_FALSE(one.loopback_only);
  const Membership other = find(kByHand + kSecret + Variables{{"TUTTI_RANK", "2"}});
  EXPECT_TRUE(same(one.secret, other.secret));
  EXPECT_EQ(one.nonce, other.nonce);
}

TEST(Membership, WithoutASecretStaysOnThisHost) {
  const Membership root = find(kByHand + Variables{{"TUTTI_RANK", "0"}});
  const Membership other = find(kByHand);
  EXPECT_TRUE(root.loopback_only);
  EXPECT_FALSE(root.secret.empty()) << "rank 0 makes a key";
  EXPECT_TRUE(other.secret.empty()) << "the others do not know it yet";
  EXPECT_EQ(root.hand_out, other.hand_out);
  EXPECT_FALSE(same(root.secret, find(kByHand + Variables{{"TUTTI_RANK", "0"}}).secret)) << "a new one every time";
  EXPECT_NE(other.hand_out, find(kByHand + Variables{{"TUTTI_COMM_ID", "10.1.0.1:4001"}}).hand_out);
}

TEST(Membership, WithoutASecretRefusesAnotherHost) {
  const std::string message = refusal(kByHand + Variables{{"TUTTI_COMM_ID", "10.1.0.2:4000"}});
  EXPECT_TRUE(contains(message, "10.1.0.2:4000")) << message;
  EXPECT_TRUE(contains(message, "TUTTI_SECRET_FILE")) << message;
  EXPECT_TRUE(
      contains(refusal(kTorchrun + Variables{{"LOCAL_WORLD_SIZE", "2"}}), "torchrun has started ranks on several"));
  const Membership lifted =
      find(kByHand + Variables{{"TUTTI_COMM_ID", "10.1.0.2:4000"}, {"TUTTI_ALLOW_UNAUTHENTICATED", "1"}});
  EXPECT_FALSE(lifted.loopback_only);
  EXPECT_TRUE(lifted.hand_out.empty());
}

TEST(Membership, SaysOnceWhatTheMissingSecretMeans) {
  const Variables root = kByHand + Variables{{"TUTTI_RANK", "0"}};
  const auto logged = [](const Variables& variables, LogLevel level = LogLevel::kInfo) {
    testing::internal::CaptureStderr();
    set_log_level(level);
    find(variables);
    set_log_level(LogLevel::kWarn);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_TRUE(contains(logged(root), "INFO no TUTTI_SECRET: rank 0 listens on this host's loopback only"));
  EXPECT_TRUE(logged(root, LogLevel::kWarn).empty()) << "nothing is wrong (B11)";
  EXPECT_TRUE(logged(kByHand).empty()) << "the others are silent";
  EXPECT_TRUE(logged(root + kSecret).empty());
  EXPECT_TRUE(contains(logged(root + Variables{{"TUTTI_ALLOW_UNAUTHENTICATED", "1"}}), "can join this job"));
}

TEST(Membership, TakesAUniqueIdFromTheEnvironment) {
  const IdParts parts{.nonce = random_nonce(), .secret = Key::random(), .roots = {{"10.1.0.1", 4000}}};
  const Membership membership = find(kByHand + Variables{{"TUTTI_COMM_ID", format_id(parts)}});
  EXPECT_EQ(membership.roots, parts.roots);
  EXPECT_TRUE(same(membership.secret, parts.secret));
  EXPECT_EQ(membership.nonce, parts.nonce);
}

TEST(Membership, FollowsTorchrunBesideItsStore) {
  Membership membership = find(kTorchrun + kSecret);
  EXPECT_EQ(membership.rank, 1);
  EXPECT_EQ(membership.roots, (std::vector<HostPort>{{"10.1.0.1", 29501}})) << "29500 is the agent's store";
  EXPECT_EQ(membership.job, "torchrun:abc:2");
  EXPECT_NE(membership.nonce, find(kTorchrun + kSecret + Variables{{"TORCHELASTIC_RESTART_COUNT", "3"}}).nonce);
  membership = find(kTorchrun + kSecret + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "False"}});
  EXPECT_EQ(membership.roots.front().port, 29500);
  membership = find(kTorchrun + kSecret + Variables{{"TUTTI_PORT", "4711"}});
  EXPECT_EQ(membership.roots.front().port, 4711);
  EXPECT_TRUE(find(kTorchrun).loopback_only) << "one host, no secret";
}

TEST(Membership, FollowsOpenMpiOnOneHostWithoutAnyPort) {
  const Membership root = find(kOpenMpi + Variables{{"OMPI_COMM_WORLD_RANK", "0"}});
  const Membership other = find(kOpenMpi);
  EXPECT_EQ(other.rank, 1);
  EXPECT_EQ(other.job, "openmpi:1968308225");
  EXPECT_FALSE(other.hand_out.empty());
  EXPECT_EQ(root.hand_out, other.hand_out);
  EXPECT_EQ(root.roots.front().port, 0) << "the kernel chooses";
  EXPECT_NE(other.hand_out, find(kOpenMpi + Variables{{"PMIX_NAMESPACE", "7"}}).hand_out);
}

TEST(Membership, FollowsOpenMpiOverSeveralHostsToMpirunsHost) {
  const Variables several = kOpenMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const Membership one = find(several, {at("eth0", "10.1.0.2")});
  const Membership root = find(several + Variables{{"OMPI_COMM_WORLD_RANK", "0"}});
  ASSERT_EQ(one.roots.size(), 3u);
  EXPECT_EQ(one.roots[0].host, "10.1.0.1");
  EXPECT_EQ(one.roots[2].host, "fd00::2");
  EXPECT_EQ(one.roots, root.roots) << "the port too";
  EXPECT_GE(one.roots[0].port, 20'000);
  EXPECT_TRUE(same(one.secret, root.secret)) << "the launcher's key";
  EXPECT_EQ(one.nonce, root.nonce);
  const std::string message = refusal(several + Variables{{"OMPI_COMM_WORLD_RANK", "0"}}, {at("eth0", "10.1.0.2")});
  EXPECT_TRUE(contains(message, "Open MPI lets the others look for rank 0 at 10.1.0.1")) << message;
  EXPECT_EQ(find(several + Variables{{"TUTTI_COMM_ID", "10.1.0.5:9"}}).roots.front().text(), "10.1.0.5:9");
}

TEST(Membership, FollowsSlurmToTheFirstHostOfTheStep) {
  EXPECT_TRUE(contains(refusal(kSlurm), "Slurm has started ranks on several hosts, and this job has no secret"));
  const Membership membership = find(kSlurm + kSecret);
  EXPECT_EQ(membership.job, "slurm:77.3");
  EXPECT_EQ(membership.roots.front().host, "10.1.0.1");
  EXPECT_NE(membership.roots, find(kSlurm + kSecret + Variables{{"SLURM_STEP_ID", "4"}}).roots) << "a port a step";
  const Membership alone = find(kSlurm + Variables{{"SLURM_STEP_NUM_NODES", "1"}});
  EXPECT_TRUE(alone.loopback_only);
  EXPECT_FALSE(alone.hand_out.empty());
}

TEST(Membership, FollowsPmiOnOneHost) {
  const Variables mpich = {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "4"}, {"PMI_PORT", "node1:38273"}};
  const Membership membership = find(mpich);
  EXPECT_EQ(membership.rank, 2);
  EXPECT_TRUE(membership.loopback_only);
  const std::string message = refusal(mpich + kSecret + Variables{{"MPI_LOCALNRANKS", "2"}});
  EXPECT_TRUE(contains(message, "MPICH does not say where rank 0 runs; set TUTTI_COMM_ID")) << message;
}

TEST(Membership, PrefersTheInnermostLauncherAndItsOwnVariablesMost) {
  EXPECT_EQ(find(kSlurm + kOpenMpi).job, "openmpi:1968308225");
  const Variables pmi = {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"PMI_JOBID", "5"}};
  EXPECT_EQ(find(kSlurm + pmi + kSecret).job, "slurm:77.3") << "srun speaks PMI";
  EXPECT_EQ(find(kSlurm + pmi + Variables{{"MPI_LOCALNRANKS", "4"}}).job, "mpich:5") << "MPICH started by srun";
  EXPECT_EQ(find(kSlurm + kOpenMpi + kTorchrun).job, "torchrun:abc:2");
  const Membership own = find(kOpenMpi + kByHand + kSecret + Variables{{"TUTTI_RANK", "3"}});
  EXPECT_EQ(own.rank, 3);
  EXPECT_EQ(find(Variables{{"RANK", "7"}, {"WORLD_SIZE", "9"}} + kOpenMpi).ranks, 4) << "RANK alone means nothing";
}

TEST(Membership, ListsWhatItLookedForAndFound) {
  const std::string nothing = refusal({{"TUTTI_COMM_ID", "10.1.0.1:4000"}});
  for (const char* variable : {"TUTTI_RANK", "TUTTI_NRANKS", "WORLD_SIZE", "MASTER_ADDR", "OMPI_COMM_WORLD_RANK",
                               "PMI_RANK", "SLURM_PROCID", "Found: none of these"}) {
    EXPECT_TRUE(contains(nothing, variable)) << variable;
  }
  EXPECT_TRUE(contains(refusal({{"RANK", "3"}, {"PMI_SIZE", "4"}}), "Found: RANK=3 PMI_SIZE=4"));
}

TEST(Membership, RefusesWrongNumbersAndMissingPartners) {
  EXPECT_TRUE(contains(refusal({{"TUTTI_RANK", "3"}}), "TUTTI_RANK=3 is set, but TUTTI_NRANKS is not"));
  EXPECT_TRUE(contains(refusal({{"TUTTI_NRANKS", "3"}}), "TUTTI_NRANKS=3 is set, but TUTTI_RANK is not"));
  EXPECT_TRUE(contains(refusal(kByHand + Variables{{"TUTTI_RANK", "4"}}), "TUTTI_RANK=4 is not allowed with"));
  EXPECT_TRUE(
      contains(refusal(kByHand + Variables{{"TUTTI_COMM_ID", "node1"}}), "TUTTI_COMM_ID: \"node1\" is no host:port"));
  EXPECT_TRUE(contains(refusal({{"TUTTI_RANK", "0"}, {"TUTTI_NRANKS", "2"}}), "set TUTTI_COMM_ID=host:port"));
  EXPECT_TRUE(contains(refusal(kTorchrun + Variables{{"RANK", "4"}}),
                       "RANK=4 is not allowed: it is a whole number from 0 to 3"));
  EXPECT_TRUE(contains(refusal(kTorchrun + Variables{{"WORLD_SIZE", "zero"}}), "WORLD_SIZE=zero"));
  EXPECT_TRUE(contains(refusal(kTorchrun + Variables{{"MASTER_PORT", "65535"}}), "MASTER_PORT=65535 is not allowed"));
  EXPECT_TRUE(contains(refusal(kTorchrun + Variables{{"MASTER_PORT", ""}}), "neither MASTER_PORT nor TUTTI_PORT"));
  EXPECT_TRUE(contains(refusal(kOpenMpi + Variables{{"OMPI_COMM_WORLD_RANK", "-1"}}), "OMPI_COMM_WORLD_RANK=-1"));
}

TEST(Membership, NeverQuotesWhatAShellLeftOfAnId) {
  const IdParts parts{.nonce = random_nonce(), .secret = Key::random(), .roots = {{"10.1.0.1", 4000}}};
  const std::string id = format_id(parts);
  const std::string secret = id.substr(id.find('/', 7) + 1, 43);
  for (const std::string& text : {"\"" + id + "\"", id.substr(3), "id=" + id, id + "/", id.substr(0, 60), id + "x"}) {
    try {
      find(kByHand + Variables{{"TUTTI_COMM_ID", text}});
      ADD_FAILURE() << "it was taken";
    } catch (const Error& error) {
      EXPECT_FALSE(contains(error.what(), secret.substr(0, 8))) << error.what();
      EXPECT_TRUE(contains(error.what(), "to_text()")) << error.what();
    }
  }
}

// Rank 1 asks and rank 0 answers, each with its own variables.
std::pair<Membership, Membership> completed(const Variables& zero, const Variables& one) {
  const Membership root = find(zero);
  Membership other = find(one);
  HandOut hand_out(root.hand_out);
  std::atomic<bool> complete{false};
  std::thread asking([&] {
    complete_membership(other, Clock::now() + std::chrono::seconds(60));
    complete = true;
  });
  const std::string text = hand_out_text(root, {{"127.0.0.1", 4444}});
  while (!complete) {
    hand_out.serve(text);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  asking.join();
  return {root, other};
}

TEST(Membership, IsCompletedByRankZero) {
  const Variables rank_one = kByHand + Variables{{"TUTTI_COMM_ID", "127.0.0.1:59871"}};
  const auto [root, other] = completed(rank_one + Variables{{"TUTTI_RANK", "0"}}, rank_one);
  EXPECT_TRUE(same(root.secret, other.secret));
  EXPECT_EQ(root.nonce, other.nonce);
  EXPECT_EQ(other.roots, (std::vector<HostPort>{{"127.0.0.1", 4444}}));
}

TEST(Membership, KeepsASecretThatItWasGivenSoThatTheChallengeFindsAnotherOne) {
  const auto [root, other] = completed(kOpenMpi + Variables{{"OMPI_COMM_WORLD_RANK", "0"}}, kOpenMpi + kSecret);
  EXPECT_FALSE(same(root.secret, other.secret));
  EXPECT_EQ(root.nonce, other.nonce);
}

TEST(Membership, FromAnIdKnowsEverythingAndChecksTheRank) {
  const IdParts parts{.nonce = random_nonce(), .secret = Key::random(), .roots = {{"10.1.0.1", 4000}}};
  const UniqueId id = UniqueId::parse(format_id(parts));
  const Membership membership = membership_from_id(id, 1, 2);
  EXPECT_EQ(membership.roots, parts.roots);
  EXPECT_TRUE(same(membership.secret, parts.secret));
  EXPECT_FALSE(membership.root_listens);
  EXPECT_TRUE(membership.hand_out.empty());
  EXPECT_THROW(membership_from_id(UniqueId(), 0, 1), Error);
  EXPECT_THROW(membership_from_id(id, 2, 2), Error);
  EXPECT_THROW(membership_from_id(id, -1, 2), Error);
  EXPECT_THROW(membership_from_id(id, 0, 0), Error);
}

TEST(Launcher, ReadsOpenMpisContact) {
  EXPECT_EQ(hosts_of_open_mpi_uri("1.0;tcp://192.0.2.2:54999;tcp6://[fd00::2]:40329"),
            (std::vector<std::string>{"192.0.2.2", "fd00::2"}));
  EXPECT_EQ(hosts_of_open_mpi_uri("1.0;tcp://10.0.0.1,10.0.1.1:5"), (std::vector<std::string>{"10.0.0.1", "10.0.1.1"}));
  for (const char* odd : {"", ";;;", "tcp://", "tcp:", "1.0", "://:", "tcp://:"}) {
    EXPECT_TRUE(hosts_of_open_mpi_uri(odd).empty()) << odd;
  }
}

TEST(Launcher, ReadsTheFirstOfSlurmsHosts) {
  EXPECT_EQ(first_slurm_host("node[03-07,9],login1"), "node03");
  EXPECT_EQ(first_slurm_host("a1,b2"), "a1");
  EXPECT_EQ(first_slurm_host("rack[2,4]n[10-12].x,z"), "rack2n10.x");
  EXPECT_EQ(first_slurm_host("node[3"), "");
  EXPECT_EQ(first_slurm_host(""), "");
}

TEST(Membership, WithoutALauncherIsAWorldOfOneRank_B3) {
  for (const Variables& variables : {Variables{}, Variables{{"TUTTI_RANK", "0"}, {"TUTTI_NRANKS", "1"}}, kSecret,
                                     Variables{{"MASTER_ADDR", "10.1.0.1"}, {"MASTER_PORT", "29500"}}}) {
    const Membership one = find(variables);
    EXPECT_EQ(one.rank, 0);
    EXPECT_EQ(one.ranks, 1);
  }
  // Half of a launcher's variables are a mistake.
  EXPECT_TRUE(contains(refusal({{"SLURM_NTASKS", "8"}}), "SLURM_NTASKS=8"));
  EXPECT_TRUE(contains(refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), "RANK=1 WORLD_SIZE=2"));
  EXPECT_TRUE(contains(refusal({{"TUTTI_COMM_ID", "10.1.0.1:4000"}}), "TUTTI_RANK"));
}

TEST(Membership, HasOneLimitOfRanksWhereverTheyComeFrom_C2) {
  const std::string many = std::to_string(kMaxRanks + 1);
  EXPECT_TRUE(contains(refusal(kByHand + Variables{{"TUTTI_NRANKS", many}}), std::to_string(kMaxRanks)));
  EXPECT_TRUE(contains(refusal(kOpenMpi + Variables{{"OMPI_COMM_WORLD_SIZE", many}}), std::to_string(kMaxRanks)));
  const UniqueId id = UniqueId::create();
  EXPECT_EQ(membership_from_id(id, 0, kMaxRanks).ranks, kMaxRanks);
  for (const int ranks : {kMaxRanks + 1, 65'528, 65'536, 1 << 30}) {
    try {
      membership_from_id(id, 0, ranks);
      ADD_FAILURE() << ranks;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_TRUE(contains(error.what(), "at most " + std::to_string(kMaxRanks))) << error.what();
    }
  }
}

TEST(Membership, TakesThePortFromItsOwnSettingWhereThePlaceHasNone_B3) {
  const auto root = [](const std::string& place) {
    return find(kByHand + kSecret + Variables{{"TUTTI_COMM_ID", place}, {"TUTTI_PORT", "29613"}}).roots.front();
  };
  EXPECT_EQ(root("localhost"), (HostPort{"localhost", 29613}));
  EXPECT_EQ(root("10.1.0.1"), (HostPort{"10.1.0.1", 29613}));
  EXPECT_EQ(root("[fd00::2]"), (HostPort{"fd00::2", 29613}));
  EXPECT_EQ(root("fd00::2"), (HostPort{"fd00::2", 29613}));
  EXPECT_EQ(root("10.1.0.1:4000"), (HostPort{"10.1.0.1", 4000})) << "a port of its own wins";
  EXPECT_EQ(root("[fd00::2]:4000"), (HostPort{"fd00::2", 4000}));
  EXPECT_TRUE(contains(refusal(kByHand + kSecret + Variables{{"TUTTI_COMM_ID", "localhost"}}), "TUTTI_PORT"));
}

// No guess: each of many ranks could believe that it is alone.
TEST(Membership, RefusesLaunchersThatContradictEachOther_F86_B4) {
  const Variables outer = {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "10.1.0.1"}, {"MASTER_PORT", "29500"}};
  const Variables mpich = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
  const Variables alone = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  for (const auto& [variables, parts] :
       {std::pair(outer + kOpenMpi,
                  std::vector<std::string>{"RANK=0 and WORLD_SIZE=1, which torchrun sets",
                                           "OMPI_COMM_WORLD_RANK=1 and OMPI_COMM_WORLD_SIZE=4, which mpirun"}),
        std::pair(outer + Variables{{"WORLD_SIZE", "4"}} + kOpenMpi,
                  std::vector<std::string>{"RANK=0 and WORLD_SIZE=4"}),
        std::pair(kOpenMpi + mpich, std::vector<std::string>{"PMI_RANK=0 and PMI_SIZE=2, which mpiexec sets"}),
        std::pair(outer + kSlurm, std::vector<std::string>{"SLURM_PROCID=1 and SLURM_NTASKS=4, which srun sets"}),
        std::pair(alone + kSlurm, std::vector<std::string>{"OMPI_COMM_WORLD_SIZE=1", "SLURM_NTASKS=4"})}) {
    const std::string message = refusal(variables + kSecret);
    for (const std::string& part : parts) EXPECT_TRUE(contains(message, part)) << message;
    EXPECT_TRUE(contains(message, "decide with TUTTI_RANK, TUTTI_NRANKS and TUTTI_COMM_ID=host:port")) << message;
    const Membership decided = find(variables + kByHand + kSecret);
    EXPECT_EQ(decided.rank, 1);
    EXPECT_EQ(decided.ranks, 4);
  }
}

TEST(Membership, TakesTheInnerLauncherWhereThatIsCertain_F86_B4) {
  // torchrun's agents, started on two hosts by srun or mpirun.
  const Variables on_two = {{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}};
  const Membership torchrun = find(kTorchrun + kSlurm + on_two + kSecret);
  EXPECT_EQ(torchrun.rank, 1);
  EXPECT_EQ(torchrun.ranks, 4);
  EXPECT_TRUE(contains(torchrun.origin, "RANK=1 and WORLD_SIZE=4, which torchrun sets inside of another launcher"));
  EXPECT_TRUE(contains(torchrun.origin, "SLURM_PROCID=0, SLURM_NTASKS=2")) << torchrun.origin;
  EXPECT_EQ(find(kTorchrun + kOpenMpi + Variables{{"OMPI_COMM_WORLD_SIZE", "2"}} + kSecret).ranks, 4);
  // mpirun in a batch script of Slurm.
  const Membership mpirun = find(kOpenMpi + kSlurm + Variables{{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}});
  EXPECT_EQ(mpirun.rank, 1);
  EXPECT_EQ(mpirun.ranks, 4);
  // Launchers that agree: srun sets PMI's variables, too.
  EXPECT_EQ(find(kSlurm + Variables{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}} + kSecret).origin,
            "PMI_RANK=1 and PMI_SIZE=4, which mpiexec sets");
}

}  // namespace
}  // namespace tutti
