#include "worker/train/validation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ATen/ATen.h"
#include "c10/core/GradMode.h"
#include "worker/model/torch_status.h"
#include "worker/tasks/baselines.h"
#include "worker/train/draws.h"
#include "worker/train/schedule.h"

namespace iclsweep {
namespace {

constexpr int64_t kChunk =
    256;  // prompts per pass; part of the numerics of the stage

// Minimum-norm least squares on the first i points predicts point i. [V, n, d],
// [V, n] -> [V, n].
at::Tensor LeastSquares(const Batch& prompts) {
  at::Tensor predictions = at::zeros_like(prompts.ys);
  const int64_t points = prompts.xs.size(1);
  const int64_t dims = prompts.xs.size(2);
  const double* xs = prompts.xs.const_data_ptr<double>();
  const double* ys = prompts.ys.const_data_ptr<double>();
  double* out = predictions.mutable_data_ptr<double>();
  for (int64_t row = 0; row < prompts.xs.size(0); ++row) {
    const double* x = xs + row * points * dims;
    for (int64_t i = 1; i < points; ++i) {
      const Examples before{x, ys + row * points, i, static_cast<int>(dims)};
      PredictLinear(LeastSquaresWeights(before), x + i * dims, 1,
                    out + row * points + i);
    }
  }
  return predictions;
}

void AddErrors(const std::string& predictor, const at::Tensor& errors,
               std::vector<Measurement>* measurements) {
  const int64_t n = errors.size(0);
  const at::Tensor mean = errors.mean(0);
  const at::Tensor deviation =
      errors.std(0, /*unbiased=*/true) / std::sqrt(static_cast<double>(n));
  for (int64_t i = 0; i < errors.size(1); ++i) {
    Measurement m{.predictor = predictor, .name = "error"};
    m.position = static_cast<int>(i);
    m.value = mean[i].item<double>();
    m.standard_error = deviation[i].item<double>();
    m.n = n;
    measurements->push_back(std::move(m));
  }
}

}  // namespace

absl::StatusOr<std::vector<Measurement>> Validate(const Gpt2& model,
                                                  const v1::TrainInputs& inputs,
                                                  const StageContext& context) {
  return CatchTorch(
      "validation", [&]() -> absl::StatusOr<std::vector<Measurement>> {
        const c10::NoGradGuard no_gradients;
        const PromptStream stream{0, Purpose::kValidationInput,
                                  Purpose::kValidationTask,
                                  Purpose::kValidationNoise};
        const Extent extent{inputs.data().dims(), inputs.train().points()};
        const at::TensorOptions options = model.parameters().front().options();
        std::vector<at::Tensor> by_model, by_zero, by_least_squares;
        for (int64_t first = 0; first < inputs.train().validation_prompts();
             first += kChunk) {
          if (context.Stopped())
            return absl::CancelledError("stopped during validation");
          const int64_t wanted =
              std::min(kChunk, inputs.train().validation_prompts() - first);
          // Always whole chunks: kernels may round differently for other
          // shapes.
          const Batch prompts =
              DrawTrainingPrompts(inputs.data(), stream,
                                  static_cast<uint64_t>(first), kChunk, extent);
          const at::Tensor predictions =
              model.Forward(prompts.xs.to(options), prompts.ys.to(options))
                  .cpu()
                  .to(at::kDouble);
          by_model.push_back(
              (predictions - prompts.ys).square().narrow(0, 0, wanted));
          by_zero.push_back(prompts.ys.square().narrow(0, 0, wanted));
          by_least_squares.push_back((LeastSquares(prompts) - prompts.ys)
                                         .square()
                                         .narrow(0, 0, wanted));
        }
        std::vector<Measurement> measurements;
        AddErrors("model", at::cat(by_model), &measurements);
        AddErrors("zero", at::cat(by_zero), &measurements);
        AddErrors("least_squares", at::cat(by_least_squares), &measurements);
        return measurements;
      });
}

}  // namespace iclsweep
