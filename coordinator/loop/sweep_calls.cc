// Submitting a sweep, and its expansion into cells and jobs in steps that
// interleave with everything else.
#include <algorithm>
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
      RETURN_IF_ERROR(Reactivate(*known, std::move(call.spec)));
      Reply(std::move(call.done), absl::OkStatus());
      return absl::OkStatus();
    }
    std::string diff = "(its stored file cannot be read by this version)";
    const absl::StatusOr<SweepSpec> before =
        ParseStoredSweep(known->spec_yaml, spec.name);
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
  RETURN_IF_ERROR(store_->InsertForecast(id, call.forecast));
  StartExpansion(id, row.revision, 0, std::move(call.spec));
  RETURN_IF_ERROR(Tell({"sweep_submitted",
                        id,
                        {},
                        {},
                        absl::StrCat(row.cells_total, " cells")}));
  Reply(std::move(call.done), absl::OkStatus());
  return absl::OkStatus();
}

absl::Status Loop::Reactivate(const SweepRow& row, SweepSpec spec) {
  RETURN_IF_ERROR(Tell({"sweep_resumed", row.id, {}, {}, ""}));
  if (row.cancelled_us == 0) return absl::OkStatus();
  RETURN_IF_ERROR(store_->SetCancelled(row.id, 0));
  RETURN_IF_ERROR(Apply(SweepActivated{row.id}).status());
  if (row.cells_expanded < row.cells_total)
    StartExpansion(row.id, row.revision, row.cells_expanded, std::move(spec));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<SweepRow>> Loop::FindNamedSweep(
    const std::string& name, std::function<void(absl::Status)>* done) {
  ASSIGN_OR_RETURN(std::optional<SweepRow> row, store_->FindSweep(name));
  if (!row.has_value())
    Reply(std::move(*done),
          absl::NotFoundError(absl::StrCat("there is no sweep '", name, "'")));
  return row;
}

absl::Status Loop::Handle(CancelCall& call) {
  ASSIGN_OR_RETURN(const std::optional<SweepRow> row,
                   FindNamedSweep(call.request->sweep(), &call.done));
  if (!row.has_value()) return absl::OkStatus();
  call.response->set_already_cancelled(row->cancelled_us != 0);
  if (row->cancelled_us == 0) {
    RETURN_IF_ERROR(store_->SetCancelled(row->id, clock_->WallMicros()));
    std::erase_if(expansions_, [&](const Expansion& expansion) {
      return expansion.id == row->id;
    });
    ASSIGN_OR_RETURN(const Effects effects, Apply(SweepCancelled{row->id}));
    call.response->set_jobs_stopped(effects.attempts_finished.size());
    RETURN_IF_ERROR(Tell({"sweep_cancelled", row->id, {}, {}, ""}));
  }
  call.response->set_jobs_open(OpenJobs(core_.CountsOf(row->id)));
  Reply(std::move(call.done), absl::OkStatus());
  return absl::OkStatus();
}

absl::Status Loop::Handle(RetryCall& call) {
  const std::optional<Cause> cause = CauseFromName(call.request->cause());
  if (!cause.has_value()) {
    Reply(std::move(call.done),
          absl::InvalidArgumentError(
              absl::StrCat("cause: '", call.request->cause(), "' is not one")));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::optional<SweepRow> row,
                   FindNamedSweep(call.request->sweep(), &call.done));
  if (!row.has_value()) return absl::OkStatus();
  Retried event;
  ASSIGN_OR_RETURN(event.jobs, store_->FailedJobs(row->id, *cause));
  for (const JobId job : event.jobs)
    RETURN_IF_ERROR(store_->ForgiveFailures(job));
  call.response->set_jobs(event.jobs.size());
  call.response->set_cancelled(row->cancelled_us != 0);
  RETURN_IF_ERROR(Apply(event).status());
  RETURN_IF_ERROR(Tell({"jobs_retried",
                        row->id,
                        {},
                        {},
                        absl::StrCat(event.jobs.size(), " jobs")}));
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
  Expansion expansion{id,      revision,
                      cursor,  std::make_unique<SweepSpec>(std::move(spec)),
                      nullptr, {}};
  expansion.expander = std::make_unique<CellExpander>(*expansion.spec);
  expansion.order.emplace(CellCount(*expansion.spec),
                          expansion.spec->base.shuffle());
  expansions_.push_back(std::move(expansion));
}

absl::Status Loop::ExpandCell(Expansion* expansion, uint64_t index,
                              JobsAdded* added) {
  ASSIGN_OR_RETURN(const Cell cell, expansion->expander->Expand(index));
  const auto max_attempts =
      static_cast<uint32_t>(expansion->spec->base.limits().max_attempts());
  CellRow row{cell.key_hex, cell.index, cell.axes_json, {}};
  for (const PlannedJob& planned : cell.jobs) {
    ASSIGN_OR_RETURN(NewJob job,
                     StorePlannedJob(planned, row.jobs, max_attempts));
    job.sweep = expansion->id;
    row.jobs.push_back(job.id);
    added->jobs.push_back(std::move(job));
  }
  return store_->InsertCell(expansion->id, expansion->revision, row);
}

absl::Status Loop::ExpandSome() {
  if (expansions_.empty()) return absl::OkStatus();
  Expansion& expansion = expansions_.front();
  const uint64_t cells = CellCount(*expansion.spec);
  const uint64_t end =
      std::min(cells, expansion.cursor + options_.cells_per_step);
  const int64_t until_us = clock_->MonotonicMicros() + options_.step_us;
  JobsAdded added;
  while (expansion.cursor < end && clock_->MonotonicMicros() < until_us)
    RETURN_IF_ERROR(ExpandCell(
        &expansion, expansion.order->At(expansion.cursor++), &added));
  RETURN_IF_ERROR(store_->SetCellsExpanded(expansion.id, expansion.cursor));
  RETURN_IF_ERROR(Apply(added).status());
  if (expansion.cursor < cells) return absl::OkStatus();
  const SweepId id = expansion.id;
  expansions_.pop_front();
  return Tell({"sweep_expanded", id, {}, {}, absl::StrCat(cells, " cells")});
}

}  // namespace iclsweep
