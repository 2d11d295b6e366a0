#include "coordinator/core/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kLease = 30'000'000;
constexpr uint32_t kEveryStage = 0xff;

// A core with events made short.
class CoreTest : public ::testing::Test {
 protected:
  Effects Add(std::vector<NewJob> jobs) {
    return core_.Apply(JobsAdded{std::move(jobs)}, now_);
  }
  static NewJob Job(int64_t id, std::vector<JobId> depends_on = {},
                    Stage stage = Stage::kTheory) {
    NewJob job;
    job.id = JobId{id};
    job.stage = stage;
    job.depends_on = std::move(depends_on);
    return job;
  }
  Effects Register(int64_t worker, const std::string& slot,
                   uint32_t stages = kEveryStage) {
    WorkerRegistered event;
    event.worker = WorkerId{worker};
    event.slot = slot;
    event.stages = stages;
    return core_.Apply(event, now_);
  }
  // Asks for work without waiting; the attempt granted, or attempt 0.
  LeaseRef Lease(int64_t worker) {
    const Effects effects = core_.Apply(
        LeaseRequested{WorkerId{worker}, std::to_string(++requests_), 1, now_},
        now_);
    for (const LeaseAnswered& answer : effects.answers) {
      if (answer.worker == WorkerId{worker} && !answer.leases.empty())
        return answer.leases.front();
    }
    return LeaseRef{};
  }
  // Asks for a bundle; the attempts granted.
  std::vector<LeaseRef> LeaseBundle(int64_t worker, uint32_t max_jobs) {
    const Effects effects =
        core_.Apply(LeaseRequested{WorkerId{worker},
                                   std::to_string(++requests_), max_jobs, now_},
                    now_);
    return effects.answers.empty() ? std::vector<LeaseRef>{}
                                   : effects.answers.back().leases;
  }
  Effects Done(int64_t worker, LeaseRef lease, int64_t duration_us = 0) {
    Completed event;
    event.worker = WorkerId{worker};
    event.lease = lease;
    event.duration_us = duration_us;
    return core_.Apply(event, now_);
  }
  Effects Failed(int64_t worker, LeaseRef lease, Cause cause) {
    Completed event;
    event.worker = WorkerId{worker};
    event.lease = lease;
    event.outcome = AttemptOutcome::kFailed;
    event.cause = cause;
    return core_.Apply(event, now_);
  }
  Effects Sync(int64_t worker, LeaseRef lease, bool checkpointed = false,
               bool waiting = false) {
    LeaseProgress progress{lease};
    progress.checkpointed = checkpointed;
    progress.waiting = waiting;
    return core_.Apply(Synced{WorkerId{worker}, {progress}}, now_);
  }
  Effects Pass(int64_t micros) {
    now_ += micros;
    return core_.Apply(Tick{}, now_);
  }
  void TearDown() override {
    EXPECT_EQ(core_.CheckInvariants(), absl::OkStatus());
  }

  Core core_{CoreOptions{kLease}};
  int64_t now_ = 1'000'000;
  int requests_ = 0;
};

TEST_F(CoreTest, JobWaitsForWhatItDependsOn) {
  Add({Job(1, {}, Stage::kTrain), Job(2, {JobId{1}}, Stage::kEvaluate)});
  Register(1, "a");
  const LeaseRef train = Lease(1);
  EXPECT_EQ(train.job, JobId{1});
  EXPECT_EQ(core_.StateOf(JobId{2}), JobState::kBlocked);
  EXPECT_EQ(Lease(1).job, JobId{});
  Done(1, train);
  EXPECT_EQ(Lease(1).job, JobId{2});
}

TEST_F(CoreTest, JobWaitsForEverythingItDependsOn) {
  Add({Job(1), Job(2), Job(3, {JobId{1}, JobId{2}})});
  Register(1, "a");
  Done(1, Lease(1));
  EXPECT_EQ(core_.StateOf(JobId{3}), JobState::kBlocked);
  Done(1, Lease(1));
  EXPECT_EQ(core_.StateOf(JobId{3}), JobState::kReady);
}

TEST_F(CoreTest, FailureReachesEverythingBelow) {
  Add({Job(1), Job(2, {JobId{1}}), Job(3, {JobId{2}}), Job(4, {JobId{3}})});
  Register(1, "a");
  Failed(1, Lease(1), Cause::kInvalid);
  for (const int64_t id : {2, 3, 4})
    EXPECT_EQ(core_.StateOf(JobId{id}), JobState::kUpstreamFailed) << id;
}

