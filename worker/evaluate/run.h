// Stage `evaluate`: a trained model on continual prompts
// (worker/tasks/prompt.h), with estimators and pretrained linear attention on
// the same prompts. What it measures, of Li, Ding, Hu, arXiv 2605.28705,
// section 3, as raw squared errors averaged over prompts:
//   G         error at a task's own query
//   G_single  error at it with the task alone in the prompt
//   NT        G - G_single
//   E_final   error at the same input after all tasks
//   delta_E   E_final - G
//   F         squared change of the prediction between own and final query
// The error of a query is taken against its label, label noise included.
//
// Measurements: per task (identity and position) all six, and averages over
// tasks (task and position not applicable) of G, E_final, delta_E and F;
// predictors model, least_squares, ridge, lsa, msa, and lasso for sparse_linear
// prompts or a given evaluate.lasso_alpha. For zero, averaging and nn3 only G
// and E_final. Each has a standard error over prompts (sample standard
// deviation / sqrt(n)); differences are taken prompt by prompt, averages over
// tasks too. Estimators see all labelled pairs so far, query slots left out;
// lsa and msa use N = evaluate.pretraining_length (0 = infinite; sweeps resolve
// 0 to train.points before).
//
// The model runs in float32 on context.device, everything else in double on the
// CPU. Prompts come in chunks of a fixed size, the last one filled up with
// prompts that are not counted, so no number depends on how many are asked for.
// A checkpoint marked non-finite is not run: the same rows, all NaN.
#pragma once

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"
#include "worker/model/checkpoints.h"

namespace iclsweep {

// Errors: InvalidArgument (never retry), Cancelled (context.stop),
// ResourceExhausted (out of memory), Internal, Unavailable (disk).
absl::StatusOr<StageResult> Evaluate(const v1::EvaluateInputs& inputs,
                                     const StageContext& context,
                                     Checkpoints* checkpoints);

}  // namespace iclsweep
