#include "storage/sqlite/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <limits>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/sqlite/sqlite_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_rows.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using testing::AddJob;
using testing::AddSweep;
using testing::AddWorker;
using ::testing::Contains;
using testing::DoneCompletion;
using ::testing::ElementsAre;
using testing::InTransaction;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using testing::JobOf;
using testing::KeyOf;
using testing::kRowTime;
using testing::MeasurementOf;
using ::testing::Not;

std::vector<std::string> Columns(const std::vector<std::string>& paths) {
  std::vector<std::string> columns;
  for (const AxisColumn& column : AxisColumns(paths))
    columns.push_back(absl::StrCat(column.path, "=", column.column));
  return columns;
}

// ---- names of columns

TEST(AxisColumnsTest, ColumnIsTheLastElementOfThePath) {
  EXPECT_THAT(Columns({"prompt.angle_degrees", "model.size", "seed"}),
              ElementsAre("model.size=size",
                          "prompt.angle_degrees=angle_degrees", "seed=seed"));
}

TEST(AxisColumnsTest, CollidingAxesGetTheirWholePath) {
  EXPECT_THAT(Columns({"prompt.seed", "evaluate.seed", "seed"}),
              ElementsAre("evaluate.seed=evaluate_seed",
                          "prompt.seed=prompt_seed", "seed=seed"));
  EXPECT_THAT(Columns({"data.noise_std", "prompt.data.noise_std"}),
              ElementsAre("data.noise_std=data_noise_std",
                          "prompt.data.noise_std=prompt_data_noise_std"));
}

TEST(AxisColumnsTest, ColumnsOfTheViewsAreNotTaken) {
  for (const char* name :
       {"sweep", "cell", "stage", "predictor", "name", "task", "position",
        "layer", "head", "value", "kind", "standard_error", "n", "theory_value",
        "key", "jobs", "done", "failed", "extrapolated"}) {
    EXPECT_THAT(Columns({absl::StrCat("section.", name)}),
                ElementsAre(absl::StrCat("section.", name, "=section_", name)));
    EXPECT_THAT(Columns({name}),
                Not(ElementsAre(absl::StrCat(name, "=", name))));
  }
}

TEST(AxisColumnsTest, NoColumnIsAnSqlKeyword) {
  const int count = sqlite3_keyword_count();
  ASSERT_GT(count, 100);
  for (int i = 0; i < count; ++i) {
    const char* text = nullptr;
    int size = 0;
    ASSERT_EQ(sqlite3_keyword_name(i, &text, &size), SQLITE_OK);
    std::string word(text, static_cast<size_t>(size));
    for (char& c : word) c = static_cast<char>(std::tolower(c));
    for (const std::string& path : {absl::StrCat("section.", word), word}) {
      for (const AxisColumn& axis :
           AxisColumns(std::vector<std::string>{path})) {
        EXPECT_EQ(sqlite3_keyword_check(axis.column.c_str(),
                                        static_cast<int>(axis.column.size())),
                  0)
            << path << " becomes " << axis.column;
      }
    }
  }
}

TEST(AxisColumnsTest, RepeatedPathsAreOneColumn) {
  EXPECT_THAT(Columns({"model.size", "model.size"}),
              ElementsAre("model.size=size"));
  EXPECT_THAT(Columns({}), IsEmpty());
}

// ---- the views

class ViewsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, OpenSqliteStore(file_));
  }
  std::vector<std::string> Rows(const std::string& sql) {
    return testing::CommittedRows(file_, sql);
  }
  void Write(const std::function<void()>& write) {
    InTransaction(store_.get(), write);
  }
  void Finish(JobId job, uint8_t n, std::vector<Measurement> measurements) {
    if (!worker_) worker_ = AddWorker(store_.get(), "slot");
    const LeaseRef lease{job, 1};
    EXPECT_OK(store_->StartAttempt({lease, worker_, kRowTime}));
    EXPECT_OK(store_->InsertResult(
        DoneCompletion(lease, KeyOf(n), std::move(measurements)), kRowTime));
    EXPECT_OK(store_->SetJobState(job, JobState::kDone));
  }
  // A result on prompts longer than the model was trained on.
  void FinishExtrapolated(JobId job, uint8_t n,
                          std::vector<Measurement> measurements) {
    if (!worker_) worker_ = AddWorker(store_.get(), "slot");
    Completion completion =
        DoneCompletion({job, 1}, KeyOf(n), std::move(measurements));
    completion.result.extrapolated = true;
    EXPECT_OK(store_->StartAttempt({completion.lease, worker_, kRowTime}));
    EXPECT_OK(store_->InsertResult(completion, kRowTime));
    EXPECT_OK(store_->SetJobState(job, JobState::kDone));
  }
  void Fail(JobId job, const std::string& message) {
    if (!worker_) worker_ = AddWorker(store_.get(), "slot");
    AttemptEnd end;
    end.lease = {job, 1};
    end.outcome = AttemptOutcome::kFailed;
    end.cause = Cause::kFailed;
    end.message = message;
    end.ended_us = kRowTime + 1;
    EXPECT_OK(store_->StartAttempt({end.lease, worker_, kRowTime}));
    EXPECT_OK(store_->EndAttempt(end));
    EXPECT_OK(store_->SetJobState(job, JobState::kFailed));
  }
  void AddCell(SweepId sweep, uint64_t index, const std::string& axes,
               std::vector<JobId> jobs) {
    EXPECT_OK(store_->InsertCell(
        sweep, 1, {absl::StrCat("key", index), index, axes, std::move(jobs)}));
  }

  testing::TempDir dir_;
  const std::string file_ = dir_.Path("iclsweep.db");
  std::unique_ptr<Store> store_;
  WorkerId worker_;
};

TEST_F(ViewsTest, ResultsHaveAxesMeasurementsAndTheTheoryBesideThem) {
  Write([&] {
    const SweepId sweep = AddSweep(
        store_.get(), "s", {{"prompt.angle_degrees"}, {"prompt.task_order"}});
    const JobId evaluate = AddJob(store_.get(), JobOf(1, Stage::kEvaluate));
    const JobId theory = AddJob(store_.get(), JobOf(2, Stage::kTheory));
    AddCell(sweep, 0,
            R"({"prompt.angle_degrees":45,"prompt.task_order":"0-1"})",
            {evaluate, theory});
    Measurement task = MeasurementOf("model", "G_single", 0.5);
    task.task = 1;
    task.position = 1;
    Finish(evaluate, 1,
           {MeasurementOf("model", "G", 2.5), MeasurementOf("zero", "E", 1),
            task});
    Measurement theory_task = MeasurementOf("msa", "G_single", 0.75);
    theory_task.task = 1;
    theory_task.position = 1;
    Measurement other_place = theory_task;
    other_place.position = 0;
    other_place.value = 99;
    Finish(theory, 2,
           {MeasurementOf("msa", "G", 2.25), MeasurementOf("lsa", "G", 77),
            theory_task, other_place});
  });
  EXPECT_THAT(
      Rows("SELECT sweep, cell, stage, angle_degrees, task_order, predictor, "
           "name, task, position, value, theory_value FROM results WHERE stage "
           "= 'evaluate' ORDER BY predictor, name"),
      ElementsAre("s|0|evaluate|45|0-1|model|G|-1|-1|2.5|2.25",
                  "s|0|evaluate|45|0-1|model|G_single|1|1|0.5|0.75",
                  "s|0|evaluate|45|0-1|zero|E|-1|-1|1.0|null"));
}

TEST_F(ViewsTest, TheoryIsTheClosedFormOfTheRowsOwnPredictor) {
  Write([&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {{"seed"}});
    const JobId evaluate = AddJob(store_.get(), JobOf(1, Stage::kEvaluate));
    const JobId theory = AddJob(store_.get(), JobOf(2, Stage::kTheory));
    const JobId train = AddJob(store_.get(), JobOf(3, Stage::kTrain));
    const JobId compare = AddJob(store_.get(), JobOf(4, Stage::kCompare));
    AddCell(sweep, 0, R"({"seed":0})", {evaluate, theory, train, compare});
    std::vector<Measurement> rows;
    for (const char* predictor : {"model", "zero", "least_squares", "ridge",
                                  "averaging", "nn3", "lsa", "msa"})
      rows.push_back(MeasurementOf(predictor, "G", 1));
    Finish(evaluate, 1, rows);
    Finish(theory, 2,
           {MeasurementOf("msa", "G", 10), MeasurementOf("lsa", "G", 20)});
    Finish(train, 3, {MeasurementOf("model", "G", 1)});
    Finish(compare, 4, {MeasurementOf("model", "G", 1)});
  });
  EXPECT_THAT(Rows("SELECT stage, predictor, theory_value FROM results WHERE "
                   "theory_value IS NOT NULL ORDER BY predictor"),
              ElementsAre("evaluate|lsa|20.0", "evaluate|model|10.0",
                          "evaluate|msa|10.0"));
  EXPECT_THAT(Rows("SELECT count(*) FROM results"), ElementsAre("12"));
}

