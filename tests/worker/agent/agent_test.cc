// A worker's ordinary life: register, deliver, lease, run, hand in.
#include "worker/agent/agent.h"

#include "tests/support/file_size_limit.h"
#include "tests/worker/agent/agent_fixture.h"

namespace iclsweep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using testing::StatusIs;

// As FakeLink writes completions: the first job's, run in no time.
constexpr char kDone[] =
    "{1/1 done cause= message= steps=0 us=0 db=the-database on=cpu/avx2 G=1.5}";

class AgentTest : public testing::AgentFixture {};

TEST_F(AgentTest, RegistersThenAsksForWork) {
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(),
              ElementsAre("register host/cpu-0 held=[]", "lease 101"));
  EXPECT_EQ(link_.slot_uuid(), slot_->uuid());
  EXPECT_THAT(link_.waits(), ElementsAre(7'000'000));
}

TEST_F(AgentTest, RunsWhatItLeasesAndHandsItIn) {
  link_.leases.emplace_back(Work(1, 1, [this](const StageContext& context) {
    clock_.Advance(250);
    context.Progress(3, 5, 10);
    return Succeed(context);
  }));
  EXPECT_OK(Run());
  EXPECT_THAT(
      link_.log(),
      ElementsAre("register host/cpu-0 held=[]", "lease 101",
                  "complete 101 {1/1 done cause= message= steps=3 us=250 "
                  "db=the-database on=cpu/avx2 G=1.5}",
                  "lease 101"));
  EXPECT_THAT(Spooled(), IsEmpty());
}

TEST_F(AgentTest, TellsTheStageWhereThingsAre) {
  StageContext seen;
  std::vector<LeasedWork> work = Work(1, 3, [&](const StageContext& context) {
    seen = context;
    return Succeed(context);
  });
  work[0].input_artifacts = {{"ab/cd", "5a5a"}, {"second", ""}};
  link_.leases.emplace_back(work);
  options_.device = "cuda";
  EXPECT_OK(Run());
  const std::string key = ToHex(work[0].key);
  EXPECT_EQ(seen.device, "cuda");
  EXPECT_EQ(seen.device_kind, "cpu/avx2");
  EXPECT_EQ(seen.artifact_dir, dir_.Path("artifacts"));
  EXPECT_EQ(seen.artifact_name, key);
  EXPECT_EQ(seen.checkpoint_dir, dir_.Path("artifacts/ab/cd"));
  EXPECT_EQ(seen.checkpoint_sha256, "5a5a");
  EXPECT_EQ(seen.partial_dir, dir_.Path("partial/" + key));
  EXPECT_EQ(seen.attempt, 3U);
  EXPECT_EQ(seen.checkpoint_every_steps, 50);
}

TEST_F(AgentTest, KeepsWhatAStageSaysInItsAttemptsLog) {
  std::vector<LeasedWork> work = Work(7, 3, [&](const StageContext& context) {
    context.Log("step 0: loss 2");
    clock_.Advance(10'000'000);
    context.Progress(4, 4, 8);
    return Succeed(context);
  });
  const std::string file =
      AttemptLogFile(dir_.Path("logs"), work[0].key, /*attempt=*/3);
  link_.leases.emplace_back(work);
  EXPECT_OK(Run());
  EXPECT_EQ(testing::BytesOfFile(file),
            "2027-01-15T08:00:01.000Z attempt 3 of train job 7 on host/cpu-0 "
            "(cpu/avx2, build )\n"
            "2027-01-15T08:00:01.000Z step 0: loss 2\n"
            "2027-01-15T08:00:11.000Z 4 of 8 steps, 0.4 a second\n"
            "2027-01-15T08:00:11.000Z done after 10.0 s\n");
}

