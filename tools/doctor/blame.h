#pragma once

#include <cstddef>
#include <vector>

#include "doctor/diagnosis.h"
#include "doctor/job.h"

namespace tutti::doctor {

// Of a rank that is in no call, or has one queued: "its process is in barrier #5 of "world"". "": in nothing that is
// known.
std::string elsewhere(const Job& job, const std::vector<Diagnosis>& all, Member member);

// Finds out whom the waits of one communicator lead to. `all`: the communicators of the job, with their waits.
std::vector<Diagnosis::Blame> find_blame(const Job& job, const std::vector<Diagnosis>& all, std::size_t communicator);

}  // namespace tutti::doctor
