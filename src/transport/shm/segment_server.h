#pragma once

#include <sys/un.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/handles.h"

namespace tutti {

// Where a leader offers its segment: the socket addresses that all holders of the key can compute.
struct SegmentAddress {
  std::string abstract_name;
  std::string path;      // "": no directory to put it in
  std::string obstacle;  // why there is no path
  static SegmentAddress derive(std::span<const std::byte> key, int leader, const std::string& directory);
};

// Hands a segment's descriptor to every caller of the same user that proves, over a fresh challenge, that it knows the
// key. Callers that say nothing cost a descriptor for a moment and hold up nobody. Owned by the leader while a group
// forms; serves on a thread of its own, which ends with stop().
class SegmentServer {
 public:
  // Throws Error(kSystem) when not even the abstract socket can be opened.
  SegmentServer(const SegmentAddress& address, std::vector<std::byte> key, int leader, int segment);
  ~SegmentServer();
  void stop();

 private:
  struct Caller;

  void serve();
  void serve_callers();
  void accept(int listener);

  SegmentAddress address_;
  std::vector<std::byte> key_;
  int leader_;
  int segment_;
  UniqueFd abstract_;
  UniqueFd file_;
  UniqueFd wake_;
  std::vector<std::unique_ptr<Caller>> callers_;  // by age; of the serving thread
  std::thread thread_;
};

// Asks a leader for its segment, and believes only one that proves that it knows the key, too. An empty handle: no such
// socket within reach, refused, or given up: `given_up` is asked several times a second while the leader, which may be
// stopped, says nothing. `why`: receives the reason then, without an end of sentence.
UniqueFd request_segment(const SegmentAddress& address, std::span<const std::byte> key, int leader, int rank,
                         const std::function<bool()>& given_up = {}, std::string* why = nullptr);

}  // namespace tutti
