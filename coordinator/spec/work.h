// How much a job has to compute, from its inputs alone: what its expected
// duration grows with (rate.h), and how large its checkpoint is. Orders of
// magnitude within a stage, not a simulation: constants are fitted to measured
// durations, so only proportions matter.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"

namespace iclsweep {

struct Work {
  double passes = 0;  // layers gone through one after another: fixed costs
  double flops = 0;   // floating-point operations
};

// `inputs` is the stage's message, serialized; `train` that of the job whose
// checkpoint it reads (nullptr where there is none). Internal when they do not
// parse.
absl::StatusOr<Work> WorkOf(Stage stage, const std::string& inputs,
                            const std::string* train);

// Numbers in the model that a train job makes.
int64_t ParameterCount(const v1::TrainInputs& inputs);
// On disk: trained and initial weights in float32, and about 8 kB of headers
// and descriptions.
int64_t CheckpointBytes(const v1::TrainInputs& inputs);

}  // namespace iclsweep
