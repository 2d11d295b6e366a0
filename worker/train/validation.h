// The finished model's error at every point of held-out prompts, beside two
// baselines on the same prompts. The prompts come from the validation streams
// with seed 0, so all models share them; labels carry the training noise.
#pragma once

#include <atomic>
#include <vector>

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"
#include "worker/model/gpt2.h"

namespace iclsweep {

// Measurements named `error`: mean squared error at point `position` (= number
// of points before it) over train.validation_prompts prompts, raw, with its
// standard error. Predictors: `model`, `zero` (always 0) and `least_squares`
// (minimum norm on the points before, float64; 0 without points). Errors:
// Cancelled (context.stop), ResourceExhausted, Internal.
absl::StatusOr<std::vector<Measurement>> Validate(const Gpt2& model,
                                                  const v1::TrainInputs& inputs,
                                                  const StageContext& context);

}  // namespace iclsweep
