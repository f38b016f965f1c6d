// Memory shared between processes, and whatever stands in its way.

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/handles.h"
#include "process/job.h"

namespace tutti {
namespace {

class SharedMemory : public ProcessTest {
 protected:
  static void expect_sums(Job& job, const std::string& hosts, const std::string& transport) {
    job.all_ended(0);
    for (int rank = 0; rank < job.ranks(); ++rank) {
      const std::string text = job.rank(rank).text();
      EXPECT_EQ(count_lines(text, "sums right"), 1) << text;
      EXPECT_EQ(job.rank(rank).line("hosts "), hosts);
      EXPECT_TRUE(job.rank(rank).line("plan ").ends_with("over " + transport)) << text;
    }
  }
};

class SharedMemoryOf : public SharedMemory, public testing::WithParamInterface<int> {};

TEST_P(SharedMemoryOf, SoManyProcessesCarriesEveryCollective) {
  Job job(GetParam(), {"join", "sums:300000", "report", "destroy", "descriptors"}, place());
  expect_sums(job, "1", "shm");
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_TRUE(job.rank(rank).line("left ").ends_with("threads=1 mappings=0")) << job.rank(rank).text();
  }
}

TEST_P(SharedMemoryOf, SoManyProcessesReadsTheLibrarysBuffersInPlace) {
  Job job(GetParam(), {"join", "library", "sums:300000", "report", "destroy"}, place());
  expect_sums(job, "1", "shm");
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_GT(std::stoi("0" + job.rank(rank).line("read in place ")), 0) << job.rank(rank).text();
  }
}

TEST_P(SharedMemoryOf, SoManyProcessesReadsRegisteredBuffersInPlace) {
  Job job(GetParam(), {"join", "registered", "sums:300000", "calls:3:100000", "calls:3:200000", "report", "destroy"},
          place(), {{"TUTTI_CHECK", "memory"}});
  expect_sums(job, "1", "shm");
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_GT(std::stoi("0" + job.rank(rank).line("read in place ")), 0) << job.rank(rank).text();
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedMemoryOf, testing::Values(2, 3, 4, 5));

TEST_F(SharedMemory, CopiesPrivateBuffers) {
  Job job(2, {"join", "sums:100000", "report", "destroy"}, place());
  job.all_ended(0);
  EXPECT_EQ(job.rank(0).line("read in place "), "0");
}

TEST_F(SharedMemory, IsSealedSoThatNoRankCanShrinkItUnderAnother) {
  Job job(2, {"join", "library", "calls:3:100000", "say:here", "loop:10"}, place());
  ASSERT_TRUE(job.all_said("here"));
  int segments = 0;
  const std::string directory = "/proc/" + std::to_string(job.rank(1).pid()) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (!target.starts_with("/memfd:tutti")) continue;
    ++segments;
    const UniqueFd fd(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fd);
    EXPECT_NE(::ftruncate(fd.get(), 4096), 0);
    EXPECT_NE(::ftruncate(fd.get(), off_t{1} << 40), 0);
    EXPECT_NE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "a rank could stop the others from writing";
  }
  EXPECT_EQ(segments, 2) << "the communicator's and that of tutti::allocate";
}

TEST_F(SharedMemory, F30NeedsNoRoomInDevShm) {
  for (const char* options : {"size=4k", "size=1m,nr_inodes=2", "ro"}) {
    const Namespace tiny(CLONE_NEWNS, std::string("mount -t tmpfs -o ") + options + " tmpfs /dev/shm", place());
    Job job(4, {"join", "library", "sums:300000", "report", "destroy"}, &tiny);
    expect_sums(job, "1", "shm");
  }
}

// All ranks send to all before they receive: each ring is full of slots whose credit the others hold back.
TEST_F(SharedMemory, WorksWithRingsThatJustHoldWhatAScheduleNeeds) {
  Job job(8, {"join", "sums:4286", "report", "destroy"}, place(), {{"TUTTI_RING_BYTES", "64K"}});
  expect_sums(job, "1", "shm");
}

TEST_F(SharedMemory, F33WorksWithoutSys) {
  const Namespace blind(CLONE_NEWNS, "mount -t tmpfs tmpfs /sys", place());
  Job job(3, {"join", "sums:10000", "report", "destroy"}, &blind);
  expect_sums(job, "1", "shm");
}