TEST_F(AgentTest, MarksWhatItRunsAndClearsTheMark) {
  std::vector<std::string> marks;
  link_.leases.emplace_back(Work(1, 2, [&](const StageContext& context) {
    marks.push_back(Marked());
    context.Progress(4, 4, 10);
    marks.push_back(Marked());
    return Succeed(context);
  }));
  link_.on_complete = [&] { marks.push_back(Marked()); };
  EXPECT_OK(Run());
  // From the spooling on, a crash is not the job's doing.
  EXPECT_THAT(marks, ElementsAre("1/2 steps=0", "1/2 steps=4", "0/0 steps=0"));
  EXPECT_EQ(Marked(), "0/0 steps=0");
}

TEST_F(AgentTest, PassesTheFaultPointsInOrder) {
  std::vector<std::string> points;
  options_.fault = [&](const std::string& point) {
    points.push_back(absl::StrCat(point, " ", Spooled().size()));
  };
  link_.leases.emplace_back(Work(1, 1, [](const StageContext& context) {
    context.Progress(1, 1, 2);
    context.Progress(2, 2, 3, /*checkpointed=*/true);
    context.Progress(3, 3, 3);  // the end is not the middle
    return Succeed(context);
  }));
  EXPECT_OK(Run());
  EXPECT_THAT(points, ElementsAre("after_lease 0", "progress.train 0",
                                  "checkpointed 0", "after_spool 1"));
}

// ---- bundles

using BundleStage = std::function<absl::StatusOr<StageResult>(
    int64_t job, const StageContext& context)>;

std::vector<LeasedWork> Bundle(int64_t jobs, const BundleStage& run) {
  std::vector<LeasedWork> bundle;
  for (int64_t job = 1; job <= jobs; ++job) {
    LeasedWork work;
    work.lease = {JobId{job}, 1};
    work.run = [job, run](const StageContext& context) {
      return run(job, context);
    };
    bundle.push_back(std::move(work));
  }
  return bundle;
}

TEST_F(AgentTest, BundleIsRunOneByOneAndHandedInTogether) {
  std::vector<std::string> marks;
  std::vector<size_t> spooled;
  link_.leases.emplace_back(
      Bundle(3, [&](int64_t, const StageContext& context) {
        marks.push_back(Marked());
        spooled.push_back(Spooled().size());
        return Succeed(context);
      }));
  EXPECT_OK(Run());
  EXPECT_THAT(marks, ElementsAre("1/1 steps=0", "2/1 steps=0", "3/1 steps=0"));
  EXPECT_THAT(spooled, ElementsAre(0, 1, 2)) << "a crash loses none of them";
  EXPECT_THAT(link_.log(),
              ElementsAre(HasSubstr("register"), "lease 101",
                          AllOf(HasSubstr("complete 101 {1/1"),
                                HasSubstr("} {2/1"), HasSubstr("} {3/1")),
                          "lease 101"));
  EXPECT_THAT(Spooled(), IsEmpty());
}

TEST_F(AgentTest, AsksForAsManyJobsAsItWasTold) {
  options_.bundle = 17;
  EXPECT_OK(Run());
  EXPECT_THAT(link_.max_jobs(), ElementsAre(17));
}

