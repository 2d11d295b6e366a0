// A model trained elsewhere, taken instead of a training (train.checkpoint).
#pragma once

#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "worker/model/gpt2.h"

namespace iclsweep {

// Loads artifact_dir/imported/<sha256>/model.safetensors, which the coordinator
// put there, as float32 on `device`. Errors: Unavailable (missing, or other
// bytes than inputs.train.checkpoint names), InvalidArgument (weights that are
// not of `config`'s sizes, or not finite), ResourceExhausted.
absl::StatusOr<Gpt2> LoadExistingModel(const v1::TrainInputs& inputs,
                                       const ModelConfig& config,
                                       const std::string& artifact_dir,
                                       at::Device device);

}  // namespace iclsweep
