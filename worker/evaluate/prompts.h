// The loop of `evaluate`: draws prompts chunk by chunk, asks every predictor,
// and gathers statistics. Predictors that need no training run here; the
// trained one is handed in as a function, so this file knows no LibTorch and
// tests run it without a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"
#include "worker/tasks/prompt.h"

namespace iclsweep {

// Prompts per pass. Matrix kernels round differently for other row counts:
// changing this needs a new numerics version.
inline constexpr int64_t kChunkPrompts = 256;

// Predictions for every prompt of a block, shown in `order`; element r answers
// row r.
using ModelAnswers =
    std::function<absl::StatusOr<std::vector<QueryPredictions>>(
        const PromptBlock& block, const std::vector<int>& order)>;

// Measurements of `model` (left out when it is empty), zero, least_squares,
// ridge, averaging, nn3, lasso (where LassoAlpha of proto/families.h is above
// 0), lsa, msa, in this order. Reports one unit of progress
// per chunk. Errors: InvalidArgument (parameters), Cancelled (context.stop),
// the model's.
absl::StatusOr<std::vector<Measurement>> EvaluatePrompts(
    const v1::EvaluateInputs& inputs, const ModelAnswers& model,
    const StageContext& context);

// The same rows as with a model, every value and standard error NaN.
absl::StatusOr<std::vector<Measurement>> NonFiniteMeasurements(
    const v1::EvaluateInputs& inputs);

}  // namespace iclsweep
