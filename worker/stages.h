// From a leased job to its stage's entry function: the one place that lists the
// stages.
#pragma once

#include "absl/status/statusor.h"
#include "iclsweep/v1/worker.pb.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"
#include "worker/model/checkpoints.h"

namespace iclsweep {

// `checkpoints` keeps what one job loaded for the next.
absl::StatusOr<StageResult> RunStage(const v1::LeasedJob& job,
                                     const StageContext& context,
                                     Checkpoints* checkpoints);

}  // namespace iclsweep