TEST_F(CoreTest, OldAttemptIsRevokedEvenFromTheWorkerThatHoldsTheNewOne) {
  Add({Job(1)});
  Register(1, "a");
  const LeaseRef old = Lease(1);
  Pass(kLease);
  const LeaseRef current = Lease(1);
  ASSERT_EQ(current.attempt, old.attempt + 1);
  EXPECT_THAT(Sync(1, old).revoked, ElementsAre(old));
  EXPECT_THAT(Sync(1, current).revoked, IsEmpty());
}

TEST_F(CoreTest, ParkedPollIsAnsweredWhenAJobBecomesReady) {
  Register(1, "a");
  const Effects parked =
      core_.Apply(LeaseRequested{WorkerId{1}, "r", 1, now_ + 1000}, now_);
  EXPECT_THAT(parked.answers, IsEmpty());
  const Effects added = Add({Job(1)});
  ASSERT_THAT(added.answers, SizeIs(1));
  EXPECT_THAT(added.answers[0].leases, ElementsAre(LeaseRef{JobId{1}, 1}));
}

TEST_F(CoreTest, PollRunsOutEmpty) {
  Register(1, "a");
  core_.Apply(LeaseRequested{WorkerId{1}, "r", 1, now_ + 1000}, now_);
  EXPECT_EQ(core_.NextDeadline(), now_ + 1000);
  const Effects effects = Pass(1000);
  ASSERT_THAT(effects.answers, SizeIs(1));
  EXPECT_THAT(effects.answers[0].leases, IsEmpty());
  EXPECT_FALSE(effects.answers[0].unknown_worker);
}

TEST_F(CoreTest, RepeatedRequestGetsTheSameJobs) {
  Add({Job(1), Job(2)});
  Register(1, "a");
  const LeaseRequested request{WorkerId{1}, "same", 1, now_};
  const Effects first = core_.Apply(request, now_);
  const Effects second = core_.Apply(request, now_);
  ASSERT_THAT(second.answers, SizeIs(1));
  EXPECT_EQ(second.answers[0].leases, first.answers[0].leases);
  EXPECT_THAT(second.attempts_started, IsEmpty());
  EXPECT_EQ(core_.StateOf(JobId{2}), JobState::kReady);
}

TEST_F(CoreTest, UnknownWorkerIsToldToRegister) {
  Add({Job(1)});
  const Effects effects =
      core_.Apply(LeaseRequested{WorkerId{9}, "r", 1, now_ + 1000}, now_);
  ASSERT_THAT(effects.answers, SizeIs(1));
  EXPECT_TRUE(effects.answers[0].unknown_worker);
  EXPECT_TRUE(core_.Apply(Synced{WorkerId{9}, {}}, now_).unknown_worker);
}

TEST_F(CoreTest, ExpiredLeaseReturnsTheJobAndRaisesTheAttemptByOne) {
  Add({Job(1)});
  Register(1, "a");
  Register(2, "b");
  const LeaseRef first = Lease(1);
  Sync(1, first);
  const Effects expired = Pass(kLease);
  ASSERT_THAT(expired.attempts_finished, SizeIs(1));
  EXPECT_EQ(expired.attempts_finished[0].cause, Cause::kLost);
  EXPECT_THAT(Pass(kLease).attempts_finished, IsEmpty());
  EXPECT_EQ(Lease(2), (LeaseRef{JobId{1}, 2}));
}

TEST_F(CoreTest, HeartbeatKeepsALeaseForEver) {
  Add({Job(1)});
  Register(1, "a");
  const LeaseRef lease = Lease(1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Pass(kLease - 1).attempts_finished, IsEmpty());
    EXPECT_THAT(Sync(1, lease).revoked, IsEmpty());
  }
}

TEST_F(CoreTest, LateResultIsAcceptedWhileNobodyElseHasTheJob) {
  Add({Job(1)});
  Register(1, "a");
  const LeaseRef lease = Lease(1);
  Sync(1, lease);
  Pass(kLease);
  EXPECT_EQ(Done(1, lease).verdict, Verdict::kCommitted);
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kDone);
}

TEST_F(CoreTest, LateResultIsStaleOnceAnotherAttemptWasGranted) {
  Add({Job(1)});
  Register(1, "a");
  Register(2, "b");
  const LeaseRef late = Lease(1);
  Sync(1, late);
  Pass(kLease);
  const LeaseRef current = Lease(2);
  EXPECT_EQ(Done(1, late).verdict, Verdict::kStale);
  EXPECT_THAT(Sync(1, late).revoked, ElementsAre(late));
  EXPECT_EQ(Done(2, current).verdict, Verdict::kCommitted);
}

