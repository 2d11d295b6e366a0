// Stops, revoked leases and coordinators that have forgotten: what happens to a
// worker while it runs something.
#include "tests/worker/agent/agent_fixture.h"
#include "worker/agent/agent.h"

namespace iclsweep {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class AgentStopTest : public testing::AgentFixture {
 protected:
  // Heartbeats that come as fast as they can.
  void BeatFast() { link_.default_registration.heartbeat_us = 200; }
  // Heartbeats may come before the first lease; what these tests are about
  // begins when a stage runs.
  void ForgetWorkerOnceItRuns() {
    link_.on_sync = [this] {
      SyncReply reply;
      reply.register_again = running_ && !asked_.exchange(true);
      return reply;
    };
  }

  std::atomic<bool> running_ = false;
  std::atomic<bool> asked_ = false;
};

// ---- Stop

TEST_F(AgentStopTest, StopDuringAStageGivesTheLeaseBackWithItsCause) {
  link_.leases.emplace_back(Work(1, 4, [this](const StageContext& context) {
    context.Progress(3, 3, 10);
    agent_->Stop(Cause::kPreempted);
    EXPECT_TRUE(context.Stopped());
    return absl::CancelledError("saved and stopped");
  }));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), ElementsAre(HasSubstr("register"), "lease 101",
                                       "release 101 1/4 preempted steps=3"));
  EXPECT_EQ(Marked(), "0/0 steps=0");
}

TEST_F(AgentStopTest, CauseOfTheStopIsPassedOn) {
  link_.leases.emplace_back(Work(1, 1, [this](const StageContext&) {
    agent_->Stop(Cause::kDrained);
    return absl::CancelledError("stopped");
  }));
  EXPECT_OK(Run());
  EXPECT_EQ(link_.log().back(), "release 101 1/1 drained steps=0");
}

TEST_F(AgentStopTest, StageThatFinishesAfterTheStopIsHandedIn) {
  link_.leases.emplace_back(Work(1, 1, [this](const StageContext& context) {
    agent_->Stop(Cause::kPreempted);
    return Succeed(context);
  }));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log().back(), HasSubstr("complete 101 {1/1 done"));
  EXPECT_THAT(Spooled(), IsEmpty());
}

TEST_F(AgentStopTest, LostReleaseIsNoError) {
  link_.leases.emplace_back(Work(1, 1, [this](const StageContext&) {
    agent_->Stop(Cause::kPreempted);
    return absl::CancelledError("stopped");
  }));
  link_.releases.push_back(absl::UnavailableError("gone"));
  EXPECT_OK(Run());
}

TEST_F(AgentStopTest, NothingIsStartedAfterAStop) {
  std::vector<LeasedWork> bundle = Work(1, 1, [this](const StageContext&) {
    agent_->Stop(Cause::kPreempted);
    return absl::CancelledError("stopped");
  });
  for (const int64_t job : {2, 3}) {
    bundle.push_back(Work(job, 1, [](const StageContext&) {
      ADD_FAILURE() << "it must not start";
      return absl::CancelledError("stopped");
    })[0]);
  }
  link_.leases.emplace_back(bundle);
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), Contains("release 101 1/1 preempted steps=0"));
  EXPECT_EQ(link_.log().back(), "release 101 2/1,3/1 preempted steps=0,0");
}

TEST_F(AgentStopTest, ResultsOfAStoppedBundleAreHandedInAndTheRestGivenBack) {
  std::vector<LeasedWork> bundle = Work(1, 1, Succeed);
  bundle.push_back(Work(2, 1, [this](const StageContext& context) {
    agent_->Stop(Cause::kPreempted);
    return Succeed(context);
  })[0]);
  bundle.push_back(Work(3, 1, Succeed)[0]);
  link_.leases.emplace_back(bundle);
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), Contains("release 101 3/1 preempted steps=0"));
  EXPECT_THAT(link_.log().back(),
              AllOf(HasSubstr("{1/1 done"), HasSubstr("{2/1 done")));
}

