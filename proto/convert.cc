#include "proto/convert.h"

#include "absl/strings/str_cat.h"

namespace iclsweep {

v1::HeldLease ToWire(const LeaseProgress& progress) {
  v1::HeldLease held;
  held.set_job_id(progress.lease.job.value);
  held.set_attempt(progress.lease.attempt);
  held.set_steps_run(progress.steps_run);
  held.set_steps_done(progress.steps_done);
  held.set_steps_total(progress.steps_total);
  held.set_checkpointed(progress.checkpointed);
  held.set_waiting(progress.waiting);
  return held;
}

LeaseProgress FromWire(const v1::HeldLease& held) {
  LeaseProgress progress;
  progress.lease = {JobId{held.job_id()}, held.attempt()};
  progress.steps_run = held.steps_run();
  progress.steps_done = held.steps_done();
  progress.steps_total = held.steps_total();
  progress.checkpointed = held.checkpointed();
  progress.waiting = held.waiting();
  return progress;
}

v1::Provenance ToWire(const Provenance& provenance) {
  v1::Provenance wire;
  wire.set_build(provenance.build);
  wire.set_torch_version(provenance.torch_version);
  wire.set_device_kind(provenance.device_kind);
  wire.set_threads(provenance.threads);
  wire.set_host(provenance.host);
  return wire;
}

Provenance FromWire(const v1::Provenance& wire) {
  return {wire.build(), wire.torch_version(), wire.device_kind(),
          wire.threads(), wire.host()};
}

namespace {

v1::Measurement MeasurementToWire(const Measurement& m) {
  v1::Measurement wire;
  wire.set_predictor(m.predictor);
  wire.set_name(m.name);
  wire.set_task(m.task);
  wire.set_position(m.position);
  wire.set_layer(m.layer);
  wire.set_head(m.head);
  wire.set_value(m.value);
  wire.set_standard_error(m.standard_error);
  wire.set_n(m.n);
  return wire;
}

Measurement MeasurementFromWire(const v1::Measurement& wire) {
  Measurement m;
  m.predictor = wire.predictor();
  m.name = wire.name();
  m.task = wire.task();
  m.position = wire.position();
  m.layer = wire.layer();
  m.head = wire.head();
  m.value = wire.value();
  m.standard_error = wire.standard_error();
  m.n = wire.n();
  return m;
}

}  // namespace

v1::Completion ToWire(const Completion& completion) {
  v1::Completion wire;
  wire.set_job_id(completion.lease.job.value);
  wire.set_attempt(completion.lease.attempt);
  wire.set_job_key(completion.key.bytes.data(), completion.key.bytes.size());
  wire.set_database_uuid(completion.database_uuid);
  wire.set_outcome(std::string(AttemptOutcomeName(completion.outcome)));
  wire.set_cause(std::string(CauseName(completion.cause)));
  wire.set_message(completion.message);
  wire.set_steps_run(completion.steps_run);
  wire.set_duration_us(completion.duration_us);
  wire.set_non_finite(completion.result.non_finite);
  wire.set_extrapolated(completion.result.extrapolated);
  for (const Measurement& m : completion.result.measurements)
    *wire.add_measurements() = MeasurementToWire(m);
  for (const CurvePoint& point : completion.result.curve) {
    v1::CurvePoint* added = wire.add_curve();
    added->set_name(point.name);
    added->set_step(point.step);
    added->set_value(point.value);
  }
  if (completion.result.artifact.has_value()) {
    wire.mutable_artifact()->set_path(completion.result.artifact->path);
    wire.mutable_artifact()->set_sha256(completion.result.artifact->sha256);
    wire.mutable_artifact()->set_bytes(completion.result.artifact->bytes);
  }
  *wire.mutable_provenance() = ToWire(completion.provenance);
  return wire;
}

absl::StatusOr<Completion> FromWire(const v1::Completion& wire) {
  Completion completion;
  completion.lease = {JobId{wire.job_id()}, wire.attempt()};
  const auto key = JobKeyFromBytes(wire.job_key());
  if (!key.has_value())
    return absl::InvalidArgumentError("completion.job_key: must be 32 bytes");
  completion.key = *key;
  completion.database_uuid = wire.database_uuid();
  if (wire.outcome() == AttemptOutcomeName(AttemptOutcome::kDone)) {
    completion.outcome = AttemptOutcome::kDone;
  } else if (wire.outcome() == AttemptOutcomeName(AttemptOutcome::kFailed)) {
    completion.outcome = AttemptOutcome::kFailed;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "completion.outcome: '", wire.outcome(), "' is not done or failed"));
  }
  const auto cause = CauseFromName(wire.cause());
  if (!cause.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("completion.cause: '", wire.cause(), "' is not a cause"));
  }
  completion.cause = *cause;
  completion.message = wire.message();
  completion.steps_run = wire.steps_run();
  completion.duration_us = wire.duration_us();
  completion.result.non_finite = wire.non_finite();
  completion.result.extrapolated = wire.extrapolated();
  for (const auto& m : wire.measurements())
    completion.result.measurements.push_back(MeasurementFromWire(m));
  for (const auto& point : wire.curve()) {
    completion.result.curve.push_back(
        {point.name(), point.step(), point.value()});
  }
  if (wire.has_artifact()) {
    completion.result.artifact =
        Artifact{wire.artifact().path(), wire.artifact().sha256(),
                 wire.artifact().bytes()};
  }
  completion.provenance = FromWire(wire.provenance());
  return completion;
}

absl::Status SetInputs(Stage stage, const std::string& serialized,
                       v1::LeasedJob* job) {
  google::protobuf::Message* message = nullptr;
  switch (stage) {
    case Stage::kTrain:
      message = job->mutable_train();
      break;
    case Stage::kEvaluate:
      message = job->mutable_evaluate();
      break;
    case Stage::kCompare:
      message = job->mutable_compare();
      break;
    case Stage::kTheory:
      message = job->mutable_theory();
      break;
    case Stage::kNoop:
      message = job->mutable_noop();
      break;
  }
  job->set_stage(std::string(StageName(stage)));
  if (message == nullptr || !message->ParseFromString(serialized)) {
    return absl::InternalError(absl::StrCat(
        "stored inputs of a ", StageName(stage), " job cannot be read"));
  }
  return absl::OkStatus();
}

absl::StatusOr<const google::protobuf::Message*> InputsOf(
    const v1::LeasedJob& job) {
  const auto stage = StageFromName(job.stage());
  const google::protobuf::Message* message = nullptr;
  if (stage == Stage::kTrain && job.has_train()) message = &job.train();
  if (stage == Stage::kEvaluate && job.has_evaluate())
    message = &job.evaluate();
  if (stage == Stage::kCompare && job.has_compare()) message = &job.compare();
  if (stage == Stage::kTheory && job.has_theory()) message = &job.theory();
  if (stage == Stage::kNoop && job.has_noop()) message = &job.noop();
  if (message == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", job.job_id(), ": stage '", job.stage(),
                     "' does not match its inputs"));
  }
  return message;
}

}  // namespace iclsweep