TEST_F(CoreTest, SecondDeliveryIsAnsweredAlreadyCommitted) {
  Add({Job(1)});
  Register(1, "a");
  const LeaseRef lease = Lease(1);
  EXPECT_EQ(Done(1, lease).verdict, Verdict::kCommitted);
  const Effects again = Done(1, lease);
  EXPECT_EQ(again.verdict, Verdict::kAlreadyCommitted);
  EXPECT_THAT(again.job_states, IsEmpty());
}

TEST_F(CoreTest, CompletionAndExpiryInTheSameInstantKeepTheResultInBothOrders) {
  Add({Job(1), Job(2)});
  Register(1, "a");
  Register(2, "b");
  const LeaseRef first = Lease(1);
  const LeaseRef second = Lease(2);
  Sync(1, first);
  Sync(2, second);
  now_ += kLease;
  Done(1, first);             // completion, then expiry
  core_.Apply(Tick{}, now_);  // expiry, then completion
  Done(2, second);
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kDone);
  EXPECT_EQ(core_.StateOf(JobId{2}), JobState::kDone);
}

TEST_F(CoreTest, ProgramErrorIsRetriedUpToItsLimitAndFailsWhatDependsOnIt) {
  Add({Job(1, {}, Stage::kTrain), Job(2, {JobId{1}}, Stage::kEvaluate)});
  Register(1, "a");
  for (int attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kReady);
    Failed(1, Lease(1), Cause::kFailed);
  }
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kFailed);
  EXPECT_EQ(core_.StateOf(JobId{2}), JobState::kUpstreamFailed);
}

TEST_F(CoreTest, InvalidInputsAndOutOfMemoryAreNotTriedAgain) {
  Add({Job(1), Job(2)});
  Register(1, "a");
  Failed(1, Lease(1), Cause::kInvalid);
  Failed(1, Lease(1), Cause::kOutOfMemory);
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kFailed);
  EXPECT_EQ(core_.StateOf(JobId{2}), JobState::kFailed);
}

TEST_F(CoreTest, DrainingTenWorkersInTurnChargesNothing) {
  Add({Job(1)});
  for (int64_t worker = 1; worker <= 10; ++worker) {
    Register(worker, std::to_string(worker));
    core_.Apply(Released{WorkerId{worker}, Lease(worker), Cause::kDrained, 5},
                now_);
  }
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kReady);
}

TEST_F(CoreTest, SuccessorOfACrashedProcessChargesTheJobThatRan) {
  Add({Job(1)});
  for (int64_t crash = 1; crash <= 3; ++crash) {
    Register(crash, "a");
    const LeaseRef lease = Lease(crash);
    WorkerRegistered successor;
    successor.worker = WorkerId{100 + crash};
    successor.slot = "a";
    successor.stages = kEveryStage;
    successor.predecessor.lease = lease;
    successor.predecessor_cause = Cause::kCrashed;
    const Effects effects = core_.Apply(successor, now_);
    ASSERT_THAT(effects.attempts_finished, SizeIs(1));
    EXPECT_EQ(effects.attempts_finished[0].cause, Cause::kCrashed);
  }
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kFailed);
}

TEST_F(CoreTest, LeaseThatNoProcessEverRanIsFreeOfCharge) {
  Add({Job(1)});
  for (int64_t round = 1; round <= 20; ++round) {
    Register(round, "a");  // the process before died before it began
    EXPECT_EQ(Lease(round).job, JobId{1});
  }
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kLeased);
}

TEST_F(CoreTest, PublishedCheckpointResetsTheCrashBudget) {
  Add({Job(1, {}, Stage::kTrain)});
  for (int64_t crash = 1; crash <= 10; ++crash) {
    Register(2 * crash, "a");
    const LeaseRef lease = Lease(2 * crash);
    ASSERT_EQ(lease.job, JobId{1}) << "after " << crash << " crashes";
    Sync(2 * crash, lease, /*checkpointed=*/true);
    WorkerRegistered successor;
    successor.worker = WorkerId{2 * crash + 1};
    successor.slot = "a";
    successor.stages = kEveryStage;
    successor.predecessor.lease = lease;
    successor.predecessor_cause = Cause::kCrashed;
    core_.Apply(successor, now_);
  }
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kReady);
}

