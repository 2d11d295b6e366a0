#include "coordinator/spec/plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "coordinator/spec/grid.h"
#include "coordinator/spec/resolve.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

// Of axes that advance together, the stage may read some only: whether their
// values tell every place apart.
bool ZippedPlacesDiffer(const SweepSpec& spec, const std::vector<int>& axes) {
  std::map<int, std::vector<const Axis*>> zips;
  for (const int axis : axes) {
    if (spec.axes[axis].zip >= 0)
      zips[spec.axes[axis].zip].push_back(&spec.axes[axis]);
  }
  for (const auto& [zip, members] : zips) {
    std::set<std::vector<AxisValue>> seen;
    for (uint64_t digit = 0; digit < members.front()->size(); ++digit) {
      std::vector<AxisValue> values;
      for (const Axis* axis : members) values.push_back(axis->ValueAt(digit));
      if (!seen.insert(std::move(values)).second) return false;
    }
  }
  return true;
}

// Different points of the axes that the stage reads give it different messages
// for certain.
bool IsInjective(const SweepSpec& spec, Stage stage) {
  const std::vector<int> axes = AxesReadBy(spec, stage);
  return std::all_of(axes.begin(), axes.end(),
                     [&](int axis) {
                       return IsCopiedVerbatim(spec, stage,
                                               spec.axes[axis].path);
                     }) &&
         ZippedPlacesDiffer(spec, axes);
}

uint64_t CountPoints(const SweepSpec& spec, const Projection& projection) {
  const std::vector<bool> with_cells = PointsWithCells(spec, projection);
  return with_cells.empty() ? projection.size()
                            : static_cast<uint64_t>(std::count(
                                  with_cells.begin(), with_cells.end(), true));
}

// Numbers the messages of one stage, whatever it depends on: the same number
// for the same message.
class MessageNumbers {
 public:
  static absl::StatusOr<MessageNumbers> Make(const SweepSpec& spec,
                                             Stage stage) {
    MessageNumbers numbers(Projection(spec, AxesReadBy(spec, stage)));
    const Projection& projection = numbers.projection_;
    if (IsInjective(spec, stage)) {
      numbers.distinct_ = CountPoints(spec, projection);
      return numbers;
    }
    absl::flat_hash_map<JobKey, uint64_t> known;
    std::vector<uint64_t> digits(spec.axes.size(), 0);
    CellSections cell(spec);
    const std::vector<bool> with_cells = PointsWithCells(spec, projection);
    numbers.at_.resize(projection.size(), 0);
    for (uint64_t point = 0; point < projection.size(); ++point) {
      if (!with_cells.empty() && !with_cells[point]) continue;
      projection.DigitsAt(point, &digits);
      cell.Set(digits);
      ASSIGN_OR_RETURN(const PlannedJob job,
                       PlanJob(cell.Sections(), stage, {}));
      numbers.at_[point] =
          known.try_emplace(job.key, known.size()).first->second;
    }
    numbers.distinct_ = known.size();
    return numbers;
  }

  uint64_t distinct() const { return distinct_; }
  uint64_t Of(absl::Span<const uint64_t> digits) const {
    const uint64_t point = projection_.IndexOf(digits);
    return at_.empty() ? point : at_[point];
  }

 private:
  explicit MessageNumbers(Projection projection)
      : projection_(std::move(projection)) {}

  Projection projection_;
  std::vector<uint64_t> at_;  // by point; empty where every one differs
  uint64_t distinct_ = 0;
};

// Whether some dimension of the grid is read by both.
bool ShareADimension(const SweepSpec& spec, Stage a, Stage b) {
  const auto dimensions = [&](Stage stage) {
    std::set<int> found;
    for (const int axis : AxesReadBy(spec, stage)) {
      const int zip = spec.axes[axis].zip;
      found.insert(zip >= 0 ? -1 - zip : axis);
    }
    return found;
  };
  const std::set<int> of_a = dimensions(a);
  const std::set<int> of_b = dimensions(b);
  return std::any_of(of_a.begin(), of_a.end(),
                     [&](int dimension) { return of_b.contains(dimension); });
}

