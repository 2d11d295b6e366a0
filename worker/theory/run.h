// Stage `theory`: see README.md in worker/.
#pragma once

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"

namespace iclsweep {

// Errors: InvalidArgument (never retry), Cancelled (context.stop), ResourceExhausted (out of memory), Internal, Unavailable (disk).
absl::StatusOr<StageResult> RunTheory(const v1::TheoryInputs& inputs, const StageContext& context);

}  // namespace iclsweep
