#include "coordinator/cli/headline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_rows.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using testing::AddJob;
using testing::AddSweep;
using testing::AddWorker;
using testing::DoneCompletion;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::InTransaction;
using ::testing::IsEmpty;
using testing::JobOf;
using testing::KeyOf;
using testing::kRowTime;
using testing::MeasurementOf;
using ::testing::Not;
using ::testing::StartsWith;
using testing::StatusIs;

class HeadlineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, OpenSqliteStore(dir_.Path("db")));
    ASSERT_OK_AND_ASSIGN(database_, OpenForReading(dir_.Path("db")));
  }
  // A finished job with these rows. Inside a transaction.
  JobId Done(Stage stage, std::vector<Measurement> rows,
             bool extrapolated = false) {
    if (!worker_) worker_ = AddWorker(store_.get(), "slot");
    const uint8_t n = ++keys_;
    const JobId job = AddJob(store_.get(), JobOf(n, stage));
    EXPECT_OK(store_->StartAttempt({{job, 1}, worker_, kRowTime}));
    Completion completion = DoneCompletion({job, 1}, KeyOf(n), std::move(rows));
    completion.result.extrapolated = extrapolated;
    EXPECT_OK(store_->InsertResult(completion, kRowTime));
    EXPECT_OK(store_->SetJobState(job, JobState::kDone));
    return job;
  }
  void AddCell(SweepId sweep, uint64_t index, const std::string& axes,
               std::vector<JobId> jobs) {
    EXPECT_OK(store_->InsertCell(
        sweep, 1, {absl::StrCat("k", index), index, axes, std::move(jobs)}));
  }
  // The rows of every headline of the sweep, by the first word of its title;
  // the first row names the columns.
  std::map<std::string, std::vector<std::string>> Tables(
      const std::string& sweep) {
    std::map<std::string, std::vector<std::string>> tables;
    const absl::StatusOr<std::vector<Headline>> headlines =
        Headlines(database_.get(), sweep);
    EXPECT_TRUE(headlines.ok()) << headlines.status();
    if (!headlines.ok()) return tables;
    for (const Headline& headline : *headlines) {
      std::vector<std::string>& table =
          tables[headline.title.substr(0, headline.title.find(':'))];
      absl::StatusOr<Statement> query = database_->PrepareQuery(headline.sql);
      EXPECT_TRUE(query.ok()) << query.status() << "\n" << headline.sql;
      if (!query.ok()) continue;
      std::string names;
      for (int column = 0; column < query->columns(); ++column) {
        absl::StrAppend(&names, column == 0 ? "" : "|",
                        query->ColumnName(column));
      }
      table.push_back(names);
      for (std::string& row : testing::RowsOf(database_.get(), headline.sql))
        table.push_back(std::move(row));
    }
    return tables;
  }

  testing::TempDir dir_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Database> database_;
  WorkerId worker_;
  uint8_t keys_ = 0;
};

Measurement AtPosition(const std::string& predictor, int position,
                       double value) {
  Measurement m = MeasurementOf(predictor, "error", value);
  m.position = position;
  return m;
}

TEST_F(HeadlineTest, EvaluateIsAveragedOverOrdersAndSeeds) {
  InTransaction(store_.get(), [&] {
    const SweepId sweep = AddSweep(
        store_.get(), "s",
        {{"prompt.angle_degrees"}, {"prompt.task_order"}, {"evaluate.seed"}},
        4);
    const JobId theory = Done(Stage::kTheory, {MeasurementOf("msa", "G", 7)});
    const double model[] = {1, 3, 10, 30};
    uint64_t index = 0;
    for (const int angle : {0, 90}) {
      for (const char* order : {"0-1", "1-0"}) {
        Measurement of_a_task = MeasurementOf("model", "G", 1000);
        of_a_task.task = 0;
        const JobId job =
            Done(Stage::kEvaluate, {MeasurementOf("model", "G", model[index]),
                                    MeasurementOf("model", "F", -1),
                                    MeasurementOf("zero", "G", 20),
                                    MeasurementOf("msa", "G", 6.5), of_a_task});
        AddCell(sweep, index++,
                absl::StrCat(R"({"prompt.angle_degrees":)", angle,
                             R"(,"prompt.task_order":")", order,
                             R"(","evaluate.seed":3})"),
                {job, theory});
      }
    }
  });
  const auto tables = Tables("s");
  ASSERT_TRUE(tables.contains("evaluate"));
  EXPECT_THAT(tables.at("evaluate"),
              ElementsAre("angle_degrees|zero_G|model_G|model_E_final|model_F|"
                          "model_delta_E|msa_G|theory_G",
                          "0|20.0|2.0|null|-1.0|null|6.5|7.0",
                          "90|20.0|20.0|null|-1.0|null|6.5|7.0"));
  EXPECT_FALSE(tables.contains("theory"));  // it stands beside the measured
}

