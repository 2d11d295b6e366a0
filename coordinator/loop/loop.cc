#include "coordinator/loop/loop.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace iclsweep {
namespace {

absl::Status Stopping() {
  return absl::UnavailableError("the coordinator is stopping");
}

// Calls `done` of any call with that status.
void Answer(AnyCall* call, const absl::Status& status) {
  std::visit(
      [&](auto& c) {
        if constexpr (requires { c.done; }) {
          if (c.done) c.done(status);
        }
      },
      *call);
}

}  // namespace

absl::Status CheckLoopOptions(const LoopOptions& options) {
  if (options.lease_us > 2 * options.heartbeat_us) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--lease (", options.lease_us / 1000,
                   " ms) must be more than twice --heartbeat (",
                   options.heartbeat_us / 1000, " ms)"));
}

absl::StatusOr<std::unique_ptr<Loop>> Loop::Start(const LoopOptions& options,
                                                  Store* store, Clock* clock) {
  RETURN_IF_ERROR(CheckLoopOptions(options));
  std::unique_ptr<Loop> loop(new Loop(options, store, clock));
  ASSIGN_OR_RETURN(loop->database_uuid_, store->DatabaseUuid());
  RETURN_IF_ERROR(store->Begin());
  ASSIGN_OR_RETURN(loop->epoch_,
                   store->NewEpoch(options.owner, clock->WallMicros()));
  RETURN_IF_ERROR(
      loop->Tell({"coordinator_started", {}, {}, {}, options.owner}));
  RETURN_IF_ERROR(store->Commit());
  RETURN_IF_ERROR(loop->Restore());
  RETURN_IF_ERROR(loop->RemovePartialsOfDoneJobs());
  Loop* raw = loop.get();
  loop->thread_ = std::jthread([raw] { raw->Main(); });
  return loop;
}

Loop::~Loop() { Stop(); }

void Loop::Post(AnyCall call) {
  {
    MutexLock lock(&mu_);
    if (!stopping_) {
      queue_.push_back(std::move(call));
      arrived_.notify_one();
      return;
    }
  }
  Answer(&call, Stopping());
}

void Loop::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    arrived_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status Loop::status() const {
  MutexLock lock(&mu_);
  return status_;
}

std::vector<AnyCall> Loop::WaitForCalls() {
  MutexLock lock(&mu_);
  while (queue_.empty() && !stopping_ && expansions_.empty()) {
    const int64_t deadline = core_.NextDeadline();
    if (deadline == std::numeric_limits<int64_t>::max()) {
      lock.Wait(arrived_);
      continue;
    }
    const int64_t wait = deadline - clock_->MonotonicMicros();
    if (wait <= 0) break;
    lock.WaitFor(arrived_, std::chrono::microseconds(wait));
  }
  const size_t count = std::min(queue_.size(), options_.batch);
  std::vector<AnyCall> calls(
      std::make_move_iterator(queue_.begin()),
      std::make_move_iterator(queue_.begin() +
                              static_cast<std::ptrdiff_t>(count)));
  queue_.erase(queue_.begin(),
               queue_.begin() + static_cast<std::ptrdiff_t>(count));
  return calls;
}

void Loop::Main() {
  while (true) {
    std::vector<AnyCall> calls = WaitForCalls();
    {
      MutexLock lock(&mu_);
      if (stopping_ || !status_.ok()) {
        for (AnyCall& call : queue_) calls.push_back(std::move(call));
        queue_.clear();
        stopping_ = true;
      }
    }
    bool stopping = false;
    {
      MutexLock lock(&mu_);
      stopping = stopping_;
    }
    if (stopping) {
      FailAll(&calls, Stopping());
      FailParked(Stopping());
      return;
    }
    absl::Status status = RunBatch(&calls);
    if (!status.ok()) {
      store_->Rollback();
      const absl::Status retry = absl::UnavailableError(
          absl::StrCat("the store failed: ", status.message()));
      for (PendingReply& reply : replies_) reply.done(retry);
      replies_.clear();
      answers_.clear();
      done_keys_.clear();
      FailAll(&calls, retry);
      FailParked(retry);
      Recover(std::move(status));
    }
  }
}

