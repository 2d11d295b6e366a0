#include "coordinator/service/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/plan.h"
#include "storage/sqlite/sqlite_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_rows.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::AddJob;
using ::iclsweep::testing::AddWorker;
using ::iclsweep::testing::DoneCompletion;
using ::iclsweep::testing::InTransaction;
using ::iclsweep::testing::kRowTime;
using ::iclsweep::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A history in which a device takes `seconds` for a job.
class ForecastTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, OpenSqliteStore(file_));
    InTransaction(store_.get(),
                  [&] { worker_ = AddWorker(store_.get(), "slot"); });
  }
  static SweepSpec Parse(const std::string& text) {
    auto spec = ParseSweep("name: t\n" + text, "s.yaml");
    EXPECT_OK(spec.status());
    return *std::move(spec);
  }
  // Runs the sweep's jobs of one stage; those on whose number `seconds` says
  // less than 0 are left out.
  void Run(const SweepSpec& spec, Stage stage,
           const std::function<double(int)>& seconds,
           const std::string& kind = "cpu/avx2", uint32_t attempt = 1) {
    InTransaction(store_.get(), [&] {
      int number = 0;
      EXPECT_OK(SampleJobs(
          spec, stage, UINT64_MAX,
          [&](const PlannedJob& job, const PlannedJob* train) {
            const double duration = seconds(number++);
            if (duration < 0) return absl::OkStatus();
            NewJobRow row{job.key, stage, job.inputs, {}, 3};
            bool inserted = false;
            if (train != nullptr) {
              row.depends_on = {
                  store_
                      ->UpsertJob(
                          {train->key, Stage::kTrain, train->inputs, {}, 3},
                          kRowTime, &inserted)
                      ->id};
            }
            const JobId id = store_->UpsertJob(row, kRowTime, &inserted)->id;
            Completion done = DoneCompletion({id, attempt}, job.key, {});
            done.duration_us = static_cast<int64_t>(duration * 1e6);
            done.provenance.device_kind = kind;
            EXPECT_OK(store_->StartAttempt({{id, attempt}, worker_, kRowTime}));
            EXPECT_OK(store_->InsertResult(done, kRowTime));
            EXPECT_OK(store_->SetJobState(id, JobState::kDone));
            return absl::OkStatus();
          }));
    });
  }
  History Past() const {
    auto database = OpenForReading(file_);
    EXPECT_OK(database.status());
    auto history = ReadHistory(database->get());
    EXPECT_OK(history.status());
    return *std::move(history);
  }
  static Forecast Ahead(const SweepSpec& spec, const History& history) {
    const auto counts = CountStages(spec, history);
    EXPECT_OK(counts.status());
    auto forecast = MakeForecast(spec, *counts, history);
    EXPECT_OK(forecast.status());
    return *std::move(forecast);
  }

  TempDir dir_;
  const std::string file_ = dir_.Path("iclsweep.db");
  std::unique_ptr<Store> store_;
  WorkerId worker_;
};

// A noop job's work is its microseconds.
SweepSpec Noops(int first, int end, int microseconds) {
  auto spec = ParseSweep(
      absl::StrCat("name: t\nnoop: {microseconds: ", microseconds,
                   "}\ngrid: {noop.index: {range: [", first, ", ", end, "]}}"),
      "s.yaml");
  EXPECT_OK(spec.status());
  return *std::move(spec);
}

TEST_F(ForecastTest, WithoutADatabaseNothingIsDoneAndNoTimeIsKnown) {
  ASSERT_OK_AND_ASSIGN(const History none, ReadHistory(nullptr));
  const SweepSpec spec =
      Parse("train:\ngrid: {seed: [0, 1]}\nprompt:\ntheory:");
  const Forecast forecast = Ahead(spec, none);
  EXPECT_THAT(forecast.stages, IsEmpty());
  EXPECT_THAT(forecast.unknown, ElementsAre(Stage::kTrain, Stage::kTheory));
  // Exact from the sizes.
  EXPECT_EQ(forecast.checkpoints, 2U);
  EXPECT_GT(forecast.checkpoint_bytes, 2 * 8 * 9.4e6);
  EXPECT_LT(forecast.checkpoint_bytes, 2 * 8 * 9.6e6);
  EXPECT_EQ(forecast.database_bytes, 0);
}

