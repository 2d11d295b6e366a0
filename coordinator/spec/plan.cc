#include "coordinator/spec/plan.h"

#include <algorithm>
#include <iterator>

#include "absl/container/flat_hash_set.h"
#include "coordinator/spec/grid.h"
#include "coordinator/spec/resolve.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

// Different points of the axes that the stage reads give it different messages
// for certain.
bool IsInjective(const SweepSpec& spec, Stage stage) {
  const std::vector<int> axes = AxesReadBy(spec, stage);
  return std::all_of(axes.begin(), axes.end(), [&](int axis) {
    return IsCopiedVerbatim(spec, stage, spec.axes[axis].path);
  });
}

// Distinct messages of one stage, whatever it depends on.
absl::StatusOr<uint64_t> CountMessages(const SweepSpec& spec, Stage stage) {
  const Projection projection(spec, AxesReadBy(spec, stage));
  if (IsInjective(spec, stage)) return projection.size();
  absl::flat_hash_set<JobKey> keys;
  std::vector<uint64_t> digits(spec.axes.size(), 0);
  CellSections cell(spec);
  for (uint64_t point = 0; point < projection.size(); ++point) {
    projection.DigitsAt(point, &digits);
    cell.Set(digits);
    ASSIGN_OR_RETURN(const PlannedJob job, PlanJob(cell.Sections(), stage, {}));
    keys.insert(job.key);
  }
  return keys.size();
}

absl::Status ForEachDistinctJobOf(const SweepSpec& spec, Stage stage,
                                  const JobVisitor& visit) {
  JobPlanner planner(spec);
  const Projection& projection = planner.KeyAxes(stage);
  const bool all_differ =
      IsInjective(spec, stage) &&
      (!DependsOnTrain(stage) || IsInjective(spec, Stage::kTrain));
  absl::flat_hash_set<JobKey> seen;
  std::vector<uint64_t> digits(spec.axes.size(), 0);
  for (uint64_t point = 0; point < projection.size(); ++point) {
    projection.DigitsAt(point, &digits);
    ASSIGN_OR_RETURN(const PlannedJob job, planner.Job(stage, digits));
    if (!all_differ && !seen.insert(job.key).second) continue;
    ASSIGN_OR_RETURN(const std::vector<JobKey> dependencies,
                     planner.Dependencies(stage, digits));
    RETURN_IF_ERROR(visit(job, dependencies));
  }
  return absl::OkStatus();
}

// Distinct keys of a stage that depends on train: pairs of a message and a
// train key that occur together.
absl::StatusOr<uint64_t> CountDependent(const SweepSpec& spec, Stage stage,
                                        uint64_t train_jobs) {
  const std::vector<int> own = AxesReadBy(spec, stage);
  const std::vector<int> train = AxesReadBy(spec, Stage::kTrain);
  std::vector<int> shared;
  std::set_intersection(own.begin(), own.end(), train.begin(), train.end(),
                        std::back_inserter(shared));
  if (shared.empty()) {  // every message meets every train job
    ASSIGN_OR_RETURN(const uint64_t messages, CountMessages(spec, stage));
    return messages * train_jobs;
  }
  if (IsInjective(spec, stage) && IsInjective(spec, Stage::kTrain))
    return JobPlanner(spec).KeyAxes(stage).size();
  uint64_t count = 0;
  RETURN_IF_ERROR(ForEachDistinctJobOf(
      spec, stage, [&](const PlannedJob&, absl::Span<const JobKey>) {
        ++count;
        return absl::OkStatus();
      }));
  return count;
}

}  // namespace

absl::StatusOr<std::vector<StagePlan>> PlanStages(const SweepSpec& spec) {
  std::vector<StagePlan> plans;
  uint64_t train_jobs = 0;
  for (const Stage stage : spec.stages) {
    StagePlan plan{stage, CellCount(spec), 0};
    if (DependsOnTrain(stage)) {
      ASSIGN_OR_RETURN(plan.jobs, CountDependent(spec, stage, train_jobs));
    } else {
      ASSIGN_OR_RETURN(plan.jobs, CountMessages(spec, stage));
    }
    if (stage == Stage::kTrain) train_jobs = plan.jobs;
    plans.push_back(plan);
  }
  return plans;
}

absl::Status ForEachDistinctJob(const SweepSpec& spec,
                                const JobVisitor& visit) {
  for (const Stage stage : spec.stages)
    RETURN_IF_ERROR(ForEachDistinctJobOf(spec, stage, visit));
  return absl::OkStatus();
}

}  // namespace iclsweep
