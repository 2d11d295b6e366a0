// Submitting sweeps and their expansion.
#include <set>

#include "tests/coordinator/loop/loop_fixture.h"

namespace iclsweep {
namespace {

using ::testing::AllOf;
using testing::AskedLease;
using testing::AskedSubmit;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::NoopSweep;
using ::testing::SizeIs;
using testing::StatusIs;

constexpr char kTrainSweep[] =
    "name: t\n"
    "grid:\n"
    "  seed: [0, 1]\n"
    "  prompt.examples_per_task: [1, 2]\n"
    "model: {layers: 1, heads: 1, width: 8}\n"
    "data: {dims: 2}\n"
    "train: {points: 8, steps: 10}\n"
    "prompt: {tasks: 2}\n"
    "evaluate: {prompts: 4}\n";

class LoopSweepsTest : public testing::LoopFixture {
 protected:
  // Calls make the loop take steps, and each step expands some cells.
  void ExpandAll() {
    while (Rows("SELECT 1 FROM sweep_revision WHERE cells_expanded < "
                "cells_total")
               .size() == 1)
      Sync(/*worker=*/12345);
  }
  std::vector<std::string> CellsAndJobs() {
    return Rows(
        "SELECT cell_index, cell_key, axes, stage, hex(job.key), hex(inputs) "
        "FROM cell JOIN cell_job USING (sweep_id, cell_key) JOIN job USING "
        "(job_id) ORDER BY 1, 4");
  }
};

TEST_F(LoopSweepsTest, SubmittedSweepIsOnDiskWhenItIsAcknowledged) {
  StartLoop();
  const v1::SubmitResponse response = Submit(NoopSweep("s", 3));
  EXPECT_EQ(response.name(), "s");
  EXPECT_EQ(response.cells(), 3U);
  EXPECT_FALSE(response.resumed());
  EXPECT_THAT(Rows("SELECT name, cells_total, spec_yaml FROM sweep JOIN "
                   "sweep_revision USING (sweep_id)"),
              ElementsAre("s|3|" + NoopSweep("s", 3)));
}

TEST_F(LoopSweepsTest, SharedJobsAreMadeOnceAndDependenciesKept) {
  StartLoop();
  Submit(kTrainSweep);
  EXPECT_THAT(Rows("SELECT stage, state, count(*) FROM job GROUP BY stage "
                   "ORDER BY stage"),
              ElementsAre("evaluate|blocked|4", "train|ready|2"));
  EXPECT_THAT(Rows("SELECT count(*), count(DISTINCT depends_on_job_id) FROM "
                   "job_dependency"),
              ElementsAre("4|2"));
  EXPECT_THAT(Rows("SELECT seed, examples_per_task, jobs FROM cells ORDER BY "
                   "cell"),
              ElementsAre("0|1|2", "0|2|2", "1|1|2", "1|2|2"));
}

TEST_F(LoopSweepsTest, SameSweepIsResumedAndNothingIsAdded) {
  StartLoop();
  Submit(NoopSweep("s", 3));
  // Another layout with the same meaning.
  const v1::SubmitResponse again = Submit(
      "# a comment\nname: s\nnoop: {}\ngrid:\n  noop.index: [0, 1, 2]\n");
  EXPECT_TRUE(again.resumed());
  EXPECT_EQ(again.cells(), 3U);
  EXPECT_THAT(Rows("SELECT count(*) FROM sweep"), ElementsAre("1"));
  EXPECT_THAT(Rows("SELECT count(*) FROM cell"), ElementsAre("3"));
}

TEST_F(LoopSweepsTest, SameNameWithOtherContentIsRefusedWithTheDifference) {
  StartLoop();
  Submit(kTrainSweep);
  std::string other = kTrainSweep;
  other.replace(other.find("steps: 10"), 9, "steps: 20");
  other.replace(other.find("seed: [0, 1]"), 12, "seed: [0, 1, 2]");
  AskedSubmit asked = PostSubmit(other);
  EXPECT_THAT(asked.Wait(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     AllOf(HasSubstr("sweep 't'"),
                                           HasSubstr("train.steps: 10 -> 20"),
                                           HasSubstr("grid seed"))));
  EXPECT_THAT(Rows("SELECT count(*) FROM sweep"), ElementsAre("1"));
  EXPECT_THAT(Rows("SELECT DISTINCT seed FROM cells ORDER BY 1"),
              ElementsAre("0", "1"));
}

TEST_F(LoopSweepsTest, OverlappingSweepReusesFinishedJobs) {
  StartLoop();
  Submit(NoopSweep("first", 2));
  const int64_t worker = Register("slot");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Complete(worker, Done(Lease(worker))),
              v1::COMPLETION_VERDICT_COMMITTED);
  }
  Submit(NoopSweep("second", 3));
  EXPECT_THAT(Rows("SELECT sweep, jobs, done, ready FROM progress ORDER BY "
                   "sweep"),
              ElementsAre("first|2|2|0", "second|3|2|1"));
  EXPECT_NE(Lease(worker).job_id(), 0);
  EXPECT_EQ(Lease(worker).job_id(), 0);
}