TEST_F(CoreTest, ProcessThatRegistersAgainKeepsWhatItHolds) {
  Add({Job(1)});
  Register(1, "a");
  const LeaseRef lease = Lease(1);
  WorkerRegistered again;
  again.worker = WorkerId{2};
  again.slot = "a";
  again.stages = kEveryStage;
  again.held = {LeaseProgress{lease}, LeaseProgress{{JobId{7}, 1}}};
  const Effects effects = core_.Apply(again, now_);
  EXPECT_THAT(effects.revoked, ElementsAre(LeaseRef{JobId{7}, 1}));
  EXPECT_THAT(effects.attempts_finished, IsEmpty());
  EXPECT_EQ(Done(2, lease).verdict, Verdict::kCommitted);
}

TEST_F(CoreTest, CheckpointToldByTheNextProcessRenewsTheCrashBudget) {
  Add({Job(1)});
  Register(1, "a");
  for (int64_t worker = 1; worker <= 6; ++worker) {
    WorkerRegistered next;
    next.worker = WorkerId{worker + 1};
    next.slot = "a";
    next.stages = kEveryStage;
    next.predecessor.lease = Lease(worker);
    next.predecessor.checkpointed = true;  // no Sync had told it
    next.predecessor_cause = Cause::kCrashed;
    core_.Apply(next, now_);
    ASSERT_EQ(core_.StateOf(JobId{1}), JobState::kReady) << worker;
  }
}

TEST_F(CoreTest, PollOfADeadProcessIsNeverGivenAJob) {
  Register(1, "a");
  core_.Apply(LeaseRequested{WorkerId{1}, "old", 1, now_ + 10'000'000}, now_);
  const Effects effects = Register(2, "a");
  ASSERT_THAT(effects.answers, SizeIs(1));
  EXPECT_TRUE(effects.answers[0].unknown_worker);
  EXPECT_THAT(Add({Job(1)}).answers, IsEmpty());
}

TEST_F(CoreTest, WorkerOfAnotherVersionIsNeverGivenThatStage) {
  Add({Job(1, {}, Stage::kTrain), Job(2, {}, Stage::kTheory)});
  Register(1, "a", StageBit(Stage::kTheory));
  EXPECT_EQ(Lease(1).job, JobId{2});
  EXPECT_EQ(Lease(1).job, JobId{});
  EXPECT_THAT(core_.Explain(JobId{1}),
              ::testing::HasSubstr(
                  "no connected worker runs this version of stage train"));
}

// ---- draining

TEST_F(CoreTest, DrainedWorkerGetsNoMoreJobsAndIsToldToLeave) {
  Add({Job(1), Job(2)});
  Register(1, "a");
  Register(2, "b");
  const LeaseRef lease = Lease(1);
  core_.Apply(DrainRequested{{WorkerId{1}}, /*now=*/false}, now_);
  const Effects synced = Sync(1, lease);
  EXPECT_TRUE(synced.drain);
  EXPECT_FALSE(synced.drain_now);
  EXPECT_THAT(synced.revoked, IsEmpty()) << "what it runs is finished";
  EXPECT_EQ(Done(1, lease).verdict, Verdict::kCommitted);
  const Effects asked = core_.Apply(
      LeaseRequested{WorkerId{1}, "more", 1, now_ + 10'000'000}, now_);
  ASSERT_THAT(asked.answers, SizeIs(1)) << "it is not kept waiting";
  EXPECT_TRUE(asked.answers[0].drain);
  EXPECT_THAT(asked.answers[0].leases, IsEmpty());
  EXPECT_EQ(Lease(2).job, JobId{2}) << "another worker goes on";
}

TEST_F(CoreTest, DrainingAnswersAParkedPoll) {
  Register(1, "a");
  core_.Apply(LeaseRequested{WorkerId{1}, "parked", 1, now_ + 10'000'000},
              now_);
  const Effects effects =
      core_.Apply(DrainRequested{{WorkerId{1}}, /*now=*/true}, now_);
  ASSERT_THAT(effects.answers, SizeIs(1));
  EXPECT_TRUE(effects.answers[0].drain);
  EXPECT_THAT(Add({Job(1)}).attempts_started, IsEmpty());
  EXPECT_TRUE(core_.Apply(Synced{WorkerId{1}, {}}, now_).drain_now);
}

TEST_F(CoreTest, NextProcessOfADrainedSlotWorksAgain) {
  Register(1, "a");
  core_.Apply(DrainRequested{{WorkerId{1}}, /*now=*/false}, now_);
  Add({Job(1)});
  Register(2, "a");
  EXPECT_EQ(Lease(2).job, JobId{1});
  EXPECT_FALSE(core_.Apply(Synced{WorkerId{2}, {}}, now_).drain);
}

// ---- explanations