TEST_F(ForecastTest, WorkSharesTheMeasuredTime) {
  // 1 s and 1 us a microsecond.
  for (const int microseconds : {1'000'000, 2'000'000, 4'000'000}) {
    const double seconds = 1 + microseconds / 1e6;
    Run(Noops(0, 10, microseconds), Stage::kNoop, [&](int) { return seconds; });
  }
  const SweepSpec spec = Noops(0, 50, 3'000'000);
  const Forecast forecast = Ahead(spec, Past());
  ASSERT_THAT(forecast.stages, SizeIs(1));
  const StageForecast& stage = forecast.stages[0];
  EXPECT_EQ(stage.device_kind, "cpu/avx2");
  EXPECT_EQ(stage.jobs, 50U);
  EXPECT_EQ(stage.measured, 30U);
  EXPECT_NEAR(stage.seconds, 50 * 4, 0.1);
  EXPECT_NEAR(stage.longest_seconds, 4, 0.01);
  EXPECT_LT(stage.low_seconds, stage.seconds);
  EXPECT_GT(stage.high_seconds, stage.seconds);
  EXPECT_FALSE(stage.beyond);
  EXPECT_GT(forecast.database_bytes, 0);
  EXPECT_NEAR(WallSeconds(forecast, "cpu/avx2", 10), 20, 0.01);
  EXPECT_NEAR(WallSeconds(forecast, "cpu/avx2", 1000), 4, 0.01);
}

TEST_F(ForecastTest, DoneJobsCostNothingMore) {
  const SweepSpec spec = Noops(0, 10, 1'000'000);
  Run(spec, Stage::kNoop, [](int n) { return n < 7 ? 2.0 : -1; });
  const Forecast forecast = Ahead(spec, Past());
  ASSERT_THAT(forecast.stages, SizeIs(1));
  EXPECT_EQ(forecast.stages[0].jobs, 3U);
  EXPECT_NEAR(forecast.stages[0].seconds, 6, 1e-6);
  Run(spec, Stage::kNoop, [](int n) { return n < 7 ? -1 : 2.0; });
  EXPECT_THAT(Ahead(spec, Past()).stages, IsEmpty());
  EXPECT_THAT(Ahead(spec, Past()).unknown, IsEmpty());
}

TEST_F(ForecastTest, OnlyTheWorkThatIsLeftCounts) {
  Run(Noops(0, 10, 1'000'000), Stage::kNoop, [](int) { return 1.0; });
  Run(Noops(0, 10, 5'000'000), Stage::kNoop, [](int) { return 5.0; });
  const SweepSpec spec = Parse(
      "noop:\ngrid: {noop.index: {range: [0, 20]}, noop.microseconds: "
      "[1000000, 5000000]}");
  // Of the long ones all are done, of the short ones half.
  Run(Noops(10, 20, 5'000'000), Stage::kNoop, [](int) { return 5.0; });
  const Forecast forecast = Ahead(spec, Past());
  ASSERT_THAT(forecast.stages, SizeIs(1));
  EXPECT_EQ(forecast.stages[0].jobs, 10U);
  EXPECT_NEAR(forecast.stages[0].seconds, 10, 0.01);
}

TEST_F(ForecastTest, EveryKindOfDeviceHasItsOwnTime) {
  Run(Noops(0, 10, 1'000'000), Stage::kNoop, [](int) { return 2.0; });
  Run(
      Noops(10, 20, 1'000'000), Stage::kNoop, [](int) { return 0.5; },
      "cuda/H200");
  const Forecast forecast = Ahead(Noops(20, 30, 1'000'000), Past());
  ASSERT_THAT(forecast.stages, SizeIs(2));
  EXPECT_NEAR(forecast.stages[0].seconds, 20, 1e-6);
  EXPECT_EQ(forecast.stages[1].device_kind, "cuda/H200");
  EXPECT_NEAR(forecast.stages[1].seconds, 5, 1e-6);
}

TEST_F(ForecastTest, JobsThatOneAttemptDidNotFinishTeachNothing) {
  Run(
      Noops(0, 10, 1'000'000), Stage::kNoop, [](int) { return 0.1; },
      "cpu/avx2", /*attempt=*/2);
  const Forecast forecast = Ahead(Noops(10, 20, 1'000'000), Past());
  EXPECT_THAT(forecast.stages, IsEmpty());
  EXPECT_THAT(forecast.unknown, ElementsAre(Stage::kNoop));
}

