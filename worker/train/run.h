// Stage `train`: GPT-2 learns regression in context (Garg et al. 2022, arXiv
// 2208.01066).
#pragma once

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"

namespace iclsweep {

// With inputs.train.checkpoint: takes that model (existing_model.h), measures
// and publishes it. Else trains from scratch or from the newest valid partial
// checkpoint, and publishes the checkpoint artifact. Errors: InvalidArgument
// (never retry), Cancelled (context.stop), ResourceExhausted (out of memory),
// Internal, Unavailable (disk).
absl::StatusOr<StageResult> Train(const v1::TrainInputs& inputs,
                                  const StageContext& context);

}  // namespace iclsweep
