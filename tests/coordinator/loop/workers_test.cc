// What workers ask of the loop.
#include <filesystem>

#include "iclsweep/v1/params.pb.h"
#include "tests/coordinator/loop/loop_fixture.h"

namespace iclsweep {
namespace {

using testing::AskedComplete;
using testing::AskedLease;
using testing::AskedRegister;
using testing::AskedRelease;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kTrainThenEvaluate;
using testing::NoopSweep;
using ::testing::SizeIs;
using testing::StatusIs;

class LoopWorkersTest : public testing::LoopFixture {
 protected:
  void SetUp() override {
    LoopFixture::SetUp();
    StartLoop();
  }
};

TEST_F(LoopWorkersTest, RegisterTellsWhatAWorkerNeeds) {
  options_.heartbeat_us = 2'000'000;
  options_.lease_us = 9'000'000;
  options_.checkpoint_every_steps = 77;
  Restart();
  AskedRegister asked = PostRegister("slot");
  ASSERT_OK(asked.Wait());
  const v1::RegisterResponse& response = asked.response();
  EXPECT_GT(response.worker_id(), 0);
  EXPECT_EQ(response.database_uuid(), DatabaseUuid());
  EXPECT_EQ(response.epoch(), 2U);
  EXPECT_EQ(response.artifact_dir(), dir_.Path("artifacts"));
  EXPECT_EQ(response.partial_dir(), dir_.Path("partial"));
  EXPECT_EQ(response.log_dir(), dir_.Path("logs"));
  EXPECT_EQ(response.artifact_probe(), ".probe");
  EXPECT_EQ(response.heartbeat_ms(), 2000U);
  EXPECT_EQ(response.lease_ms(), 9000U);
  EXPECT_EQ(response.checkpoint_every_steps(), 77U);
  EXPECT_THAT(response.revoked(), IsEmpty());
  EXPECT_THAT(Rows("SELECT slot_uuid, slot_name, epoch FROM worker"),
              ElementsAre("slot|host/slot|2"));
  EXPECT_EQ(loop_->workers(), 1U);
}

TEST_F(LoopWorkersTest, LeaseCarriesTheInputsAndTheKey) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  const v1::LeasedJob job = Lease(worker);
  EXPECT_EQ(job.stage(), "noop");
  EXPECT_EQ(job.attempt(), 1U);
  EXPECT_TRUE(job.has_noop());
  EXPECT_THAT(Rows("SELECT key FROM job"), ElementsAre(job.job_key()));
  EXPECT_THAT(Rows("SELECT number, outcome, worker_id FROM attempt"),
              ElementsAre(absl::StrCat("1|running|", worker)));
}

TEST_F(LoopWorkersTest, JobWithDamagedInputsFailsAloneAndTheLoopGoesOn) {
  Submit(NoopSweep("s", 2));
  const int64_t worker = Register("slot");
  store_->damaged_job = JobId{1};
  EXPECT_EQ(Lease(worker).job_id(), 0);  // it was the damaged one
  EXPECT_EQ(Lease(worker).job_id(), 2);
  EXPECT_TRUE(loop_->healthy());
  EXPECT_THAT(Rows("SELECT state FROM job ORDER BY job_id"),
              ElementsAre("failed", "leased"));
  EXPECT_THAT(
      Rows("SELECT outcome, cause, message FROM attempt WHERE job_id = 1"),
      ElementsAre("failed|invalid|stored inputs of a noop job cannot be read"));
}

// That of Done(train).
void ExpectCarriesArtifactOf(const v1::LeasedJob& train,
                             const v1::LeasedJob& evaluate) {
  ASSERT_TRUE(evaluate.has_evaluate());
  ASSERT_THAT(evaluate.dependencies(), SizeIs(1));
  EXPECT_EQ(evaluate.dependencies(0).stage(), "train");
  EXPECT_EQ(evaluate.dependencies(0).job_key(), train.job_key());
  EXPECT_EQ(evaluate.dependencies(0).artifact_path(), "some/path");
  EXPECT_EQ(evaluate.dependencies(0).artifact_sha256(), "c0ffee");
}

TEST_F(LoopWorkersTest, DependentJobCarriesTheArtifactOfWhatItNeeds) {
  Submit(kTrainThenEvaluate);
  const int64_t worker = Register("slot");
  const v1::LeasedJob train = Lease(worker);
  ASSERT_TRUE(train.has_train());
  EXPECT_EQ(train.train().train().steps(), 10);
  EXPECT_EQ(Lease(worker).job_id(), 0);  // evaluate is blocked
  Complete(worker, Done(train));
  const v1::LeasedJob evaluate = Lease(worker);
  ExpectCarriesArtifactOf(train, evaluate);
}

TEST_F(LoopWorkersTest, WhoWaitsWhenTheTrainingEndsGetsItsArtifactToo) {
  Submit(kTrainThenEvaluate);
  const int64_t trainer = Register("slot-1");
  const int64_t idle = Register("slot-2");
  const v1::LeasedJob train = Lease(trainer);
  AskedLease parked = PostLease(idle, "parked", 10'000);
  Complete(trainer, Done(train));
  ASSERT_OK(parked.Wait());
  ASSERT_THAT(parked.response().jobs(), SizeIs(1));
  ExpectCarriesArtifactOf(train, parked.response().jobs(0));
}

TEST_F(LoopWorkersTest, JobWhoseInputHasNoArtifactFailsByName) {
  Submit(kTrainThenEvaluate);
  const int64_t worker = Register("slot");
  const v1::LeasedJob train = Lease(worker);
  Completion completion = Done(train);
  completion.result.artifact.reset();
  Complete(worker, completion);
  EXPECT_EQ(Lease(worker).job_id(), 0);
  EXPECT_THAT(
      Rows("SELECT cause, message FROM attempt WHERE outcome <> 'done'"),
      ElementsAre(
          HasSubstr(absl::StrCat("invalid|the database has no artifact of the "
                                 "train job ",
                                 ToHex(*JobKeyFromBytes(train.job_key()))))));
}

TEST_F(LoopWorkersTest, PartialCheckpointsGoWhenTheTrainingIsCommitted) {
  Submit(
      "name: t\ngrid: {seed: [1, 2]}\n"
      "model: {layers: 1, heads: 1, width: 8}\ndata: {dims: 2}\n"
      "train: {points: 16, steps: 10}\n");
  const int64_t worker = Register("slot");
  const v1::LeasedJob train = Lease(worker);
  const v1::LeasedJob other = Lease(worker);
  const auto folder = [&](const v1::LeasedJob& job) {
    return absl::StrCat(dir_.Path("partial"), "/",
                        ToHex(*JobKeyFromBytes(job.job_key())));
  };
  const auto checkpoint = [&](const v1::LeasedJob& job) {
    std::filesystem::create_directories(folder(job) + "/1/step-5");
    std::filesystem::create_directories(folder(job) + "/2/step-7");
  };
  checkpoint(train);
  checkpoint(other);
  EXPECT_EQ(Complete(worker, Failed(train, Cause::kFailed)),
            v1::COMPLETION_VERDICT_COMMITTED);
  EXPECT_TRUE(std::filesystem::exists(folder(train)));
  const v1::LeasedJob again = Lease(worker);
  ASSERT_EQ(again.job_id(), train.job_id());
  Complete(worker, Done(again));
  Sync(worker);  // a batch later
  EXPECT_FALSE(std::filesystem::exists(folder(train)));
  EXPECT_TRUE(std::filesystem::exists(folder(other) + "/2/step-7"));
  // What a late attempt, or a crash after the commit, left.
  checkpoint(train);
  Restart();
  EXPECT_FALSE(std::filesystem::exists(folder(train)));
  EXPECT_TRUE(std::filesystem::exists(folder(other) + "/2/step-7"));
}

TEST_F(LoopWorkersTest, ParkedLeaseIsAnsweredWhenWorkArrives) {
  const int64_t worker = Register("slot");
  AskedLease parked = PostLease(worker, "r", 30'000);
  Submit(NoopSweep("s", 1));
  ASSERT_OK(parked.Wait());
  EXPECT_THAT(parked.response().jobs(), SizeIs(1));
}

TEST_F(LoopWorkersTest, ParkedLeaseRunsOutEmpty) {
  const int64_t worker = Register("slot");
  AskedLease parked = PostLease(worker, "r", 1'000);
  Sync(worker);  // behind the poll: it is parked by now
  clock_.Advance(1'000'000);
  Sync(worker);  // wakes the loop
  ASSERT_OK(parked.Wait());
  EXPECT_THAT(parked.response().jobs(), IsEmpty());
}

TEST_F(LoopWorkersTest, SameRequestGetsTheSameJobs) {
  Submit(NoopSweep("s", 2));
  const int64_t worker = Register("slot");
  AskedLease first = PostLease(worker, "r", 0);
  ASSERT_OK(first.Wait());
  AskedLease again = PostLease(worker, "r", 0);
  ASSERT_OK(again.Wait());
  ASSERT_THAT(first.response().jobs(), SizeIs(1));
  EXPECT_EQ(first.response().SerializeAsString(),
            again.response().SerializeAsString());
  EXPECT_THAT(Rows("SELECT count(*) FROM attempt"), ElementsAre("1"));
}

TEST_F(LoopWorkersTest, RequestRepeatedWhileItWaitsIsAnsweredWithTheJobToo) {
  const int64_t worker = Register("slot");
  AskedLease first = PostLease(worker, "r", 30'000);
  AskedLease again = PostLease(worker, "r", 30'000);
  Submit(NoopSweep("s", 2));
  ASSERT_OK(first.Wait());
  ASSERT_OK(again.Wait());
  ASSERT_THAT(again.response().jobs(), SizeIs(1));
  EXPECT_EQ(first.response().SerializeAsString(),
            again.response().SerializeAsString());
  EXPECT_THAT(Rows("SELECT count(*) FROM attempt"), ElementsAre("1"));
}

TEST_F(LoopWorkersTest, CancelledPollGetsNoJob) {
  const int64_t worker = Register("slot");
  AskedLease gone = PostLease(worker, "r", 30'000);
  loop_->Post(LeaseCancelled{WorkerId{worker}, "r"});
  ASSERT_OK(gone.Wait());
  EXPECT_THAT(gone.response().jobs(), IsEmpty());
  Submit(NoopSweep("s", 1));
  EXPECT_THAT(Rows("SELECT state FROM job"), ElementsAre("ready"));
}

TEST_F(LoopWorkersTest, UnknownWorkerIsToldToRegister) {
  Submit(NoopSweep("s", 1));
  AskedLease asked = PostLease(4711, "r", 30'000);
  EXPECT_THAT(asked.Wait(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("registered")));
  EXPECT_TRUE(Sync(4711).register_again());
  EXPECT_FALSE(Sync(Register("slot")).register_again());
}

TEST_F(LoopWorkersTest, WorkerOfAnotherNumericsVersionGetsNoJobOfThatStage) {
  Submit(NoopSweep("s", 1));
  AskedRegister asked;
  asked.request().set_slot_uuid("slot");
  asked.request().set_format_version(kKeyFormatVersion);
  v1::StageNumerics* numerics = asked.request().add_numerics();
  numerics->set_stage("noop");
  numerics->set_version(NumericsVersion(Stage::kNoop) + 1);
  loop_->Post(asked.ToCall());
  ASSERT_OK(asked.Wait());
  EXPECT_EQ(Lease(asked.response().worker_id()).job_id(), 0);
  EXPECT_NE(Lease(Register("other")).job_id(), 0);
}

// ---- results

TEST_F(LoopWorkersTest, CompletionIsCommittedOnce) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  const v1::LeasedJob job = Lease(worker);
  EXPECT_EQ(Complete(worker, Done(job, 3)), v1::COMPLETION_VERDICT_COMMITTED);
  EXPECT_EQ(Complete(worker, Done(job, 4)),
            v1::COMPLETION_VERDICT_ALREADY_COMMITTED);
  EXPECT_THAT(Rows("SELECT value FROM measurement"), ElementsAre("3.0"));
  EXPECT_THAT(Rows("SELECT number, outcome, duration_us FROM attempt"),
              ElementsAre("1|done|1234"));
}

TEST_F(LoopWorkersTest, TwoDeliveriesInOneCallAreAnsweredInOrder) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  const v1::Completion wire = ToWire(Done(Lease(worker)));
  AskedComplete asked;
  *asked.request().add_completions() = wire;
  *asked.request().add_completions() = wire;
  loop_->Post(asked.ToCall());
  ASSERT_OK(asked.Wait());
  EXPECT_THAT(asked.response().verdicts(),
              ElementsAre(v1::COMPLETION_VERDICT_COMMITTED,
                          v1::COMPLETION_VERDICT_ALREADY_COMMITTED));
}

TEST_F(LoopWorkersTest, FailureIsChargedOnceAndItsSecondDeliveryIsStale) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  const Completion failed = Failed(Lease(worker), Cause::kFailed);
  EXPECT_EQ(Complete(worker, failed), v1::COMPLETION_VERDICT_COMMITTED);
  EXPECT_EQ(Complete(worker, failed), v1::COMPLETION_VERDICT_STALE);
  EXPECT_THAT(Rows("SELECT number, outcome, cause, message FROM attempt"),
              ElementsAre("1|failed|failed|told so"));
  EXPECT_THAT(Rows("SELECT text FROM event WHERE kind = 'attempt_failed'"),
              ElementsAre("failed: told so"));
  EXPECT_THAT(Rows("SELECT state FROM job"), ElementsAre("ready"));
}

TEST_F(LoopWorkersTest, InvalidInputsFailTheJobAndWhatNeedsIt) {
  Submit(kTrainThenEvaluate);
  const int64_t worker = Register("slot");
  Complete(worker, Failed(Lease(worker), Cause::kInvalid));
  EXPECT_THAT(Rows("SELECT stage, state FROM job ORDER BY job_id"),
              ElementsAre("train|failed", "evaluate|upstream_failed"));
}

TEST_F(LoopWorkersTest, ResultOfAnotherDatabaseIsStale) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  Completion foreign = Done(Lease(worker));
  foreign.database_uuid = std::string(32, '0');
  EXPECT_EQ(Complete(worker, foreign), v1::COMPLETION_VERDICT_STALE);
  EXPECT_THAT(Rows("SELECT 1 FROM result"), IsEmpty());
  EXPECT_THAT(Rows("SELECT state FROM job"), ElementsAre("leased"));
}

TEST_F(LoopWorkersTest, ResultWithAnotherJobsKeyIsStale) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  Completion other = Done(Lease(worker));
  other.key.bytes[31] ^= 1;
  EXPECT_EQ(Complete(worker, other), v1::COMPLETION_VERDICT_STALE);
  other.lease.job = JobId{999};
  EXPECT_EQ(Complete(worker, other), v1::COMPLETION_VERDICT_STALE);
  EXPECT_THAT(Rows("SELECT 1 FROM result"), IsEmpty());
  EXPECT_THAT(Rows("SELECT state FROM job"), ElementsAre("leased"));
}

TEST_F(LoopWorkersTest, UnusableResultsAreRefusedAndTheLoopGoesOn) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  const v1::LeasedJob job = Lease(worker);
  Completion twice = Done(job);
  twice.result.measurements.push_back(twice.result.measurements.front());
  AskedComplete asked = PostComplete(worker, twice);
  EXPECT_THAT(asked.Wait(), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("given twice")));
  Completion points = Done(job);
  points.result.curve = {{"loss", 5, 1}, {"loss", 5, 2}};
  asked = PostComplete(worker, points);
  EXPECT_THAT(asked.Wait(), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("loss at step 5")));
  AskedComplete keyless;
  *keyless.request().add_completions() = ToWire(Done(job));
  keyless.request().mutable_completions(0)->set_job_key("short");
  loop_->Post(keyless.ToCall());
  EXPECT_THAT(keyless.Wait(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("job_key")));
  EXPECT_TRUE(loop_->healthy());
  EXPECT_THAT(Rows("SELECT 1 FROM result"), IsEmpty());
  EXPECT_EQ(Complete(worker, Done(job)), v1::COMPLETION_VERDICT_COMMITTED);
}

