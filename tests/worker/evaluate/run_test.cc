#include "worker/evaluate/run.h"

#include <cmath>
#include <limits>

#include "ATen/ATen.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/evaluate/rows.h"
#include "tests/worker/model/scratch.h"
#include "tests/worker/tasks/prompts.h"
#include "worker/evaluate/model_pass.h"
#include "worker/evaluate/prompts.h"
#include "worker/model/checkpoint.h"

namespace iclsweep {
namespace {

using ::testing::AllOf;
using testing::Bits;
using testing::ByKey;
using ::testing::HasSubstr;
using testing::MakePrompt;
using testing::StatusIs;

class EvaluateTest : public testing::Scratch {
 protected:
  EvaluateTest() {
    *inputs_.mutable_prompt() = MakePrompt(3, 2, 2);
    inputs_.mutable_evaluate()->set_prompts(300);
    inputs_.mutable_evaluate()->set_pretraining_length(10);
  }

  // Stores `model`, trained on `trained_points`, as the checkpoint the stage
  // reads.
  void Publish(const Gpt2& model, int64_t trained_points,
               bool non_finite = false) {
    const CheckpointContent content{.model = &model,
                                    .initial = &model,
                                    .trained_points = trained_points,
                                    .inputs = {},
                                    .key = "k",
                                    .non_finite = non_finite};
    ASSERT_OK(PublishCheckpoint(content, Path("artifacts"), "one"));
    context_.checkpoint_dir = Path("artifacts/one");
  }

  static void SetParameter(const std::string& name, double value, Gpt2* model) {
    for (size_t i = 0; i < model->names().size(); ++i) {
      if (model->names()[i] == name) model->parameters()[i].fill_(value);
    }
  }

  Gpt2 model_ = Gpt2::Initialize({.layers = 2,
                                  .heads = 2,
                                  .width = 16,
                                  .positions = 12,
                                  .dims = 2,
                                  .init_std = 0.2},
                                 3);
  v1::EvaluateInputs inputs_;
  StageContext context_;
  Checkpoints checkpoints_;
};

TEST_F(EvaluateTest, ReportsEveryPredictor) {
  Publish(model_, 12);
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Evaluate(inputs_, context_, &checkpoints_));
  const auto rows = ByKey(result.measurements);
  EXPECT_EQ(rows.size(), 5U * (3 * 6 + 4) + 3 * (3 * 2 + 2));
  for (const char* predictor :
       {"model", "least_squares", "ridge", "lsa", "msa"}) {
    for (const char* name : {"G", "G_single", "NT", "E_final", "delta_E", "F"})
      EXPECT_TRUE(rows.contains({predictor, name, 2, 2}));
  }
  for (const Measurement& row : result.measurements) {
    EXPECT_EQ(row.n, 300);
    EXPECT_TRUE(std::isfinite(row.value));
    EXPECT_TRUE(std::isfinite(row.standard_error));
  }
  EXPECT_FALSE(result.non_finite);
  EXPECT_FALSE(result.extrapolated);
}

TEST_F(EvaluateTest, MeasuresWhatTheModelPredicts) {
  Publish(model_, 12);
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Evaluate(inputs_, context_, &checkpoints_));
  const auto rows = ByKey(result.measurements);
  std::vector<double> errors;
  for (int64_t first = 0; first < 300; first += kChunkPrompts) {
    const PromptBlock block =
        *DrawPrompts(inputs_.prompt(), 0, first, kChunkPrompts);
    const auto answers = PredictModel(model_, at::kCPU, block, {0, 1, 2});
    for (size_t row = 0; row < answers.size() && errors.size() < 300; ++row) {
      errors.push_back(
          std::pow(answers[row].last[1] - block.query_labels[row * 3 + 1], 2));
    }
  }
  double mean = 0;
  for (const double error : errors) mean += error / 300;
  double squares = 0;
  for (const double error : errors) squares += (error - mean) * (error - mean);
  EXPECT_NEAR(rows.at({"model", "E_final", 1, 1}).value, mean, 1e-12 * mean);
  EXPECT_NEAR(rows.at({"model", "E_final", 1, 1}).standard_error,
              std::sqrt(squares / 299 / 300), 1e-12 * mean);
}

TEST_F(EvaluateTest, AModelThatReadsOutZeroHasTheErrorOfTheZeroPredictor) {
  SetParameter("_read_out.weight", 0, &model_);
  SetParameter("_read_out.bias", 0, &model_);
  Publish(model_, 12);
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Evaluate(inputs_, context_, &checkpoints_));
  const auto rows = ByKey(result.measurements);
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(rows.at({"model", "G", t, t}).value,
              rows.at({"zero", "G", t, t}).value);
    EXPECT_EQ(rows.at({"model", "E_final", t, t}).standard_error,
              rows.at({"zero", "E_final", t, t}).standard_error);
    EXPECT_EQ(rows.at({"model", "F", t, t}).value, 0);
  }
}

