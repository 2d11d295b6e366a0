#include "worker/agent/agent.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/agent/repeat.h"

namespace iclsweep {
namespace {

// The probe's name is fixed by the coordinator; its content is the database's
// identity.
constexpr char kProbe[] = "/.iclsweep-probe";

// Results handed in together.
constexpr size_t kGroup = 64;
constexpr size_t kGroupBytes = 1 << 20;
constexpr int64_t kGroupUs = 1'000'000;

// How many of the first entries make up a group.
size_t FirstGroup(const std::vector<Slot::Spooled>& spooled) {
  size_t count = 0;
  size_t bytes = 0;
  while (count < std::min(kGroup, spooled.size())) {
    bytes += spooled[count].encoded.size();
    if (count > 0 && bytes > kGroupBytes) break;
    ++count;
  }
  return count;
}

bool TryAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status) || absl::IsAborted(status) ||
         absl::IsInternal(status) || absl::IsUnknown(status);
}

Cause CauseOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return Cause::kInvalid;
    case absl::StatusCode::kResourceExhausted:
      return Cause::kOutOfMemory;
    case absl::StatusCode::kAborted:
      return Cause::kDeviceError;
    default:
      return Cause::kFailed;
  }
}

}  // namespace

void Agent::Stop(Cause cause) {
  {
    MutexLock lock(&mu_);
    stop_cause_ = cause;
    stopping_ = true;
    stop_stage_ = true;
    wake_.notify_all();
  }
  bool running = false;
  {
    MutexLock lock(&mu_);
    running = running_.has_value();
  }
  if (!running) link_->Cancel();  // an idle worker sits in a poll
}

void Agent::Drain() {
  MutexLock lock(&mu_);
  draining_ = true;
  if (!stopping_) stop_cause_ = Cause::kDrained;
}

bool Agent::Pause(int64_t micros) {
  MutexLock lock(&mu_);
  if (!stopping_) lock.WaitFor(wake_, std::chrono::microseconds(micros));
  return !stopping_;
}

WorkerId Agent::worker() {
  MutexLock lock(&mu_);
  return registration_.worker;
}

std::vector<LeaseProgress> Agent::Held() {
  // What lies in the spool is finished work: its lease is kept until the
  // coordinator has acknowledged it.
  std::vector<LeaseProgress> held;
  for (const LeaseRef& lease : slot_->SpooledLeases()) held.push_back({lease});
  MutexLock lock(&mu_);
  if (running_.has_value() && !revoked_) held.push_back(*running_);
  for (const LeaseRef& lease : waiting_) {
    held.push_back({lease});
    held.back().waiting = true;
  }
  return held;
}

absl::Status Agent::Run() {
  const absl::Status status = Work();
  if (worker().value != 0) {
    if (const absl::Status left = link_->Leave(worker()); !left.ok()) {
      spdlog::info("could not say goodbye: {}", std::string(left.message()));
    }
  }
  return stopping_ ? absl::OkStatus() : status;
}

absl::Status Agent::Work() {
  RETURN_IF_ERROR(RegisterUntilAccepted());
  std::jthread heartbeat(
      [this](const std::stop_token& stop) { Heartbeat(stop); });
  if (!slot_->SpooledLeases().empty()) Fault("spool_found");
  last_work_us_ = clock_->MonotonicMicros();
  while (!stopping_ && !MayLeave()) RETURN_IF_ERROR(TakeTurn());
  return absl::OkStatus();
}

bool Agent::MayLeave() {
  MutexLock lock(&mu_);
  const int64_t idle = clock_->MonotonicMicros() - last_work_us_;
  return draining_ ||
         (options_.idle_timeout_us > 0 && idle >= options_.idle_timeout_us);
}

bool Agent::MustRegister() {
  MutexLock lock(&mu_);
  return std::exchange(must_register_, false);
}

absl::Status Agent::TakeTurn() {
  if (MustRegister()) RETURN_IF_ERROR(RegisterUntilAccepted());
  RETURN_IF_ERROR(DeliverSpool());
  const absl::StatusOr<LeaseReply> leased = AskForWork();
  if (absl::IsNotFound(leased.status())) {
    MutexLock lock(&mu_);
    must_register_ = true;
    return absl::OkStatus();
  }
  if (!leased.ok()) return leased.status();
  if (leased->drain) Drain();
  if (leased->jobs.empty()) return absl::OkStatus();
  absl::Status status = RunBundle(leased->jobs);
  last_work_us_ = clock_->MonotonicMicros();
  return status;
}