TEST_F(AgentStopTest, HeartbeatTellsWhatOfABundleHasNotBegun) {
  BeatFast();
  std::vector<LeasedWork> bundle =
      Work(1, 1, [this](const StageContext& context) {
        link_.AwaitSyncOf(101);
        link_.AwaitNextSync();
        return Succeed(context);
      });
  bundle.push_back(Work(2, 1, Succeed)[0]);
  link_.leases.emplace_back(bundle);
  EXPECT_OK(Run());
  EXPECT_THAT(link_.syncs(), Contains("101 [1/1,2/1 waiting]"));
}

TEST_F(AgentStopTest, RevokedJobOfABundleIsNotBegun) {
  BeatFast();
  std::atomic<int> told = 0;
  link_.on_sync = [&] {
    SyncReply reply;
    if (running_) {
      reply.revoked = {{JobId{2}, 1}};
      ++told;
    }
    return reply;
  };
  std::vector<LeasedWork> bundle = Work(1, 1, [&](const StageContext& context) {
    running_ = true;
    while (told < 2) std::this_thread::yield();
    return Succeed(context);
  });
  bundle.push_back(Work(2, 1, [](const StageContext&) {
    ADD_FAILURE() << "it must not start";
    return absl::CancelledError("stopped");
  })[0]);
  bundle.push_back(Work(3, 1, Succeed)[0]);
  link_.leases.emplace_back(bundle);
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(),
              Contains(AllOf(HasSubstr("{1/1"), HasSubstr("{3/1"))));
  EXPECT_THAT(link_.log(), Not(Contains(HasSubstr("release"))));
}

TEST_F(AgentStopTest, StopWhileALeaseArrivesGivesItBackUnstarted) {
  link_.leases.emplace_back(Work(1, 1, [](const StageContext&) {
    ADD_FAILURE() << "it must not start";
    return absl::CancelledError("stopped");
  }));
  link_.on_lease = [this] { agent_->Stop(Cause::kPreempted); };
  EXPECT_OK(Run());
  EXPECT_EQ(link_.log().back(), "release 101 1/1 preempted steps=0");
}

TEST_F(AgentStopTest, UndeliveredResultWaitsForTheSlotsNextProcess) {
  link_.leases.emplace_back(Work(1, 1, Succeed));
  link_.deliveries.emplace_back(absl::UnavailableError("down"));
  link_.on_complete = [this] { agent_->Stop(Cause::kPreempted); };
  EXPECT_OK(Run());
  EXPECT_THAT(Spooled(), ElementsAre("1/1"));
  EXPECT_EQ(Marked(), "0/0 steps=0");  // a crash would not be charged
  link_.ExpectScriptUsedUp();

  testing::FakeLink next;
  next.default_registration = link_.default_registration;
  OpenSlot();
  Agent successor(options_, &next, slot_.get(), &clock_);
  next.on_idle = [&] { successor.Stop(Cause::kDrained); };
  EXPECT_OK(successor.Run());
  EXPECT_THAT(next.log(),
              ElementsAre("register host/cpu-0 held=[1/1]",
                          HasSubstr("complete 101 {1/1 done"), "lease 101"));
  EXPECT_THAT(Spooled(), IsEmpty());
}

TEST_F(AgentStopTest, StopBeforeTheFirstRegistrationEndsTheWorker) {
  link_.registrations.emplace_back(absl::UnavailableError("down"));
  link_.on_register = [this] { agent_->Stop(Cause::kPreempted); };
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), ElementsAre("register host/cpu-0 held=[]"));
}

// ---- the coordinator takes a lease away

