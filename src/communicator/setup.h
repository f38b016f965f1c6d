#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "bootstrap/membership.h"
#include "collectives/tuning.h"
#include "communicator/distances.h"
#include "communicator/opening_watch.h"
#include "communicator/session.h"
#include "tutti/communicator.h"

namespace tutti {

struct Session::Parts {
  std::string name;
  Options options;
  Config config;
  Placement placement{1};
  Layout layout;  // points into placement
  bool reproducible = false;
  std::unique_ptr<Health> health;
  std::unique_ptr<OperationLog> log;
  std::unique_ptr<HostGroup> group;
  std::unique_ptr<Sleepers> sleepers;
  std::vector<std::unique_ptr<PeerSegments>> peer_segments;  // by rank; null: not on this host
  std::vector<std::unique_ptr<Channel>> channels;
  std::unique_ptr<PointToPoint> point_to_point;
  std::vector<std::unique_ptr<Transport>> transports;
  std::unique_ptr<Selector> selector;
  Distances distances;
  Tuning tuning;
  std::unique_ptr<OpeningWatch> opening;  // null: there was nobody to wait for, or it was split off
  std::unique_ptr<ControlPlane> control;
  bool spin = true;                      // every rank of this host has a hardware thread
  int ranks_per_thread = 1;              // of the host where it is most
  std::chrono::milliseconds timeout{0};  // of calls without a limit of their own; 0: none
  double setup_seconds = 0;
  double discovery_seconds = 0;
};

// Throws Error(kInvalidArgument) for options that no communicator can have.
void check_options(const Options& options);

using FindMembership = std::function<Membership(const Config&)>;

// The environment's settings with those of the options on top. Throws Error(kInvalidSetting), or kInvalidArgument for
// the other options, after telling those who wait for this rank where `find_membership` says that they are.
Config configure(const Options& options, const FindMembership& find_membership);
// What it says. Where the system refuses this rank something, those who wait for it are told, if a second try succeeds.
Membership locate(const Config& config, const Options& options, const FindMembership& find_membership);

// What a communicator hands on to those that are split off it.
struct Heritage {
  ControlPlane& control;
  const Health& health;
  const Config& config;
  std::span<const int> host_of;  // of every rank: equal where ranks share memory
  std::uint64_t ring_bytes;
  bool spin;
  int ranks_per_thread;
  const Distances& distances;
};

// What all members of a communicator lay out in the same way.
SegmentLayout segment_layout(const Config& config, int ranks, std::uint64_t ring_bytes);

// Takes memory for everything that is written often; for the large rings it is taken when long messages flow. Throws
// Error(kSystem).
void reserve_area(const HostGroup& group);

// Makes what is missing of the parts once members know each other (health, control), their hosts (group, whose area is
// reserved, spin and ranks_per_thread) and distances. Throws Error.
void complete(Session::Parts& parts, const Config& config, const Options& options, int rank);

// Makes a communicator out of its members: they meet, find out which of them share memory, agree on what decides how
// calls are run, and connect what is left. Collective; blocks until all are ready. Throws Error.
std::unique_ptr<Session> open_session(const Membership& membership, const Config& config, const Options& options);

}  // namespace tutti
