#include "worker/theory/run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/families.h"
#include "worker/tasks/family.h"
#include "worker/tasks/geometry.h"
#include "worker/tasks/order.h"
#include "worker/tasks/prompt.h"
#include "worker/theory/closed_form.h"

namespace iclsweep {
namespace {

// Everything known about one predictor at one position.
struct Place {
  ErrorParts own;
  ErrorParts last;
  ErrorParts single;
  DriftParts drift;
};

Place MsaPlace(const TaskMoments& moments, int examples, int position) {
  return {MsaOwnError(moments, examples, position),
          MsaFinalError(moments, examples, position),
          MsaSingleError(moments, examples, position),
          MsaDrift(moments, examples, position)};
}

// LSA has no mask and its divisor no position: its own and its final prediction
// are the same, so nothing drifts.
Place LsaPlace(const TaskMoments& moments, int examples, int position) {
  const ErrorParts error = LsaError(moments, examples, position);
  return {error, error, LsaSingleError(moments, examples, position), {}};
}

// Collects rows of one predictor.
class Rows {
 public:
  Rows(absl::string_view predictor, std::vector<Measurement>* out)
      : predictor_(predictor), out_(out) {}
  void At(int task, int position) {
    task_ = task;
    position_ = position;
  }
  void Add(absl::string_view name, double value) {
    Measurement row;
    row.predictor = std::string(predictor_);
    row.name = std::string(name);
    row.task = task_;
    row.position = position_;
    row.value = value;
    out_->push_back(std::move(row));
  }
  void AddParts(absl::string_view name, const ErrorParts& parts) {
    Add(absl::StrCat(name, "_irreducible"), parts.irreducible);
    Add(absl::StrCat(name, "_variance_own"), parts.variance_own);
    Add(absl::StrCat(name, "_variance_other"), parts.variance_other);
    Add(absl::StrCat(name, "_bias_own"), parts.bias_own);
    Add(absl::StrCat(name, "_interference"), parts.interference);
  }

 private:
  absl::string_view predictor_;
  std::vector<Measurement>* out_;
  int task_ = kNotApplicable;
  int position_ = kNotApplicable;
};

using PlaceFunction = Place (*)(const TaskMoments&, int, int);

void Measure(const TaskMoments& moments, int examples,
             const std::vector<int>& order, PlaceFunction place_at, Rows rows) {
  double own = 0;
  double last = 0;
  double drift = 0;
  for (int s = 0; s < moments.tasks; ++s) {
    const Place place = place_at(moments, examples, s);
    rows.At(order[static_cast<size_t>(s)], s);
    rows.Add("G", place.own.Total());
    rows.Add("G_single", place.single.Total());
    rows.Add("NT", place.own.Total() - place.single.Total());
    rows.Add("E_final", place.last.Total());
    rows.Add("delta_E", place.last.Total() - place.own.Total());
    rows.Add("F", place.drift.Total());
    rows.AddParts("G", place.own);
    rows.AddParts("E_final", place.last);
    rows.Add("F_variance", place.drift.variance);
    rows.Add("F_mean", place.drift.mean);
    own += place.own.Total() / moments.tasks;
    last += place.last.Total() / moments.tasks;
    drift += place.drift.Total() / moments.tasks;
  }
  rows.At(kNotApplicable, kNotApplicable);
  rows.Add("G", own);
  rows.Add("E_final", last);
  rows.Add("delta_E", last - own);
  rows.Add("F", drift);
}

// Rows (and columns) of an identity-indexed [tasks][width] array, by position.
std::vector<double> RowsInOrder(const std::vector<double>& by_identity,
                                int64_t width, const std::vector<int>& order) {
  std::vector<double> out;
  out.reserve(by_identity.size());
  for (const int task : order) {
    out.insert(out.end(), by_identity.begin() + task * width,
               by_identity.begin() + (task + 1) * width);
  }
  return out;
}
std::vector<double> PairsInOrder(const std::vector<double>& by_identity,
                                 const std::vector<int>& order) {
  std::vector<double> out;
  out.reserve(by_identity.size());
  for (const int i : order) {
    for (const int j : order)
      out.push_back(by_identity[static_cast<size_t>(i) * order.size() +
                                static_cast<size_t>(j)]);
  }
  return out;
}

absl::StatusOr<TaskMoments> MomentsOf(const v1::PromptParams& prompt,
                                      const InputCovariance& covariance,
                                      const std::vector<int>& order) {
  // Labels scaled by s are those of tasks s w with noise s sigma. Gamma stays:
  // it depends on the ratio of signal and noise only.
  const double scale = TaskFamily(prompt.data()).LabelScale();
  const double noise_std = scale * prompt.data().noise_std();
  std::vector<double> noise(order.size(), noise_std * noise_std);
  if (prompt.task_set() == v1::TASK_SET_FRESH) {
    ASSIGN_OR_RETURN(std::vector<double> correlations,
                     TaskCorrelations(prompt));
    for (double& value : correlations) value *= scale * scale;
    return RandomTasks(covariance, PairsInOrder(correlations, order),
                       std::move(noise));
  }
  const TaskSetDraw draw{.seed = static_cast<uint64_t>(prompt.seed())};
  ASSIGN_OR_RETURN(std::vector<double> tasks, DrawTaskSet(prompt, draw));
  for (double& value : tasks) value *= scale;
  return FixedTasks(covariance, RowsInOrder(tasks, prompt.data().dims(), order),
                    std::move(noise));
}

}  // namespace

absl::StatusOr<StageResult> RunTheory(const v1::TheoryInputs& inputs,
                                      const StageContext& context) {
  const v1::PromptParams& prompt = inputs.prompt();
  RETURN_IF_ERROR(CheckPrompt(prompt));
  const v1::Family family = prompt.data().family();
  if (!HasClosedForm(family)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "theory has no closed form for prompt.data.family = ",
        v1::Family_Name(family), ", only for linear and noisy_linear"));
  }
  ASSIGN_OR_RETURN(const std::vector<int> order, TaskOrder(prompt));
  ASSIGN_OR_RETURN(std::vector<double> eigenvalues, Eigenvalues(prompt.data()));
  const double pretraining_noise = inputs.theory().pretraining_noise_std();
  const Pretraining pretraining{
      .length = inputs.theory().pretraining_length(),
      .noise_variance = pretraining_noise * pretraining_noise};
  ASSIGN_OR_RETURN(
      const InputCovariance covariance,
      InputCovariance::Diagonal(std::move(eigenvalues), pretraining));
  ASSIGN_OR_RETURN(const TaskMoments moments,
                   MomentsOf(prompt, covariance, order));
  if (context.Stopped()) return absl::CancelledError("theory: told to stop");

  StageResult result;
  Measure(moments, prompt.examples_per_task(), order, MsaPlace,
          Rows("msa", &result.measurements));
  Measure(moments, prompt.examples_per_task(), order, LsaPlace,
          Rows("lsa", &result.measurements));
  context.Progress(1, 1, 1);
  return result;
}

}  // namespace iclsweep