TEST_F(CoreTest, ExplainsEveryStateOfAJob) {
  Add({Job(1, {}, Stage::kTrain), Job(2, {JobId{1}}, Stage::kEvaluate),
       Job(3, {}, Stage::kTheory)});
  EXPECT_EQ(core_.Explain(JobId{1}), "ready, but no worker is connected");
  EXPECT_EQ(core_.Explain(JobId{2}), "waits for train job 1 (ready)");
  Register(1, "a");
  EXPECT_EQ(core_.Explain(JobId{1}),
            "ready, waits for a free worker (1 runs its stage)");
  const LeaseRef lease = Lease(1);
  EXPECT_EQ(core_.Explain(JobId{1}),
            "leased to worker 1 just now: its next heartbeat tells how far it "
            "is");
  Sync(1, lease, /*checkpointed=*/false, /*waiting=*/true);
  EXPECT_EQ(core_.Explain(JobId{1}),
            "leased to worker 1, waits for its turn in a bundle");
  LeaseProgress progress{lease};
  progress.steps_done = 20;
  progress.steps_total = 50;
  core_.Apply(Synced{WorkerId{1}, {progress}}, now_);
  EXPECT_EQ(core_.Explain(JobId{1}),
            "runs on worker 1 (attempt 1, step 20 of 50)");
  core_.Apply(DrainRequested{{WorkerId{1}}, /*now=*/false}, now_);
  EXPECT_EQ(core_.Explain(JobId{3}),
            "ready, but every worker that could run it is being drained");
  Failed(1, lease, Cause::kInvalid);
  EXPECT_EQ(core_.Explain(JobId{1}), "failed with attempt 1");
  EXPECT_EQ(core_.Explain(JobId{2}),
            "cannot run: train job 1 (failed) is what it needs");
  EXPECT_EQ(core_.Explain(JobId{9}), "not known to the scheduler");
}

TEST_F(CoreTest, ExplainsWhatAWorkerDoes) {
  Register(1, "a", StageBit(Stage::kTheory));
  EXPECT_EQ(core_.ExplainWorker(WorkerId{1}),
            "idle: no active sweep has an open job");
  Add({Job(1, {}, Stage::kTrain), Job(2, {}, Stage::kTrain)});
  EXPECT_EQ(core_.ExplainWorker(WorkerId{1}),
            "idle: 2 jobs are ready, of stages that its version computes "
            "differently");
  Register(2, "b");
  Lease(2);
  EXPECT_EQ(core_.ExplainWorker(WorkerId{2}), "works");
  Register(3, "c", /*stages=*/0);
  EXPECT_THAT(core_.ExplainWorker(WorkerId{3}),
              ::testing::HasSubstr("computes every stage differently"));
  Pass(kLease + 1);
  EXPECT_EQ(core_.ExplainWorker(WorkerId{1}),
            "gone: said goodbye, or not heard of for a lease's time");
  EXPECT_EQ(core_.ExplainWorker(WorkerId{7}), "not known to the scheduler");
}

TEST_F(CoreTest, ListsWorkersThatAreConnectedOrHoldSomething) {
  Add({Job(1), Job(2)});
  Register(1, "a");
  Register(2, "b");
  const LeaseRef lease = Lease(1);
  LeaseProgress progress{lease};
  progress.steps_total = 5;
  core_.Apply(Synced{WorkerId{1}, {progress}}, now_);
  now_ += 7;
  core_.Apply(Departed{WorkerId{2}}, now_);
  std::vector<WorkerView> workers = core_.Workers();
  ASSERT_THAT(workers, SizeIs(1)) << "who said goodbye is gone";
  EXPECT_EQ(workers[0].id, WorkerId{1});
  EXPECT_TRUE(workers[0].connected);
  EXPECT_EQ(workers[0].heard_us, now_ - 7);
  ASSERT_TRUE(workers[0].running.has_value());
  EXPECT_EQ(workers[0].running->lease, lease);
  EXPECT_EQ(workers[0].waiting, 0);
}

TEST_F(CoreTest, GroupsASweepsJobsByStageAndState) {
  std::vector<NewJob> jobs = {Job(1, {}, Stage::kTrain),
                              Job(2, {JobId{1}}, Stage::kEvaluate),
                              Job(3, {JobId{1}}, Stage::kEvaluate)};
  for (NewJob& job : jobs) job.sweep = SweepId{1};
  Add(jobs);
  NewJob other = Job(4);
  other.sweep = SweepId{2};
  Add({other});
  const std::vector<JobGroup> groups = core_.GroupsOf(SweepId{1});
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].first, JobId{1});
  EXPECT_EQ(groups[0].state, JobState::kReady);
  EXPECT_EQ(groups[1].first, JobId{2});
  EXPECT_EQ(groups[1].jobs, 2);
  EXPECT_EQ(groups[1].state, JobState::kBlocked);
}