TEST_F(HeadlineTest, ExtrapolatedCellsAreCountedWhereThereAreAny) {
  InTransaction(store_.get(), [&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {{"prompt.tasks"}}, 3);
    for (uint64_t i = 0; i < 3; ++i) {
      AddCell(sweep, i, absl::StrCat(R"({"prompt.tasks":)", i, "}"),
              {Done(Stage::kEvaluate,
                    {MeasurementOf("model", "G", 1),
                     MeasurementOf("model", "F", 1)},
                    /*extrapolated=*/i > 0),
               Done(Stage::kCompare, {MeasurementOf("model", "rpd", 1)})});
    }
  });
  ::testing::internal::CaptureStdout();
  EXPECT_OK(PrintHeadlines(database_.get(), "s", /*json=*/false));
  std::fflush(stdout);
  const std::string text = ::testing::internal::GetCapturedStdout();
  const size_t compare = text.find("compare: ");
  ASSERT_NE(compare, std::string::npos);
  EXPECT_THAT(text.substr(0, compare),
              HasSubstr("\nextrapolated: 2 of 3 cells have prompts longer than "
                        "what was trained"));
  EXPECT_THAT(text.substr(compare), Not(HasSubstr("extrapolated")));
}

TEST_F(HeadlineTest, TrainIsTheErrorAtTheLastPoint) {
  InTransaction(store_.get(), [&] {
    const SweepId sweep =
        AddSweep(store_.get(), "s", {{"model.size"}, {"seed"}}, 3);
    const double last[] = {1, 3, 5};
    const char* sizes[] = {"tiny", "tiny", "standard"};
    for (uint64_t i = 0; i < 3; ++i) {
      const JobId job =
          Done(Stage::kTrain,
               {AtPosition("model", 0, 100), AtPosition("model", 1, last[i]),
                AtPosition("zero", 0, 50), AtPosition("zero", 1, 10)});
      AddCell(
          sweep, i,
          absl::StrCat(R"({"model.size":")", sizes[i], R"(","seed":)", i, "}"),
          {job});
    }
  });
  EXPECT_THAT(Tables("s")["train"],
              ElementsAre("size|model_error|zero_error|normalised",
                          "standard|5.0|10.0|0.5", "tiny|2.0|10.0|0.2"));
}

// Least squares' means are heavy-tailed, and ridge without a penalty is least
// squares.
TEST_F(HeadlineTest, RidgeIsShownWhereItHasAPenaltyAndLeastSquaresNowhere) {
  const auto add = [&](const std::string& name, std::vector<double> ridge) {
    InTransaction(store_.get(), [&] {
      const SweepId sweep =
          AddSweep(store_.get(), name, {{"data.noise_std"}}, ridge.size());
      for (uint64_t i = 0; i < ridge.size(); ++i) {
        AddCell(
            sweep, i, absl::StrCat(R"({"data.noise_std":)", i, "}"),
            {Done(Stage::kEvaluate, {MeasurementOf("least_squares", "G", 2786),
                                     MeasurementOf("ridge", "G", ridge[i])})});
      }
    });
  };
  add("noise", {2786, 1.5});
  add("none", {2786, 2786});
  EXPECT_THAT(Tables("noise")["evaluate"],
              ElementsAre("noise_std|zero_G|model_G|model_E_final|model_F|"
                          "model_delta_E|ridge_G|msa_G|theory_G",
                          "0|null|null|null|null|null|null|null|null",
                          "1|null|null|null|null|null|1.5|null|null"));
  EXPECT_THAT(Tables("none")["evaluate"],
              ElementsAre(Not(HasSubstr("ridge")), Not(HasSubstr("2786")),
                          Not(HasSubstr("2786"))));
}

Measurement WithError(const std::string& predictor, const std::string& name,
                      double value, double standard_error) {
  Measurement m = MeasurementOf(predictor, name, value);
  m.standard_error = standard_error;
  return m;
}

