#include "worker/evaluate/prompts.h"

#include <atomic>
#include <cmath>
#include <set>

#include "tests/support/status_matchers.h"
#include "tests/worker/evaluate/rows.h"
#include "tests/worker/tasks/prompts.h"
#include "worker/theory/run.h"

namespace iclsweep {
namespace {

using testing::Bits;
using testing::ByKey;
using ::testing::HasSubstr;
using testing::MakePrompt;
using testing::RowKey;
using testing::StatusIs;

v1::EvaluateInputs MakeInputs(int tasks, int examples, int dims,
                              int64_t prompts) {
  v1::EvaluateInputs inputs;
  *inputs.mutable_prompt() = MakePrompt(tasks, examples, dims);
  inputs.mutable_evaluate()->set_prompts(prompts);
  inputs.mutable_evaluate()->set_pretraining_length(10);
  return inputs;
}

std::vector<Measurement> Measure(const v1::EvaluateInputs& inputs) {
  const auto result = EvaluatePrompts(inputs, {}, {});
  EXPECT_OK(result);
  return result.value_or(std::vector<Measurement>());
}

// Every row of lsa and msa that `theory` predicts lies within 4 standard errors
// of it, at 16,384 prompts.
void ExpectTheory(const v1::EvaluateInputs& inputs) {
  v1::TheoryInputs theory;
  *theory.mutable_prompt() = inputs.prompt();
  theory.mutable_theory()->set_pretraining_length(
      inputs.evaluate().pretraining_length());
  theory.mutable_theory()->set_pretraining_noise_std(
      inputs.evaluate().pretraining_noise_std());
  const auto predicted = RunTheory(theory, {});
  ASSERT_OK(predicted);
  const auto measured = ByKey(Measure(inputs));
  int compared = 0;
  for (const Measurement& row : predicted->measurements) {
    const auto found =
        measured.find({row.predictor, row.name, row.task, row.position});
    if (found == measured.end()) continue;  // parts of a total
    EXPECT_NEAR(found->second.value, row.value,
                4 * found->second.standard_error + 1e-12)
        << row.predictor << " " << row.name << " task " << row.task
        << " position " << row.position;
    ++compared;
  }
  EXPECT_EQ(compared, 2 * (6 * inputs.prompt().tasks() + 4));
}

constexpr int64_t kManyPrompts = 16384;

TEST(EvaluatePromptsTest, LinearAttentionAgreesWithTheClosedForm) {
  ExpectTheory(MakeInputs(3, 4, 5, kManyPrompts));
}

TEST(EvaluatePromptsTest,
     LinearAttentionAgreesWithNoiseAndUnequalEigenvaluesInAnotherOrder) {
  v1::EvaluateInputs inputs = MakeInputs(3, 5, 3, kManyPrompts);
  for (const double value : {0.5, 1.0, 2.0})
    inputs.mutable_prompt()->mutable_data()->add_eigenvalues(value);
  inputs.mutable_prompt()->mutable_data()->set_noise_std(0.7);
  inputs.mutable_evaluate()->set_pretraining_noise_std(0.5);
  testing::SetOrder({2, 0, 1}, inputs.mutable_prompt());
  ExpectTheory(inputs);
}

TEST(EvaluatePromptsTest, LinearAttentionAgreesOnFreshRotatedTasks) {
  v1::EvaluateInputs inputs = MakeInputs(3, 4, 4, kManyPrompts);
  inputs.mutable_prompt()->set_geometry(v1::GEOMETRY_ANGLE);
  inputs.mutable_prompt()->set_angle_degrees(50);
  inputs.mutable_prompt()->set_task_set(v1::TASK_SET_FRESH);
  testing::SetOrder({1, 0, 2}, inputs.mutable_prompt());
  ExpectTheory(inputs);
}

TEST(EvaluatePromptsTest,
     LinearAttentionAgreesOnFreshClustersAndInfinitePretraining) {
  v1::EvaluateInputs inputs = MakeInputs(4, 3, 4, kManyPrompts);
  inputs.mutable_evaluate()->set_pretraining_length(0);
  inputs.mutable_prompt()->set_geometry(v1::GEOMETRY_CLUSTERED);
  inputs.mutable_prompt()->set_task_set(v1::TASK_SET_FRESH);
  ExpectTheory(inputs);
}

TEST(EvaluatePromptsTest, LinearAttentionAgreesOnFixedNoisyLinearTasks) {
  v1::EvaluateInputs inputs = MakeInputs(3, 4, 4, kManyPrompts);
  inputs.mutable_prompt()->mutable_data()->set_family(v1::FAMILY_NOISY_LINEAR);
  inputs.mutable_prompt()->mutable_data()->set_noise_std(2);
  inputs.mutable_evaluate()->set_pretraining_noise_std(2);
  ExpectTheory(inputs);
}

TEST(EvaluatePromptsTest, LinearAttentionAgreesOnFreshNoisyLinearTasks) {
  v1::EvaluateInputs inputs = MakeInputs(3, 4, 3, kManyPrompts);
  inputs.mutable_prompt()->mutable_data()->set_family(v1::FAMILY_NOISY_LINEAR);
  inputs.mutable_prompt()->mutable_data()->set_noise_std(2);
  for (const double value : {0.5, 1.0, 2.0})
    inputs.mutable_prompt()->mutable_data()->add_eigenvalues(value);
  inputs.mutable_prompt()->set_geometry(v1::GEOMETRY_ANGLE);
  inputs.mutable_prompt()->set_angle_degrees(50);
  inputs.mutable_prompt()->set_task_set(v1::TASK_SET_FRESH);
  inputs.mutable_evaluate()->set_pretraining_noise_std(2);
  ExpectTheory(inputs);
}

// Least squares from M < d noiseless examples of w ~ N(0, I): error d - M (Garg
// et al.); zero predictor: d.
TEST(EvaluatePromptsTest, LeastSquaresAloneHasItsTextbookError) {
  v1::EvaluateInputs inputs = MakeInputs(2, 3, 5, 4096);
  inputs.mutable_prompt()->set_task_set(v1::TASK_SET_FRESH);
  const auto rows = ByKey(Measure(inputs));
  for (int t = 0; t < 2; ++t) {
    const Measurement& single = rows.at({"least_squares", "G_single", t, t});
    EXPECT_NEAR(single.value, 2, 4 * single.standard_error);
    const Measurement& zero = rows.at({"zero", "G", t, t});
    EXPECT_NEAR(zero.value, 5, 4 * zero.standard_error);
  }
}

// One example with N(0, I) inputs in d dimensions. Averaging predicts
// y_1 x_1'x_q; as E[(w'x)^2 |x|^2] = (d + 2) |w|^2 and E[y_1 x_1] = w, its
// error is (d + 2 - 2 + 1) |w|^2. The nearest of one example is that one: 2
// |w|^2.
TEST(EvaluatePromptsTest, AveragingAndNearestThreeHaveTheirTextbookErrors) {
  const auto rows = ByKey(Measure(MakeInputs(1, 1, 4, 65536)));
  const Measurement& zero = rows.at({"zero", "G", 0, 0});  // |w|^2
  const Measurement& averaging = rows.at({"averaging", "G", 0, 0});
  const Measurement& nearest = rows.at({"nn3", "G", 0, 0});
  EXPECT_NEAR(
      averaging.value, 5 * zero.value,
      4 * std::hypot(averaging.standard_error, 5 * zero.standard_error));
  EXPECT_NEAR(nearest.value, 2 * zero.value,
              4 * std::hypot(nearest.standard_error, 2 * zero.standard_error));
}

TEST(EvaluatePromptsTest,
     LeastSquaresIsExactWithEnoughNoiselessExamplesOfOneTask) {
  const auto rows = ByKey(Measure(MakeInputs(1, 6, 4, 300)));
  EXPECT_LT(rows.at({"least_squares", "G", 0, 0}).value, 1e-20);
}

TEST(EvaluatePromptsTest, RidgeUsesTheNoiseVarianceUnlessAPenaltyIsGiven) {
  v1::EvaluateInputs inputs = MakeInputs(2, 4, 3, 300);
  const auto clean = ByKey(Measure(inputs));
  EXPECT_EQ(clean.at({"ridge", "G", 1, 1}).value,
            clean.at({"least_squares", "G", 1, 1}).value);
  inputs.mutable_prompt()->mutable_data()->set_noise_std(0.5);
  const auto by_default = ByKey(Measure(inputs));
  inputs.mutable_evaluate()->set_ridge_lambda(0.25);
  const auto given = ByKey(Measure(inputs));
  EXPECT_EQ(by_default.at({"ridge", "G", 1, 1}).value,
            given.at({"ridge", "G", 1, 1}).value);
  EXPECT_NE(by_default.at({"ridge", "G", 1, 1}).value,
            by_default.at({"least_squares", "G", 1, 1}).value);
}

TEST(EvaluatePromptsTest, LassoStandsBesideSparseTasksOrAGivenPenalty) {
  v1::EvaluateInputs inputs = MakeInputs(2, 4, 3, 300);
  const auto has_lasso = [](const std::vector<Measurement>& rows) {
    return ByKey(rows).contains({"lasso", "G", 1, 1});
  };
  const std::vector<Measurement> plain = Measure(inputs);
  EXPECT_FALSE(has_lasso(plain));
  inputs.mutable_evaluate()->set_lasso_alpha(0.2);
  std::vector<Measurement> more = Measure(inputs);
  EXPECT_TRUE(has_lasso(more));
  std::erase_if(
      more, [](const Measurement& row) { return row.predictor == "lasso"; });
  EXPECT_EQ(Bits(more), Bits(plain));  // the other rows are the same

  inputs.mutable_prompt()->mutable_data()->set_family(v1::FAMILY_SPARSE_LINEAR);
  const auto given = ByKey(Measure(inputs));
  inputs.mutable_evaluate()->clear_lasso_alpha();
  const auto by_default = ByKey(Measure(inputs));
  inputs.mutable_evaluate()->set_lasso_alpha(0.01);
  const auto garg = ByKey(Measure(inputs));
  const RowKey key = {"lasso", "NT", 1, 1};
  EXPECT_EQ(by_default.at(key).value, garg.at(key).value);
  EXPECT_NE(by_default.at(key).value, given.at(key).value);
}

// 3 of 20 weights from 15 examples: least squares errs by 3 (1 - 15/20), Lasso
// finds most of them.
TEST(EvaluatePromptsTest, LassoRecoversSparseTasks) {
  v1::EvaluateInputs inputs = MakeInputs(1, 15, 20, 2048);
  inputs.mutable_prompt()->mutable_data()->set_family(v1::FAMILY_SPARSE_LINEAR);
  inputs.mutable_prompt()->set_task_set(v1::TASK_SET_FRESH);
  const auto rows = ByKey(Measure(inputs));
  const Measurement& least_squares = rows.at({"least_squares", "G", 0, 0});
  EXPECT_NEAR(least_squares.value, 0.75, 4 * least_squares.standard_error);
  EXPECT_LT(rows.at({"lasso", "G", 0, 0}).value, 0.2);
}

TEST(EvaluatePromptsTest, EveryFamilyHasAllRowsAndFiniteErrors) {
  for (const v1::Family family : testing::kAllFamilies) {
    v1::EvaluateInputs inputs = MakeInputs(2, 3, 4, 300);
    inputs.mutable_prompt()->mutable_data()->set_family(family);
    inputs.mutable_prompt()->mutable_data()->set_noise_std(0.5);
    const std::vector<Measurement> rows = Measure(inputs);
    EXPECT_EQ(rows.size(),
              (family == v1::FAMILY_SPARSE_LINEAR ? 5U : 4U) * 16 + 3U * 6)
        << family;
    for (const Measurement& row : rows)
      EXPECT_TRUE(std::isfinite(row.value)) << family;
  }
}

TEST(EvaluatePromptsTest, OrdersSeeTheSameDraws) {
  v1::EvaluateInputs inputs = MakeInputs(3, 4, 3, 300);
  const auto plain = ByKey(Measure(inputs));
  testing::SetOrder({2, 0, 1}, inputs.mutable_prompt());
  const auto moved = ByKey(Measure(inputs));
  const int position[] = {1, 2, 0};
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(plain.at({"zero", "G", t, t}).value,
              moved.at({"zero", "G", t, position[t]}).value);
    EXPECT_EQ(plain.at({"least_squares", "G_single", t, t}).value,
              moved.at({"least_squares", "G_single", t, position[t]}).value);
    EXPECT_EQ(plain.at({"msa", "G_single", t, t}).value,
              moved.at({"msa", "G_single", t, position[t]}).value);
    EXPECT_NE(plain.at({"msa", "G", t, t}).value,
              moved.at({"msa", "G", t, position[t]}).value);
  }
  EXPECT_EQ(moved.at({"msa", "NT", 2, 0}).value, 0);  // the first task is alone
}

TEST(EvaluatePromptsTest, FewerTasksAreTheBeginningOfMore) {
  const auto few = ByKey(Measure(MakeInputs(2, 4, 3, 300)));
  const auto many = ByKey(Measure(MakeInputs(3, 4, 3, 300)));
  for (int t = 0; t < 2; ++t) {
    EXPECT_EQ(few.at({"ridge", "G", t, t}).value,
              many.at({"ridge", "G", t, t}).value);
    EXPECT_EQ(few.at({"msa", "G", t, t}).value,
              many.at({"msa", "G", t, t}).value);
  }
}

TEST(EvaluatePromptsTest, OnlyTheAskedPromptsCount) {
  // The model answers 0 for the first 300 prompts and NaN for those that fill
  // the last chunk.
  v1::EvaluateInputs inputs = MakeInputs(2, 3, 2, 300);
  int64_t seen = 0;
  std::set<int64_t> sizes;
  const auto model = [&](const PromptBlock& block, const std::vector<int>&)
      -> absl::StatusOr<std::vector<QueryPredictions>> {
    sizes.insert(block.prompts);
    std::vector<QueryPredictions> answers;
    for (int64_t row = 0; row < block.prompts; ++row, ++seen) {
      const double value = seen < 300 ? 0 : std::nan("");
      answers.push_back({{value, value}, {value, value}, {value, value}});
    }
    return answers;
  };
  ASSERT_OK_AND_ASSIGN(const auto measurements,
                       EvaluatePrompts(inputs, model, {}));
  const auto rows = ByKey(measurements);
  EXPECT_EQ(sizes, (std::set<int64_t>{kChunkPrompts}));
  EXPECT_EQ(rows.at({"model", "G", 1, 1}).value,
            rows.at({"zero", "G", 1, 1}).value);
  EXPECT_EQ(rows.at({"model", "G", 1, 1}).n, 300);
}

TEST(EvaluatePromptsTest, ResultsDoNotDependOnWhatRanBefore) {
  const v1::EvaluateInputs inputs = MakeInputs(3, 4, 3, 300);
  const std::string first = Bits(Measure(inputs));
  Measure(MakeInputs(2, 7, 5, 500));
  EXPECT_EQ(first, Bits(Measure(inputs)));
}

TEST(EvaluatePromptsTest, ReportsOneUnitPerChunk) {
  StageContext context;
  std::vector<std::pair<int64_t, int64_t>> reports;
  context.progress = [&](int64_t /*steps_run*/, int64_t done, int64_t total,
                         bool /*checkpointed*/) {
    reports.emplace_back(done, total);
  };
  ASSERT_OK(EvaluatePrompts(MakeInputs(1, 1, 1, 600), {}, context));
  EXPECT_EQ(reports,
            (std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {2, 3}, {3, 3}}));
}

TEST(EvaluatePromptsTest, StopsBetweenChunks) {
  std::atomic<bool> stop = false;
  StageContext context;
  context.stop = &stop;
  context.progress = [&](int64_t, int64_t done, int64_t, bool) {
    stop = done == 2;
  };
  EXPECT_THAT(EvaluatePrompts(MakeInputs(1, 1, 1, 6000), {}, context),
              StatusIs(absl::StatusCode::kCancelled,
                       HasSubstr("after 2 of 24 chunks")));
}

TEST(EvaluatePromptsTest, RefusesBadParameters) {
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(EvaluatePrompts(MakeInputs(1, 1, 1, 1), {}, {}),
              StatusIs(code, HasSubstr("evaluate.prompts = 1")));
  v1::EvaluateInputs inputs = MakeInputs(2, 1, 1, 10);
  testing::SetOrder({1, 1}, inputs.mutable_prompt());
  EXPECT_THAT(EvaluatePrompts(inputs, {}, {}),
              StatusIs(code, HasSubstr("not a permutation")));
}

}  // namespace
}  // namespace iclsweep
