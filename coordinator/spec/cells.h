// Cells and their jobs: what one point of the grid asks for, with the key of
// every job. Keys depend only on the axes a stage reads, so they are remembered
// per projection and a large grid expands at about the cost of its largest
// stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/spec/grid.h"
#include "coordinator/spec/sweep_spec.h"
#include "proto/base/domain.h"

namespace iclsweep {

struct PlannedJob {
  Stage stage = Stage::kTrain;
  JobKey key;
  std::string
      inputs;  // the stage's message, serialized; equal keys have equal bytes
  std::vector<int> depends_on;  // indices into Cell::jobs
};

struct Cell {
  uint64_t index = 0;
  std::string key_hex;  // identity: SHA-256 of its axis values, whatever the
                        // order of the axes in the file
  std::string
      axes_json;  // {"model.size":"tiny","prompt.task_order":"0-1-2","prompt.angle_degrees":45}
  std::vector<PlannedJob> jobs;  // one per stage, in the order of kAllStages
};

// At least 1: a sweep without a grid is one cell. ParseSweep has bounded it.
uint64_t CellCount(const SweepSpec& spec);

// One cell. To expand many, use CellExpander.
// Errors: OutOfRange when index >= CellCount(spec).
absl::StatusOr<Cell> ExpandCell(const SweepSpec& spec, uint64_t index);

// The jobs of grid points given by their digits (grid.h). Not thread-safe;
// `spec` must outlive it.
class JobPlanner {
 public:
  explicit JobPlanner(const SweepSpec& spec);

  // `depends_on` is left empty.
  absl::StatusOr<PlannedJob> Job(Stage stage,
                                 absl::Span<const uint64_t> digits);
  // Keys of the jobs that Job(stage, digits) depends on.
  absl::StatusOr<std::vector<JobKey>> Dependencies(
      Stage stage, absl::Span<const uint64_t> digits);
  // REQUIRES (here and above): spec.Has(stage). The axes on which the stage's
  // key depends, through its dependencies too.
  const Projection& KeyAxes(Stage stage) const;

 private:
  struct StageMemo {
    Stage stage;
    Projection projection;
    bool remember;  // false where every cell has its own job
    absl::flat_hash_map<uint64_t, PlannedJob> jobs;
  };
  size_t SlotOf(Stage stage) const;

  CellSections sections_;
  std::vector<StageMemo> memos_;
};

// Not thread-safe; `spec` must outlive it.
class CellExpander {
 public:
  explicit CellExpander(const SweepSpec& spec);
  absl::StatusOr<Cell> Expand(
      uint64_t index);  // any order; neighbours are cheapest

 private:
  std::string JsonOf(size_t axis, uint64_t digit) const;
  void Describe(Cell* cell) const;

  const SweepSpec& spec_;
  uint64_t count_;
  Projection grid_;
  JobPlanner planner_;
  std::vector<uint64_t> digits_;
  std::vector<size_t> by_path_;  // axes sorted by path
  std::vector<std::vector<std::string>>
      texts_;  // JSON of listed values; empty for generated axes
};

// Indices of the axes that a stage's own message depends on.
std::vector<int> AxesReadBy(const SweepSpec& spec, Stage stage);
// A job from the sections of a cell. Errors: those of Resolve and of the
// canonical form.
absl::StatusOr<PlannedJob> PlanJob(const v1::SweepFile& cell, Stage stage,
                                   absl::Span<const JobKey> dependencies);

}  // namespace iclsweep