TEST_F(CoreTest, SilentWorkersAreNotConnected) {
  Register(1, "a");
  Register(2, "b");
  Pass(kLease / 2);
  core_.Apply(Synced{WorkerId{1}, {}}, now_);
  EXPECT_EQ(core_.connected_workers(), 2U);
  EXPECT_EQ(core_.NextDeadline(), now_ + kLease / 2);  // of the silent one
  Pass(kLease / 2);
  EXPECT_EQ(core_.connected_workers(), 1U);
  Pass(kLease);
  EXPECT_EQ(core_.connected_workers(), 0U);
  EXPECT_EQ(core_.NextDeadline(), std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(core_.Apply(Synced{WorkerId{2}, {}}, now_).unknown_worker);
  EXPECT_EQ(core_.connected_workers(), 1U);
}

TEST_F(CoreTest, DepartedWorkerIsGivenNothingAndLosesNothing) {
  Add({Job(1)});
  Register(1, "a");
  const LeaseRef lease = Lease(1);
  core_.Apply(LeaseRequested{WorkerId{1}, "r", 1, now_ + kLease}, now_);
  const Effects effects = core_.Apply(Departed{WorkerId{1}}, now_);
  ASSERT_THAT(effects.answers, SizeIs(1));
  EXPECT_EQ(core_.connected_workers(), 0U);
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kLeased);
  EXPECT_THAT(Add({Job(2)}).answers, IsEmpty());
  EXPECT_EQ(Done(1, lease).verdict, Verdict::kCommitted);
}

TEST_F(CoreTest, RestoredLeaseHasAWholeLeaseOfGraceAndGoesToItsSlotsProcess) {
  NewJob job = Job(1);
  job.stored_state = JobState::kLeased;
  job.last_attempt = 4;
  Add({job});
  core_.RestoreLease({JobId{1}, 4}, WorkerId{5}, "a", now_);
  EXPECT_EQ(core_.NextDeadline(), now_ + kLease);
  EXPECT_TRUE(Sync(5, {JobId{1}, 4}).unknown_worker);
  EXPECT_EQ(core_.connected_workers(), 0U);  // what it can run is not known
  WorkerRegistered back;
  back.worker = WorkerId{6};
  back.slot = "a";
  back.stages = kEveryStage;
  back.held = {LeaseProgress{{JobId{1}, 4}}};
  EXPECT_THAT(core_.Apply(back, now_).revoked, IsEmpty());
  EXPECT_EQ(Done(6, {JobId{1}, 4}).verdict, Verdict::kCommitted);
}

TEST_F(CoreTest, AttemptNumbersGoOnAfterARestart) {
  NewJob job = Job(1);
  job.last_attempt = 7;
  Add({job});
  Register(1, "a");
  EXPECT_EQ(Lease(1), (LeaseRef{JobId{1}, 8}));
}

TEST_F(CoreTest, StoredTerminalStatesAreNeverLeft) {
  NewJob done = Job(1, {}, Stage::kTrain);
  done.stored_state = JobState::kDone;
  NewJob failed = Job(2, {}, Stage::kTrain);
  failed.stored_state = JobState::kFailed;
  Add({done, failed, Job(3, {JobId{1}}, Stage::kEvaluate),
       Job(4, {JobId{2}}, Stage::kEvaluate)});
  EXPECT_EQ(core_.StateOf(JobId{3}), JobState::kReady);
  EXPECT_EQ(core_.StateOf(JobId{4}), JobState::kUpstreamFailed);
  EXPECT_EQ(core_.ready_jobs(), 1U);
}

std::vector<JobId> JobsOf(const std::vector<LeaseRef>& leases) {
  std::vector<JobId> jobs;
  jobs.reserve(leases.size());
  for (const LeaseRef& lease : leases) jobs.push_back(lease.job);
  return jobs;
}

std::vector<NewJob> Many(int64_t first, int64_t last, NewJob like) {
  std::vector<NewJob> jobs;
  for (int64_t id = first; id <= last; ++id) {
    like.id = JobId{id};
    jobs.push_back(like);
  }
  return jobs;
}