TEST_F(ViewsTest, ResultsSayWhichOnesAreExtrapolated) {
  Write([&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {{"seed"}});
    const JobId within = AddJob(store_.get(), JobOf(1, Stage::kEvaluate));
    const JobId beyond = AddJob(store_.get(), JobOf(2, Stage::kEvaluate));
    AddCell(sweep, 0, R"({"seed":0})", {within});
    AddCell(sweep, 1, R"({"seed":1})", {beyond});
    Finish(within, 1, {MeasurementOf("model", "G", 1)});
    FinishExtrapolated(
        beyond, 2,
        {MeasurementOf("model", "G", 1), MeasurementOf("zero", "G", 1)});
  });
  EXPECT_THAT(Rows("SELECT cell, predictor, extrapolated FROM results ORDER BY "
                   "cell, predictor"),
              ElementsAre("0|model|0", "1|model|1", "1|zero|1"));
}

// Over a hundred thousand rows a table read whole for every row would take
// hours.
TEST_F(ViewsTest, ResultsReadOneTableWholeAndLookTheRestUp) {
  Write([&] { AddSweep(store_.get(), "s", {{"seed"}}); });
  for (const char* condition :
       {"", " WHERE stage = 'evaluate'", " WHERE sweep = 's' AND cell = 3"}) {
    int scans = 0;
    for (const std::string& step : Rows(absl::StrCat(
             "EXPLAIN QUERY PLAN SELECT * FROM results", condition))) {
      scans += absl::StrContains(step, "SCAN") ? 1 : 0;
      EXPECT_FALSE(absl::StrContains(step, "AUTOMATIC")) << step;
    }
    EXPECT_LE(scans, 1) << condition;
  }
}

TEST_F(ViewsTest, SharedJobAppearsInEveryCellWithThatCellsTheory) {
  Write([&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {{"seed"}});
    const JobId shared = AddJob(store_.get(), JobOf(1, Stage::kEvaluate));
    const JobId theory_a = AddJob(store_.get(), JobOf(2, Stage::kTheory));
    const JobId theory_b = AddJob(store_.get(), JobOf(3, Stage::kTheory));
    AddCell(sweep, 0, R"({"seed":0})", {shared, theory_a});
    AddCell(sweep, 1, R"({"seed":1})", {shared, theory_b});
    Finish(shared, 1, {MeasurementOf("model", "G", 1)});
    Finish(theory_a, 2, {MeasurementOf("msa", "G", 10)});
    Finish(theory_b, 3, {MeasurementOf("msa", "G", 20)});
  });
  EXPECT_THAT(Rows("SELECT cell, seed, value, theory_value FROM results WHERE "
                   "stage = 'evaluate' ORDER BY cell"),
              ElementsAre("0|0|1.0|10.0", "1|1|1.0|20.0"));
}

TEST_F(ViewsTest, AxesOfAllSweepsAreColumnsAndNullWhereASweepHasNone) {
  Write([&] {
    const SweepId first = AddSweep(store_.get(), "first", {{"seed"}});
    const JobId job = AddJob(store_.get(), JobOf(1, Stage::kTheory));
    AddCell(first, 0, R"({"seed":5})", {job});
    Finish(job, 1, {MeasurementOf("msa", "G", 1)});
  });
  EXPECT_THAT(Rows("SELECT seed FROM results"), ElementsAre("5"));
  Write([&] {
    AddSweep(store_.get(), "second", {{"model.size"}, {"prompt.seed"}});
  });
  EXPECT_THAT(Rows("SELECT seed, size, prompt_seed FROM results"),
              ElementsAre("5|null|null"));
  EXPECT_THAT(Rows("SELECT sweep, seed, size FROM cells"),
              ElementsAre("first|5|null"));
}

TEST_F(ViewsTest, KeywordAxisNeedsNoQuotes) {
  Write([&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {{"section.order"}});
    AddCell(sweep, 0, R"({"section.order":3})", {});
  });
  EXPECT_THAT(Rows("SELECT section_order FROM cells"), ElementsAre("3"));
}

