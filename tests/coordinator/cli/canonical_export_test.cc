#include "coordinator/cli/canonical_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/cli/captured.h"
#include "tests/support/store_rows.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using testing::AddJob;
using testing::AddSweep;
using testing::AddWorker;
using testing::Captured;
using testing::DoneCompletion;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::JobOf;
using testing::KeyOf;
using testing::kRowTime;
using testing::MeasurementOf;

// How the same results came about: what the export must not show.
struct History {
  bool reversed = false;  // jobs, cells and rows came in another order
  uint32_t attempts = 1;  // the last one succeeded
  std::string host = "host-a";
  int64_t time = kRowTime;
  bool other_sweep = false;  // another sweep came first
};

class CanonicalExportTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> Open(const std::string& name) {
    absl::StatusOr<std::unique_ptr<Store>> store =
        OpenSqliteStore(dir_.Path(name));
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::vector<std::string> Export(const std::string& name) {
    Captured out;
    absl::StatusOr<std::unique_ptr<Database>> database =
        OpenForReading(dir_.Path(name));
    EXPECT_TRUE(database.ok()) << database.status();
    EXPECT_OK(WriteCanonical(database->get(), "s", out.file()));
    return out.Lines();
  }

  void Finish(Store* store, JobId job, uint8_t n, StageResult result,
              const History& history) {
    WorkerRow row;
    row.slot_uuid = absl::StrCat("slot", n);
    row.provenance.host = history.host;
    const absl::StatusOr<WorkerId> worker =
        store->InsertWorker(row, history.time);
    ASSERT_OK(worker.status());
    for (uint32_t number = 1; number <= history.attempts; ++number) {
      EXPECT_OK(store->StartAttempt({{job, number}, *worker, history.time}));
      if (number == history.attempts) break;
      AttemptEnd end;
      end.lease = {job, number};
      end.outcome = AttemptOutcome::kFailed;
      end.cause = Cause::kCrashed;
      EXPECT_OK(store->EndAttempt(end));
    }
    Completion completion =
        DoneCompletion({job, history.attempts}, KeyOf(n), {});
    if (history.reversed) {
      std::reverse(result.measurements.begin(), result.measurements.end());
      std::reverse(result.curve.begin(), result.curve.end());
    }
    completion.result = std::move(result);
    completion.duration_us = history.time % 1000;
    completion.provenance.host = history.host;
    EXPECT_OK(store->InsertResult(completion, history.time));
    EXPECT_OK(store->SetJobState(job, JobState::kDone));
  }

  // Two cells that share a training (key 01...), with their own evaluations
  // (09... and 05...), the second of which is not done.
  void Fill(Store* store, const History& history, double value = 0.1) {
    testing::InTransaction(store, [&] {
      if (history.other_sweep) {
        const SweepId other = AddSweep(store, "other", {{"seed"}});
        const JobId job = AddJob(store, JobOf(0x77, Stage::kTheory));
        EXPECT_OK(store->InsertCell(other, 1, {"k", 0, "{}", {job}}));
        Finish(store, job, 0x77, {}, history);
      }
      std::map<uint8_t, JobId> jobs;
      std::vector<std::pair<uint8_t, Stage>> order = {
          {1, Stage::kTrain}, {9, Stage::kEvaluate}, {5, Stage::kEvaluate}};
      if (history.reversed) std::reverse(order.begin(), order.end());
      for (const auto& [n, stage] : order)
        jobs[n] = AddJob(store, JobOf(n, stage));
      const SweepId sweep = AddSweep(store, "s", {{"seed"}}, 2);
      std::vector<CellRow> cells = {
          {"key0", 0, R"({"seed":0})", {jobs[1], jobs[9]}},
          {"key1", 1, R"({"seed":1})", {jobs[1], jobs[5]}}};
      if (history.reversed) std::reverse(cells.begin(), cells.end());
      for (const CellRow& cell : cells)
        EXPECT_OK(store->InsertCell(sweep, 1, cell));
      StageResult train;
      train.curve = {{"loss", 100, 0.5},
                     {"loss", 20, std::numeric_limits<double>::infinity()}};
      train.artifact = Artifact{"some/path", "f00d", 12};
      Finish(store, jobs[1], 1, train, history);
      StageResult evaluate;
      Measurement per_task = MeasurementOf("model", "G_single", value);
      per_task.task = 1;
      per_task.position = 0;
      per_task.standard_error = 0.25;
      per_task.n = 16;
      evaluate.measurements = {
          MeasurementOf("zero", "G", 2),
          MeasurementOf("model", "F", std::numeric_limits<double>::quiet_NaN()),
          per_task};
      evaluate.non_finite = true;
      Finish(store, jobs[9], 9, evaluate, history);
    });
  }