TEST_F(CoreTest, BundleIsSizedToItsExpectedTime) {
  Add(Many(1, 100, Job(0)));
  Register(1, "a");
  EXPECT_THAT(LeaseBundle(1, 64), SizeIs(1)) << "nothing is known of the cost";
  Done(1, {JobId{1}, 1}, 200'000);
  EXPECT_THAT(LeaseBundle(1, 64), SizeIs(10));  // of 2 s
  EXPECT_THAT(LeaseBundle(1, 4), SizeIs(4));    // the worker's own limit
}

TEST_F(CoreTest, LongJobsAreLeasedOneByOne) {
  Add(Many(1, 10, Job(0)));
  Register(1, "a");
  Done(1, Lease(1), 60'000'000);
  EXPECT_THAT(LeaseBundle(1, 64), SizeIs(1));
}

TEST_F(CoreTest, BundleLeavesTheOtherWorkersTheirShare) {
  Add(Many(1, 21, Job(0)));
  for (const int64_t worker : {1, 2, 3, 4})
    Register(worker, std::to_string(worker));
  Done(1, Lease(1), 1);
  EXPECT_THAT(LeaseBundle(1, 64), SizeIs(5));
  EXPECT_THAT(LeaseBundle(2, 64), SizeIs(4));  // of the 15 left
}

TEST_F(CoreTest, BundleHoldsJobsOfOneParentOnly) {
  Add({Job(1, {}, Stage::kTrain), Job(2, {}, Stage::kTrain)});
  Register(1, "a");
  Done(1, Lease(1), 1);
  Done(1, Lease(1), 1);
  const NewJob of_first = Job(0, {JobId{1}}, Stage::kEvaluate);
  const NewJob of_second = Job(0, {JobId{2}}, Stage::kEvaluate);
  Add(Many(11, 13, of_first));
  Add(Many(21, 23, of_second));
  Add(Many(14, 15, of_first));
  Done(1, Lease(1), 1);
  EXPECT_THAT(JobsOf(LeaseBundle(1, 64)),
              ElementsAre(JobId{12}, JobId{13}, JobId{14}, JobId{15}));
  EXPECT_THAT(JobsOf(LeaseBundle(1, 64)),
              ElementsAre(JobId{21}, JobId{22}, JobId{23}))
      << "sized by what the stage's jobs cost";
}

TEST_F(CoreTest, WorkerGoesOnWithTheCheckpointItHasLoaded) {
  Add({Job(1, {}, Stage::kTrain), Job(2, {}, Stage::kTrain)});
  Register(1, "a");
  Register(2, "b");
  Done(1, Lease(1));
  Done(1, Lease(1));
  Add({Job(11, {JobId{1}}, Stage::kEvaluate),
       Job(12, {JobId{2}}, Stage::kEvaluate),
       Job(13, {JobId{1}}, Stage::kEvaluate),
       Job(14, {JobId{2}}, Stage::kEvaluate)});
  EXPECT_EQ(Lease(1).job, JobId{11});
  EXPECT_EQ(Lease(2).job, JobId{12});
  EXPECT_EQ(Lease(2).job, JobId{14});
  EXPECT_EQ(Lease(2).job, JobId{13}) << "better than idling";
}

TEST_F(CoreTest, CrashInABundleChargesOnlyTheJobThatRan) {
  NewJob fragile = Job(0);
  fragile.max_attempts = 1;
  Add(Many(1, 6, fragile));
  Register(1, "a");
  Done(1, Lease(1), 1);
  const std::vector<LeaseRef> bundle = LeaseBundle(1, 64);
  ASSERT_THAT(bundle, SizeIs(5));
  WorkerRegistered next;
  next.worker = WorkerId{2};
  next.slot = "a";
  next.stages = kEveryStage;
  next.predecessor.lease = bundle[1];
  next.predecessor_cause = Cause::kCrashed;
  core_.Apply(next, now_);
  EXPECT_EQ(core_.StateOf(bundle[1].job), JobState::kFailed);
  for (const size_t other : {0, 2, 3, 4})
    EXPECT_EQ(core_.StateOf(bundle[other].job), JobState::kReady) << other;
}

TEST_F(CoreTest, LostWorkerIsChargedOnlyForWhatItHadBegun) {
  NewJob fragile = Job(0);
  fragile.max_attempts = 1;
  Add(Many(1, 2, fragile));
  Register(1, "a");
  const LeaseRef begun = Lease(1);
  const LeaseRef waiting = Lease(1);
  Sync(1, begun);
  Sync(1, waiting, false, /*waiting=*/true);
  const Effects effects = Pass(kLease);
  EXPECT_EQ(core_.StateOf(begun.job), JobState::kFailed);
  EXPECT_EQ(core_.StateOf(waiting.job), JobState::kReady);
  ASSERT_THAT(effects.attempts_finished, SizeIs(2));
  EXPECT_EQ(effects.attempts_finished[1].cause, Cause::kUndelivered);
}

TEST_F(CoreTest, CancelledSweepGetsNoMoreLeasesAndItsRunningJobsComeBack) {
  NewJob mine = Job(0);
  mine.sweep = SweepId{1};
  NewJob other = Job(0);
  other.sweep = SweepId{2};
  Add(Many(1, 3, mine));
  Add(Many(4, 5, other));
  Register(1, "a");
  const LeaseRef running = Lease(1);
  const Effects effects = core_.Apply(SweepCancelled{SweepId{1}}, now_);
  ASSERT_THAT(effects.attempts_finished, SizeIs(1));
  EXPECT_EQ(effects.attempts_finished[0].lease, running);
  EXPECT_EQ(effects.attempts_finished[0].outcome, AttemptOutcome::kReleased);
  EXPECT_THAT(effects.job_states, SizeIs(1)) << "no other job is touched";
  EXPECT_THAT(Sync(1, running).revoked, ElementsAre(running));
  EXPECT_EQ(Lease(1).job, JobId{4});
  EXPECT_THAT(core_.Explain(JobId{2}), ::testing::HasSubstr("cancelled"));
  core_.Apply(SweepActivated{SweepId{1}}, now_);
  EXPECT_EQ(Lease(1).job, JobId{1});
}

TEST_F(CoreTest, JobThatAnotherSweepWantsSurvivesACancel) {
  NewJob shared = Job(1);
  shared.sweep = SweepId{1};
  Add({shared});
  shared.sweep = SweepId{2};
  Add({shared});
  Register(1, "a");
  const LeaseRef running = Lease(1);
  EXPECT_THAT(core_.Apply(SweepCancelled{SweepId{1}}, now_).attempts_finished,
              IsEmpty());
  core_.Apply(Released{WorkerId{1}, running, Cause::kDrained, 0}, now_);
  EXPECT_EQ(Lease(1).job, JobId{1});
}

TEST_F(CoreTest, CountsFollowEveryJobInEverySweepThatWantsIt) {
  NewJob job = Job(1);
  job.sweep = SweepId{1};
  Add({job});
  job.sweep = SweepId{2};
  Add({job});
  const auto count = [this](int64_t sweep, JobState state) {
    return core_.CountsOf(SweepId{sweep})[static_cast<size_t>(Stage::kTheory)]
                                         [static_cast<size_t>(state)];
  };
  EXPECT_EQ(count(1, JobState::kReady), 1U);
  EXPECT_EQ(count(2, JobState::kReady), 1U);
  Register(1, "a");
  Done(1, Lease(1));
  EXPECT_THAT(core_.TakeChangedSweeps(), ElementsAre(SweepId{1}, SweepId{2}));
  EXPECT_THAT(core_.TakeChangedSweeps(), IsEmpty());
  EXPECT_EQ(count(1, JobState::kReady), 0U);
  EXPECT_EQ(count(2, JobState::kDone), 1U);
}

TEST_F(CoreTest, RetryOpensTheFailedJobAndEverythingBelowWithNewBudgets) {
  Add({Job(1, {}, Stage::kTrain), Job(2, {}, Stage::kTrain),
       Job(3, {JobId{1}, JobId{2}}, Stage::kEvaluate),
       Job(4, {JobId{3}}, Stage::kEvaluate)});
  Register(1, "a");
  Failed(1, Lease(1), Cause::kInvalid);
  Failed(1, Lease(1), Cause::kInvalid);
  core_.Apply(Retried{{JobId{1}, JobId{3}}}, now_);
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kReady);
  EXPECT_EQ(core_.StateOf(JobId{3}), JobState::kUpstreamFailed)
      << "its other parent still is";
  core_.Apply(Retried{{JobId{2}}}, now_);
  EXPECT_EQ(core_.StateOf(JobId{3}), JobState::kBlocked);
  EXPECT_EQ(core_.StateOf(JobId{4}), JobState::kBlocked);
  for (int attempt = 2; attempt <= 4; ++attempt) {
    EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kReady);
    Failed(1, {JobId{1}, Lease(1).attempt}, Cause::kFailed);
  }
  EXPECT_EQ(core_.StateOf(JobId{1}), JobState::kFailed);
}

TEST_F(CoreTest, NothingToDoMeansNoDeadline) {
  EXPECT_EQ(core_.NextDeadline(), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace iclsweep