TEST_F(SharedMemory, CanBeTurnedOff) {
  Job job(3, {"join", "library", "sums:100000", "report", "destroy"}, place(), {{"TUTTI_SHM_DISABLE", "1"}});
  expect_sums(job, "3", "tcp");
}

TEST_F(SharedMemory, IsKeptApartByHostIds) {
  Job job(4, {"join", "library", "sums:100000", "report", "destroy"}, place(), {},
          [](int rank, Program& program) { program.environment["TUTTI_HOSTID"] = rank < 2 ? "one" : "other"; });
  expect_sums(job, "2", "shm+tcp");
}

// F26, F27: host names prove nothing either way; what counts is whether the memory can be opened.
struct Apart {
  bool name;
  bool network;
  bool directory;
};

class F26F27Containers : public SharedMemory, public testing::WithParamInterface<Apart> {};

TEST_P(F26F27Containers, ShareMemoryWhenTheyShareNetworkOrDirectory) {
  const Apart apart = GetParam();
  const HostNetwork network(2);
  const std::string rename = "echo node1.rackB > /proc/sys/kernel/hostname; ";
  const Namespace first(CLONE_NEWUTS, "echo node1.rackA > /proc/sys/kernel/hostname", &network.host(0));
  const Namespace second(CLONE_NEWUTS | CLONE_NEWNS,
                         apart.name ? rename : "echo node1.rackA > /proc/sys/kernel/hostname",
                         &network.host(apart.network ? 1 : 0));
  std::filesystem::create_directory(directory() + "/common");
  std::filesystem::create_directory(directory() + "/other");
  Job job(2, {"join", "library", "sums:20000", "report", "destroy"}, nullptr, {}, [&](int rank, Program& program) {
    program.place = rank == 0 ? &first : &second;
    program.environment["TUTTI_COMM_ID"] = "10.77.0.1:29500";
    program.environment["TUTTI_SHM_DIR"] = directory() + (rank == 1 && apart.directory ? "/other" : "/common");
  });
  const bool shared = !apart.network || !apart.directory;
  expect_sums(job, shared ? "1" : "2", shared ? "shm" : "tcp");
  EXPECT_TRUE(std::filesystem::is_empty(directory() + "/common"));
  EXPECT_TRUE(std::filesystem::is_empty(directory() + "/other"));
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, F26F27Containers,
                         testing::Values(Apart{false, false, false}, Apart{true, false, true}, Apart{true, true, false},
                                         Apart{false, true, true}, Apart{true, true, true}),
                         [](const auto& info) {
                           return std::string(info.param.name ? "OtherName" : "SameName") +
                                  (info.param.network ? "OtherNetwork" : "SameNetwork") +
                                  (info.param.directory ? "OtherDirectory" : "SameDirectory");
                         });

// Ranks of one host in network namespaces of their own, who cannot find each other's memory: they say why, once.
TEST_F(SharedMemory, F98ThatCannotBeSharedIsSaidOnce) {
  const HostNetwork network(2);
  const std::string deep = directory() + "/" + std::string(120, 'd');
  std::filesystem::create_directory(deep);
  const std::string denied = directory() + "/file";
  std::ofstream(denied) << "no directory";
  const std::map<std::string, std::string> cases = {
      {deep, "has at most 107 bytes"}, {directory() + "/nowhere", "No such file"}, {denied, "Not a directory"}};
  for (const auto& [where, why] : cases) {
    Job job(4, {"join", "library", "sums:20000", "report", "destroy"}, nullptr, {}, [&](int rank, Program& program) {
      program.place = &network.host(rank == 0 ? 0 : 1);
      program.environment["TUTTI_COMM_ID"] = "10.77.0.1:29500";
      program.environment["TUTTI_SHM_DIR"] = where;
    });
    expect_sums(job, "2", "shm+tcp");
    std::string all;
    for (int rank = 0; rank < 4; ++rank) all += job.rank(rank).text();
    const std::size_t first = all.find("rank 1 shares no memory with rank 0");
    EXPECT_NE(first, std::string::npos) << all;
    EXPECT_NE(all.find(why, first), std::string::npos) << all;
    EXPECT_EQ(all.find("shares no memory", first + 10), std::string::npos) << "said more than once: " << all;
  }
}

}  // namespace
}  // namespace tutti