TEST_F(HeadlineTest, CompareHasTheMetricsOfAllLayers) {
  InTransaction(store_.get(), [&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {}, 1);
    Measurement of_a_layer =
        MeasurementOf("model", "function_update_cosine", 99);
    of_a_layer.layer = 0;
    AddCell(sweep, 0, "{}",
            {Done(Stage::kCompare,
                  {WithError("model", "function_update_cosine", 0.75, 0.125),
                   WithError("wrong_task", "function_update_cosine", 0.25, 0.5),
                   WithError("model", "signed_agreement", 0.5, 0.0625),
                   WithError("model", "simaou_raw", 0.375, 2), of_a_layer})});
  });
  auto tables = Tables("s");
  EXPECT_THAT(tables["compare"],
              ElementsAre("sweep|cells|at_edge|model|model_err|wrong|wrong_err|"
                          "untrained|untrained_err",
                          "s|0|0|0.75|0.125|0.25|0.5|null|null"));
  EXPECT_THAT(tables["compare, further"],
              ElementsAre("sweep|model|model_err|wrong|wrong_err|simaou|"
                          "simaou_err|simam|simam_err",
                          "s|0.5|0.0625|null|null|0.375|2.0|null|null"));
}

// Orders are compared on the same task sets: four cells are not four times the
// evidence.
TEST_F(HeadlineTest, ErrorsOfAveragedCellsDoNotShrinkAndEdgesAreCounted) {
  InTransaction(store_.get(), [&] {
    const SweepId sweep =
        AddSweep(store_.get(), "s",
                 {{"prompt.angle_degrees"}, {"prompt.task_order"}}, 5);
    const double values[] = {0.25, 0.5, 0.75, 1.0};
    const double errors[] = {0.125, 0.25, 0.125, 0.25};
    const int at_edge[] = {1, 0, 1, 1};
    for (uint64_t i = 0; i < 5; ++i) {
      const bool other = i == 4;
      Measurement tuning = MeasurementOf("model", "tune_error", 7);
      tuning.position = 0;
      AddCell(sweep, i,
              absl::StrCat(R"({"prompt.angle_degrees":)", other ? 90 : 0,
                           R"(,"prompt.task_order":")", i, R"("})"),
              {Done(Stage::kCompare,
                    {WithError("model", "function_update_cosine",
                               other ? 2 : values[i], other ? 3 : errors[i]),
                     MeasurementOf("model", "learning_rate", 0.01),
                     MeasurementOf("model", "learning_rate_at_edge",
                                   other ? 0 : at_edge[i]),
                     tuning})});
    }
  });
  EXPECT_THAT(
      Tables("s")["compare"],
      ElementsAre(StartsWith("angle_degrees|cells|at_edge|model|model_err|"),
                  StartsWith("0|4|3|0.625|0.1875|"),
                  StartsWith("90|1|0|2.0|3.0|")));
}

// With the longest columns of the sweeps in deploy/sweeps.
TEST_F(HeadlineTest, TablesAndTitlesFitIntoAbout120Columns) {
  InTransaction(store_.get(), [&] {
    const SweepId sweep = AddSweep(store_.get(), "s",
                                   {{"model.layers"},
                                    {"prompt.angle_degrees"},
                                    {"prompt.examples_per_task"}},
                                   1);
    AddCell(sweep, 0, "{}",
            {Done(Stage::kEvaluate, {MeasurementOf("model", "G", 0.012345)}),
             Done(Stage::kTrain, {AtPosition("model", 0, 1)}),
             Done(Stage::kCompare,
                  {WithError("wrong_task", "function_update_cosine", -0.012345,
                             0.012345)})});
  });
  ::testing::internal::CaptureStdout();
  EXPECT_OK(PrintHeadlines(database_.get(), "s", /*json=*/false));
  std::fflush(stdout);
  const std::string text = ::testing::internal::GetCapturedStdout();
  int tables = 0;
  bool query = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    query = absl::StartsWith(line, "  iclsweep query") ||
            (query && absl::StartsWith(line, "    "));
    if (!query) {
      EXPECT_LE(line.size(), 125U) << line;
    }
    tables += query && absl::StartsWith(line, "  iclsweep query") ? 1 : 0;
  }
  EXPECT_EQ(tables, 4);
}

