// What a train job must satisfy beyond the ranges a sweep file is checked
// against.
#pragma once

#include "absl/status/status.h"
#include "iclsweep/v1/params.pb.h"

namespace iclsweep {

// InvalidArgument naming the field: unresolved sizes, more points than
// positions, eigenvalues that are not one per dimension, prompt numbers beyond
// the random streams, values outside their ranges.
absl::Status CheckTrainInputs(const v1::TrainInputs& inputs);

// The data part: family (CheckFamily), noise, eigenvalues. `where` names the
// section, e.g. "data".
absl::Status CheckDataParams(const v1::DataParams& data,
                             absl::string_view where);

}  // namespace iclsweep