TEST_F(EvaluateTest, ResultsAreIdenticalWhateverRanBefore) {
  Publish(model_, 12);
  ASSERT_OK_AND_ASSIGN(const StageResult first,
                       Evaluate(inputs_, context_, &checkpoints_));
  v1::EvaluateInputs other = inputs_;
  other.mutable_prompt()->set_examples_per_task(1);
  other.mutable_evaluate()->set_prompts(700);
  ASSERT_OK(Evaluate(other, context_, &checkpoints_));
  ASSERT_OK_AND_ASSIGN(const StageResult again,
                       Evaluate(inputs_, context_, &checkpoints_));
  EXPECT_EQ(Bits(first.measurements), Bits(again.measurements));
}

TEST_F(EvaluateTest, RefusesPromptsLongerThanTrainedUnlessAllowed) {
  Publish(model_, 9);
  EXPECT_THAT(Evaluate(inputs_, context_, &checkpoints_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("3 * (2 + 1) + 1 = 10 points"),
                             HasSubstr("the 9 it was trained on"))));
  inputs_.mutable_prompt()->set_allow_extrapolation(true);
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Evaluate(inputs_, context_, &checkpoints_));
  EXPECT_TRUE(result.extrapolated);
}

TEST_F(EvaluateTest, NeverAcceptsPromptsLongerThanThePositions) {
  Publish(model_, 12);
  inputs_.mutable_prompt()->set_allow_extrapolation(true);
  inputs_.mutable_prompt()->set_examples_per_task(3);  // 13 points
  EXPECT_THAT(Evaluate(inputs_, context_, &checkpoints_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("13 points exceed the model's 12 positions")));
}

TEST_F(EvaluateTest, RefusesOtherDimensions) {
  Publish(model_, 12);
  inputs_.mutable_prompt()->mutable_data()->set_dims(3);
  EXPECT_THAT(
      Evaluate(inputs_, context_, &checkpoints_),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dims = 3")));
}

TEST_F(EvaluateTest, ADivergedCheckpointGivesTheSameRowsWithoutNumbers) {
  Publish(model_, 12);
  ASSERT_OK_AND_ASSIGN(const StageResult finite,
                       Evaluate(inputs_, context_, &checkpoints_));
  std::filesystem::remove_all(Path("artifacts"));
  Publish(model_, 12, /*non_finite=*/true);
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Evaluate(inputs_, context_, &checkpoints_));
  EXPECT_TRUE(result.non_finite);
  ASSERT_EQ(result.measurements.size(), finite.measurements.size());
  for (size_t i = 0; i < result.measurements.size(); ++i) {
    const Measurement& row = result.measurements[i];
    EXPECT_TRUE(std::isnan(row.value));
    EXPECT_EQ(
        std::tie(row.predictor, row.name, row.task, row.position, row.n),
        std::tie(finite.measurements[i].predictor, finite.measurements[i].name,
                 finite.measurements[i].task, finite.measurements[i].position,
                 finite.measurements[i].n));
  }
}

TEST_F(EvaluateTest, NonFiniteAnswersAreFlaggedAndStayWithTheModel) {
  SetParameter("_read_out.bias", std::numeric_limits<double>::quiet_NaN(),
               &model_);
  Publish(model_, 12);
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Evaluate(inputs_, context_, &checkpoints_));
  EXPECT_TRUE(result.non_finite);
  for (const Measurement& row : result.measurements)
    EXPECT_EQ(std::isfinite(row.value), row.predictor != "model");
}

TEST_F(EvaluateTest, StopsWhenToldTo) {
  Publish(model_, 12);
  const std::atomic<bool> stop = true;
  context_.stop = &stop;
  EXPECT_THAT(
      Evaluate(inputs_, context_, &checkpoints_),
      StatusIs(absl::StatusCode::kCancelled, HasSubstr("0 of 2 chunks")));
}

TEST_F(EvaluateTest, WeightsThatAreNotThoseThatWereTrainedAreRefused) {
  Publish(model_, 12);
  context_.checkpoint_sha256 = std::string(64, 'a');
  EXPECT_THAT(Evaluate(inputs_, context_, &checkpoints_),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("model.safetensors is not what was trained")));
}

TEST_F(EvaluateTest, AMissingCheckpointIsUnavailable) {
  context_.checkpoint_dir = Path("nowhere");
  EXPECT_THAT(Evaluate(inputs_, context_, &checkpoints_),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nowhere")));
}

TEST_F(EvaluateTest, AnUnknownDeviceIsAnError) {
  Publish(model_, 12);
  context_.device = "abacus";
  EXPECT_FALSE(Evaluate(inputs_, context_, &checkpoints_).ok());
}

}  // namespace
}  // namespace iclsweep