absl::Status Loop::ApplyCalls(std::vector<AnyCall>* calls) {
  RETURN_IF_ERROR(Apply(Tick{}).status());
  for (AnyCall& call : *calls)
    RETURN_IF_ERROR(std::visit([this](auto& c) { return Handle(c); }, call));
  RETURN_IF_ERROR(ExpandSome());
  RETURN_IF_ERROR(AnswerPolls());
  const std::set<SweepId> changed = core_.TakeChangedSweeps();
  RETURN_IF_ERROR(WriteProgress(changed));
  return TellFinished(changed);
}

absl::Status Loop::RunBatch(std::vector<AnyCall>* calls) {
  RETURN_IF_ERROR(store_->Begin());
  RETURN_IF_ERROR(ApplyCalls(calls));
  RETURN_IF_ERROR(store_->Commit());
  Publish();
  std::vector<PendingReply> replies;
  replies.swap(replies_);
  for (PendingReply& reply : replies) reply.done(reply.status);
  RemovePartials(std::exchange(done_keys_, {}));
  return absl::OkStatus();
}

void Loop::Publish() {
  workers_ = core_.connected_workers();
  const auto [done, total] = core_.LeasedSteps();
  steps_done_ = done;
  steps_total_ = total;
  for (const Stage stage : kAllStages)
    mean_job_us_[static_cast<size_t>(stage)] = core_.MeanCostUs(stage);
}

void Loop::Reply(std::function<void(absl::Status)> done, absl::Status status) {
  replies_.push_back({std::move(done), std::move(status)});
}

void Loop::FailAll(std::vector<AnyCall>* calls, const absl::Status& status) {
  for (AnyCall& call : *calls) Answer(&call, status);
  calls->clear();
}

void Loop::FailParked(const absl::Status& status) {
  for (auto& [key, waiting] : parked_) {
    for (LeaseCall& call : waiting) call.done(status);
  }
  parked_.clear();
}

void Loop::Recover(absl::Status error) {
  healthy_ = false;
  spdlog::error("store failed, trying again: {}", error.ToString());
  const int64_t since = clock_->MonotonicMicros();
  int64_t pause = 100'000;
  while (clock_->MonotonicMicros() - since < options_.give_up_us) {
    {
      MutexLock lock(&mu_);
      if (stopping_) return;
      lock.WaitFor(arrived_, std::chrono::microseconds(pause));
    }
    pause = std::min<int64_t>(pause * 2, 1'000'000);
    absl::Status status = store_->Begin();
    if (status.ok())
      status =
          Tell({"store_recovered", {}, {}, {}, std::string(error.message())});
    if (status.ok()) status = store_->Commit();
    if (status.ok()) status = Restore();
    if (status.ok()) {
      spdlog::info("store works again");
      healthy_ = true;
      return;
    }
    store_->Rollback();
    error = status;
  }
  MutexLock lock(&mu_);
  status_ = error;
}

// ---- state from the store
// -----------------------------------------------------------------------------------------

absl::Status Loop::Restore() {
  core_ = Core(CoreOptions{options_.lease_us});
  progress_.clear();
  RETURN_IF_ERROR(store_->Begin());
  RETURN_IF_ERROR(RestoreJobs());
  RETURN_IF_ERROR(store_->ClearProgress());
  RETURN_IF_ERROR(WriteProgress(core_.TakeChangedSweeps()));
  RETURN_IF_ERROR(store_->Commit());
  RETURN_IF_ERROR(RestoreSweeps());
  finished_.clear();
  for (const auto& [sweep, counts] : progress_) {
    if (IsFinished(sweep)) finished_.insert(sweep);
  }
  return absl::OkStatus();
}

