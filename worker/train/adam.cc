#include "worker/train/adam.h"

#include <utility>

#include "ATen/ATen.h"
#include "c10/core/GradMode.h"

namespace iclsweep {

Adam::Adam(const AdamOptions& options, std::vector<at::Tensor> parameters)
    : options_(options), parameters_(std::move(parameters)) {
  for (const at::Tensor& parameter : parameters_) {
    first_.push_back(
        at::zeros_like(parameter, at::TensorOptions().requires_grad(false)));
    second_.push_back(
        at::zeros_like(parameter, at::TensorOptions().requires_grad(false)));
  }
  step_ = at::zeros({}, at::TensorOptions()
                            .dtype(at::kFloat)
                            .device(parameters_.front().device()));
  steps_.assign(parameters_.size(), step_);
}

void Adam::SetSteps(int64_t steps) { step_.fill_(static_cast<double>(steps)); }

void Adam::Step(const std::vector<at::Tensor>& gradients, double rate) {
  const c10::NoGradGuard no_gradients;
  step_.add_(1);
  at::_fused_adam_(parameters_, gradients, first_, second_,
                   /*max_exp_avg_sqs=*/{}, steps_, rate, options_.beta1,
                   options_.beta2, /*weight_decay=*/0, options_.epsilon,
                   /*amsgrad=*/false, /*maximize=*/false);
}

}  // namespace iclsweep