TEST_F(AgentTest, ResultsOfABundleWaitNoLongerThanASecond) {
  link_.leases.emplace_back(
      Bundle(4, [this](int64_t, const StageContext& context) {
        clock_.Advance(600'000);
        return Succeed(context);
      }));
  EXPECT_OK(Run());
  EXPECT_THAT(
      link_.log(),
      ElementsAre(HasSubstr("register"), "lease 101",
                  AllOf(HasSubstr("{1/1"), HasSubstr("{2/1")),
                  AllOf(HasSubstr("{3/1"), HasSubstr("{4/1")), "lease 101"));
}

TEST_F(AgentTest, LargeBundleIsHandedInByGroups) {
  link_.leases.emplace_back(Bundle(
      100,
      [](int64_t, const StageContext& context) { return Succeed(context); }));
  EXPECT_OK(Run());
  ASSERT_THAT(link_.log(), SizeIs(5));
  EXPECT_THAT(link_.log()[2],
              AllOf(HasSubstr("{64/1"), Not(HasSubstr("{65/1"))));
  EXPECT_THAT(link_.log()[3], AllOf(HasSubstr("{65/1"), HasSubstr("{100/1")));
}

TEST_F(AgentTest, LargeResultsAreHandedInByGroupsOfTheirBytes) {
  for (int64_t job = 1; job <= 3; ++job)
    ASSERT_OK(slot_->Spool({JobId{job}, 1}, std::string(700'000, 'a')));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(), SizeIs(5));  // one each
}

TEST_F(AgentTest, OneRefusedResultDoesNotTakeTheOthersWithIt) {
  link_.leases.emplace_back(Bundle(3, [](int64_t, const StageContext& context) {
    return Succeed(context);
  }));
  link_.deliveries.emplace_back(absl::InvalidArgumentError("one is bad"));
  link_.deliveries.emplace_back(Delivery::kAlreadyCommitted);
  link_.deliveries.emplace_back(absl::InvalidArgumentError("this one"));
  link_.deliveries.emplace_back(Delivery::kCommitted);
  EXPECT_OK(Run());
  EXPECT_THAT(Spooled(), IsEmpty());
  ASSERT_THAT(link_.log(), SizeIs(7));
  EXPECT_THAT(link_.log()[5], AllOf(HasSubstr("{3/1"), Not(HasSubstr("{2/1"))));
}

TEST_F(AgentTest, FailedJobOfABundleDoesNotEndIt) {
  link_.leases.emplace_back(Bundle(2,
                                   [](int64_t job, const StageContext& context)
                                       -> absl::StatusOr<StageResult> {
                                     if (job == 1)
                                       return absl::InternalError("no luck");
                                     return Succeed(context);
                                   }));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log()[2], AllOf(HasSubstr("{1/1 failed cause=failed"),
                                    HasSubstr("{2/1 done")));
}

// ---- failures of stages

TEST_F(AgentTest, StageErrorBecomesItsCause) {
  const struct {
    absl::Status status;
    const char* cause;
  } cases[] = {
      {absl::InvalidArgumentError("bad dims"), "invalid"},
      {absl::ResourceExhaustedError("CUDA out of memory"), "out_of_memory"},
      {absl::AbortedError("CUDA error: device-side assert"), "device_error"},
      {absl::InternalError("c10::Error: shapes differ"), "failed"},
      {absl::UnavailableError("disk"), "failed"},
      {absl::DataLossError("checkpoint"), "failed"},
      {absl::FailedPreconditionError("no"), "failed"},
      {absl::UnknownError("?"), "failed"},
  };
  std::vector<std::string> expected;
  for (const auto& c : cases) {
    link_.leases.emplace_back(Work(
        1, 1, [status = c.status](const StageContext&) { return status; }));
    expected.push_back(absl::StrCat("failed cause=", c.cause,
                                    " message=", c.status.message(), " "));
  }
  EXPECT_OK(Run());
  std::vector<std::string> completions;
  for (const std::string& line : link_.log()) {
    if (line.starts_with("complete")) completions.push_back(line);
  }
  ASSERT_EQ(completions.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_THAT(completions[i], HasSubstr(expected[i]));
}

// ---- the spool

TEST_F(AgentTest, DeliversWhatAnEarlierProcessLeftBeforeItsFirstLease) {
  ASSERT_OK(slot_->Spool({JobId{7}, 2}, "{left behind}"));
  OpenSlot();
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(),
              ElementsAre("register host/cpu-0 held=[7/2]",
                          "complete 101 {left behind}", "lease 101"));
  EXPECT_THAT(Spooled(), IsEmpty());
}

TEST_F(AgentTest, ResultStaysInTheSpoolUntilItIsAcknowledged) {
  link_.leases.emplace_back(Work(1, 1, Succeed));
  link_.deliveries.emplace_back(absl::UnavailableError("restarting"));
  link_.deliveries.emplace_back(Delivery::kCommitted);
  std::vector<size_t> spooled;
  link_.on_complete = [&] { spooled.push_back(Spooled().size()); };
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(),
              ElementsAre("register host/cpu-0 held=[]", "lease 101",
                          absl::StrCat("complete 101 ", kDone),
                          absl::StrCat("complete 101 ", kDone), "lease 101"));
  EXPECT_THAT(spooled, ElementsAre(1, 1));
  EXPECT_THAT(Spooled(), IsEmpty());
}

TEST_F(AgentTest, EveryVerdictEndsTheSpoolsDuty) {
  for (const Delivery verdict :
       {Delivery::kCommitted, Delivery::kAlreadyCommitted, Delivery::kStale}) {
    link_.leases.emplace_back(Work(1, 1, Succeed));
    link_.deliveries.emplace_back(verdict);
  }
  EXPECT_OK(Run());
  EXPECT_THAT(Spooled(), IsEmpty());
  EXPECT_THAT(link_.requests(), SizeIs(4));
}

TEST_F(AgentTest, RefusedResultIsForgottenAndTheWorkerGoesOn) {
  link_.leases.emplace_back(Work(1, 1, Succeed));
  link_.deliveries.emplace_back(absl::InvalidArgumentError("given twice"));
  EXPECT_OK(Run());
  EXPECT_THAT(Spooled(), IsEmpty());
  EXPECT_EQ(link_.log().back(), "lease 101");
}

TEST_F(AgentTest, DamagedSpoolEntryIsNotDelivered) {
  ASSERT_OK(slot_->Spool({JobId{7}, 2}, "{left behind}"));
  testing::WriteBytes(dir_.Path("slot/spool"), "torn");
  OpenSlot();
  EXPECT_OK(Run());
  // Nor is its lease held on to: the job is free at once.
  EXPECT_THAT(link_.log(),
              ElementsAre("register host/cpu-0 held=[]", "lease 101"));
  EXPECT_EQ(testing::BytesOfFile(dir_.Path("slot/spool.damaged")), "torn");
}

TEST_F(AgentTest, DiskThatRefusesTheSpoolEndsTheWorker) {
  std::optional<testing::FileSizeLimit> full;
  std::vector<LeasedWork> both = Work(1, 1, [&](const StageContext& context) {
    full.emplace(10);
    return Succeed(context);
  });
  both.push_back(Work(2, 1, Succeed)[0]);
  link_.leases.emplace_back(both);
  EXPECT_THAT(Run(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("spool")));
}

// ---- calls that fail

TEST_F(AgentTest, RetriedLeaseCarriesTheSameRequest) {
  link_.leases.emplace_back(absl::UnavailableError("restarting"));
  link_.leases.emplace_back(std::vector<LeasedWork>());
  EXPECT_OK(Run());
  const std::vector<std::string> requests = link_.requests();
  ASSERT_THAT(requests, SizeIs(3));
  EXPECT_EQ(requests[0], requests[1]);
  EXPECT_NE(requests[1], requests[2]);
  EXPECT_THAT(requests[0], HasSubstr(slot_->uuid()));
}

TEST_F(AgentTest, RegistrationIsTriedUntilTheCoordinatorIsThere) {
  link_.registrations.emplace_back(absl::UnavailableError("not yet"));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(),
              ElementsAre("register host/cpu-0 held=[]",
                          "register host/cpu-0 held=[]", "lease 102"));
}

TEST_F(AgentTest, RefusedRegistrationEndsTheWorker) {
  link_.registrations.emplace_back(
      absl::FailedPreconditionError("another version"));
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition,
                              HasSubstr("another version")));
}

