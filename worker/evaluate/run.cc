#include "worker/evaluate/run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/evaluate/model_pass.h"
#include "worker/evaluate/prompts.h"
#include "worker/model/torch_status.h"
#include "worker/tasks/prompt.h"

namespace iclsweep {
namespace {

absl::StatusOr<bool> CheckFit(const v1::PromptParams& prompt,
                              const LoadedCheckpoint& checkpoint) {
  return Extrapolates(checkpoint, prompt, PromptPoints(prompt),
                      absl::StrCat("T(M+1)+1 = ", prompt.tasks(), " * (",
                                   prompt.examples_per_task(), " + 1) + 1"));
}

bool AnyNonFinite(const std::vector<Measurement>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Measurement& row) {
    return !std::isfinite(row.value);
  });
}

absl::StatusOr<StageResult> Run(const v1::EvaluateInputs& inputs,
                                const StageContext& context,
                                Checkpoints* checkpoints) {
  RETURN_IF_ERROR(CheckPrompt(inputs.prompt()));
  ASSIGN_OR_RETURN(const Checkpoints::Loaded checkpoint,
                   checkpoints->Get(context, kModelFile, at::kFloat));
  StageResult result;
  ASSIGN_OR_RETURN(result.extrapolated, CheckFit(inputs.prompt(), *checkpoint));
  if (checkpoint->non_finite) {
    ASSIGN_OR_RETURN(result.measurements, NonFiniteMeasurements(inputs));
    result.non_finite = true;
    return result;
  }
  const auto model = [&](const PromptBlock& block,
                         const std::vector<int>& order)
      -> absl::StatusOr<std::vector<QueryPredictions>> {
    return PredictModel(checkpoint->model, at::Device(context.device), block,
                        order);
  };
  ASSIGN_OR_RETURN(result.measurements,
                   EvaluatePrompts(inputs, model, context));
  result.non_finite = AnyNonFinite(result.measurements);
  return result;
}

}  // namespace

absl::StatusOr<StageResult> Evaluate(const v1::EvaluateInputs& inputs,
                                     const StageContext& context,
                                     Checkpoints* checkpoints) {
  return CatchTorch("evaluate",
                    [&] { return Run(inputs, context, checkpoints); });
}

}  // namespace iclsweep
