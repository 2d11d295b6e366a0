// Random histories of a small cluster under RapidCheck: workers register,
// lease bundles, heartbeat, finish, crash, deliver late and twice; sweeps are
// cancelled and taken up, failed jobs retried; time passes; the coordinator
// restarts from what was written. Whatever happens, the invariants hold, and
// the histories must have contained the events they are about.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>
#include <vector>

#include "coordinator/core/core.h"

namespace iclsweep {
namespace {

constexpr int64_t kLease = 1000;
constexpr int64_t kSweeps = 3;

// A number in [low, high), as likely in the first history as in the last:
// RapidCheck's own ranges grow with the size of a case.
template <typename Number = int>
Number Pick(Number low, Number high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high));
}

// What happened over all histories of a run.
struct Seen {
  int expiries = 0;
  int late = 0;
  int duplicates = 0;
  int crashes = 0;
  int restarts = 0;
  int stale = 0;
  int bundles = 0;
  int retries = 0;
  int cancelled_leases = 0;
};

// What the loop would have on disk.
struct Disk {
  std::map<JobId, NewJob> jobs;
  std::map<JobId, SweepId> also;  // the sweep that wants it as well
  std::set<SweepId> cancelled;
  std::map<LeaseRef, std::pair<WorkerId, std::string>>
      open;  // attempts without an end
  std::set<JobId> results;
};

struct Process {
  WorkerId id;
  std::string slot;
  std::vector<LeaseRef> running;
};

class Cluster {
 public:
  Cluster(int jobs, Seen* seen) : core_(CoreOptions{kLease}), seen_(seen) {
    JobsAdded added;
    for (int i = 1; i <= jobs; ++i) {
      NewJob job;
      job.id = JobId{i};
      job.stage = i % 8 == 1 ? Stage::kTrain : Stage::kEvaluate;
      job.max_attempts = i % 5 == 0 ? 1 : 3;
      // Of eight jobs, five need the first, the last two what is below it.
      const int first = i - (i + 7) % 8;
      if (i - first >= 1 && i - first <= 5) job.depends_on = {JobId{first}};
      if (i - first >= 6) job.depends_on = {JobId{i - 5}, JobId{i - 1}};
      job.sweep = SweepId{1 + i / 8 % kSweeps};
      disk_.jobs[job.id] = job;
      if (i % 3 == 0) disk_.also[job.id] = SweepId{1 + (i / 8 + 1) % kSweeps};
    }
    Record(core_.Apply(AllJobs(), now_));
  }

  void Cancel(SweepId sweep) {
    disk_.cancelled.insert(sweep);
    const Effects effects = core_.Apply(SweepCancelled{sweep}, now_);
    for (const AttemptFinished& end : effects.attempts_finished) {
      ++seen_->cancelled_leases;
      RC_ASSERT(!IsWanted(end.lease.job));
      late_.push_back(end.lease);
    }
    Record(effects);
  }

  void Activate(SweepId sweep) {
    disk_.cancelled.erase(sweep);
    Record(core_.Apply(SweepActivated{sweep}, now_));
  }

  void RetryFailed() {
    Retried event;
    for (const auto& [id, job] : disk_.jobs) {
      if (core_.StateOf(id) == JobState::kFailed) event.jobs.push_back(id);
    }
    seen_->retries += event.jobs.empty() ? 0 : 1;
    retrying_ = true;
    Record(core_.Apply(event, now_));
    retrying_ = false;
  }

  void Register(int slot) {
    WorkerRegistered event;
    event.worker = WorkerId{++workers_};
    event.slot = std::to_string(slot);
    event.stages = 0xff;
    Process& process = processes_[slot];
    if (!process.running.empty()) {
      ++seen_->crashes;
      event.predecessor.lease = process.running.front();
      event.predecessor_cause = Cause::kCrashed;
      late_.insert(late_.end(), process.running.begin(), process.running.end());
    }
    process = {event.worker, event.slot, {}};
    slots_of_[event.worker] = event.slot;
    Record(core_.Apply(event, now_));
  }

