#include "worker/compare/run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "c10/core/GradMode.h"
#include "proto/base/status_macros.h"
#include "worker/compare/check.h"
#include "worker/compare/draws.h"
#include "worker/compare/passes.h"
#include "worker/compare/table.h"
#include "worker/model/device.h"
#include "worker/model/torch_status.h"
#include "worker/tasks/baselines.h"

namespace iclsweep {
namespace {

// Replicates per pass, the last chunk filled up with ones that do not count:
// kernels may round differently for other shapes. Part of the numerics.
constexpr int64_t kChunk = 32;

int64_t ChunksOf(int64_t replicates) {
  return (replicates + kChunk - 1) / kChunk;
}

struct Choice {
  double learning_rate = std::numeric_limits<double>::quiet_NaN();
  bool at_edge = false;
};

// The candidate with the lowest mean error; ones that are not finite lose.
Choice ChooseLearningRate(const std::vector<double>& candidates,
                          const std::vector<Samples>& errors) {
  size_t best = static_cast<size_t>(
      std::min_element(candidates.begin(), candidates.end()) -
      candidates.begin());
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (errors[i].Mean() < lowest) {
      lowest = errors[i].Mean();
      best = i;
    }
  }
  const auto [low, high] =
      std::minmax_element(candidates.begin(), candidates.end());
  const double chosen = candidates[best];
  return {chosen, *low != *high && (chosen == *low || chosen == *high)};
}

class Comparison {
 public:
  Comparison(const v1::CompareInputs& inputs, const StageContext& context,
             const Gpt2& model, const Gpt2& untrained)
      : inputs_(inputs),
        context_(context),
        model_(model),
        untrained_(untrained),
        candidates_(LearningRates(inputs.compare())),
        tune_errors_(candidates_.size()),
        right_("model", model.config().layers, inputs.compare().improvement()),
        wrong_("wrong_task", model.config().layers,
               inputs.compare().improvement()),
        control_("untrained", model.config().layers,
                 inputs.compare().improvement()) {
    units_ = ChunksOf(TuneTasks()) * static_cast<int64_t>(candidates_.size()) +
             3 * ChunksOf(inputs.compare().tasks());
  }

  absl::Status Run() {
    RETURN_IF_ERROR(Tune());
    choice_ = ChooseLearningRate(candidates_, tune_errors_);
    const int64_t tasks = inputs_.compare().tasks();
    for (int64_t first = 0; first < tasks; first += kChunk) {
      ASSIGN_OR_RETURN(
          const Replicates drawn,
          DrawReplicates(inputs_, ReplicateStream::kMeasure, first, kChunk));
      RETURN_IF_ERROR(Measure(drawn, std::min(kChunk, tasks - first)));
    }
    context_.Progress(done_, done_, units_);
    return absl::OkStatus();
  }

  // Everything NaN when Run was not called.
  std::vector<Measurement> Rows() const {
    std::vector<Measurement> rows;
    right_.AppendTo(&rows);
    wrong_.AppendTo(&rows);
    control_.AppendTo(&rows);
    rows.push_back(SampleRow("least_squares", "error_icl", least_squares_));
    Measurement row{.predictor = "model", .name = "learning_rate"};
    row.value = choice_.learning_rate;
    rows.push_back(row);
    row.name = "learning_rate_at_edge";
    row.value = choice_.at_edge ? 1 : 0;
    rows.push_back(row);
    for (size_t i = 0; i < candidates_.size(); ++i) {
      rows.push_back(SampleRow("model", "tune_error", tune_errors_[i]));
      rows.back().position = static_cast<int>(i);
    }
    return rows;
  }

 private:
  int64_t TuneTasks() const {
    const v1::CompareParams& compare = inputs_.compare();
    return compare.tune_tasks() > 0 ? compare.tune_tasks() : compare.tasks();
  }

  // Called before each unit of work.
  absl::Status NextUnit() {
    if (context_.Stopped()) {
      return absl::CancelledError(absl::StrCat(
          "compare: told to stop after ", done_, " of ", units_, " parts"));
    }
    if (done_ > 0) context_.Progress(done_, done_, units_);
    ++done_;
    return absl::OkStatus();
  }

