// Submitting a sweep, and its expansion into cells and jobs in steps that
// interleave with everything else.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/loop/loop.h"
#include "coordinator/spec/freeze.h"
#include "proto/base/status_macros.h"

namespace iclsweep {

absl::Status Loop::Handle(SubmitCall& call) {
  const SweepSpec& spec = call.spec;
  ASSIGN_OR_RETURN(const std::optional<SweepRow> known,
                   store_->FindSweep(spec.name));
  call.response->set_name(spec.name);
  call.response->set_cells(CellCount(spec));
  if (known.has_value()) {
    if (known->spec_hash == spec.hash_hex) {
      call.response->set_resumed(true);
      Reply(std::move(call.done), absl::OkStatus());
      return absl::OkStatus();
    }
    std::string diff = "(its stored file cannot be read by this version)";
    const absl::StatusOr<SweepSpec> before =
        ParseSweep(known->spec_yaml, "stored",
                   ParseOptions{std::numeric_limits<uint64_t>::max()});
    if (before.ok()) diff = absl::StrJoin(DiffSpecs(*before, spec), "\n  ");
    Reply(
        std::move(call.done),
        absl::FailedPreconditionError(absl::StrCat(
            "sweep '", spec.name,
            "' exists with another specification; give this one another name. "
            "Stored -> submitted:\n  ",
            diff)));
    return absl::OkStatus();
  }
  SweepRow row;
  row.name = spec.name;
  row.spec_yaml = call.yaml;
  row.spec_hash = spec.hash_hex;
  row.cells_total = CellCount(spec);
  row.submitted_us = clock_->WallMicros();
  std::vector<AxisRow> axes;
  for (const Axis& axis : spec.axes) axes.push_back({axis.path});
  ASSIGN_OR_RETURN(const SweepId id, store_->InsertSweep(row, axes));
  StartExpansion(id, row.revision, 0, std::move(call.spec));
  Reply(std::move(call.done), absl::OkStatus());
  return absl::OkStatus();
}

absl::StatusOr<NewJob> Loop::StorePlannedJob(const PlannedJob& planned,
                                             const std::vector<JobId>& ids,
                                             uint32_t max_attempts) {
  NewJobRow row{planned.key, planned.stage, planned.inputs, {}, max_attempts};
  for (const int parent : planned.depends_on)
    row.depends_on.push_back(ids[static_cast<size_t>(parent)]);
  bool inserted = false;
  ASSIGN_OR_RETURN(const JobRow stored,
                   store_->UpsertJob(row, clock_->WallMicros(), &inserted));
  return NewJob{stored.id,           stored.stage, row.depends_on, stored.state,
                stored.last_attempt, max_attempts, SweepId{}};
}

void Loop::StartExpansion(SweepId id, int revision, uint64_t cursor,
                          SweepSpec spec) {
  Expansion expansion{id, revision, cursor,
                      std::make_unique<SweepSpec>(std::move(spec)), nullptr};
  expansion.expander = std::make_unique<CellExpander>(*expansion.spec);
  expansions_.push_back(std::move(expansion));
}

absl::Status Loop::ExpandSome() {
  if (expansions_.empty()) return absl::OkStatus();
  Expansion& expansion = expansions_.front();
  const uint64_t end = std::min(CellCount(*expansion.spec),
                                expansion.cursor + options_.cells_per_step);
  JobsAdded added;
  for (uint64_t index = expansion.cursor; index < end; ++index) {
    ASSIGN_OR_RETURN(const Cell cell, expansion.expander->Expand(index));
    CellRow row{cell.key_hex, cell.index, cell.axes_json, {}};
    for (const PlannedJob& planned : cell.jobs) {
      ASSIGN_OR_RETURN(
          NewJob job,
          StorePlannedJob(planned, row.jobs,
                          static_cast<uint32_t>(
                              expansion.spec->base.limits().max_attempts())));
      row.jobs.push_back(job.id);
      added.jobs.push_back(std::move(job));
    }
    RETURN_IF_ERROR(store_->InsertCell(expansion.id, expansion.revision, row));
  }
  RETURN_IF_ERROR(store_->SetCellsExpanded(expansion.id, end));
  RETURN_IF_ERROR(Apply(added).status());
  expansion.cursor = end;
  if (end == CellCount(*expansion.spec)) expansions_.pop_front();
  return absl::OkStatus();
}

}  // namespace iclsweep