absl::Status Loop::RestoreJobs() {
  constexpr size_t at_once = 10'000;
  const int64_t now = clock_->MonotonicMicros();
  std::vector<std::pair<JobId, JobState>> stored;
  JobsAdded some;
  const auto add_some = [&] {
    core_.Apply(some, now);
    some.jobs.clear();
  };
  RETURN_IF_ERROR(store_->ForEachJob([&](const JobRow& row) {
    stored.emplace_back(row.id, row.state);
    for (const SweepId sweep : row.sweeps) {
      some.jobs.push_back({row.id, row.stage, row.depends_on, row.state,
                           row.last_attempt, row.max_attempts, sweep});
    }
    if (some.jobs.size() >= at_once) add_some();
  }));
  add_some();
  ASSIGN_OR_RETURN(const std::vector<SweepId> cancelled,
                   store_->CancelledSweeps());
  for (const SweepId sweep : cancelled) core_.Apply(SweepCancelled{sweep}, now);
  ASSIGN_OR_RETURN(const std::vector<SpentBudget> budgets,
                   store_->SpentBudgets());
  for (const SpentBudget& budget : budgets)
    core_.RestoreBudget(budget.job, budget.cause, budget.count);
  ASSIGN_OR_RETURN(const std::vector<OpenAttempt> open, store_->OpenAttempts());
  for (const OpenAttempt& attempt : open)
    core_.RestoreLease(attempt.lease, attempt.worker, attempt.slot_uuid, now);
  // States are worked out anew from the dependencies; rows that say otherwise
  // (a crash between two commits) are mended.
  for (const auto& [job, state] : stored) {
    if (core_.Knows(job) && core_.StateOf(job) != state)
      RETURN_IF_ERROR(store_->SetJobState(job, core_.StateOf(job)));
  }
  return absl::OkStatus();
}

absl::Status Loop::RestoreSweeps() {
  expansions_.clear();
  ASSIGN_OR_RETURN(const std::vector<SweepRow> sweeps,
                   store_->UnexpandedSweeps());
  for (const SweepRow& row : sweeps) {
    ASSIGN_OR_RETURN(SweepSpec spec, ParseStoredSweep(row.spec_yaml, row.name));
    StartExpansion(row.id, row.revision, row.cells_expanded, std::move(spec));
  }
  return absl::OkStatus();
}

void Loop::RemovePartials(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const std::filesystem::path folder =
        std::filesystem::path(options_.partial_dir) / key;
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    if (error)
      spdlog::warn("cannot remove partial checkpoints {}: {}", folder.string(),
                   error.message());
  }
}

absl::Status Loop::RemovePartialsOfDoneJobs() {
  std::set<std::string> stored;
  std::error_code error;
  for (std::filesystem::directory_iterator it(options_.partial_dir, error), end;
       !error && it != end; it.increment(error))
    stored.insert(it->path().filename().string());
  if (stored.empty()) return absl::OkStatus();
  std::vector<std::string> done;
  RETURN_IF_ERROR(store_->ForEachJob([&](const JobRow& row) {
    if (row.state == JobState::kDone && stored.contains(ToHex(row.key)))
      done.push_back(ToHex(row.key));
  }));
  RemovePartials(done);
  return absl::OkStatus();
}

// ---- effects
// ------------------------------------------------------------------------------------------------------

absl::StatusOr<Effects> Loop::Apply(const Event& event) {
  Effects effects = core_.Apply(event, clock_->MonotonicMicros());
  RETURN_IF_ERROR(Write(effects));
  return effects;
}

absl::Status Loop::WriteEnd(const AttemptFinished& end, int64_t now_us) {
  RETURN_IF_ERROR(store_->EndAttempt(
      {end.lease, end.outcome, end.cause, end.message, end.log, end.steps_run,
       end.checkpointed, end.duration_us, now_us}));
  if (end.outcome != AttemptOutcome::kFailed) return absl::OkStatus();
  return Tell({"attempt_failed",
               {},
               end.lease,
               {},
               absl::StrCat(CauseName(end.cause), ": ", end.message)});
}

