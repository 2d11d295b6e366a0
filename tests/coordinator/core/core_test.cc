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
  Effects Done(int64_t worker, LeaseRef lease) {
    Completed event;
    event.worker = WorkerId{worker};
    event.lease = lease;
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
  Effects Sync(int64_t worker, LeaseRef lease, bool checkpointed = false) {
    LeaseProgress progress{lease};
    progress.checkpointed = checkpointed;
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

TEST_F(CoreTest, NothingToDoMeansNoDeadline) {
  EXPECT_EQ(core_.NextDeadline(), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace iclsweep