  void Lease(int slot) {
    const auto found = processes_.find(slot);
    if (found == processes_.end()) return;
    const Effects effects = core_.Apply(
        LeaseRequested{found->second.id, std::to_string(++requests_),
                       Pick<uint32_t>(1, 5), now_},
        now_);
    for (const LeaseAnswered& answer : effects.answers) {
      seen_->bundles += answer.leases.size() > 1 ? 1 : 0;
      found->second.running.insert(found->second.running.end(),
                                   answer.leases.begin(), answer.leases.end());
    }
    Record(effects);
  }

  void Sync(int slot, bool checkpointed) {
    const auto found = processes_.find(slot);
    if (found == processes_.end()) return;
    Synced event{found->second.id, {}};
    for (const LeaseRef& lease : found->second.running) {
      LeaseProgress progress{lease};
      progress.checkpointed = checkpointed;
      progress.waiting = !event.held.empty();
      event.held.push_back(progress);
    }
    const Effects effects = core_.Apply(event, now_);
    for (const LeaseRef& revoked : effects.revoked)
      std::erase(found->second.running, revoked);
    Record(effects);
  }

  void Finish(int slot, bool ok) {
    const auto found = processes_.find(slot);
    if (found == processes_.end() || found->second.running.empty()) return;
    const LeaseRef lease = found->second.running.front();
    found->second.running.erase(found->second.running.begin());
    Deliver(found->second.id, lease, ok);
    late_.push_back(lease);
  }

  // A result of a dead or slow process, or one that was delivered before.
  void DeliverLate(size_t which) {
    if (late_.empty()) return;
    const LeaseRef lease = late_[which % late_.size()];
    if (disk_.results.contains(lease.job)) ++seen_->duplicates;
    ++seen_->late;
    Deliver(WorkerId{1}, lease, /*ok=*/true);
  }

  void Pass(int64_t micros) {
    now_ += micros;
    const Effects effects = core_.Apply(Tick{}, now_);
    for (const AttemptFinished& end : effects.attempts_finished) {
      seen_->expiries +=
          end.cause == Cause::kLost || end.cause == Cause::kUndelivered ? 1 : 0;
    }
    Record(effects);
  }

  // Everything in memory is gone; what was written comes back. Workers notice
  // at their next call.
  void Restart() {
    ++seen_->restarts;
    core_ = Core(CoreOptions{kLease});
    const auto open = disk_.open;
    Record(core_.Apply(AllJobs(), now_));
    for (const SweepId sweep : disk_.cancelled)
      Record(core_.Apply(SweepCancelled{sweep}, now_));
    for (const auto& [lease, holder] : open)
      core_.RestoreLease(lease, holder.first, holder.second, now_);
    for (const auto& [lease, holder] : open)
      disk_.jobs[lease.job].stored_state = core_.StateOf(lease.job);
  }

  // Lets everything run to its end with one good worker.
  void DrainAll() {
    for (int64_t sweep = 1; sweep <= kSweeps; ++sweep) Activate(SweepId{sweep});
    Register(99);
    for (size_t round = 0; round < 20 * disk_.jobs.size(); ++round) {
      Lease(99);
      for (int job = 0; job < 4; ++job) Finish(99, true);
      if (round % 4 == 3) Pass(kLease);
    }
  }

  bool AllTerminal() const {
    for (const auto& [id, job] : disk_.jobs) {
      if (!IsTerminal(core_.StateOf(id))) return false;
    }
    return true;
  }
  absl::Status Check() const { return core_.CheckInvariants(); }

 private:
  JobsAdded AllJobs() const {
    JobsAdded added;
    for (const auto& [id, job] : disk_.jobs) {
      added.jobs.push_back(job);
      const auto also = disk_.also.find(id);
      if (also == disk_.also.end()) continue;
      added.jobs.push_back(job);
      added.jobs.back().sweep = also->second;
    }
    return added;
  }
  bool IsWanted(JobId id) const {
    const auto also = disk_.also.find(id);
    return !disk_.cancelled.contains(disk_.jobs.at(id).sweep) ||
           (also != disk_.also.end() &&
            !disk_.cancelled.contains(also->second));
  }

