// Prompts of regression in context: x ~ N(0, diag(eigenvalues)), y by one task
// of the family per prompt (worker/tasks/family.h). A prompt is a pure function
// of (seed, purposes, prompt number), so it does not depend on how prompts are
// batched.
#pragma once

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/streams.h"
#include "worker/train/schedule.h"

namespace iclsweep {

struct PromptStream {
  uint64_t seed = 0;
  Purpose input = Purpose::kTrainInput;
  Purpose task = Purpose::kTrainTask;
  Purpose noise = Purpose::kTrainNoise;
};

struct Batch {
  at::Tensor xs;  // [count, points, data.dims], float64 on the CPU
  at::Tensor ys;  // [count, points]
};

// Prompts first .. first + count - 1 with extent.points points. Coordinates
// from extent.dims on are zero in x; w keeps all of them. REQUIRES:
// data.eigenvalues is empty or has data.dims values.
Batch DrawTrainingPrompts(const v1::DataParams& data,
                          const PromptStream& stream, uint64_t first,
                          int64_t count, const Extent& extent);

}  // namespace iclsweep
