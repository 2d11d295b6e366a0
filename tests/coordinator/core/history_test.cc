// Random histories of a small cluster under RapidCheck: workers register,
// lease, heartbeat, finish, crash, deliver late and twice; time passes; the
// coordinator restarts from what was written. Whatever happens, the invariants
// hold, and the histories must have contained the events they are about.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>
#include <vector>

#include "coordinator/core/core.h"

namespace iclsweep {
namespace {

constexpr int64_t kLease = 1000;

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
};

// What the loop would have on disk.
struct Disk {
  std::map<JobId, NewJob> jobs;
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
      job.stage = i % 4 == 1 ? Stage::kTrain : Stage::kEvaluate;
      // Of four jobs, two need the first, the fourth needs both of those.
      if (i % 4 == 2 || i % 4 == 3) job.depends_on = {JobId{i - i % 4 + 1}};
      if (i % 4 == 0) job.depends_on = {JobId{i - 2}, JobId{i - 1}};
      disk_.jobs[job.id] = job;
      added.jobs.push_back(job);
    }
    Record(core_.Apply(added, now_));
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
        LeaseRequested{found->second.id, std::to_string(++requests_), 1, now_},
        now_);
    for (const LeaseAnswered& answer : effects.answers) {
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
    const LeaseRef lease = found->second.running.back();
    found->second.running.pop_back();
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
    JobsAdded added;
    for (const auto& [id, job] : disk_.jobs) added.jobs.push_back(job);
    const auto open = disk_.open;
    Record(core_.Apply(added, now_));
    for (const auto& [lease, holder] : open)
      core_.RestoreLease(lease, holder.first, holder.second, now_);
    for (const auto& [lease, holder] : open)
      disk_.jobs[lease.job].stored_state = core_.StateOf(lease.job);
  }

  // Lets everything run to its end with one good worker.
  void DrainAll() {
    Register(99);
    for (size_t round = 0; round < 20 * disk_.jobs.size(); ++round) {
      Lease(99);
      Finish(99, true);
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
  void Deliver(WorkerId worker, LeaseRef lease, bool ok) {
    Completed event;
    event.worker = worker;
    event.lease = lease;
    event.outcome = ok ? AttemptOutcome::kDone : AttemptOutcome::kFailed;
    event.cause = ok ? Cause::kNone : Cause::kFailed;
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
      for (const JobId parent : job.depends_on)
        RC_ASSERT(disk_.results.contains(parent));
      job.last_attempt = start.lease.attempt;
      disk_.open[start.lease] = {start.worker, slots_of_[start.worker]};
    }
    for (const AttemptFinished& end : effects.attempts_finished)
      disk_.open.erase(end.lease);
    for (const JobStateChanged& change : effects.job_states) {
      NewJob& job = disk_.jobs[change.job];
      RC_ASSERT(!IsTerminal(job.stored_state) ||
                job.stored_state ==
                    change.state);  // terminal states are never left
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
};

void Step(Cluster* cluster) {
  const int slot = Pick(0, 4);
  switch (Pick(0, 12)) {
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
    default:
      return cluster->Restart();
  }
}

TEST(HistoryTest, InvariantsHoldInEveryHistoryAndEverythingEnds) {
  Seen seen;
  const bool held = rc::check("random histories", [&seen] {
    Cluster cluster(Pick(1, 13), &seen);
    for (int slot = 0; slot < 4; ++slot) cluster.Register(slot);
    const int steps = Pick(20, 200);
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
}

}  // namespace
}  // namespace iclsweep