TEST_F(LoopSweepsTest, ExpansionInterleavesWithLeases) {
  options_.cells_per_step = 1;
  // From within the third step a worker asks for work; what is on disk when it
  // is answered shows how far the expansion had come.
  AskedLease asked;
  int64_t worker = 0;
  std::vector<std::string> expanded;
  store_->on_cells = [&](uint64_t cells) {
    if (cells != 3) return;
    asked.request().set_worker_id(worker);
    asked.request().set_request_id("now");
    auto call = asked.ToCall();
    call.done = [&, done = call.done](const absl::Status& status) {
      expanded = Rows("SELECT cells_expanded FROM sweep_revision");
      done(status);
    };
    loop_->Post(call);
  };
  StartLoop();
  worker = Register("slot");
  Submit(NoopSweep("s", 50));
  ExpandAll();
  ASSERT_OK(asked.Wait());
  EXPECT_THAT(asked.response().jobs(), SizeIs(1));
  EXPECT_THAT(expanded, ElementsAre("4"));
  EXPECT_THAT(Rows("SELECT count(*) FROM cell"), ElementsAre("50"));
}

TEST_F(LoopSweepsTest, StepsOfAnyLengthExpandToTheSameCellsAndJobs) {
  StartLoop();
  Submit(kTrainSweep);
  const std::vector<std::string> at_once = CellsAndJobs();
  ASSERT_THAT(at_once, SizeIs(8));
  loop_.reset();
  store_.reset();
  testing::TempDir other;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Store> store,
                       OpenSqliteStore(other.Path("db")));
  options_.cells_per_step = 1;
  ASSERT_OK_AND_ASSIGN(loop_, Loop::Start(options_, store.get(), &clock_));
  AskedSubmit asked = PostSubmit(kTrainSweep);
  ASSERT_OK(asked.Wait());
  while (testing::CommittedRows(other.Path("db"),
                                "SELECT cells_expanded FROM sweep_revision") !=
         std::vector<std::string>{"4"})
    Sync(12345);
  EXPECT_EQ(testing::CommittedRows(
                other.Path("db"),
                "SELECT cell_index, cell_key, axes, stage, hex(job.key), "
                "hex(inputs) FROM cell JOIN cell_job USING (sweep_id, "
                "cell_key) JOIN job USING (job_id) ORDER BY 1, 4"),
            at_once);
  loop_.reset();  // before its store
}

TEST_F(LoopSweepsTest, RestartInTheMiddleOfAnExpansionCompletesIt) {
  options_.cells_per_step = 1;
  // The disk fills up after seven cells and stays full until the restart.
  std::promise<void> stuck;
  bool told = false;
  store_->on_cells = [&](uint64_t cells) {
    if (cells == 8) store_->FailCommits(testing::FaultyStore::kForEver);
    if (cells == 8 && !told) stuck.set_value();
    told |= cells == 8;
  };
  StartLoop();
  Submit(NoopSweep("s", 20));
  stuck.get_future().wait();
  Restart();
  EXPECT_EQ(loop_->epoch(), 2U);
  ExpandAll();
  EXPECT_THAT(Rows("SELECT count(*), count(DISTINCT cell_key), "
                   "count(DISTINCT cell_index), max(cell_index) FROM cell"),
              ElementsAre("20|20|20|19"));
  EXPECT_THAT(Rows("SELECT count(*) FROM cell_job"), ElementsAre("20"));
  EXPECT_THAT(Rows("SELECT state, count(*) FROM job GROUP BY state"),
              ElementsAre("ready|20"));
}

TEST_F(LoopSweepsTest, ShuffledSweepRunsInItsOrderAlsoAfterARestart) {
  options_.cells_per_step = 3;
  StartLoop();
  const std::string yaml = NoopSweep("s", 40, "shuffle: 7\n");
  PostSubmit(yaml);
  while (Rows("SELECT count(*) FROM cell")[0] == "0") std::this_thread::yield();
  Restart();
  Submit(yaml);
  while (Rows("SELECT count(*) FROM cell")[0] != "40")
    std::this_thread::yield();
  std::vector<std::string> expected;
  const CellOrder order(40, 7);
  for (uint64_t place = 0; place < 40; ++place)
    expected.push_back(absl::StrCat(order.At(place)));
  EXPECT_EQ(Rows("SELECT cell_index FROM cell JOIN cell_job USING (sweep_id, "
                 "cell_key) ORDER BY job_id"),
            expected);
  const int64_t worker = Register("a");
  for (int i = 0; i < 3; ++i) {
    const v1::LeasedJob job = Lease(worker);
    EXPECT_EQ(absl::StrCat(job.noop().noop().index()), expected[i]);
    Complete(worker, Done(job));
  }
}