TEST_F(LoopWorkersTest, ReleasedJobGoesToTheNextWorkerUncharged) {
  Submit(NoopSweep("s", 1, "limits: {max_attempts: 1}\n"));
  const int64_t worker = Register("slot");
  const v1::LeasedJob job = Lease(worker);
  AskedRelease asked;
  asked.request().set_worker_id(worker);
  v1::ReleasedLease* lease = asked.request().add_leases();
  lease->set_job_id(job.job_id());
  lease->set_attempt(job.attempt());
  lease->set_cause("preempted");
  lease->set_steps_run(17);
  loop_->Post(asked.ToCall());
  ASSERT_OK(asked.Wait());
  EXPECT_THAT(Rows("SELECT outcome, cause, steps_run FROM attempt"),
              ElementsAre("released|preempted|17"));
  EXPECT_EQ(Lease(Register("other")).attempt(), 2U);
}

TEST_F(LoopWorkersTest, WorkerThatLeavesIsNotCountedAnyMore) {
  const int64_t worker = Register("slot");
  Register("other");
  EXPECT_EQ(loop_->workers(), 2U);
  AskedRelease asked;
  asked.request().set_worker_id(worker);
  asked.request().set_leaving(true);
  loop_->Post(asked.ToCall());
  ASSERT_OK(asked.Wait());
  EXPECT_EQ(loop_->workers(), 1U);
}

