// From a leased job to its stage's entry function: the one place that lists the
// stages.
#pragma once

#include "absl/status/statusor.h"
#include "iclsweep/v1/worker.pb.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"

namespace iclsweep {

absl::StatusOr<StageResult> RunStage(const v1::LeasedJob& job,
                                     const StageContext& context);

}  // namespace iclsweep
