// What the loop does for each call of a worker.
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/loop/loop.h"
#include "proto/base/status_macros.h"
#include "proto/convert.h"
#include "spdlog/spdlog.h"

namespace iclsweep {
namespace {

constexpr int64_t kLongestPollMs = 30'000;

uint32_t UsableStages(const v1::RegisterRequest& request) {
  uint32_t stages = 0;
  if (request.format_version() != kKeyFormatVersion) return stages;
  for (const v1::StageNumerics& numerics : request.numerics()) {
    const auto stage = StageFromName(numerics.stage());
    if (stage.has_value() && numerics.version() == NumericsVersion(*stage))
      stages |= StageBit(*stage);
  }
  return stages;
}

// What the store would refuse: the same measurement or curve point twice. Found
// here, so that one bad result never fails the batch it came in.
absl::Status CheckNoRepeats(const StageResult& result) {
  std::set<std::tuple<absl::string_view, absl::string_view, int, int, int, int>>
      rows;
  for (const Measurement& m : result.measurements) {
    if (!rows.insert({m.predictor, m.name, m.task, m.position, m.layer, m.head})
             .second) {
      return absl::InvalidArgumentError(
          absl::StrCat("completion.measurements: ", m.predictor, " ", m.name,
                       " (task ", m.task, ", position ", m.position, ", layer ",
                       m.layer, ", head ", m.head, ") is given twice"));
    }
  }
  std::set<std::pair<absl::string_view, int64_t>> points;
  for (const CurvePoint& point : result.curve) {
    if (!points.insert({point.name, point.step}).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("completion.curve: ", point.name, " at step ",
                       point.step, " is given twice"));
    }
  }
  return absl::OkStatus();
}

// Every job that another one needs leaves an artifact.
absl::Status SetDependencies(const std::vector<JobPayload::Input>& inputs,
                             v1::LeasedJob* job) {
  for (const JobPayload::Input& input : inputs) {
    if (!input.artifact.has_value()) {
      return absl::DataLossError(absl::StrCat(
          "the database has no artifact of the ", StageName(input.stage),
          " job ", ToHex(input.key), " that this one needs"));
    }
    v1::Dependency* dependency = job->add_dependencies();
    dependency->set_job_key(input.key.bytes.data(), input.key.bytes.size());
    dependency->set_stage(std::string(StageName(input.stage)));
    dependency->set_artifact_path(input.artifact->path);
    dependency->set_artifact_sha256(input.artifact->sha256);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Loop::Handle(RegisterCall& call) {
  const v1::RegisterRequest& request = *call.request;
  const WorkerRow row{WorkerId{},
                      request.slot_uuid(),
                      request.slot_name(),
                      request.pid(),
                      epoch_,
                      FromWire(request.provenance())};
  ASSIGN_OR_RETURN(const WorkerId worker,
                   store_->InsertWorker(row, clock_->WallMicros()));
  WorkerRegistered event;
  event.worker = worker;
  event.slot = request.slot_uuid();
  event.stages = UsableStages(request);
  for (const v1::HeldLease& held : request.held())
    event.held.push_back(FromWire(held));
  if (request.has_predecessor()) {
    const v1::PredecessorExit& exit = request.predecessor();
    event.predecessor.lease = {JobId{exit.job_id()}, exit.attempt()};
    event.predecessor.steps_run = exit.steps_run();
    event.predecessor.checkpointed = exit.checkpointed();
    event.predecessor_cause =
        CauseFromName(exit.cause()).value_or(Cause::kCrashed);
    event.predecessor_message = exit.description();
    event.predecessor_log = exit.log_tail();
  }
  if (event.stages == 0) {
    spdlog::warn(
        "worker {} (build {}) runs no stage in this coordinator's version; it "
        "will get no jobs",
        request.slot_name(), request.provenance().build());
  }
  // A slot has one process.
  std::erase_if(workers_told_, [&](const auto& entry) {
    return entry.second.told.slot_uuid() == request.slot_uuid();
  });
  WorkerFacts& facts = workers_told_[worker];
  facts = {request, clock_->WallMicros(), 0};
  facts.told.clear_held();
  facts.told.clear_predecessor();
  ASSIGN_OR_RETURN(const Effects effects, Apply(event));
  RETURN_IF_ERROR(TellOfWorker("worker_registered", worker));
  v1::RegisterResponse* response = call.response;
  response->set_worker_id(worker.value);
  response->set_database_uuid(database_uuid_);
  response->set_epoch(epoch_);
  response->set_artifact_dir(options_.artifact_dir);
  response->set_artifact_probe(options_.artifact_probe);
  response->set_partial_dir(options_.partial_dir);
  response->set_log_dir(options_.log_dir);
  response->set_heartbeat_ms(
      static_cast<uint32_t>(options_.heartbeat_us / 1000));
  response->set_lease_ms(static_cast<uint32_t>(options_.lease_us / 1000));
  response->set_checkpoint_every_steps(
      static_cast<uint64_t>(options_.checkpoint_every_steps));
  for (const LeaseRef& lease : effects.revoked)
    *response->add_revoked() = ToWire(LeaseProgress{lease});
  Reply(std::move(call.done), absl::OkStatus());
  return absl::OkStatus();
}

absl::Status Loop::Handle(LeaseCall& call) {
  const v1::LeaseRequest& request = *call.request;
  LeaseRequested event;
  event.worker = WorkerId{request.worker_id()};
  event.request = request.request_id();
  event.max_jobs = request.max_jobs();
  event.wait_until_us =
      clock_->MonotonicMicros() +
      std::min<int64_t>(request.wait_ms(), kLongestPollMs) * 1000;
  parked_[{event.worker, event.request}].push_back(
      {call.request, call.response, std::exchange(call.done, nullptr)});
  return Apply(event).status();
}

absl::Status Loop::Handle(LeaseCancelled& call) {
  return Apply(LeaseAbandoned{call.worker, call.request}).status();
}

absl::Status Loop::FillLease(const LeaseAnswered& answer,
                             v1::LeaseResponse* response,
                             std::vector<Completed>* unreadable) {
  for (const LeaseRef& lease : answer.leases) {
    ASSIGN_OR_RETURN(const std::optional<JobPayload> payload,
                     store_->Payload(lease.job));
    if (!payload.has_value())
      return absl::InternalError(
          absl::StrCat("job ", lease.job.value, " has no row"));
    v1::LeasedJob* job = response->add_jobs();
    job->set_job_id(lease.job.value);
    job->set_attempt(lease.attempt);
    job->set_job_key(payload->key.bytes.data(), payload->key.bytes.size());
    absl::Status status = SetInputs(payload->stage, payload->inputs, job);
    if (status.ok()) status = SetDependencies(payload->dependencies, job);
    if (!status.ok()) {
      // The job's own rows are damaged: it fails, the others go on.
      response->mutable_jobs()->RemoveLast();
      unreadable->push_back({answer.worker, lease, AttemptOutcome::kFailed,
                             Cause::kInvalid, std::string(status.message())});
      continue;
    }
  }
  return absl::OkStatus();
}

absl::Status Loop::Handle(SyncCall& call) {
  Synced event;
  event.worker = WorkerId{call.request->worker_id()};
  for (const v1::HeldLease& held : call.request->held())
    event.held.push_back(FromWire(held));
  ASSIGN_OR_RETURN(const Effects effects, Apply(event));
  for (const LeaseRef& lease : effects.revoked)
    *call.response->add_revoked() = ToWire(LeaseProgress{lease});
  call.response->set_register_again(effects.unknown_worker);
  call.response->set_drain(effects.drain);
  call.response->set_drain_now(effects.drain_now);
  call.response->set_next_sync_ms(
      static_cast<uint32_t>(options_.heartbeat_us / 1000));
  call.response->set_epoch(epoch_);
  Reply(std::move(call.done), absl::OkStatus());
  return absl::OkStatus();
}

absl::Status Loop::NoteDone(WorkerId worker, const Completion& completion,
                            Stage stage) {
  const auto facts = workers_told_.find(worker);
  if (facts != workers_told_.end()) ++facts->second.jobs_done;
  if (stage != Stage::kTrain) return absl::OkStatus();
  done_keys_.push_back(ToHex(completion.key));
  return Tell({"job_done", {}, completion.lease, worker, ""});
}

absl::Status Loop::CompleteOne(WorkerId worker, const v1::Completion& wire,
                               v1::CompleteResponse* response) {
  absl::StatusOr<Completion> completion = FromWire(wire);
  if (!completion.ok()) return completion.status();
  RETURN_IF_ERROR(CheckNoRepeats(completion->result));
  if (completion->database_uuid != database_uuid_) {
    spdlog::warn(
        "a result for database {} arrived here, in {}; refused as stale",
        completion->database_uuid, database_uuid_);
    response->add_verdicts(v1::COMPLETION_VERDICT_STALE);
    return absl::OkStatus();
  }
  // A database restored from a backup gives old job ids to new jobs.
  ASSIGN_OR_RETURN(const std::optional<JobIdentity> job,
                   store_->Identity(completion->lease.job));
  if (!job.has_value() || job->key != completion->key) {
    spdlog::warn("a result for job {} has another job's key; refused as stale",
                 completion->lease.job.value);
    response->add_verdicts(v1::COMPLETION_VERDICT_STALE);
    return absl::OkStatus();
  }
  Completed event;
  event.worker = worker;
  event.lease = completion->lease;
  event.outcome = completion->outcome;
  event.cause = completion->cause;
  event.message = completion->message;
  event.steps_run = completion->steps_run;
  event.duration_us = completion->duration_us;
  ASSIGN_OR_RETURN(const Effects effects, Apply(event));
  switch (effects.verdict) {
    case Verdict::kCommitted:
      response->add_verdicts(v1::COMPLETION_VERDICT_COMMITTED);
      if (completion->outcome != AttemptOutcome::kDone) return absl::OkStatus();
      RETURN_IF_ERROR(store_->InsertResult(*completion, clock_->WallMicros()));
      return NoteDone(worker, *completion, job->stage);
    case Verdict::kAlreadyCommitted:
      response->add_verdicts(v1::COMPLETION_VERDICT_ALREADY_COMMITTED);
      return absl::OkStatus();
    case Verdict::kStale:
      response->add_verdicts(v1::COMPLETION_VERDICT_STALE);
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Loop::Handle(CompleteCall& call) {
  for (const v1::Completion& wire : call.request->completions()) {
    const absl::Status status =
        CompleteOne(WorkerId{call.request->worker_id()}, wire, call.response);
    if (absl::IsInvalidArgument(status)) {
      call.response->Clear();
      Reply(std::move(call.done), status);
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(status);
  }
  Reply(std::move(call.done), absl::OkStatus());
  return absl::OkStatus();
}

absl::Status Loop::Handle(ReleaseCall& call) {
  for (const v1::ReleasedLease& wire : call.request->leases()) {
    Released event;
    event.worker = WorkerId{call.request->worker_id()};
    event.lease = {JobId{wire.job_id()}, wire.attempt()};
    event.cause = CauseFromName(wire.cause()).value_or(Cause::kDrained);
    event.steps_run = wire.steps_run();
    RETURN_IF_ERROR(Apply(event).status());
  }
  const WorkerId worker{call.request->worker_id()};
  if (call.request->leaving()) {
    RETURN_IF_ERROR(Apply(Departed{worker}).status());
    RETURN_IF_ERROR(TellOfWorker("worker_left", worker));
  }
  Reply(std::move(call.done), absl::OkStatus());
  return absl::OkStatus();
}

}  // namespace iclsweep