TEST_F(ViewsTest, ProgressCountsEveryJobOncePerSweep) {
  Write([&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {});
    const SweepId other = AddSweep(store_.get(), "other", {});
    const JobId train = AddJob(store_.get(), JobOf(1, Stage::kTrain));
    std::vector<JobId> jobs;
    const JobState states[] = {JobState::kDone,    JobState::kFailed,
                               JobState::kLeased,  JobState::kReady,
                               JobState::kBlocked, JobState::kUpstreamFailed};
    uint8_t n = 10;
    for (const JobState state : states) {
      jobs.push_back(AddJob(store_.get(), JobOf(n++, Stage::kEvaluate)));
      EXPECT_OK(store_->SetJobState(jobs.back(), state));
    }
    for (uint64_t i = 0; i < jobs.size(); ++i)
      AddCell(sweep, i, "{}", {train, jobs[i]});
    AddCell(other, 0, "{}", {train});
  });
  EXPECT_THAT(
      Rows("SELECT sweep, stage, jobs, done, failed, leased, ready, blocked, "
           "upstream_failed FROM progress ORDER BY sweep DESC, stage"),
      ElementsAre("s|evaluate|6|1|1|1|1|1|1", "s|train|1|0|0|0|0|1|0",
                  "other|train|1|0|0|0|0|1|0"));
}

TEST_F(ViewsTest, CellsCountTheirJobs) {
  Write([&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {{"seed"}});
    const JobId train = AddJob(store_.get(), JobOf(1, Stage::kTrain));
    const JobId bad = AddJob(store_.get(), JobOf(2, Stage::kEvaluate));
    const JobId open = AddJob(store_.get(), JobOf(3, Stage::kTheory));
    AddCell(sweep, 0, R"({"seed":1})", {train, bad, open});
    EXPECT_OK(store_->SetJobState(train, JobState::kDone));
    EXPECT_OK(store_->SetJobState(bad, JobState::kUpstreamFailed));
  });
  EXPECT_THAT(Rows("SELECT sweep, cell, key, seed, jobs, done, failed FROM "
                   "cells"),
              ElementsAre("s|0|key0|1|3|1|1"));
}

TEST_F(ViewsTest, FailuresNameTheLastAttemptsCause) {
  Write([&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {});
    const JobId train = AddJob(store_.get(), JobOf(1, Stage::kTrain));
    const JobId below =
        AddJob(store_.get(), JobOf(2, Stage::kEvaluate, {train}));
    const JobId fine = AddJob(store_.get(), JobOf(3, Stage::kTheory));
    AddCell(sweep, 4, "{}", {train, below, fine});
    Fail(train, "out of luck");
    EXPECT_OK(store_->SetJobState(below, JobState::kUpstreamFailed));
    Finish(fine, 3, {});
  });
  EXPECT_THAT(Rows("SELECT sweep, cell, stage, state, attempt, cause, message "
                   "FROM failures ORDER BY stage DESC"),
              ElementsAre("s|4|train|failed|1|failed|out of luck",
                          "s|4|evaluate|upstream_failed|null|null|null"));
}

TEST_F(ViewsTest, AttemptsNameWorkerAndHost) {
  Write([&] {
    const JobId job = AddJob(store_.get(), JobOf(0xab, Stage::kTrain));
    Fail(job, "no");
  });
  EXPECT_THAT(
      Rows("SELECT stage, attempt, outcome, cause, message, slot, host, "
           "device_kind, build FROM attempts"),
      ElementsAre("train|1|failed|failed|no|host-a/slot|host-a|cpu/avx2|"
                  "abc123"));
  EXPECT_THAT(Rows("SELECT key FROM attempts"),
              ElementsAre(ToHex(KeyOf(0xab))));
}

TEST_F(ViewsTest, BestLeavesNonFiniteNumbersOutAndCountsThem) {
  Write([&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {{"seed"}});
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double values[] = {nan, 3, 1,
                             -std::numeric_limits<double>::infinity(), 2};
    for (uint8_t i = 0; i < 5; ++i) {
      const JobId job = AddJob(store_.get(), JobOf(i, Stage::kEvaluate));
      AddCell(sweep, i, absl::StrCat("{\"seed\":", i, "}"), {job});
      Measurement per_task = MeasurementOf("model", "G", -5);
      per_task.task = 0;
      Finish(job, i,
             {MeasurementOf("model", "G", values[i]), per_task,
              MeasurementOf("zero", "G", nan)});
    }
  });
  EXPECT_THAT(Rows("SELECT sweep, stage, predictor, name, value, cell, axes, "
                   "non_finite FROM best WHERE predictor = 'model'"),
              ElementsAre("s|evaluate|model|G|1.0|2|{\"seed\":2}|2"));
  EXPECT_THAT(
      Rows("SELECT value, non_finite FROM best WHERE predictor = 'zero'"),
      ElementsAre("null|5"));
}