TEST_F(LoopSweepsTest, SweepsExpandOneAfterTheOther) {
  options_.cells_per_step = 4;
  StartLoop();
  Submit(NoopSweep("first", 10));
  Submit(NoopSweep("second", 12));
  while (!Rows("SELECT 1 FROM sweep_revision WHERE cells_expanded < "
               "cells_total")
              .empty())
    Sync(12345);
  EXPECT_THAT(Rows("SELECT sweep, jobs FROM progress ORDER BY sweep"),
              ElementsAre("first|10", "second|12"));
  EXPECT_THAT(Rows("SELECT count(*) FROM job"), ElementsAre("12"));
}

TEST_F(LoopSweepsTest, SweepSubmittedWithAHigherLimitOnItsSizeIsReadBack) {
  options_.cells_per_step = 1;
  StartLoop();
  AskedSubmit asked =
      PostSubmit(NoopSweep("huge", 10'000'001), ParseOptions{20'000'000});
  ASSERT_OK(asked.Wait());
  Restart();  // fails when the stored file is refused for its size
  EXPECT_THAT(Rows("SELECT cells_total FROM sweep_revision"),
              ElementsAre("10000001"));
  EXPECT_EQ(loop_->status(), absl::OkStatus());
}

TEST_F(LoopSweepsTest, LimitOnAttemptsSurvivesARestart) {
  StartLoop();
  Submit(NoopSweep("patient", 1, "limits: {max_attempts: 5}\n"));
  int64_t worker = Register("slot");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Complete(worker, Failed(Lease(worker), Cause::kFailed)),
              v1::COMPLETION_VERDICT_COMMITTED);
  }
  Restart();
  worker = Register("slot");
  const v1::LeasedJob fourth = Lease(worker);
  EXPECT_EQ(fourth.attempt(), 4U);
  Complete(worker, Failed(fourth, Cause::kFailed));
  EXPECT_THAT(Rows("SELECT state FROM job"), ElementsAre("ready"));
  Complete(worker, Failed(Lease(worker), Cause::kFailed));
  EXPECT_THAT(Rows("SELECT state, last_attempt FROM job"),
              ElementsAre("failed|5"));
}

TEST_F(LoopSweepsTest, OneAttemptStaysOneAttemptAfterARestart) {
  StartLoop();
  Submit(NoopSweep("strict", 1, "limits: {max_attempts: 1}\n"));
  Restart();
  const int64_t worker = Register("slot");
  Complete(worker, Failed(Lease(worker), Cause::kFailed));
  EXPECT_THAT(Rows("SELECT state FROM job"), ElementsAre("failed"));
}

TEST_F(LoopSweepsTest, CancelledSweepStopsAlsoAcrossARestart) {
  StartLoop();
  Submit(NoopSweep("s", 3));
  const int64_t worker = Register("slot");
  EXPECT_EQ(Complete(worker, Done(Lease(worker))),
            v1::COMPLETION_VERDICT_COMMITTED);
  const v1::LeasedJob running = Lease(worker);
  const v1::CancelResponse cancelled = Cancel("s");
  EXPECT_EQ(cancelled.jobs_stopped(), 1U);
  EXPECT_EQ(cancelled.jobs_open(), 2U);
  EXPECT_FALSE(cancelled.already_cancelled());
  EXPECT_EQ(Sync(worker, {LeaseProgress{RefOf(running)}}).revoked_size(), 1);
  EXPECT_EQ(Lease(worker).job_id(), 0);
  Restart();
  EXPECT_EQ(Lease(Register("slot")).job_id(), 0);
  EXPECT_TRUE(Cancel("s").already_cancelled());
  EXPECT_THAT(Rows("SELECT jobs, done, ready FROM progress"),
              ElementsAre("3|1|2"));
}

TEST_F(LoopSweepsTest, SubmittingACancelledSweepAgainGoesOn) {
  StartLoop();
  Submit(NoopSweep("s", 2));
  Cancel("s");
  EXPECT_TRUE(Submit(NoopSweep("s", 2)).resumed());
  const int64_t worker = Register("slot");
  EXPECT_NE(Lease(worker).job_id(), 0);
}