absl::StatusOr<LeaseReply> Agent::AskForWork() {
  // However often it is sent, nothing is leased twice.
  const std::string request =
      absl::StrCat(slot_->uuid(), "-", worker().value, "-", ++requests_);
  for (Repeat repeat("ask for work", clock_);;) {
    absl::StatusOr<LeaseReply> leased =
        link_->Lease(worker(), request, options_.bundle, options_.poll_us);
    if (leased.ok()) repeat.Answered();
    if (leased.ok() || stopping_ || !TryAgain(leased.status()) ||
        !Pause(repeat.After(leased.status())))
      return leased;
  }
}

absl::Status Agent::CheckSharedArtifacts(
    const Registration& registration) const {
  std::ifstream probe(registration.artifact_dir + kProbe);
  std::string uuid;
  if (probe && std::getline(probe, uuid) && uuid == registration.database_uuid)
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this machine does not see the coordinator's artifact directory ",
      registration.artifact_dir,
      "; put the coordinator's --data on a filesystem that both share"));
}

absl::Status Agent::Accept(Registration registration) {
  RETURN_IF_ERROR(CheckSharedArtifacts(registration));
  MutexLock lock(&mu_);
  for (const LeaseRef& lease : registration.revoked) Drop(lease);
  if (!running_.has_value()) slot_->ForgetPredecessor();
  registration_ = std::move(registration);
  return absl::OkStatus();
}

absl::Status Agent::RegisterUntilAccepted() {
  const SlotIdentity identity{slot_->uuid(), options_.slot_name};
  for (Repeat repeat("register", clock_); !stopping_;) {
    absl::StatusOr<Registration> registered =
        link_->Register(identity, Held(), slot_->ReadPredecessor());
    if (registered.ok()) {
      repeat.Answered();
      return Accept(*std::move(registered));
    }
    if (!TryAgain(registered.status())) return registered.status();
    Pause(repeat.After(registered.status()));
  }
  return absl::OkStatus();
}

absl::Status Agent::Send(size_t count) {
  std::vector<std::string> encoded;
  encoded.reserve(count);
  for (size_t i = 0; i < count; ++i)
    encoded.push_back(slot_->spooled()[i].encoded);
  for (Repeat repeat("deliver results (they stay in the spool)", clock_);;) {
    absl::Status sent = link_->Complete(worker(), encoded).status();
    if (sent.ok()) repeat.Answered();
    if (!TryAgain(sent)) return sent;
    if (Pause(repeat.After(sent))) continue;
    gave_up_ = true;
    return sent;
  }
}

absl::Status Agent::Deliver(size_t count) {
  absl::Status sent = Send(count);
  if (sent.ok()) return slot_->ForgetSpooled(count);
  if (!absl::IsInvalidArgument(sent)) return sent;
  if (count > 1) {  // one of them is refused: each alone tells which
    for (size_t i = 0; i < count; ++i) RETURN_IF_ERROR(Deliver(1));
    return absl::OkStatus();
  }
  const LeaseRef lease = slot_->spooled().front().lease;
  spdlog::error("the coordinator refuses the result of job {}, attempt {}: {}",
                lease.job.value, lease.attempt, std::string(sent.message()));
  return slot_->ForgetSpooled(1);
}

absl::Status Agent::DeliverSpool() {
  while (!slot_->spooled().empty()) {
    const absl::Status status = Deliver(FirstGroup(slot_->spooled()));
    if (gave_up_) break;  // the slot's next process delivers them
    RETURN_IF_ERROR(status);
  }
  delivered_us_ = clock_->MonotonicMicros();
  return absl::OkStatus();
}

absl::Status Agent::SyncAndDeliver() {
  if (slot_->spooled().empty() || gave_up_) return absl::OkStatus();
  RETURN_IF_ERROR(slot_->SyncSpool());
  Fault("after_spool");
  return DeliverSpool();
}