  absl::Status Tune() {
    for (int64_t first = 0; first < TuneTasks(); first += kChunk) {
      ASSIGN_OR_RETURN(
          const Replicates drawn,
          DrawReplicates(inputs_, ReplicateStream::kTune, first, kChunk));
      const Passes passes(model_, drawn);
      const int64_t counted = std::min(kChunk, TuneTasks() - first);
      for (size_t i = 0; i < candidates_.size(); ++i) {
        RETURN_IF_ERROR(NextUnit());
        const at::Tensor errors =
            passes.FinetunedError(drawn.demo_ys, candidates_[i]);
        for (int64_t r = 0; r < counted; ++r) {
          tune_errors_[i].Add(errors[r].item<double>());
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Measure(const Replicates& drawn, int64_t counted) {
    const double rate = choice_.learning_rate;
    RETURN_IF_ERROR(NextUnit());
    Passes trained(model_, drawn);
    trained.Compare(drawn.demo_ys, rate).AddTo(counted, &right_);
    RETURN_IF_ERROR(NextUnit());
    trained.Compare(drawn.wrong_ys, rate).AddTo(counted, &wrong_);
    RETURN_IF_ERROR(NextUnit());
    Passes(untrained_, drawn)
        .Compare(drawn.demo_ys, rate)
        .AddTo(counted, &control_);
    AddLeastSquares(drawn, counted);
    return absl::OkStatus();
  }

  // Least squares on demonstrations and anchors.
  void AddLeastSquares(const Replicates& drawn, int64_t counted) {
    const at::Tensor xs = at::cat({drawn.demo_xs, drawn.anchor_xs}, 1);
    const at::Tensor ys = at::cat({drawn.demo_ys, drawn.anchor_ys}, 1);
    const int64_t points = xs.size(1);
    const int64_t dims = xs.size(2);
    const int64_t queries = drawn.query_xs.size(1);
    std::vector<double> predicted(static_cast<size_t>(queries));
    for (int64_t r = 0; r < counted; ++r) {
      const Examples seen{xs.const_data_ptr<double>() + r * points * dims,
                          ys.const_data_ptr<double>() + r * points, points,
                          static_cast<int>(dims)};
      PredictLinear(
          LeastSquaresWeights(seen),
          drawn.query_xs.const_data_ptr<double>() + r * queries * dims, queries,
          predicted.data());
      const double* labels =
          drawn.query_ys.const_data_ptr<double>() + r * queries;
      double sum = 0;
      for (int64_t q = 0; q < queries; ++q) {
        const double error = predicted[static_cast<size_t>(q)] - labels[q];
        sum += error * error;
      }
      least_squares_.Add(sum / static_cast<double>(queries));
    }
  }

  const v1::CompareInputs& inputs_;
  const StageContext& context_;
  const Gpt2& model_;
  const Gpt2& untrained_;
  std::vector<double> candidates_;
  std::vector<Samples> tune_errors_;
  Choice choice_;
  ComparisonTable right_, wrong_, control_;
  Samples least_squares_;
  int64_t units_ = 0;
  int64_t done_ = 0;
};

absl::StatusOr<StageResult> RunComparison(const v1::CompareInputs& inputs,
                                          const StageContext& context,
                                          Checkpoints* checkpoints) {
  ASSIGN_OR_RETURN(const Checkpoints::Loaded trained,
                   checkpoints->Get(context, kModelFile, at::kDouble));
  ASSIGN_OR_RETURN(const Checkpoints::Loaded initial,
                   checkpoints->Get(context, kInitialFile, at::kDouble));
  StageResult result;
  ASSIGN_OR_RETURN(result.extrapolated, CheckFit(inputs, *trained));
  result.non_finite = trained->non_finite;
  Comparison comparison(inputs, context, trained->model, initial->model);
  if (!trained->non_finite) RETURN_IF_ERROR(comparison.Run());
  result.measurements = comparison.Rows();
  return result;
}

}  // namespace

absl::StatusOr<StageResult> Compare(const v1::CompareInputs& inputs,
                                    const StageContext& context,
                                    Checkpoints* checkpoints) {
  RETURN_IF_ERROR(CheckCompareInputs(inputs));
  UseDeterministicKernels();
  return CatchTorch(
      "compare", [&] { return RunComparison(inputs, context, checkpoints); });
}

}  // namespace iclsweep
