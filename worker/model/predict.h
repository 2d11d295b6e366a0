// Predictions of a stored model on stored prompts, for `iclsweep-worker
// predict` and for comparing with other implementations. Not a stage: it has no
// key and no result in the database.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace iclsweep {

// Reads xs [B, n, d] and ys [B, n] (both F32 or both F64) from
// `prompts_safetensors`, converts the model in `checkpoint_dir`
// (worker/model/checkpoint.h) to that type, and writes pred [B, n] to
// `out_safetensors`: pred[b, i] is the prediction of ys[b, i] from xs[b, 0..i]
// and ys[b, 0..i-1]. Runs on the CPU. Errors: InvalidArgument (prompts that do
// not fit the model), NotFound, DataLoss, Unavailable, ResourceExhausted.
absl::Status Predict(const std::string& checkpoint_dir,
                     const std::string& prompts_safetensors,
                     const std::string& out_safetensors);

}  // namespace iclsweep