TEST_F(HeadlineTest, TheoryAloneHasItsOwnTable) {
  InTransaction(store_.get(), [&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {{"prompt.tasks"}}, 2);
    AddCell(sweep, 0, R"({"prompt.tasks":2})",
            {Done(Stage::kTheory,
                  {MeasurementOf("msa", "G", 1), MeasurementOf("lsa", "G", 2),
                   MeasurementOf("msa", "F", 0.5)})});
    AddCell(sweep, 1, R"({"prompt.tasks":3})",
            {Done(Stage::kTheory, {MeasurementOf("msa", "G", 3)})});
  });
  EXPECT_THAT(Tables("s")["theory"],
              ElementsAre("tasks|msa_G|msa_E_final|msa_F|lsa_G",
                          "2|1.0|null|0.5|2.0", "3|3.0|null|null|null"));
}

TEST_F(HeadlineTest, ColumnsAreThoseOfTheViewsEvenWhenOtherSweepsCollide) {
  InTransaction(store_.get(), [&] {
    AddSweep(store_.get(), "other", {{"prompt.data.noise_std"}}, 1);
    const SweepId sweep = AddSweep(store_.get(), "s", {{"data.noise_std"}}, 1);
    AddCell(sweep, 0, R"({"data.noise_std":0.5})",
            {Done(Stage::kTheory, {MeasurementOf("msa", "G", 1)})});
  });
  EXPECT_THAT(Tables("s")["theory"], ElementsAre(StartsWith("data_noise_std|"),
                                                 StartsWith("0.5|1.0|")));
}

TEST_F(HeadlineTest, OtherSweepsResultsAreLeftOut) {
  InTransaction(store_.get(), [&] {
    const SweepId other = AddSweep(store_.get(), "other", {}, 1);
    AddCell(other, 0, "{}",
            {Done(Stage::kTheory, {MeasurementOf("msa", "G", 100)})});
    const SweepId sweep = AddSweep(store_.get(), "s", {}, 1);
    AddCell(sweep, 0, "{}",
            {Done(Stage::kTheory, {MeasurementOf("msa", "G", 1)})});
  });
  EXPECT_THAT(Tables("s")["theory"],
              ElementsAre(StartsWith("sweep|"), StartsWith("s|1.0|")));
}

TEST_F(HeadlineTest, UnfinishedStagesHaveNoTable) {
  InTransaction(store_.get(), [&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {}, 1);
    AddCell(sweep, 0, "{}", {AddJob(store_.get(), JobOf(200, Stage::kTrain))});
  });
  EXPECT_THAT(Tables("s"), IsEmpty());
}

TEST_F(HeadlineTest, SweepsAreFoundByNameTheNewestWithoutOne) {
  EXPECT_THAT(ResolveSweepName(database_.get(), "").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no sweep")));
  InTransaction(store_.get(), [&] {
    AddSweep(store_.get(), "older", {});
    AddSweep(store_.get(), "newer", {});
  });
  ASSERT_OK_AND_ASSIGN(const std::string newest,
                       ResolveSweepName(database_.get(), ""));
  EXPECT_EQ(newest, "newer");
  ASSERT_OK_AND_ASSIGN(const std::string named,
                       ResolveSweepName(database_.get(), "older"));
  EXPECT_EQ(named, "older");
  const auto not_found =
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("'nope'"));
  EXPECT_THAT(ResolveSweepName(database_.get(), "nope").status(), not_found);
  EXPECT_THAT(Headlines(database_.get(), "nope").status(), not_found);
}

TEST_F(HeadlineTest, QueriesArePrintedBesideTheirTables) {
  InTransaction(store_.get(), [&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {}, 1);
    AddCell(sweep, 0, "{}",
            {Done(Stage::kTheory, {MeasurementOf("msa", "G", 1.25)})});
  });
  ::testing::internal::CaptureStdout();
  EXPECT_OK(PrintHeadlines(database_.get(), "s", /*json=*/false));
  std::fflush(stdout);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("theory: "));
  EXPECT_THAT(text, HasSubstr("1.25"));
  EXPECT_THAT(text, HasSubstr("iclsweep query \"SELECT"));
  ::testing::internal::CaptureStdout();
  EXPECT_OK(PrintHeadlines(database_.get(), "s", /*json=*/true));
  std::fflush(stdout);
  const std::string json = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(json,
            "{\"table\":\"theory\",\"sweep\":\"s\",\"msa_G\":1.25,\"msa_E_"
            "final\":null,\"msa_F\":"
            "null,\"lsa_G\":null}\n");
}

}  // namespace
}  // namespace iclsweep
