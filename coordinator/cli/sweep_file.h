// A sweep file as a command was given it: read, parsed, its warnings told.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/spec/sweep_spec.h"
#include "iclsweep/v1/sweep.pb.h"

namespace iclsweep {

struct GivenSweep {
  v1::SubmitRequest request;  // as it is handed to a coordinator
  SweepSpec spec;
};

// Prints the warnings on stderr. `artifact_dir`: where models taken in before
// lie; empty = not known. InvalidArgument: the file or what it says.
absl::StatusOr<GivenSweep> ReadSweep(const std::string& file, int64_t max_cells,
                                     const std::string& artifact_dir);

}  // namespace iclsweep