TEST_F(AgentTest, RefusedLeaseEndsTheWorker) {
  link_.leases.emplace_back(absl::PermissionDeniedError("not you"));
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kPermissionDenied,
                              HasSubstr("not you")));
}

TEST_F(AgentTest, ForgottenWorkerRegistersAgain) {
  link_.leases.emplace_back(absl::NotFoundError("who are you"));
  EXPECT_OK(Run());
  EXPECT_THAT(link_.log(),
              ElementsAre("register host/cpu-0 held=[]", "lease 101",
                          "register host/cpu-0 held=[]", "lease 102"));
  EXPECT_NE(link_.requests()[0], link_.requests()[1]);
}

TEST_F(AgentTest, ArtifactDirectoryMustBeShared) {
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr(dir_.Path("artifacts")));
  testing::WriteBytes(dir_.Path("artifacts/.iclsweep-probe"),
                      "another-database\n");
  EXPECT_THAT(Run(), refused);
  std::filesystem::remove(dir_.Path("artifacts/.iclsweep-probe"));
  EXPECT_THAT(Run(), refused);
  for (const std::string& line : link_.log())
    EXPECT_THAT(line, HasSubstr("register"));
}

// ---- predecessors

TEST_F(AgentTest, TellsOnceHowItsPredecessorDied) {
  slot_->MarkRunning({{JobId{5}, 2}, 30, 40, 50, true});
  WriteExit(dir_.Path("slot"), "crashed", "killed by signal 11", "the end");
  OpenSlot();
  link_.leases.emplace_back(absl::NotFoundError("register again"));
  EXPECT_OK(Run());
  const std::vector<Predecessor> told = link_.predecessors();
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[0].progress.lease, (LeaseRef{JobId{5}, 2}));
  EXPECT_EQ(told[0].progress.steps_run, 30U);
  EXPECT_TRUE(told[0].progress.checkpointed);
  EXPECT_EQ(told[0].cause, Cause::kCrashed);
  EXPECT_EQ(told[0].description, "killed by signal 11");
  EXPECT_EQ(told[0].log_tail, "the end");
  EXPECT_FALSE(told[1].progress.lease.job);
}

