#include "worker/compare/check.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/tasks/order.h"
#include "worker/tasks/prompt.h"

namespace iclsweep {
namespace {

absl::Status AtLeast(absl::string_view field, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "compare.", field, " = ", value, " must be at least ", least));
}

absl::Status CheckCounts(const v1::CompareParams& compare) {
  RETURN_IF_ERROR(AtLeast("anchors", compare.anchors(), 1));
  RETURN_IF_ERROR(AtLeast("tasks", compare.tasks(), 2));
  RETURN_IF_ERROR(AtLeast("queries", compare.queries(), 1));
  RETURN_IF_ERROR(AtLeast("tune_tasks", compare.tune_tasks(), 0));
  return AtLeast("seed", compare.seed(), 0);
}

}  // namespace

std::vector<double> LearningRates(const v1::CompareParams& compare) {
  if (compare.learning_rates().empty()) {
    return {0.0005, 0.001, 0.002, 0.004, 0.008};
  }
  return {compare.learning_rates().begin(), compare.learning_rates().end()};
}

absl::Status CheckCompareInputs(const v1::CompareInputs& inputs) {
  const v1::CompareParams& compare = inputs.compare();
  RETURN_IF_ERROR(CheckPrompt(inputs.prompt()));
  RETURN_IF_ERROR(TaskOrder(inputs.prompt()).status());
  RETURN_IF_ERROR(Eigenvalues(inputs.prompt().data()).status());
  RETURN_IF_ERROR(CheckCounts(compare));
  if (!(compare.improvement() > 0 && compare.improvement() <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("compare.improvement = ", compare.improvement(),
                     " must be above 0 and at most 1"));
  }
  for (const double rate : LearningRates(compare)) {
    if (!(rate >= 0 && std::isfinite(rate))) {
      return absl::InvalidArgumentError(
          absl::StrCat("compare.learning_rates holds ", rate));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CheckFit(const v1::CompareInputs& inputs,
                              const LoadedCheckpoint& checkpoint) {
  const v1::PromptParams& prompt = inputs.prompt();
  const int64_t points = int64_t{prompt.tasks()} * prompt.examples_per_task() +
                         inputs.compare().anchors() + 1;
  return Extrapolates(checkpoint, prompt, points,
                      absl::StrCat("T M + m + 1 = ", prompt.tasks(), " * ",
                                   prompt.examples_per_task(), " + ",
                                   inputs.compare().anchors(), " + 1"));
}

}  // namespace iclsweep