TEST_F(ViewsTest, ViewsOfAnotherBuildAreRemadeAtTheNextStart) {
  Write([&] { AddSweep(store_.get(), "s", {{"model.size"}}); });
  store_.reset();
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> database,
                         Database::Open(file_, Database::Mode::kReadWrite));
    ASSERT_OK(database->Execute(
        "DROP VIEW results; CREATE VIEW results AS SELECT 1 AS old"));
  }
  ASSERT_OK_AND_ASSIGN(store_, OpenSqliteStore(file_));
  EXPECT_THAT(Rows("SELECT name FROM pragma_table_info('results')"),
              IsSupersetOf({"sweep", "size", "theory_value"}));
}

TEST_F(ViewsTest, ReaderKeepsWorkingWhileTheViewsAreRemade) {
  Write([&] { AddSweep(store_.get(), "first", {{"seed"}}); });
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> reader,
                       OpenForReading(file_));
  EXPECT_THAT(testing::RowsOf(reader.get(), "SELECT seed FROM cells"),
              IsEmpty());
  Write([&] { AddSweep(store_.get(), "second", {{"model.size"}}); });
  EXPECT_THAT(testing::RowsOf(reader.get(),
                              "SELECT name FROM pragma_table_info('cells')"),
              Contains("size"));
  EXPECT_THAT(testing::RowsOf(reader.get(), "SELECT seed, size FROM cells"),
              IsEmpty());
}

TEST_F(ViewsTest, ForecastStandsBesideWhatTheSweepTook) {
  Write([&] {
    const WorkerId worker = AddWorker(store_.get(), "slot");
    const SweepId sweep = AddSweep(store_.get(), "s", {}, 2);
    EXPECT_OK(store_->InsertForecast(
        sweep, {{Stage::kTheory, "cpu/avx2", 3, 60, 40, 90},
                {Stage::kTheory, "cuda/H200", 3, 6, 4, 9}}));
    // Job 1 was done before the sweep was submitted, job 3 is not done; of job
    // 2, which two cells share, two attempts took time.
    std::vector<JobId> jobs;
    for (const auto n : {uint8_t{1}, uint8_t{2}, uint8_t{3}})
      jobs.push_back(AddJob(store_.get(), JobOf(n, Stage::kTheory)));
    EXPECT_OK(store_->InsertCell(sweep, 1, {"k0", 0, "{}", jobs}));
    EXPECT_OK(store_->InsertCell(sweep, 1, {"k1", 1, "{}", {jobs[1]}}));
    for (const auto& [job, attempt, end] :
         {std::tuple{0, 1U, AttemptOutcome::kDone},
          std::tuple{1, 1U, AttemptOutcome::kReleased},
          std::tuple{1, 2U, AttemptOutcome::kDone}}) {
      const LeaseRef lease{jobs[static_cast<size_t>(job)], attempt};
      EXPECT_OK(store_->StartAttempt({lease, worker, kRowTime}));
      EXPECT_OK(store_->EndAttempt({.lease = lease,
                                    .outcome = end,
                                    .cause = Cause::kNone,
                                    .message = "",
                                    .log_tail = "",
                                    .duration_us = 2'500'000,
                                    .ended_us = kRowTime}));
      if (end != AttemptOutcome::kDone) continue;
      EXPECT_OK(store_->InsertResult(
          DoneCompletion(lease, KeyOf(static_cast<uint8_t>(job + 1)), {}),
          job == 0 ? kRowTime - 1 : kRowTime + 1));
    }
  });
  EXPECT_THAT(Rows("SELECT * FROM forecasts ORDER BY device_kind"),
              ElementsAre("s|theory|cpu/avx2|3|60.0|40.0|90.0|1|5.0",
                          "s|theory|cuda/H200|3|6.0|4.0|9.0|0|0"));
}

}  // namespace
}  // namespace iclsweep