TEST_F(AgentStopTest, RevokedLeaseStopsTheStageAndIsNotHandedIn) {
  BeatFast();
  link_.on_sync = [] {
    SyncReply reply;
    reply.revoked = {{JobId{1}, 1}};
    return reply;
  };
  link_.leases.emplace_back(Work(1, 1, RunUntilStopped));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(),
              ElementsAre(HasSubstr("register"), "lease 101", "lease 101"));
}

TEST_F(AgentStopTest, OtherLeasesRevocationIsNotThisOnes) {
  BeatFast();
  std::atomic<int> syncs = 0;
  link_.on_sync = [&] {
    ++syncs;
    SyncReply reply;
    reply.revoked = {{JobId{1}, 2}, {JobId{2}, 1}};
    return reply;
  };
  link_.leases.emplace_back(Work(1, 1, [&](const StageContext& context) {
    const int start = syncs;
    while (syncs < start + 3) std::this_thread::yield();
    EXPECT_FALSE(context.Stopped());
    return Succeed(context);
  }));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), Contains(HasSubstr("complete 101 {1/1 done")));
}

TEST_F(AgentStopTest, JobAfterARevokedOneRunsUndisturbed) {
  BeatFast();
  link_.on_sync = [] {
    SyncReply reply;
    reply.revoked = {{JobId{1}, 1}};
    return reply;
  };
  link_.leases.emplace_back(Work(1, 1, RunUntilStopped));
  link_.leases.emplace_back(Work(2, 1, [](const StageContext& context) {
    EXPECT_FALSE(context.Stopped());
    return Succeed(context);
  }));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), Contains(HasSubstr("complete 101 {2/1 done")));
}

TEST_F(AgentStopTest, ResultOfARevokedLeaseIsLeftToTheCoordinatorsVerdict) {
  BeatFast();
  link_.on_sync = [] {
    SyncReply reply;
    reply.revoked = {{JobId{1}, 1}};
    return reply;
  };
  link_.leases.emplace_back(Work(1, 1, [](const StageContext& context) {
    while (!context.Stopped()) std::this_thread::yield();
    return Succeed(context);
  }));
  link_.deliveries.emplace_back(Delivery::kStale);
  EXPECT_OK(Run());
  EXPECT_THAT(Spooled(), IsEmpty());
  EXPECT_EQ(link_.log().back(), "lease 101");
}

TEST_F(AgentStopTest, DrainedWorkerFinishesItsJobAndLeaves) {
  BeatFast();
  std::atomic<int> told = 0;
  link_.on_sync = [&] {
    SyncReply reply;
    reply.drain = running_;
    if (reply.drain) ++told;
    return reply;
  };
  link_.leases.emplace_back(Work(1, 1, [&](const StageContext& context) {
    running_ = true;
    // The second time says that the first has been understood.
    while (told < 2) std::this_thread::yield();
    EXPECT_FALSE(context.Stopped());
    return Succeed(context);
  }));
  link_.on_idle = nullptr;
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), ElementsAre(HasSubstr("register"), "lease 101",
                                       HasSubstr("complete 101 {1/1 done")));
}

TEST_F(AgentStopTest, WorkerToldToDrainByALeaseFinishesWhatItWasGiven) {
  link_.drain = true;
  link_.leases.emplace_back(Work(1, 1, Succeed));
  link_.on_idle = nullptr;
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), ElementsAre(HasSubstr("register"), "lease 101",
                                       HasSubstr("release 101 1/1 drained")));
}

TEST_F(AgentStopTest, IdleWorkerToldToDrainLeaves) {
  link_.drain = true;
  link_.on_idle = nullptr;
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), ElementsAre(HasSubstr("register"), "lease 101"));
  EXPECT_THAT(link_.left(), ElementsAre(101));
}

