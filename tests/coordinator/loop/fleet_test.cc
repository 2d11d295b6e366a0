// What the loop answers about workers, why things are where they are, and the
// events that it tells.
#include "tests/coordinator/loop/loop_fixture.h"

namespace iclsweep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kTrainThenEvaluate;
using testing::NoopSweep;
using ::testing::SizeIs;
using testing::StatusIs;

using AskedExplain = testing::Asked<v1::ExplainRequest, v1::ExplainResponse>;
using AskedList =
    testing::Asked<v1::ListWorkersRequest, v1::ListWorkersResponse>;
using AskedDrain = testing::Asked<v1::DrainRequest, v1::DrainResponse>;

class LoopFleetTest : public testing::LoopFixture {
 protected:
  void SetUp() override {
    LoopFixture::SetUp();
    StartLoop();
  }
  std::vector<v1::WorkerState> Workers() {
    AskedList asked;
    loop_->Post(asked.ToCall());
    EXPECT_OK(asked.Wait());
    return {asked.response().workers().begin(),
            asked.response().workers().end()};
  }
  AskedDrain Drain(const std::vector<std::string>& names, bool all = false) {
    AskedDrain asked;
    for (const std::string& name : names) asked.request().add_workers(name);
    asked.request().set_all(all);
    loop_->Post(asked.ToCall());
    return asked;
  }
  // As the service fills it in: the sweep's name, and the jobs.
  AskedExplain Explain(const std::string& sweep,
                       const std::vector<int64_t>& jobs = {}) {
    AskedExplain asked;
    if (!jobs.empty()) asked.request().set_cell(0);
    asked.response().set_sweep(sweep);
    for (const int64_t id : jobs) asked.response().add_jobs()->set_job_id(id);
    loop_->Post(asked.ToCall());
    return asked;
  }
  std::vector<std::string> Events() {
    return Rows(
        "SELECT kind, coalesce(name, ''), job_id, text FROM event LEFT JOIN "
        "sweep USING (sweep_id) WHERE kind != 'coordinator_started' ORDER BY "
        "sequence");
  }
};

TEST_F(LoopFleetTest, WorkersAreListedWithWhatTheyRun) {
  Submit(NoopSweep("s", 2));
  const int64_t a = Register("a");
  const int64_t b = Register("b");
  const v1::LeasedJob first = Lease(a);
  LeaseProgress progress{RefOf(first)};
  progress.steps_done = 3;
  progress.steps_total = 7;
  clock_.Advance(2'000'000);
  Sync(a, {progress});
  const std::vector<v1::WorkerState> workers = Workers();
  ASSERT_THAT(workers, SizeIs(2));
  EXPECT_EQ(workers[0].worker_id(), a);
  EXPECT_EQ(workers[0].name(), "host/a");
  EXPECT_EQ(workers[0].state(), "running");
  EXPECT_EQ(workers[0].job_id(), first.job_id());
  EXPECT_EQ(workers[0].stage(), "noop");
  EXPECT_EQ(workers[0].steps_done(), 3U);
  EXPECT_EQ(workers[0].steps_total(), 7U);
  EXPECT_EQ(workers[0].silent_ms(), 0U);
  EXPECT_EQ(workers[1].worker_id(), b);
  EXPECT_EQ(workers[1].state(), "idle");
  EXPECT_EQ(workers[1].silent_ms(), 2'000U);
  Complete(a, Done(first));
  EXPECT_EQ(Workers()[0].jobs_done(), 1U);
}

TEST_F(LoopFleetTest, WorkerThatIsGoneIsSilentWhileItHoldsSomething) {
  Submit(NoopSweep("s", 1));
  const int64_t a = Register("a");
  LeaseProgress progress{RefOf(Lease(a))};
  clock_.Advance(kLeaseUs / 2);
  Sync(a, {progress});
  testing::AskedRelease release;
  release.request().set_worker_id(a);
  release.request().set_leaving(true);
  loop_->Post(release.ToCall());
  ASSERT_OK(release.Wait());
  ASSERT_THAT(Workers(), SizeIs(1));
  EXPECT_EQ(Workers()[0].state(), "silent");
  clock_.Advance(kLeaseUs);
  EXPECT_THAT(Workers(), IsEmpty());
}

TEST_F(LoopFleetTest, DrainReachesWorkersByIdNameAndHost) {
  const int64_t a = Register("a");
  const int64_t b = Register("b");
  Register("c");
  AskedDrain drained = Drain({absl::StrCat(a), "host/b"});
  ASSERT_OK(drained.Wait());
  EXPECT_THAT(drained.response().workers(), SizeIs(2));
  EXPECT_TRUE(Sync(a).drain());
  EXPECT_TRUE(Sync(b).drain());
  const std::vector<v1::WorkerState> workers = Workers();
  EXPECT_EQ(workers[0].state(), "draining");
  EXPECT_EQ(workers[2].state(), "idle");
  EXPECT_THAT(Drain({"nobody"}).Wait(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("'nobody'"), HasSubstr("host/c"))));
  ASSERT_OK(Drain({}, /*all=*/true).Wait());
  EXPECT_EQ(Workers()[2].state(), "draining");
}