TEST_F(AgentTest, PredecessorIsKeptUntilARegistrationWasAccepted) {
  slot_->MarkRunning({{JobId{5}, 2}});
  link_.registrations.emplace_back(absl::UnavailableError("not yet"));
  EXPECT_OK(Run());
  const std::vector<Predecessor> told = link_.predecessors();
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[1].progress.lease, (LeaseRef{JobId{5}, 2}));
}

// ---- leaving

TEST_F(AgentTest, LeavesAfterBeingIdleForLongEnough) {
  options_.idle_timeout_us = 20'000'000;
  link_.on_idle = [] { FAIL() << "it should have left"; };
  link_.on_lease = [this] { clock_.Advance(8'000'000); };
  const std::vector<LeasedWork> nothing;
  link_.leases.emplace_back(nothing);
  // However long work takes, it is not idleness.
  link_.leases.emplace_back(Work(1, 1, [this](const StageContext& context) {
    clock_.Advance(100'000'000);
    return Succeed(context);
  }));
  for (int i = 0; i < 3; ++i) link_.leases.emplace_back(nothing);  // 24 seconds
  EXPECT_OK(Run());
  EXPECT_THAT(link_.requests(), SizeIs(5));
  EXPECT_THAT(link_.left(), ElementsAre(101));
}

TEST_F(AgentTest, SaysGoodbyeOnceUnlessItNeverRegistered) {
  EXPECT_OK(Run());
  EXPECT_THAT(link_.left(), ElementsAre(101));
  testing::FakeLink refusing;
  refusing.registrations.emplace_back(absl::FailedPreconditionError("no"));
  OpenSlot();
  EXPECT_FALSE(Agent(options_, &refusing, slot_.get(), &clock_).Run().ok());
  EXPECT_THAT(refusing.left(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace iclsweep
