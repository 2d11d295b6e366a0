// Stage `compare`: see README.md in worker/.
#pragma once

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"

namespace iclsweep {

// Errors: InvalidArgument (never retry), Cancelled (context.stop), ResourceExhausted (out of memory), Internal, Unavailable (disk).
absl::StatusOr<StageResult> Compare(const v1::CompareInputs& inputs, const StageContext& context);

}  // namespace iclsweep
