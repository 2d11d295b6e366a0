#include "coordinator/spec/cells.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/spec/resolve.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/base/sha256.h"
#include "proto/base/status_macros.h"
#include "proto/canonical.h"

namespace iclsweep {
namespace {

constexpr size_t kMostRemembered = 1 << 14;  // jobs per stage

std::string SerializeDeterministically(
    const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  if (!message.SerializePartialToCodedStream(&coded))
    std::abort();  // a string always has room
  coded.Trim();
  return bytes;
}

// Axes of the stage and of what it depends on.
std::vector<int> KeyAxesOf(const SweepSpec& spec, Stage stage) {
  std::vector<int> axes = AxesReadBy(spec, stage);
  if (!DependsOnTrain(stage)) return axes;
  const std::vector<int> train = AxesReadBy(spec, Stage::kTrain);
  std::vector<int> both;
  std::set_union(axes.begin(), axes.end(), train.begin(), train.end(),
                 std::back_inserter(both));
  return both;
}

}  // namespace

std::vector<int> AxesReadBy(const SweepSpec& spec, Stage stage) {
  std::vector<int> axes;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    if (StageReads(spec, stage, spec.axes[i].path))
      axes.push_back(static_cast<int>(i));
  }
  return axes;
}

absl::StatusOr<PlannedJob> PlanJob(const v1::SweepFile& cell, Stage stage,
                                   absl::Span<const JobKey> dependencies) {
  ASSIGN_OR_RETURN(const auto inputs, Resolve(cell, stage));
  PlannedJob job;
  job.stage = stage;
  ASSIGN_OR_RETURN(job.key, ComputeJobKey(stage, *inputs, dependencies));
  job.inputs = SerializeDeterministically(*inputs);
  return job;
}

uint64_t CellCount(const SweepSpec& spec) {
  if (spec.cells != nullptr) return spec.cells->cells();
  const auto count = CheckedPointCount(spec);
  if (!count.has_value()) std::abort();  // ParseSweep refuses such a grid
  return *count;
}

absl::StatusOr<Cell> ExpandCell(const SweepSpec& spec, uint64_t index) {
  return CellExpander(spec).Expand(index);
}

JobPlanner::JobPlanner(const SweepSpec& spec) : sections_(spec) {
  const uint64_t cells = CellCount(spec);
  for (const Stage stage : spec.stages) {
    Projection projection(spec, KeyAxesOf(spec, stage));
    const bool remember = projection.size() < cells;
    memos_.push_back({stage, std::move(projection), remember, {}});
  }
}

size_t JobPlanner::SlotOf(Stage stage) const {
  const auto it =
      std::find_if(memos_.begin(), memos_.end(),
                   [&](const StageMemo& memo) { return memo.stage == stage; });
  if (it == memos_.end()) std::abort();  // REQUIRES: spec.Has(stage)
  return static_cast<size_t>(it - memos_.begin());
}

const Projection& JobPlanner::KeyAxes(Stage stage) const {
  return memos_[SlotOf(stage)].projection;
}

absl::StatusOr<std::vector<JobKey>> JobPlanner::Dependencies(
    Stage stage, absl::Span<const uint64_t> digits) {
  std::vector<JobKey> keys;
  if (!DependsOnTrain(stage)) return keys;
  ASSIGN_OR_RETURN(const PlannedJob train, Job(Stage::kTrain, digits));
  keys.push_back(train.key);
  return keys;
}

absl::StatusOr<PlannedJob> JobPlanner::Job(Stage stage,
                                           absl::Span<const uint64_t> digits) {
  StageMemo& memo = memos_[SlotOf(stage)];
  const uint64_t point = memo.projection.IndexOf(digits);
  if (memo.remember) {
    const auto known = memo.jobs.find(point);
    if (known != memo.jobs.end()) return known->second;
  }
  ASSIGN_OR_RETURN(const std::vector<JobKey> dependencies,
                   Dependencies(stage, digits));
  sections_.Set(digits);
  ASSIGN_OR_RETURN(PlannedJob job,
                   PlanJob(sections_.Sections(), stage, dependencies));
  if (memo.remember) {
    if (memo.jobs.size() >= kMostRemembered) memo.jobs.clear();
    memo.jobs.emplace(point, job);
  }
  return job;
}

CellExpander::CellExpander(const SweepSpec& spec)
    : spec_(spec),
      count_(CellCount(spec)),
      grid_(WholeGrid(spec)),
      planner_(spec),
      digits_(spec.axes.size(), 0),
      by_path_(spec.axes.size()),
      texts_(spec.axes.size()) {
  std::iota(by_path_.begin(), by_path_.end(), size_t{0});
  std::sort(by_path_.begin(), by_path_.end(), [&](size_t a, size_t b) {
    return spec.axes[a].path < spec.axes[b].path;
  });
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (!std::holds_alternative<std::vector<AxisValue>>(spec.axes[i].values))
      continue;
    for (uint64_t digit = 0; digit < spec.axes[i].size(); ++digit)
      texts_[i].push_back(spec.axes[i].JsonAt(digit));
  }
}

std::string CellExpander::JsonOf(size_t axis, uint64_t digit) const {
  return texts_[axis].empty() ? spec_.axes[axis].JsonAt(digit)
                              : texts_[axis][digit];
}

void CellExpander::Describe(Cell* cell) const {
  std::vector<std::string> members(spec_.axes.size());
  for (size_t i = 0; i < members.size(); ++i) {
    members[i] =
        absl::StrCat("\"", spec_.axes[i].path, "\":", JsonOf(i, digits_[i]));
  }
  cell->axes_json = absl::StrCat("{", absl::StrJoin(members, ","), "}");
  // Stored cells are found by this: changing it needs a schema version.
  std::string identity;
  for (const size_t axis : by_path_)
    absl::StrAppend(&identity, members[axis], "\n");
  cell->key_hex = Sha256Hex(identity);
}

absl::StatusOr<Cell> CellExpander::Expand(uint64_t index) {
  if (index >= count_) {
    return absl::OutOfRangeError(absl::StrCat(
        "cell ", index, " of sweep ", spec_.name, ", which has ", count_));
  }
  grid_.DigitsAt(spec_.cells == nullptr ? index : spec_.cells->PointOf(index),
                 &digits_);
  Cell cell;
  cell.index = index;
  Describe(&cell);
  for (const Stage stage : spec_.stages) {
    ASSIGN_OR_RETURN(PlannedJob job, planner_.Job(stage, digits_));
    // Train comes first in spec.stages, and so in cell.jobs.
    if (DependsOnTrain(stage)) job.depends_on.push_back(0);
    cell.jobs.push_back(std::move(job));
  }
  return cell;
}

}  // namespace iclsweep