std::string Agent::LogFileOf(const LeasedWork& work) {
  MutexLock lock(&mu_);
  if (registration_.log_dir.empty()) return "";
  return AttemptLogFile(registration_.log_dir, work.key, work.lease.attempt);
}

StageContext Agent::ContextOf(const LeasedWork& work, AttemptLog* log) {
  MutexLock lock(&mu_);
  StageContext context;
  context.device = options_.device;
  context.device_kind = options_.provenance.device_kind;
  context.artifact_dir = registration_.artifact_dir;
  context.artifact_name = ToHex(work.key);
  if (!work.input_artifacts.empty()) {
    const Artifact& artifact = work.input_artifacts.front();
    context.checkpoint_dir =
        absl::StrCat(registration_.artifact_dir, "/", artifact.path);
    context.checkpoint_sha256 = artifact.sha256;
  }
  context.partial_dir =
      absl::StrCat(registration_.partial_dir, "/", ToHex(work.key));
  context.attempt = work.lease.attempt;
  context.checkpoint_every_steps = registration_.checkpoint_every_steps;
  context.stop = &stop_stage_;
  context.log = [log](const std::string& line) { log->Write(line); };
  context.progress = [this, log, stage = work.stage](
                         int64_t steps_run, int64_t done, int64_t total,
                         bool checkpointed) {
    OnProgress(stage, {{},
                       static_cast<uint64_t>(steps_run),
                       static_cast<uint64_t>(done),
                       static_cast<uint64_t>(total),
                       checkpointed});
    log->Progress(steps_run, done, total);
  };
  return context;
}

void Agent::OnProgress(Stage stage, LeaseProgress progress) {
  const bool checkpointed = progress.checkpointed;
  const bool midway = progress.steps_done < progress.steps_total;
  {
    MutexLock lock(&mu_);
    if (!running_.has_value()) return;
    progress.lease = running_->lease;
    progress.checkpointed |= running_->checkpointed;
    *running_ = progress;
  }
  slot_->MarkRunning(progress);
  if (!options_.fault) return;
  if (checkpointed) {
    Fault("checkpointed");
  } else if (midway) {
    Fault(absl::StrCat("progress.", StageName(stage)));
  }
}

bool Agent::MustLeave() {
  MutexLock lock(&mu_);
  return stopping_ || draining_;
}

absl::Status Agent::RunBundle(const std::vector<LeasedWork>& bundle) {
  {
    MutexLock lock(&mu_);
    for (const LeasedWork& work : bundle) waiting_.push_back(work.lease);
  }
  delivered_us_ = clock_->MonotonicMicros();
  absl::Status status;
  for (const LeasedWork& work : bundle) {
    if (!status.ok() || MustLeave()) break;
    if (Begin(work)) status = RunOne(work);
  }
  GiveBackWaiting();
  return status.ok() ? SyncAndDeliver() : status;
}

bool Agent::Begin(const LeasedWork& work) {
  MutexLock lock(&mu_);
  const auto waiting = std::find(waiting_.begin(), waiting_.end(), work.lease);
  if (waiting == waiting_.end()) return false;
  waiting_.erase(waiting);
  running_ = LeaseProgress{work.lease};
  revoked_ = false;
  stop_stage_ = stopping_.load();
  slot_->MarkRunning(*running_);
  return true;
}

Completion Agent::Describe(const LeasedWork& work,
                           const absl::StatusOr<StageResult>& result,
                           int64_t duration_us) {
  Completion completion;
  completion.lease = work.lease;
  completion.key = work.key;
  completion.duration_us = duration_us;
  completion.provenance = options_.provenance;
  {
    MutexLock lock(&mu_);
    completion.database_uuid = registration_.database_uuid;
    if (running_.has_value()) completion.steps_run = running_->steps_run;
  }
  if (result.ok()) {
    completion.result = *result;
  } else {
    completion.outcome = AttemptOutcome::kFailed;
    completion.cause = CauseOf(result.status());
    completion.message = std::string(result.status().message());
  }
  return completion;
}

