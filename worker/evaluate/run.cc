#include "worker/evaluate/run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/evaluate/model_pass.h"
#include "worker/evaluate/prompts.h"
#include "worker/model/checkpoint.h"
#include "worker/model/torch_status.h"
#include "worker/tasks/prompt.h"

namespace iclsweep {
namespace {

// Whether the prompts are longer than what the model was trained on; an error
// where that is not allowed.
absl::StatusOr<bool> CheckFit(const v1::PromptParams& prompt,
                              const LoadedCheckpoint& checkpoint) {
  const ModelConfig& config = checkpoint.model.config();
  if (prompt.data().dims() != config.dims) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt.data.dims = ", prompt.data().dims(),
                     ", but the model was trained on ", config.dims));
  }
  const int64_t points = PromptPoints(prompt);
  const std::string arithmetic = absl::StrCat(
      "T(M+1)+1 = ", prompt.tasks(), " * (", prompt.examples_per_task(),
      " + 1) + 1 = ", points, " points");
  if (points > config.positions) {
    return absl::InvalidArgumentError(
        absl::StrCat(arithmetic, " exceed the model's ", config.positions,
                     " positions (model.positions)"));
  }
  const bool extrapolated = points > checkpoint.trained_points;
  if (extrapolated && !prompt.allow_extrapolation()) {
    return absl::InvalidArgumentError(
        absl::StrCat(arithmetic, " exceed the ", checkpoint.trained_points,
                     " it was trained on (train.points); "
                     "prompt.allow_extrapolation overrides"));
  }
  return extrapolated;
}

bool AnyNonFinite(const std::vector<Measurement>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Measurement& row) {
    return !std::isfinite(row.value);
  });
}

absl::StatusOr<StageResult> Run(const v1::EvaluateInputs& inputs,
                                const StageContext& context) {
  RETURN_IF_ERROR(CheckPrompt(inputs.prompt()));
  const at::Device device(context.device);
  ASSIGN_OR_RETURN(
      const LoadedCheckpoint checkpoint,
      LoadCheckpoint(context.checkpoint_dir, kModelFile, device, at::kFloat));
  StageResult result;
  ASSIGN_OR_RETURN(result.extrapolated, CheckFit(inputs.prompt(), checkpoint));
  if (checkpoint.non_finite) {
    ASSIGN_OR_RETURN(result.measurements, NonFiniteMeasurements(inputs));
    result.non_finite = true;
    return result;
  }
  const auto model = [&](const PromptBlock& block,
                         const std::vector<int>& order)
      -> absl::StatusOr<std::vector<QueryPredictions>> {
    return PredictModel(checkpoint.model, device, block, order);
  };
  ASSIGN_OR_RETURN(result.measurements,
                   EvaluatePrompts(inputs, model, context));
  result.non_finite = AnyNonFinite(result.measurements);
  return result;
}

}  // namespace

absl::StatusOr<StageResult> Evaluate(const v1::EvaluateInputs& inputs,
                                     const StageContext& context) {
  return CatchTorch("evaluate", [&] { return Run(inputs, context); });
}

}  // namespace iclsweep