absl::Status Loop::WriteState(const JobStateChanged& change) {
  if (change.state == JobState::kLeased)
    return absl::OkStatus();  // its attempt starts
  RETURN_IF_ERROR(store_->SetJobState(change.job, change.state));
  if (change.state != JobState::kFailed) return absl::OkStatus();
  return Tell({"job_failed", {}, {change.job, 0}, {}, ""});
}

absl::Status Loop::Write(const Effects& effects) {
  const int64_t now = clock_->WallMicros();
  for (const AttemptFinished& end : effects.attempts_finished)
    RETURN_IF_ERROR(WriteEnd(end, now));
  for (const JobStateChanged& change : effects.job_states)
    RETURN_IF_ERROR(WriteState(change));
  for (const AttemptStarted& start : effects.attempts_started) {
    RETURN_IF_ERROR(store_->StartAttempt({start.lease, start.worker, now}));
  }
  for (const WorkerId worker : effects.silent)
    RETURN_IF_ERROR(TellOfWorker("worker_silent", worker));
  answers_.insert(answers_.end(), effects.answers.begin(),
                  effects.answers.end());
  return absl::OkStatus();
}

bool Loop::IsFinished(SweepId sweep) const {
  const bool expanding = std::any_of(
      expansions_.begin(), expansions_.end(),
      [&](const Expansion& expansion) { return expansion.id == sweep; });
  return !expanding && OpenJobs(core_.CountsOf(sweep)) == 0;
}

absl::Status Loop::TellFinished(const std::set<SweepId>& changed) {
  for (const SweepId sweep : changed) {
    if (!IsFinished(sweep)) {
      finished_.erase(sweep);
    } else if (finished_.insert(sweep).second) {
      RETURN_IF_ERROR(Tell({"sweep_finished", sweep, {}, {}, ""}));
    }
  }
  return absl::OkStatus();
}

absl::Status Loop::WriteProgress(const std::set<SweepId>& changed) {
  for (const SweepId sweep : changed) {
    for (const Stage stage : kAllStages)
      RETURN_IF_ERROR(WriteProgressOf(sweep, stage));
  }
  return absl::OkStatus();
}

absl::Status Loop::WriteProgressOf(SweepId sweep, Stage stage) {
  const auto& now = core_.CountsOf(sweep)[static_cast<size_t>(stage)];
  auto& written = progress_[sweep][static_cast<size_t>(stage)];
  for (size_t state = 0; state < kJobStates; ++state) {
    if (written[state] == now[state]) continue;
    RETURN_IF_ERROR(store_->SetProgress(
        sweep, stage, static_cast<JobState>(state), now[state]));
  }
  written = now;
  return absl::OkStatus();
}

absl::Status Loop::AnswerPolls() {
  while (!answers_.empty()) {
    const LeaseAnswered answer = std::move(answers_.front());
    answers_.pop_front();
    RETURN_IF_ERROR(AnswerPoll(answer));
  }
  return absl::OkStatus();
}

absl::Status Loop::AnswerPoll(const LeaseAnswered& answer) {
  const auto waiting = parked_.find({answer.worker, answer.request});
  if (waiting == parked_.end()) return absl::OkStatus();
  std::vector<Completed> unreadable;
  for (LeaseCall& call : waiting->second) {
    RETURN_IF_ERROR(FillLease(answer, call.response, &unreadable));
    call.response->set_drain(answer.drain);
    Reply(std::move(call.done),
          answer.unknown_worker
              ? absl::NotFoundError("this worker is not registered (any more)")
              : absl::OkStatus());
  }
  parked_.erase(waiting);
  for (const Completed& failed : unreadable)
    RETURN_IF_ERROR(Apply(failed).status());
  return absl::OkStatus();
}

}  // namespace iclsweep
