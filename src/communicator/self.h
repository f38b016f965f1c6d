#pragma once

#include <string>

#include "base/health.h"
#include "bootstrap/control_plane.h"
#include "executor/operation_log.h"

namespace tutti {

// Who a communicator is on this rank, and what all that serves it looks at. What it refers to belongs to the Session.
struct Self {
  std::string name;
  int rank = 0;
  int ranks = 1;
  Health& health;
  ControlPlane& control;
  OperationLog& log;
};

}  // namespace tutti