  testing::TempDir dir_;
};

std::string Key(const std::string& byte) {
  std::string key;
  for (int i = 0; i < 32; ++i) key += byte;
  return key;
}

TEST_F(CanonicalExportTest, CellsThenJobsByKeyWithTheirRows) {
  Fill(Open("db").get(), History());
  EXPECT_THAT(
      Export("db"),
      ElementsAre(
          absl::StrCat(
              R"({"type":"cell","sweep":"s","cell":0,"key":"key0","axes":)",
              R"({"seed":0},"jobs":"evaluate:)", Key("09"),
              " train:", Key("01"), R"("})"),
          absl::StrCat(
              R"({"type":"cell","sweep":"s","cell":1,"key":"key1","axes":)",
              R"({"seed":1},"jobs":"evaluate:)", Key("05"),
              " train:", Key("01"), R"("})"),
          absl::StrCat(R"({"type":"job","job":")", Key("01"),
                       R"(","stage":"train","non_finite":0,"extrapolated":0,)",
                       R"("weights_sha256":"f00d"})"),
          absl::StrCat(R"({"type":"curve","job":")", Key("01"),
                       R"(","name":"loss","step":20,"value":"inf"})"),
          absl::StrCat(R"({"type":"curve","job":")", Key("01"),
                       R"(","name":"loss","step":100,"value":0.5})"),
          absl::StrCat(R"({"type":"job","job":")", Key("09"),
                       R"(","stage":"evaluate","non_finite":1,)",
                       R"("extrapolated":0,"weights_sha256":""})"),
          absl::StrCat(R"({"type":"measurement","job":")", Key("09"),
                       R"(","predictor":"model","name":"F","task":-1,)",
                       R"("position":-1,"layer":-1,"head":-1,"value":"nan",)",
                       R"("standard_error":null,"n":0})"),
          absl::StrCat(R"({"type":"measurement","job":")", Key("09"),
                       R"(","predictor":"model","name":"G_single","task":1,)",
                       R"("position":0,"layer":-1,"head":-1,"value":0.1,)",
                       R"("standard_error":0.25,"n":16})"),
          absl::StrCat(R"({"type":"measurement","job":")", Key("09"),
                       R"(","predictor":"zero","name":"G","task":-1,)",
                       R"("position":-1,"layer":-1,"head":-1,"value":2,)",
                       R"("standard_error":null,"n":0})")));
}

TEST_F(CanonicalExportTest, EveryLineIsJson) {
  Fill(Open("db").get(), History());
  for (const std::string& line : Export("db"))
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

TEST_F(CanonicalExportTest, DoesNotShowHowTheResultsCameAbout) {
  Fill(Open("plain").get(), History());
  const std::vector<std::string> plain = Export("plain");
  const struct {
    const char* name;
    History history;
  } cases[] = {
      {"order", {.reversed = true}},
      {"attempts", {.attempts = 3}},
      {"host", {.host = "elsewhere"}},
      {"time", {.time = kRowTime + 987'654'321}},
      {"other", {.other_sweep = true}},
      {"all", {true, 4, "elsewhere", kRowTime + 1, true}},
  };
  for (const auto& c : cases) {
    Fill(Open(c.name).get(), c.history);
    EXPECT_EQ(Export(c.name), plain) << c.name;
  }
}

TEST_F(CanonicalExportTest, ShowsADifferenceInTheLastBit) {
  Fill(Open("a").get(), History(), 0.1);
  Fill(Open("b").get(), History(), std::nextafter(0.1, 1.0));
  EXPECT_NE(Export("a"), Export("b"));
}

TEST_F(CanonicalExportTest, UnknownSweepIsEmpty) {
  testing::InTransaction(Open("db").get(), [] {});
  EXPECT_THAT(Export("db"), IsEmpty());
}

TEST_F(CanonicalExportTest, FullDiskIsTold) {
  Fill(Open("db").get(), History());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> database,
                       OpenForReading(dir_.Path("db")));
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(WriteCanonical(database.get(), "s", full).code(),
            absl::StatusCode::kUnavailable);
  std::fclose(full);
}

}  // namespace
}  // namespace iclsweep
