#include "coordinator/cli/result_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
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
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::InTransaction;
using testing::JobOf;
using testing::KeyOf;
using testing::kRowTime;
using testing::MeasurementOf;
using ::testing::Not;
using testing::StatusIs;

class ResultRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, OpenSqliteStore(dir_.Path("db")));
    ASSERT_OK_AND_ASSIGN(database_, OpenForReading(dir_.Path("db")));
    InTransaction(store_.get(), [&] {
      worker_ = AddWorker(store_.get(), "slot");
      sweep_ = AddSweep(store_.get(), "s", {{"seed"}}, 3);
    });
  }
  // Cells in the order of their keys, which is not that of their indices.
  void Fill() {
    InTransaction(store_.get(), [&] {
      const JobId train =
          Job(Stage::kTrain, {MeasurementOf("zero", "error", 1),
                              MeasurementOf("model", "error", 2)});
      const JobId theory = Job(Stage::kTheory, {MeasurementOf("msa", "G", 3)});
      for (const int index : {2, 0, 1}) {
        const JobId evaluate =
            Job(Stage::kEvaluate, {MeasurementOf("model", "G", 4)});
        EXPECT_OK(store_->InsertCell(sweep_, 1,
                                     {absl::StrCat("k", (index + 1) % 3),
                                      static_cast<uint64_t>(index),
                                      absl::StrCat(R"({"seed":)", index, "}"),
                                      {theory, evaluate, train}}));
      }
    });
  }
  JobId Job(Stage stage, std::vector<Measurement> rows) {
    const uint8_t n = ++keys_;
    const JobId job = AddJob(store_.get(), JobOf(n, stage));
    EXPECT_OK(store_->StartAttempt({{job, 1}, worker_, kRowTime}));
    EXPECT_OK(store_->InsertResult(
        DoneCompletion({job, 1}, KeyOf(n), std::move(rows)), kRowTime));
    EXPECT_OK(store_->SetJobState(job, JobState::kDone));
    return job;
  }
  std::vector<std::string> Rows(const ResultFilter& filter) {
    return testing::RowsOf(database_.get(),
                           absl::StrCat("SELECT cell, stage, predictor FROM (",
                                        ResultRowsSql("s", filter), ")"));
  }
  absl::StatusOr<bool> Has(const ResultFilter& filter) {
    return HasResultRows(database_.get(), "s", filter);
  }

  testing::TempDir dir_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Database> database_;
  WorkerId worker_;
  SweepId sweep_;
  uint8_t keys_ = 0;
};

TEST_F(ResultRowsTest, RowsComeByCellThenStageAsTheyRun) {
  Fill();
  std::vector<std::string> expected;
  for (const char* cell : {"0", "1", "2"}) {
    for (const char* row :
         {"|train|model", "|train|zero", "|evaluate|model", "|theory|msa"})
      expected.push_back(absl::StrCat(cell, row));
  }
  EXPECT_EQ(Rows({}), expected);
  EXPECT_THAT(Rows({"train", "zero", ""}),
              ElementsAre("0|train|zero", "1|train|zero", "2|train|zero"));
  EXPECT_THAT(Rows({"", "", "it's"}), ElementsAre());
}

TEST_F(ResultRowsTest, FirstRowsAreThoseOfTheFirstCells) {
  Fill();
  EXPECT_THAT(Rows({"evaluate", "", "", 2}),
              ElementsAre("0|evaluate|model", "1|evaluate|model"));
}

TEST_F(ResultRowsTest, FirstRowsComeWithoutSortingEveryCell) {
  Fill();
  const std::vector<std::string> plan = testing::RowsOf(
      database_.get(),
      absl::StrCat("EXPLAIN QUERY PLAN ", ResultRowsSql("s", {"", "", "", 2})));
  EXPECT_THAT(plan, Contains(HasSubstr("cell_by_index")));
  EXPECT_THAT(plan, Not(Contains(EndsWith("FOR ORDER BY"))));
}

TEST_F(ResultRowsTest, FilterThatFitsHasRows) {
  Fill();
  for (const ResultFilter& filter :
       {ResultFilter{}, ResultFilter{"train", "", ""},
        ResultFilter{"", "msa", ""}, ResultFilter{"", "", "error"},
        ResultFilter{"evaluate", "model", "G"}}) {
    ASSERT_OK_AND_ASSIGN(const bool any, Has(filter));
    EXPECT_TRUE(any);
  }
}

TEST_F(ResultRowsTest, UnknownWordIsAnErrorWithTheKnownOnes) {
  Fill();
  const struct {
    ResultFilter filter;
    const char* message;
  } cases[] = {
      {{"trian", "", ""},
       "--stage 'trian' is not in sweep 's'; did you mean 'train'? (known: "
       "train, evaluate, theory)"},
      {{"", "modle", ""},
       "--predictor 'modle' is not in sweep 's'; did you mean 'model'? (known: "
       "model, msa, zero)"},
      {{"", "", "xyzzy"},
       "--name 'xyzzy' is not in sweep 's' (known: G, error)"},
      {{"evaluate", "zero", ""},
       "--predictor 'zero' is not in the results of stage evaluate of sweep "
       "'s' (known: model)"},
      {{"", "zero", "G"},
       "--name 'G' is not in the rows of predictor zero in sweep 's' (known: "
       "error)"},
      {{"", "it's", ""}, "(known: model, msa, zero)"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(
        Has(c.filter).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST_F(ResultRowsTest, NothingStoredYetIsNoError) {
  for (const ResultFilter& filter :
       {ResultFilter{}, ResultFilter{"", "model", ""},
        ResultFilter{"", "", "G"}}) {
    ASSERT_OK_AND_ASSIGN(const bool any, Has(filter));
    EXPECT_FALSE(any);
  }
  InTransaction(store_.get(), [&] {
    const JobId train =
        Job(Stage::kTrain, {MeasurementOf("model", "error", 2)});
    const JobId open = AddJob(store_.get(), JobOf(9, Stage::kEvaluate));
    EXPECT_OK(store_->InsertCell(sweep_, 1, {"k", 0, "{}", {train, open}}));
  });
  ASSERT_OK_AND_ASSIGN(const bool evaluated, Has({"evaluate", "", ""}));
  EXPECT_FALSE(evaluated);
  EXPECT_FALSE(Has({"compare", "", ""}).ok()) << "no stage of this sweep";
}

}  // namespace
}  // namespace iclsweep