// ---- leases and restarts

TEST_F(LoopWorkersTest, LeaseWithoutHeartbeatRunsOut) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  const v1::LeasedJob job = Lease(worker);
  clock_.Advance(kLeaseUs / 2);
  Sync(worker, {LeaseProgress{RefOf(job)}});
  clock_.Advance(kLeaseUs / 2);
  EXPECT_THAT(Sync(worker, {LeaseProgress{RefOf(job)}}).revoked(), IsEmpty());
  clock_.Advance(kLeaseUs);
  const v1::SyncResponse late = Sync(worker, {LeaseProgress{RefOf(job)}});
  ASSERT_THAT(late.revoked(), SizeIs(1));
  EXPECT_EQ(late.revoked(0).job_id(), job.job_id());
  EXPECT_THAT(Rows("SELECT outcome, cause FROM attempt"),
              ElementsAre("failed|lost"));
}

TEST_F(LoopWorkersTest, CrashedPredecessorIsWrittenDown) {
  Submit(NoopSweep("s", 1));
  const v1::LeasedJob job = Lease(Register("slot"));
  AskedRegister asked;
  asked.request().set_slot_uuid("slot");
  v1::PredecessorExit* exit = asked.request().mutable_predecessor();
  exit->set_job_id(job.job_id());
  exit->set_attempt(job.attempt());
  exit->set_cause("crashed");
  exit->set_description("killed by signal 9");
  exit->set_log_tail("last words");
  exit->set_steps_run(12);
  loop_->Post(asked.ToCall());
  ASSERT_OK(asked.Wait());
  EXPECT_THAT(
      Rows("SELECT outcome, cause, message, log_tail, steps_run FROM attempt"),
      ElementsAre("failed|crashed|killed by signal 9|last words|12"));
  EXPECT_THAT(Rows("SELECT state FROM job"), ElementsAre("ready"));
}