TEST_F(LoopFleetTest, DrainAnswersAParkedPoll) {
  const int64_t a = Register("a");
  testing::AskedLease poll = PostLease(a, "waits", 30'000);
  ASSERT_OK(Drain({}, /*all=*/true).Wait());
  ASSERT_OK(poll.Wait());
  EXPECT_TRUE(poll.response().drain());
}

TEST_F(LoopFleetTest, ExplainsJobsAsTheSchedulerSeesThem) {
  Submit(kTrainThenEvaluate);
  AskedExplain asked = Explain("t", {1, 2});
  ASSERT_OK(asked.Wait());
  EXPECT_EQ(asked.response().jobs(0).reason(),
            "ready, but no worker is connected");
  EXPECT_EQ(asked.response().jobs(0).state(), "ready");
  EXPECT_EQ(asked.response().jobs(1).reason(), "waits for train job 1 (ready)");
}

TEST_F(LoopFleetTest, ExplainsASweepByGroupsOfItsJobs) {
  Submit(NoopSweep("s", 3));
  Lease(Register("a"));
  AskedExplain asked = Explain("s");
  ASSERT_OK(asked.Wait());
  EXPECT_EQ(asked.response().note(), "");
  ASSERT_THAT(asked.response().jobs(), SizeIs(2));
  EXPECT_EQ(asked.response().jobs(0).state(), "ready");
  EXPECT_EQ(asked.response().jobs(0).jobs(), 2U);
  EXPECT_EQ(asked.response().jobs(1).state(), "leased");
  Cancel("s");
  asked = Explain("s");
  ASSERT_OK(asked.Wait());
  EXPECT_THAT(asked.response().note(), HasSubstr("cancelled"));
}

TEST_F(LoopFleetTest, ExplainsAWorker) {
  Register("a");
  AskedExplain asked;
  asked.request().set_worker("host/a");
  loop_->Post(asked.ToCall());
  ASSERT_OK(asked.Wait());
  ASSERT_THAT(asked.response().workers(), SizeIs(1));
  EXPECT_EQ(asked.response().workers(0).reason(),
            "idle: no active sweep has an open job");
  AskedExplain unknown;
  unknown.request().set_worker("zzz");
  loop_->Post(unknown.ToCall());
  EXPECT_THAT(unknown.Wait(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'zzz'")));
}

TEST_F(LoopFleetTest, EventsTellASweepsLife) {
  Submit(NoopSweep("s", 2));
  const int64_t a = Register("a");
  const v1::LeasedJob first = Lease(a);
  Complete(a, Failed(first, Cause::kInvalid));
  Complete(a, Done(Lease(a)));
  Retry("s");
  Cancel("s");
  Submit(NoopSweep("s", 2));
  Complete(a, Done(Lease(a)));
  EXPECT_THAT(
      Events(),
      ElementsAre(
          "sweep_submitted|s|0|2 cells", "sweep_expanded|s|0|2 cells",
          "worker_registered||0|host/a", "attempt_failed||1|invalid: told so",
          "job_failed||1|", "sweep_finished|s|0|", "jobs_retried|s|0|1 jobs",
          "sweep_cancelled|s|0|", "sweep_resumed|s|0|", "sweep_finished|s|0|"));
}

TEST_F(LoopFleetTest, EndOfASweepIsToldOnceAlsoAcrossARestart) {
  Submit(NoopSweep("s", 1));
  int64_t a = Register("a");
  Complete(a, Done(Lease(a)));
  Restart();
  a = Register("a");
  Sync(a);
  EXPECT_THAT(Rows("SELECT count(*) FROM event WHERE kind = 'sweep_finished'"),
              ElementsAre("1"));
}

TEST_F(LoopFleetTest, EventsTellWorkersComingAndGoing) {
  Register("a");
  clock_.Advance(kLeaseUs + 1);
  const int64_t b = Register("b");
  testing::AskedRelease release;
  release.request().set_worker_id(b);
  release.request().set_leaving(true);
  loop_->Post(release.ToCall());
  ASSERT_OK(release.Wait());
  EXPECT_THAT(
      Events(),
      ElementsAre("worker_registered||0|host/a", "worker_silent||0|host/a",
                  "worker_registered||0|host/b", "worker_left||0|host/b"));
}

TEST_F(LoopFleetTest, EndOfATrainingIsAnEvent) {
  Submit(kTrainThenEvaluate);
  const int64_t a = Register("a");
  Complete(a, Done(Lease(a)));
  Complete(a, Done(Lease(a)));
  EXPECT_THAT(Rows("SELECT job_id FROM event WHERE kind = 'job_done'"),
              ElementsAre("1"));
}

}  // namespace
}  // namespace iclsweep