// Distinct keys of a stage that depends on train: pairs of a message and one of
// train's that occur together.
absl::StatusOr<uint64_t> CountDependent(const SweepSpec& spec, Stage stage) {
  ASSIGN_OR_RETURN(const MessageNumbers train,
                   MessageNumbers::Make(spec, Stage::kTrain));
  ASSIGN_OR_RETURN(const MessageNumbers own, MessageNumbers::Make(spec, stage));
  // Every message meets every training.
  if (spec.cells == nullptr && !ShareADimension(spec, stage, Stage::kTrain))
    return own.distinct() * train.distinct();
  const JobPlanner planner(spec);
  const Projection& projection = planner.KeyAxes(stage);
  if (IsInjective(spec, stage) && IsInjective(spec, Stage::kTrain))
    return CountPoints(spec, projection);
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> pairs;
  std::vector<uint64_t> digits(spec.axes.size(), 0);
  const std::vector<bool> with_cells = PointsWithCells(spec, projection);
  for (uint64_t point = 0; point < projection.size(); ++point) {
    if (!with_cells.empty() && !with_cells[point]) continue;
    projection.DigitsAt(point, &digits);
    pairs.emplace(own.Of(digits), train.Of(digits));
  }
  return pairs.size();
}

// floor(whole * part / parts), also where the product does not fit.
uint64_t Share(uint64_t whole, uint64_t part, uint64_t parts) {
  return whole / parts * part + whole % parts * part / parts;
}

// Well-mixed bits of a number (SplitMix64's finaliser).
uint64_t Scatter(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

absl::StatusOr<std::vector<StagePlan>> PlanStages(const SweepSpec& spec) {
  std::vector<StagePlan> plans;
  for (const Stage stage : spec.stages) {
    StagePlan plan{stage, CellCount(spec), 0};
    if (DependsOnTrain(stage)) {
      ASSIGN_OR_RETURN(plan.jobs, CountDependent(spec, stage));
    } else {
      ASSIGN_OR_RETURN(const MessageNumbers messages,
                       MessageNumbers::Make(spec, stage));
      plan.jobs = messages.distinct();
    }
    plans.push_back(plan);
  }
  return plans;
}

absl::Status ForEachDistinctJob(const SweepSpec& spec, Stage stage,
                                const JobVisitor& visit) {
  JobPlanner planner(spec);
  const Projection& projection = planner.KeyAxes(stage);
  const bool all_differ =
      IsInjective(spec, stage) &&
      (!DependsOnTrain(stage) || IsInjective(spec, Stage::kTrain));
  absl::flat_hash_set<JobKey> seen;
  std::vector<uint64_t> digits(spec.axes.size(), 0);
  const std::vector<bool> with_cells = PointsWithCells(spec, projection);
  for (uint64_t point = 0; point < projection.size(); ++point) {
    if (!with_cells.empty() && !with_cells[point]) continue;
    projection.DigitsAt(point, &digits);
    ASSIGN_OR_RETURN(const PlannedJob job, planner.Job(stage, digits));
    if (!all_differ && !seen.insert(job.key).second) continue;
    ASSIGN_OR_RETURN(const std::vector<JobKey> dependencies,
                     planner.Dependencies(stage, digits));
    RETURN_IF_ERROR(visit(job, dependencies));
  }
  return absl::OkStatus();
}

absl::Status SampleJobs(const SweepSpec& spec, Stage stage, uint64_t most,
                        const SampleVisitor& visit) {
  JobPlanner planner(spec);
  const Projection& projection = planner.KeyAxes(stage);
  const uint64_t points = projection.size();
  const uint64_t visited = std::min(points, most);
  absl::flat_hash_set<JobKey> seen;
  std::vector<uint64_t> digits(spec.axes.size(), 0);
  const std::vector<bool> with_cells = PointsWithCells(spec, projection);
  for (uint64_t i = 0; i < visited; ++i) {
    // A step that divides an axis would meet few of its values: each stretch
    // of the points gives one, at a place that varies.
    const uint64_t first = Share(points, i, visited);
    const uint64_t end = Share(points, i + 1, visited);
    const uint64_t point = first + Scatter(i) % (end - first);
    if (!with_cells.empty() && !with_cells[point]) continue;
    projection.DigitsAt(point, &digits);
    ASSIGN_OR_RETURN(const PlannedJob job, planner.Job(stage, digits));
    if (!seen.insert(job.key).second) continue;
    if (!DependsOnTrain(stage)) {
      RETURN_IF_ERROR(visit(job, nullptr));
      continue;
    }
    ASSIGN_OR_RETURN(const PlannedJob train,
                     planner.Job(Stage::kTrain, digits));
    RETURN_IF_ERROR(visit(job, &train));
  }
  return absl::OkStatus();
}

}  // namespace iclsweep