absl::Status Agent::RunOne(const LeasedWork& work) {
  const int64_t start = clock_->MonotonicMicros();
  Fault("after_lease");
  AttemptLog log(
      LogFileOf(work),
      absl::StrCat("attempt ", work.lease.attempt, " of ",
                   StageName(work.stage), " job ", work.lease.job.value, " on ",
                   options_.slot_name, " (", options_.provenance.device_kind,
                   ", build ", options_.provenance.build, ")"),
      clock_);
  const absl::StatusOr<StageResult> result = work.run(ContextOf(work, &log));
  const int64_t duration_us = clock_->MonotonicMicros() - start;
  log.End(result.status(), duration_us);
  const Completion completion = Describe(work, result, duration_us);
  bool revoked = false;
  LeaseProgress progress{work.lease};
  {
    MutexLock lock(&mu_);
    revoked = revoked_;
    progress = running_.value_or(progress);
  }
  bool told = true;
  absl::Status status;
  if (absl::IsCancelled(result.status())) {
    if (!revoked) told = GiveBack({progress});
  } else {
    status = HandIn(completion);
  }
  {
    MutexLock lock(&mu_);
    running_.reset();
    // What the coordinator does not know, the slot's next process tells it.
    if (told) slot_->ClearRunning();
  }
  return status;
}

bool Agent::GiveBack(const std::vector<LeaseProgress>& leases) {
  Cause cause = Cause::kDrained;
  {
    MutexLock lock(&mu_);
    cause = stop_cause_;
  }
  const absl::Status released = link_->Release(worker(), leases, cause);
  if (!released.ok()) {
    spdlog::warn(
        "could not give {} leases back, of job {} first: {}; they "
        "will run out",
        leases.size(), leases.front().lease.job.value,
        std::string(released.message()));
  }
  return released.ok();
}

void Agent::GiveBackWaiting() {
  std::vector<LeaseProgress> leases;
  {
    MutexLock lock(&mu_);
    for (const LeaseRef& lease : waiting_) leases.push_back({lease});
    waiting_.clear();
  }
  if (!leases.empty()) GiveBack(leases);
}

void Agent::Drop(const LeaseRef& lease) {
  std::erase(waiting_, lease);
  if (!running_.has_value() || running_->lease != lease) return;
  spdlog::warn("the lease of job {} (attempt {}) was revoked", lease.job.value,
               lease.attempt);
  revoked_ = true;
  stop_stage_ = true;
}

absl::Status Agent::HandIn(const Completion& completion) {
  RETURN_IF_ERROR(slot_->Spool(completion.lease, link_->Encode(completion)));
  bool last = false;
  {
    // From here on the spool speaks for this attempt: a crash now must not be
    // charged to the job.
    MutexLock lock(&mu_);
    running_.reset();
    slot_->ClearRunning();
    last = waiting_.empty();
  }
  if (!last && slot_->spooled().size() < kGroup &&
      clock_->MonotonicMicros() - delivered_us_ < kGroupUs)
    return absl::OkStatus();
  return SyncAndDeliver();
}

void Agent::SyncOnce() {
  const absl::StatusOr<SyncReply> reply = link_->Sync(worker(), Held());
  if (!reply.ok()) return;  // the next one, or the lease's end, will tell
  if (reply->drain) Drain();
  if (reply->drain_now) Stop(Cause::kDrained);
  MutexLock lock(&mu_);
  must_register_ |= reply->register_again;
  for (const LeaseRef& lease : reply->revoked) Drop(lease);
}

void Agent::Heartbeat(const std::stop_token& stop) {
  std::stop_callback wake(stop, [this] {
    MutexLock lock(&mu_);
    wake_.notify_all();
  });
  while (!stop.stop_requested()) {
    bool again = false;
    {
      MutexLock lock(&mu_);
      // Checked under the lock that the wake-up takes, so that a stop is never
      // slept through.
      if (!stop.stop_requested())
        lock.WaitFor(wake_,
                     std::chrono::microseconds(registration_.heartbeat_us));
      // A running job cannot wait for the main thread to register again.
      again = must_register_ && (running_.has_value() || !waiting_.empty());
      if (again) must_register_ = false;
    }
    if (stop.stop_requested()) return;
    if (again) {
      const absl::Status status = RegisterUntilAccepted();
      if (!status.ok())
        spdlog::error("cannot register again: {}",
                      std::string(status.message()));
    }
    SyncOnce();
  }
}

}  // namespace iclsweep