TEST_F(ForecastTest, JobsUnlikeAllMeasuredWidenTheInterval) {
  Run(Noops(0, 100, 1'000'000), Stage::kNoop, [](int) { return 1.0; });
  const StageForecast near =
      Ahead(Noops(100, 110, 2'000'000), Past()).stages[0];
  const StageForecast far = Ahead(Noops(100, 110, 9'000'000), Past()).stages[0];
  EXPECT_FALSE(near.beyond);
  EXPECT_TRUE(far.beyond);
  EXPECT_NEAR(far.high_seconds / far.seconds,
              2 * near.high_seconds / near.seconds, 1e-9);
  EXPECT_NEAR(far.low_seconds / far.seconds,
              near.low_seconds / near.seconds / 2, 1e-9);
}

TEST_F(ForecastTest, EvaluationsCostWhatTheirModelCosts) {
  const std::string rest =
      "train:\nprompt: {tasks: 2}\nevaluate: {prompts: 3200}\n";
  Run(Parse(rest + "grid: {model.size: [tiny, standard], prompt.seed: [0, 1]}"),
      Stage::kEvaluate, [](int n) { return n < 2 ? 1.0 : 30.0; });
  const auto seconds = [&](const std::string& size) {
    const Forecast forecast = Ahead(
        Parse(rest + "model: {size: " + size + "}\ngrid: {prompt.seed: [7]}"),
        Past());
    EXPECT_THAT(forecast.unknown, ElementsAre(Stage::kTrain));
    return forecast.stages.at(0).seconds;
  };
  EXPECT_NEAR(seconds("tiny"), 1, 0.1);
  EXPECT_NEAR(seconds("standard"), 30, 3);
  EXPECT_GT(seconds("small"), 1.5);
  EXPECT_LT(seconds("small"), 15);
}

TEST_F(ForecastTest, ASampleStandsForAMillionJobs) {
  Run(Noops(0, 10, 1'000'000), Stage::kNoop, [](int) { return 1.0; });
  // Half of them twice as long, and a period that a plain stride would hit.
  const SweepSpec spec = Parse(
      "noop:\ngrid: {noop.index: {range: [0, 500000]}, noop.microseconds: "
      "[1000000, 2000000]}");
  const Forecast forecast = Ahead(spec, Past());
  ASSERT_THAT(forecast.stages, SizeIs(1));
  EXPECT_EQ(forecast.stages[0].jobs, 1'000'000U - 10);
  const double one = forecast.stages[0].longest_seconds;
  const double mean = forecast.stages[0].seconds / (1'000'000 - 10);
  EXPECT_GT(one, 1);
  EXPECT_NEAR(mean / ((1 + one) / 2), 1, 0.02);
}

TEST_F(ForecastTest, TheLastFewOfManyAreFound) {
  // The sample of 20,000 of 40,000 points misses most jobs.
  const SweepSpec spec = Noops(0, 40'000, 1'000);
  Run(spec, Stage::kNoop, [](int n) { return n == 12'345 ? -1 : 0.001; });
  const Forecast forecast = Ahead(spec, Past());
  ASSERT_THAT(forecast.stages, SizeIs(1));
  EXPECT_EQ(forecast.stages[0].jobs, 1U);
  EXPECT_NEAR(forecast.stages[0].seconds, 0.001, 1e-4);
}

TEST_F(ForecastTest, WallTimeIsAtLeastTheLongestChain) {
  Forecast forecast;
  forecast.stages = {{Stage::kTrain, "cpu", 2, 200, 0, 0, 150, 1, false},
                     {Stage::kEvaluate, "cpu", 9, 90, 0, 0, 10, 1, false},
                     {Stage::kTheory, "cpu", 9, 9, 0, 0, 1, 1, false},
                     {Stage::kTrain, "cuda", 2, 2, 0, 0, 1, 1, false}};
  EXPECT_EQ(WallSeconds(forecast, "cpu", 1), 299);
  EXPECT_EQ(WallSeconds(forecast, "cpu", 4), 160);
  EXPECT_EQ(WallSeconds(forecast, "cuda", 1), 2);
}

}  // namespace
}  // namespace iclsweep
