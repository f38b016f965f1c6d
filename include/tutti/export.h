#pragma once

#include "tutti/requirements.h"

// Marks what the shared library exports; everything else has hidden visibility.
#define TUTTI_API __attribute__((visibility("default")))
