// Adam (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1) with the arithmetic
// of torch.optim.Adam without weight decay: p -= rate / (1 - b1^t) * m /
// (sqrt(v) / sqrt(1 - b2^t) + epsilon). Runs LibTorch's fused kernel, on the
// CPU and on CUDA; the step counter lies on the device. Not a schedule: the
// caller gives each step's rate.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"

namespace iclsweep {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

class Adam {
 public:
  // The parameters are updated in place.
  Adam(const AdamOptions& options, std::vector<at::Tensor> parameters);

  // gradients[i] belongs to parameters[i].
  void Step(const std::vector<at::Tensor>& gradients, double rate);

  // State, in the order of the parameters; write into these tensors to restore
  // it.
  const std::vector<at::Tensor>& first_moments() const { return first_; }
  const std::vector<at::Tensor>& second_moments() const { return second_; }
  void SetSteps(int64_t steps);

 private:
  AdamOptions options_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> first_;
  std::vector<at::Tensor> second_;
  at::Tensor step_;  // float32 scalar, exact below 2^24; beyond, the bias
                     // corrections are 1 anyway
  std::vector<at::Tensor>
      steps_;  // step_ once per parameter, as the kernel wants it
};

}  // namespace iclsweep
