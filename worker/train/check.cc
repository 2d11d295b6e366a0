#include "worker/train/check.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/tasks/family.h"

namespace iclsweep {
namespace {

constexpr int64_t kMaxPrompts = int64_t{1}
                                << 44;  // what a DrawAddress can number

absl::Status Require(bool condition, absl::string_view message) {
  return condition ? absl::OkStatus() : absl::InvalidArgumentError(message);
}

absl::Status CheckOptimiser(const v1::TrainParams& train) {
  const auto fraction = [](double value) { return value >= 0 && value < 1; };
  RETURN_IF_ERROR(
      Require(train.learning_rate() > 0 && std::isfinite(train.learning_rate()),
              absl::StrCat("train.learning_rate is ", train.learning_rate())));
  RETURN_IF_ERROR(Require(fraction(train.beta1()),
                          absl::StrCat("train.beta1 is ", train.beta1())));
  RETURN_IF_ERROR(Require(fraction(train.beta2()),
                          absl::StrCat("train.beta2 is ", train.beta2())));
  RETURN_IF_ERROR(Require(train.epsilon() > 0,
                          absl::StrCat("train.epsilon is ", train.epsilon())));
  return Require(train.warmup_steps() >= 0,
                 absl::StrCat("train.warmup_steps is ", train.warmup_steps()));
}

absl::Status CheckCurriculum(const v1::Curriculum& c,
                             const v1::DataParams& data) {
  RETURN_IF_ERROR(Require(c.dims_start() >= 0 && c.points_start() >= 0,
                          "train.curriculum: a start is negative"));
  RETURN_IF_ERROR(Require(
      data.family() != v1::FAMILY_SPARSE_LINEAR || c.dims_start() == 0 ||
          c.dims_start() >= data.sparsity(),
      absl::StrCat("train.curriculum.dims_start (", c.dims_start(),
                   ") is less than data.sparsity (", data.sparsity(), ")")));
  return Require(c.dims_increment() > 0 && c.dims_interval() > 0 &&
                     c.points_increment() > 0 && c.points_interval() > 0,
                 "train.curriculum: increments and intervals must be positive");
}

absl::Status CheckAmounts(const v1::TrainParams& train) {
  RETURN_IF_ERROR(Require(train.points() >= 1,
                          absl::StrCat("train.points is ", train.points())));
  RETURN_IF_ERROR(Require(train.steps() >= 1,
                          absl::StrCat("train.steps is ", train.steps())));
  RETURN_IF_ERROR(Require(train.batch() >= 1,
                          absl::StrCat("train.batch is ", train.batch())));
  RETURN_IF_ERROR(Require(train.steps() <= kMaxPrompts / train.batch(),
                          "train.steps * train.batch exceeds 2^44 prompts"));
  RETURN_IF_ERROR(Require(
      train.curve_interval() >= 1,
      absl::StrCat("train.curve_interval is ", train.curve_interval())));
  return Require(
      train.validation_prompts() >= 2,
      absl::StrCat("train.validation_prompts is ", train.validation_prompts()));
}

}  // namespace

absl::Status CheckDataParams(const v1::DataParams& data,
                             absl::string_view where) {
  RETURN_IF_ERROR(CheckFamily(data, where));
  RETURN_IF_ERROR(
      Require(data.noise_std() >= 0 && std::isfinite(data.noise_std()),
              absl::StrCat(where, ".noise_std is ", data.noise_std())));
  RETURN_IF_ERROR(Require(
      data.eigenvalues_size() == 0 || data.eigenvalues_size() == data.dims(),
      absl::StrCat(where, ".eigenvalues has ", data.eigenvalues_size(),
                   " values for ", data.dims(), " dims")));
  for (const double value : data.eigenvalues()) {
    RETURN_IF_ERROR(Require(value > 0 && std::isfinite(value),
                            absl::StrCat(where, ".eigenvalues holds ", value)));
  }
  return absl::OkStatus();
}

absl::Status CheckTrainInputs(const v1::TrainInputs& inputs) {
  const v1::TrainParams& train = inputs.train();
  const int positions = inputs.model().positions();
  RETURN_IF_ERROR(CheckDataParams(inputs.data(), "data"));
  RETURN_IF_ERROR(
      Require(inputs.model().size() == v1::MODEL_SIZE_CUSTOM,
              "model.size is not resolved to layers, heads, width"));
  RETURN_IF_ERROR(
      Require(inputs.seed() >= 0, absl::StrCat("seed is ", inputs.seed())));
  RETURN_IF_ERROR(CheckAmounts(train));
  RETURN_IF_ERROR(
      Require(positions == 0 || positions >= train.points(),
              absl::StrCat("train.points (", train.points(),
                           ") exceeds model.positions (", positions, ")")));
  RETURN_IF_ERROR(CheckOptimiser(train));
  return CheckCurriculum(train.curriculum(), inputs.data());
}

}  // namespace iclsweep