TEST_F(LoopWorkersTest, ReturningSlotKeepsItsLeaseOverARestart) {
  Submit(NoopSweep("s", 1));
  const v1::LeasedJob job = Lease(Register("slot"));
  Restart();
  EXPECT_THAT(Rows("SELECT state FROM job"), ElementsAre("leased"));
  AskedRegister back = PostRegister("slot", {LeaseProgress{RefOf(job)}});
  ASSERT_OK(back.Wait());
  EXPECT_THAT(back.response().revoked(), IsEmpty());
  EXPECT_EQ(Complete(back.response().worker_id(), Done(job)),
            v1::COMPLETION_VERDICT_COMMITTED);
  EXPECT_THAT(Rows("SELECT number, outcome FROM attempt"),
              ElementsAre("1|done"));
}

TEST_F(LoopWorkersTest, WorkerThatLivedThroughARestartKeepsWorking) {
  Submit(NoopSweep("s", 2));
  const int64_t before = Register("slot");
  const v1::LeasedJob job = Lease(before);
  Restart();
  // It still runs the job and knows nothing: it keeps the lease, and is asked
  // to register, since what it can run is not known any more.
  const v1::SyncResponse sync = Sync(before, {LeaseProgress{RefOf(job)}});
  EXPECT_TRUE(sync.register_again());
  EXPECT_THAT(sync.revoked(), IsEmpty());
  AskedLease old = PostLease(before, "r", 30'000);
  EXPECT_THAT(old.Wait(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("registered")));
  AskedRegister back = PostRegister("slot", {LeaseProgress{RefOf(job)}});
  ASSERT_OK(back.Wait());
  EXPECT_THAT(back.response().revoked(), IsEmpty());
  const int64_t after = back.response().worker_id();
  EXPECT_FALSE(Sync(after, {LeaseProgress{RefOf(job)}}).register_again());
  EXPECT_EQ(Complete(after, Done(job)), v1::COMPLETION_VERDICT_COMMITTED);
  EXPECT_NE(Lease(after).job_id(), 0);
}

TEST_F(LoopWorkersTest, LeaseOfASlotThatStaysAwayRunsOutAfterARestart) {
  Submit(NoopSweep("s", 1));
  const v1::LeasedJob job = Lease(Register("gone"));
  clock_.Advance(kLeaseUs - 1);
  Restart();
  const int64_t other = Register("other");
  clock_.Advance(kLeaseUs - 1);  // a whole lease of grace
  EXPECT_EQ(Lease(other).job_id(), 0);
  clock_.Advance(1);
  const v1::LeasedJob again = Lease(other);
  EXPECT_EQ(again.job_id(), job.job_id());
  EXPECT_EQ(again.attempt(), 2U);
  // Of a bundle's leases, what had begun is not known: free of charge.
  EXPECT_THAT(Rows("SELECT number, outcome, cause FROM attempt"),
              ElementsAre("1|released|undelivered", "2|running|"));
  EXPECT_EQ(Complete(other, Done(job)), v1::COMPLETION_VERDICT_STALE);
}

TEST_F(LoopWorkersTest, BudgetsSurviveARestart) {
  Submit(NoopSweep("s", 1));
  for (int i = 0; i < 2; ++i) {
    const int64_t worker = Register("slot");
    Complete(worker, Failed(Lease(worker), Cause::kFailed));
    Restart();
  }
  const int64_t worker = Register("slot");
  Complete(worker, Failed(Lease(worker), Cause::kFailed));
  EXPECT_THAT(Rows("SELECT state, last_attempt FROM job"),
              ElementsAre("failed|3"));
}

TEST_F(LoopWorkersTest, RunningStepsAreThoseOfLivingWorkers) {
  Submit(NoopSweep("s", 2));
  const int64_t a = Register("a");
  const int64_t b = Register("b");
  LeaseProgress progress_a{RefOf(Lease(a))};
  progress_a.steps_done = 10;
  progress_a.steps_total = 100;
  LeaseProgress progress_b{RefOf(Lease(b))};
  progress_b.steps_done = 5;
  progress_b.steps_total = 50;
  Sync(a, {progress_a});
  Sync(b, {progress_b});
  EXPECT_EQ(loop_->running_steps(), (std::pair<uint64_t, uint64_t>(15, 150)));
  for (int i = 0; i < 2; ++i) {  // b has died
    clock_.Advance(kLeaseUs / 2 + 1);
    Sync(a, {progress_a});
  }
  EXPECT_EQ(loop_->running_steps(), (std::pair<uint64_t, uint64_t>(10, 100)));
}

}  // namespace
}  // namespace iclsweep
