#include "coordinator/spec/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/spec/plan.h"
#include "coordinator/spec/resolve.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

// The jobs of a one-cell sweep.
Work WorkIn(const std::string& text, Stage stage) {
  const auto spec = ParseSweep("name: t\n" + text, "s.yaml");
  EXPECT_OK(spec.status());
  Work found;
  EXPECT_OK(SampleJobs(
      *spec, stage, 1, [&](const PlannedJob& job, const PlannedJob* train) {
        auto work = WorkOf(stage, job.inputs,
                           train == nullptr ? nullptr : &train->inputs);
        EXPECT_OK(work.status());
        found = *work;
        return absl::OkStatus();
      }));
  return found;
}

v1::TrainInputs Inputs(int layers, int width, int dims, int positions) {
  v1::TrainInputs inputs;
  inputs.mutable_model()->set_layers(layers);
  inputs.mutable_model()->set_width(width);
  inputs.mutable_model()->set_positions(positions);
  inputs.mutable_data()->set_dims(dims);
  return inputs;
}

// Against models that were built: golden/garg_gpt2_tiny counts its 43 tensors,
// Garg et al. give 9.5 million for the standard size (with 202 positions).
TEST(WorkTest, ParametersAreThoseOfTheModel) {
  EXPECT_EQ(ParameterCount(Inputs(3, 64, 20, 101)), 164'417);
  EXPECT_NEAR(static_cast<double>(ParameterCount(Inputs(12, 256, 20, 101))),
              9.5e6, 0.05e6);
  EXPECT_EQ(ParameterCount(Inputs(3, 64, 20, 0)),
            164'417 - 2 * (101 - 41) * 64);  // train.points
}

TEST(WorkTest, TrainingGrowsWithStepsBatchAndSize) {
  const std::string base =
      "model: {size: tiny}\ntrain: {validation_prompts: 2, steps: ";
  const Work one = WorkIn(base + "1000}", Stage::kTrain);
  const Work twice = WorkIn(base + "2000}", Stage::kTrain);
  EXPECT_NEAR(twice.flops / one.flops, 2, 0.01);
  EXPECT_NEAR(twice.passes / one.passes, 2, 0.01);
  const Work batch = WorkIn(base + "1000, batch: 128}", Stage::kTrain);
  EXPECT_NEAR(batch.flops / one.flops, 2, 0.01);
  EXPECT_NEAR(batch.passes / one.passes, 1, 0.01);
  // 6 flops per weight and token, and what attention adds.
  const double tokens = 1000.0 * 64 * 82;
  EXPECT_GT(one.flops, 6 * tokens * 12 * 3 * 64 * 64);
  EXPECT_LT(one.flops, 2 * 6 * tokens * 12 * 3 * 64 * 64);
}

TEST(WorkTest, CurriculumShortensTraining) {
  const std::string base =
      "model: {size: tiny}\ntrain: {validation_prompts: 2, steps: 1000";
  const Work whole = WorkIn(base + "}", Stage::kTrain);
  // 500 steps of 11 points, 500 of 41.
  const Work grown =
      WorkIn(base +
                 ", curriculum: {points_start: 11, points_increment: 30, "
                 "points_interval: 500}}",
             Stage::kTrain);
  // n (24 E^2 + 8 n E) for n points and width E.
  const auto flops = [](double n) { return n * (24 * 64 * 64 + 8 * n * 64); };
  EXPECT_NEAR(grown.flops / whole.flops, (flops(11) / flops(41) + 1) / 2,
              0.005);
  const Work never =
      WorkIn(base + ", curriculum: {points_start: 11, points_interval: 5000}}",
             Stage::kTrain);
  EXPECT_NEAR(never.flops / whole.flops, flops(11) / flops(41), 0.005);
}

TEST(WorkTest, AnExistingModelIsOnlyMeasured) {
  const std::string base = "model: {size: tiny}\ntrain: {";
  const Work trained = WorkIn(base + "steps: 1000}", Stage::kTrain);
  const Work taken =
      WorkIn(base + "checkpoint: 'sha256:" + std::string(64, 'a') + "'}",
             Stage::kTrain);
  EXPECT_LT(taken.flops, trained.flops / 40);
  EXPECT_GT(taken.flops, 0);
}

TEST(WorkTest, StagesGrowWithTheirNumbersAndTheirModel) {
  const auto text = [](const char* size, int prompts, int examples) {
    return absl::StrCat("model: {size: ", size, "}\ntrain: {}\nprompt: {tasks:",
                        " 5, examples_per_task: ", examples,
                        "}\nevaluate: {prompts: ", prompts,
                        "}\ncompare: {tasks: ", prompts, "}\ntheory:");
  };
  for (const Stage stage : {Stage::kEvaluate, Stage::kCompare}) {
    const Work one = WorkIn(text("small", 1024, 3), stage);
    EXPECT_NEAR(WorkIn(text("small", 2048, 3), stage).flops / one.flops, 2,
                0.01);
    EXPECT_GT(WorkIn(text("small", 1024, 7), stage).flops, 1.2 * one.flops);
    EXPECT_GT(WorkIn(text("standard", 1024, 3), stage).flops, 1.5 * one.flops);
  }
  // compare works in chunks of 32 task sets that are always full.
  EXPECT_EQ(WorkIn(text("small", 2, 3), Stage::kCompare).flops,
            WorkIn(text("small", 32, 3), Stage::kCompare).flops);
  EXPECT_GT(WorkIn(text("small", 2, 3), Stage::kTheory).flops, 0);
}

TEST(WorkTest, InputsThatDoNotParseAreAnError) {
  EXPECT_THAT(WorkOf(Stage::kTrain, "\xFF", nullptr),
              testing::StatusIs(absl::StatusCode::kInternal,
                                ::testing::HasSubstr("train job")));
}

}  // namespace
}  // namespace iclsweep
