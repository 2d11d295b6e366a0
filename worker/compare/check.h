// What a compare job must satisfy beyond the ranges a sweep file is checked
// against.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "worker/model/checkpoint.h"

namespace iclsweep {

// Candidates for the finetuning learning rate; the default grid when none are
// given.
std::vector<double> LearningRates(const v1::CompareParams& compare);

// InvalidArgument naming the field.
absl::Status CheckCompareInputs(const v1::CompareInputs& inputs);

// Whether the longest sequence (T M + m + 1 points) exceeds what the model was
// trained on. InvalidArgument, with the arithmetic, where that is not allowed,
// where the model has no positions left, and for other dims.
absl::StatusOr<bool> CheckFit(const v1::CompareInputs& inputs,
                              const LoadedCheckpoint& checkpoint);

}  // namespace iclsweep