  void Deliver(WorkerId worker, LeaseRef lease, bool ok) {
    Completed event;
    event.worker = worker;
    event.lease = lease;
    event.outcome = ok ? AttemptOutcome::kDone : AttemptOutcome::kFailed;
    event.cause = ok                ? Cause::kNone
                  : Pick(0, 2) == 0 ? Cause::kInvalid
                                    : Cause::kFailed;
    const Effects effects = core_.Apply(event, now_);
    if (effects.verdict == Verdict::kStale) ++seen_->stale;
    if (effects.verdict == Verdict::kCommitted && ok) {
      RC_ASSERT(disk_.results.insert(lease.job)
                    .second);  // at most one result per job
    }
    Record(effects);
  }

  void Record(const Effects& effects) {
    for (const AttemptStarted& start : effects.attempts_started) {
      NewJob& job = disk_.jobs[start.lease.job];
      RC_ASSERT(start.lease.attempt ==
                job.last_attempt + 1);  // numbers only grow
      RC_ASSERT(!IsTerminal(job.stored_state));
      RC_ASSERT(IsWanted(job.id));
      for (const JobId parent : job.depends_on)
        RC_ASSERT(disk_.results.contains(parent));
      job.last_attempt = start.lease.attempt;
      disk_.open[start.lease] = {start.worker, slots_of_[start.worker]};
    }
    for (const AttemptFinished& end : effects.attempts_finished)
      disk_.open.erase(end.lease);
    for (const JobStateChanged& change : effects.job_states) {
      NewJob& job = disk_.jobs[change.job];
      // Terminal states are left by a retry only, and the done one never.
      RC_ASSERT(!IsTerminal(job.stored_state) ||
                job.stored_state == change.state ||
                (retrying_ && job.stored_state != JobState::kDone));
      job.stored_state = change.state;
    }
    RC_ASSERT(core_.CheckInvariants() == absl::OkStatus());
  }

  Core core_;
  Seen* seen_;
  Disk disk_;
  std::map<int, Process> processes_;
  std::map<WorkerId, std::string> slots_of_;
  std::vector<LeaseRef> late_;
  int64_t now_ = 1;
  int64_t workers_ = 0;
  int requests_ = 0;
  bool retrying_ = false;
};

void Step(Cluster* cluster) {
  const int slot = Pick(0, 4);
  switch (Pick(0, 15)) {
    case 0:
      return cluster->Register(slot);
    case 1:
    case 2:
    case 3:
      return cluster->Lease(slot);
    case 4:
      return cluster->Sync(slot, *rc::gen::arbitrary<bool>());
    case 5:
    case 6:
      return cluster->Finish(slot, true);
    case 7:
      return cluster->Finish(slot, false);
    case 8:
      return cluster->DeliverLate(Pick<size_t>(0, 1000));
    case 9:
      return cluster->Pass(Pick<int64_t>(1, kLease / 2));
    case 10:
      return cluster->Pass(kLease);
    case 11:
      return cluster->Cancel(SweepId{Pick<int64_t>(1, kSweeps + 1)});
    case 12:
      return cluster->Activate(SweepId{Pick<int64_t>(1, kSweeps + 1)});
    case 13:
      return cluster->RetryFailed();
    default:
      return cluster->Restart();
  }
}

TEST(HistoryTest, InvariantsHoldInEveryHistoryAndEverythingEnds) {
  Seen seen;
  const bool held = rc::check("random histories", [&seen] {
    Cluster cluster(Pick(1, 33), &seen);
    for (int slot = 0; slot < 4; ++slot) cluster.Register(slot);
    const int steps = Pick(20, 400);
    for (int i = 0; i < steps; ++i) Step(&cluster);
    cluster.DrainAll();
    RC_ASSERT(cluster.Check() == absl::OkStatus());
    RC_ASSERT(cluster.AllTerminal());
  });
  EXPECT_TRUE(held);
  EXPECT_GT(seen.expiries, 100);
  EXPECT_GT(seen.late, 100);
  EXPECT_GT(seen.duplicates, 50);
  EXPECT_GT(seen.crashes, 50);
  EXPECT_GT(seen.restarts, 100);
  EXPECT_GT(seen.stale, 50);
  EXPECT_GT(seen.bundles, 50);
  EXPECT_GT(seen.retries, 5);
  EXPECT_GT(seen.cancelled_leases, 20);
}

}  // namespace
}  // namespace iclsweep
