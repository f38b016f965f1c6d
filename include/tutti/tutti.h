#pragma once

// Collective communication for ranks on one or many hosts. Start with Communicator.
#include "tutti/communicator.h"
#include "tutti/error.h"
#include "tutti/group.h"
#include "tutti/memory.h"
#include "tutti/stream.h"
#include "tutti/types.h"
#include "tutti/unique_id.h"
#include "tutti/version.h"
#include "tutti/work.h"
