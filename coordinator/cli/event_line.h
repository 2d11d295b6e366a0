// An event as people read it.
#pragma once

#include <string>

#include "iclsweep/v1/sweep.pb.h"

namespace iclsweep {

// "2026-01-31T12:00:00Z attempt_failed: train job 3, attempt 2: crashed: ..."
std::string EventLine(const v1::Event& event);

}  // namespace iclsweep