TEST_F(AgentStopTest, WorkerDrainedAtOnceSavesItsJobAndGivesItBack) {
  BeatFast();
  link_.on_sync = [&] {
    SyncReply reply;
    reply.drain = reply.drain_now = running_;
    return reply;
  };
  link_.leases.emplace_back(Work(
      1, 1, [&](const StageContext& context) -> absl::StatusOr<StageResult> {
        running_ = true;
        while (!context.Stopped()) std::this_thread::yield();
        return absl::CancelledError("saved");
      }));
  link_.on_idle = nullptr;
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), ElementsAre(HasSubstr("register"), "lease 101",
                                       HasSubstr("release 101 1/1 drained")));
}

// ---- the coordinator has forgotten the worker

TEST_F(AgentStopTest, RegisteringAgainWhileRunningKeepsTheLease) {
  BeatFast();
  ForgetWorkerOnceItRuns();
  link_.leases.emplace_back(Work(1, 1, [this](const StageContext& context) {
    running_ = true;
    link_.AwaitSyncOf(102);
    EXPECT_FALSE(context.Stopped());
    return Succeed(context);
  }));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), Contains("register host/cpu-0 held=[1/1]").Times(1));
  EXPECT_THAT(link_.log().back(), "lease 102");
  EXPECT_THAT(link_.log(), Contains(HasSubstr("complete 102")).Times(1));
}

TEST_F(AgentStopTest, RegisteringAgainKeepsTheWholeBundle) {
  BeatFast();
  ForgetWorkerOnceItRuns();
  std::vector<LeasedWork> bundle =
      Work(1, 1, [this](const StageContext& context) {
        running_ = true;
        link_.AwaitSyncOf(102);
        return Succeed(context);
      });
  bundle.push_back(Work(2, 1, Succeed)[0]);
  link_.leases.emplace_back(bundle);
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(),
              Contains("register host/cpu-0 held=[1/1,2/1 waiting]"));
}

TEST_F(AgentStopTest, RunningMarkSurvivesRegisteringAgain) {
  BeatFast();
  ForgetWorkerOnceItRuns();
  std::string mark;
  link_.leases.emplace_back(Work(1, 1, [&](const StageContext& context) {
    context.Progress(6, 6, 10);
    running_ = true;
    link_.AwaitSyncOf(102);
    mark = Marked();
    return Succeed(context);
  }));
  EXPECT_OK(Run());
  EXPECT_EQ(mark, "1/1 steps=6");
}

TEST_F(AgentStopTest, RegistrationThatRevokesTheRunningLeaseStopsTheStage) {
  BeatFast();
  ForgetWorkerOnceItRuns();
  Registration first = link_.default_registration;
  first.worker = WorkerId{1};
  Registration second = first;
  second.worker = WorkerId{2};
  second.revoked = {{JobId{1}, 1}};
  link_.registrations.emplace_back(first);
  link_.registrations.emplace_back(second);
  link_.leases.emplace_back(Work(1, 1, [this](const StageContext& context) {
    running_ = true;
    return RunUntilStopped(context);
  }));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), Not(Contains(HasSubstr("release"))));
  EXPECT_THAT(link_.log(), Not(Contains(HasSubstr("complete"))));
  EXPECT_EQ(link_.log().back(), "lease 2");
}

TEST_F(AgentStopTest, HeartbeatNamesWhatRunsAndWhatIsSpooled) {
  BeatFast();
  ASSERT_OK(slot_->Spool({JobId{7}, 2}, "{left behind}"));
  std::atomic<int> syncs = 0;
  link_.on_sync = [&] {
    ++syncs;
    return SyncReply();
  };
  const auto await_two = [&] {
    const int start = syncs;
    while (syncs < start + 2) std::this_thread::yield();
  };
  link_.on_complete = await_two;  // undelivered, so still held
  link_.leases.emplace_back(Work(1, 1, [&](const StageContext& context) {
    await_two();
    return Succeed(context);
  }));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.syncs(), Contains("101 [7/2]"));
  EXPECT_THAT(link_.syncs(), Contains("101 [1/1]"));
}

}  // namespace
}  // namespace iclsweep
