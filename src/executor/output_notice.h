#pragma once

#include <cstdint>
#include <span>

#include "executor/call.h"
#include "transport/endpoint.h"
#include "transport/line.h"

// How a rank says where its output lies to peers of its host that may write there: beside its messages (`Notes`), or,
// where the schedule has it send none before, in a line of its own when its call begins: the output notice. It says so
// too when nobody may write there, so that no peer waits to hear where.
namespace tutti {

// How often, in one call, a rank looks for notices of peers that have not begun: a few microseconds.
inline constexpr int kLooksForOutputs = 64;

// Whether the peer maps a segment of this rank.
bool is_mapped(Endpoint& endpoint, std::uint64_t segment);

// Where the call's output lies. REQUIRES: call.lends_output.
void describe_output(const Call& call, Notes& notes);

// Writes this rank's notice, with an offer of the output's segment while a peer does not map it. REQUIRES: no peer has
// still to send something in an earlier call of this rank: nobody reads the notice then.
void announce_output(Line& notice, const Call& call, std::span<Endpoint> peers);

// Whether the peer has said in this call where its output lies; if it does only now, takes that, and maps an offered
// segment (once, with system calls). REQUIRES: this rank has still to send the peer something in this call.
bool heard_of_output(Endpoint& endpoint, const Call& call);

}  // namespace tutti
