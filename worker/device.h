// Sets LibTorch up for one slot: threads, determinism, and CUDA when it can be
// used.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proto/base/domain.h"

namespace iclsweep {

// REQUIRES: called before any tensor work. `device`: "cpu" or "cuda".
// FailedPrecondition when CUDA is asked for and cannot be used, with the
// reason.
absl::StatusOr<Provenance> SetUpDevice(const std::string& device, int threads);

}  // namespace iclsweep