TEST_F(LoopSweepsTest, CancelStopsAnExpansionAndSubmitGoesOnWithIt) {
  options_.cells_per_step = 1;
  testing::AskedCancel cancel;
  store_->on_cells = [&](uint64_t cells) {
    if (cells == 3) cancel = PostCancel("s");
  };
  StartLoop();
  Submit(NoopSweep("s", 10));
  while (Rows("SELECT 1 FROM sweep WHERE cancelled_us != 0").empty()) {
    Sync(0);
  }
  EXPECT_OK(cancel.Wait());
  EXPECT_THAT(Rows("SELECT cells_expanded FROM sweep_revision"),
              ElementsAre("3"));
  Restart();
  Sync(0);
  EXPECT_THAT(Rows("SELECT cells_expanded FROM sweep_revision"),
              ElementsAre("3"));
  store_->on_cells = nullptr;
  Submit(NoopSweep("s", 10));
  while (Rows("SELECT 1 FROM sweep_revision WHERE cells_expanded = 10").empty())
    Sync(0);
  EXPECT_THAT(Rows("SELECT jobs FROM progress"), ElementsAre("10"));
}

TEST_F(LoopSweepsTest, SharedJobRunsOnForTheOtherSweep) {
  StartLoop();
  Submit(NoopSweep("first", 1));
  Submit(NoopSweep("second", 1));
  const int64_t worker = Register("slot");
  const v1::LeasedJob job = Lease(worker);
  EXPECT_EQ(Cancel("first").jobs_stopped(), 0U);
  EXPECT_EQ(Complete(worker, Done(job)), v1::COMPLETION_VERDICT_COMMITTED);
}

TEST_F(LoopSweepsTest, CancelOfAnUnknownSweepNamesIt) {
  StartLoop();
  EXPECT_THAT(PostCancel("nope").Wait(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'nope'")));
  EXPECT_THAT(PostRetry("nope", "").Wait(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'nope'")));
}

TEST_F(LoopSweepsTest, RetryGivesFailedJobsTheirAttemptsAnew) {
  StartLoop();
  Submit(NoopSweep("s", 2));
  int64_t worker = Register("slot");
  Complete(worker, Failed(Lease(worker), Cause::kInvalid));
  for (int i = 0; i < 3; ++i)
    Complete(worker, Failed(Lease(worker), Cause::kFailed));
  EXPECT_THAT(Rows("SELECT failed FROM progress"), ElementsAre("2"));
  EXPECT_EQ(Retry("s", "timeout").jobs(), 0U);
  EXPECT_EQ(Retry("s", "failed").jobs(), 1U);
  EXPECT_THAT(Rows("SELECT failed, ready FROM progress"), ElementsAre("1|1"));
  // What failed before the retry is not charged again, not by a restart either.
  Restart();
  worker = Register("slot");
  for (uint32_t attempt = 4; attempt <= 6; ++attempt) {
    const v1::LeasedJob job = Lease(worker);
    EXPECT_EQ(job.attempt(), attempt);
    Complete(worker, Failed(job, Cause::kFailed));
  }
  EXPECT_THAT(Rows("SELECT failed FROM progress"), ElementsAre("2"));
  EXPECT_EQ(Retry("s").jobs(), 2U);
  EXPECT_THAT(
      PostRetry("s", "bad luck").Wait(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'bad luck'")));
}

TEST_F(LoopSweepsTest, RetryOpensWhatFailedForWantOfAJob) {
  StartLoop();
  Submit(testing::kTrainThenEvaluate);
  const int64_t worker = Register("slot");
  Complete(worker, Failed(Lease(worker), Cause::kInvalid));
  EXPECT_THAT(Rows("SELECT stage, failed, upstream_failed FROM progress ORDER "
                   "BY stage DESC"),
              ElementsAre("train|1|0", "evaluate|0|1"));
  Retry("t");
  EXPECT_THAT(Rows("SELECT stage, ready, blocked FROM progress ORDER BY stage "
                   "DESC"),
              ElementsAre("train|1|0", "evaluate|0|1"));
  EXPECT_EQ(Complete(worker, Done(Lease(worker))),
            v1::COMPLETION_VERDICT_COMMITTED);
  EXPECT_TRUE(Lease(worker).has_evaluate());
}

TEST_F(LoopSweepsTest, CountsSurviveARestartThatFindsThemWrong) {
  StartLoop();
  Submit(NoopSweep("s", 2));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> database,
                       Database::Open(file_, Database::Mode::kReadWrite));
  EXPECT_OK(database->Execute("UPDATE sweep_progress SET jobs = 77"));
  Restart();
  EXPECT_THAT(Rows("SELECT jobs, ready FROM progress"), ElementsAre("2|2"));
}

}  // namespace
}  // namespace iclsweep
