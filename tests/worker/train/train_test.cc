#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>

#include "ATen/ATen.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/model/scratch.h"
#include "worker/model/checkpoint.h"
#include "worker/model/files.h"
#include "worker/model/gpt2.h"
#include "worker/train/run.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

v1::TrainInputs SmallInputs() {
  v1::TrainInputs inputs;
  inputs.mutable_model()->set_layers(2);
  inputs.mutable_model()->set_heads(2);
  inputs.mutable_model()->set_width(16);
  inputs.mutable_model()->set_init_std(0.1);
  inputs.mutable_data()->set_dims(2);
  inputs.mutable_data()->set_noise_std(0.1);
  inputs.mutable_train()->set_points(6);
  inputs.mutable_train()->set_steps(24);
  inputs.mutable_train()->set_batch(8);
  inputs.mutable_train()->set_learning_rate(3e-3);
  inputs.mutable_train()->set_warmup_steps(5);
  inputs.mutable_train()->set_schedule(v1::SCHEDULE_COSINE);
  inputs.mutable_train()->set_curve_interval(5);
  inputs.mutable_train()->set_validation_prompts(300);
  inputs.mutable_train()->mutable_curriculum()->set_points_start(4);
  inputs.mutable_train()->mutable_curriculum()->set_points_interval(7);
  inputs.set_seed(3);
  return inputs;
}

class TrainTest : public testing::Scratch {
 protected:
  // A context whose run stops itself once `stop_at` steps are done (0 = never).
  StageContext Context(const std::string& name, uint32_t attempt,
                       int64_t stop_at = 0, int64_t every = 0) {
    stop_ = false;
    checkpoints_.clear();
    steps_run_ = 0;
    StageContext context;
    context.device_kind = "cpu/test";
    context.artifact_dir = Path("artifacts");
    context.artifact_name = name;
    context.partial_dir = Path("partial-" + name);
    context.attempt = attempt;
    context.checkpoint_every_steps = every;
    context.stop = &stop_;
    context.progress = [this, stop_at](int64_t steps_run, int64_t done, int64_t,
                                       bool checkpointed) {
      steps_run_ = steps_run;
      if (checkpointed) checkpoints_.push_back(done);
      if (done == stop_at) stop_ = true;
    };
    return context;
  }

  std::vector<std::string> Folders(const std::string& name) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(Path(name), error))
      names.push_back(entry.path().filename().string());
    return names;
  }

  std::atomic<bool> stop_ = false;
  std::vector<int64_t> checkpoints_;
  int64_t steps_run_ = 0;
};

void ExpectSameResult(const StageResult& a, const StageResult& b) {
  EXPECT_EQ(a.artifact->sha256, b.artifact->sha256);
  ASSERT_EQ(a.curve.size(), b.curve.size());
  for (size_t i = 0; i < a.curve.size(); ++i) {
    EXPECT_EQ(a.curve[i].step, b.curve[i].step);
    EXPECT_EQ(a.curve[i].value, b.curve[i].value);
  }
  ASSERT_EQ(a.measurements.size(), b.measurements.size());
  for (size_t i = 0; i < a.measurements.size(); ++i)
    EXPECT_EQ(a.measurements[i].value, b.measurements[i].value);
}

TEST_F(TrainTest, ResumedRunsEqualAnUninterruptedOneBitForBit) {
  ASSERT_OK_AND_ASSIGN(const StageResult whole,
                       Train(SmallInputs(), Context("whole", 1)));
  for (const int64_t at : {1, 5, 13, 23}) {
    const std::string name = "resumed-" + std::to_string(at);
    ASSERT_THAT(Train(SmallInputs(), Context(name, 1, at)),
                StatusIs(absl::StatusCode::kCancelled,
                         HasSubstr("after step " + std::to_string(at))));
    ASSERT_OK_AND_ASSIGN(const StageResult resumed,
                         Train(SmallInputs(), Context(name, 2)));
    EXPECT_EQ(steps_run_, 24 - at);
    ExpectSameResult(whole, resumed);
  }
}

TEST_F(TrainTest, TwoInterruptionsInARowChangeNothing) {
  ASSERT_OK_AND_ASSIGN(const StageResult whole,
                       Train(SmallInputs(), Context("whole", 1)));
  ASSERT_THAT(Train(SmallInputs(), Context("twice", 1, 8)),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
  ASSERT_THAT(Train(SmallInputs(), Context("twice", 2, 15)),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
  EXPECT_EQ(steps_run_, 7);
  ASSERT_OK_AND_ASSIGN(const StageResult resumed,
                       Train(SmallInputs(), Context("twice", 3)));
  EXPECT_EQ(steps_run_, 9);
  ExpectSameResult(whole, resumed);
}

TEST_F(TrainTest, AStopDuringValidationKeepsTheTrainedModel) {
  ASSERT_OK_AND_ASSIGN(const StageResult whole,
                       Train(SmallInputs(), Context("whole", 1)));
  ASSERT_THAT(Train(SmallInputs(), Context("late", 1, 24)),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
  ASSERT_OK_AND_ASSIGN(const StageResult resumed,
                       Train(SmallInputs(), Context("late", 2)));
  EXPECT_EQ(steps_run_, 0);
  ExpectSameResult(whole, resumed);
}

TEST_F(TrainTest, CheckpointIntervalDoesNotChangeResults) {
  ASSERT_OK_AND_ASSIGN(const StageResult never,
                       Train(SmallInputs(), Context("never", 1)));
  EXPECT_THAT(checkpoints_, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const StageResult often,
                       Train(SmallInputs(), Context("often", 1, 0, 6)));
  EXPECT_THAT(checkpoints_, ElementsAre(6, 12, 18));
  ExpectSameResult(never, often);
}

TEST_F(TrainTest, OnlyTheNewestTwoPartialCheckpointsAreKept) {
  ASSERT_FALSE(Train(SmallInputs(), Context("x", 7, 17, 5)).ok());
  EXPECT_THAT(Folders("partial-x/7"),
              UnorderedElementsAre("step-15", "step-17"));
}

// A worker may die between the publication and the commit of its result; the
// next attempt must not begin at step 0.
TEST_F(TrainTest, FinishedTrainingKeepsItsPartialCheckpoints) {
  ASSERT_OK_AND_ASSIGN(const StageResult first,
                       Train(SmallInputs(), Context("x", 1, 0, 5)));
  EXPECT_THAT(Folders("partial-x/1"),
              UnorderedElementsAre("step-15", "step-20"));
  ASSERT_OK_AND_ASSIGN(const StageResult second,
                       Train(SmallInputs(), Context("x", 2, 0, 5)));
  EXPECT_EQ(steps_run_, 24 - 20);
  ExpectSameResult(first, second);
}

TEST_F(TrainTest, ADamagedPartialCheckpointIsPassedOver) {
  ASSERT_OK_AND_ASSIGN(const StageResult whole,
                       Train(SmallInputs(), Context("whole", 1)));
  for (const std::string damage : {"truncate", "flip", "manifest"}) {
    ASSERT_FALSE(Train(SmallInputs(), Context(damage, 1, 17, 5)).ok());
    const std::string newest = Path("partial-" + damage + "/1/step-17/");
    if (damage == "truncate")
      std::filesystem::resize_file(newest + "state.safetensors", 1000);
    if (damage == "manifest") std::filesystem::remove(newest + "manifest.json");
    if (damage == "flip") {
      ASSERT_OK_AND_ASSIGN(std::string bytes,
                           ReadFile(newest + "state.safetensors"));
      bytes.back() = static_cast<char>(bytes.back() ^ 1);
      ASSERT_OK(WriteFileDurably(newest + "state.safetensors", bytes));
    }
    ASSERT_OK_AND_ASSIGN(const StageResult resumed,
                         Train(SmallInputs(), Context(damage, 2)));
    EXPECT_EQ(steps_run_, 24 - 15) << damage;
    ExpectSameResult(whole, resumed);
  }
}

TEST_F(TrainTest,
       PartialCheckpointsOfAnotherDeviceKindOrOtherParametersAreNotUsed) {
  ASSERT_FALSE(Train(SmallInputs(), Context("x", 1, 10)).ok());
  StageContext context = Context("x", 2);
  context.device_kind = "cpu/other";
  ASSERT_OK(Train(SmallInputs(), context));
  EXPECT_EQ(steps_run_, 24);
  v1::TrainInputs other = SmallInputs();
  other.set_seed(4);
  context = Context("y", 3);
  context.partial_dir = Path("partial-x");
  ASSERT_OK(Train(other, context));
  EXPECT_EQ(steps_run_, 24);
}

TEST_F(TrainTest, TheCurveHasEveryIntervalAndTheLastStep) {
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Train(SmallInputs(), Context("x", 1)));
  std::vector<int64_t> steps;
  for (const CurvePoint& point : result.curve) {
    EXPECT_EQ(point.name, "loss");
    steps.push_back(point.step);
  }
  EXPECT_THAT(steps, ElementsAre(0, 5, 10, 15, 20, 23));
}

TEST_F(TrainTest, TheArtifactHoldsTheInitialWeightsOfTheSeed) {
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Train(SmallInputs(), Context("x", 1)));
  ASSERT_OK_AND_ASSIGN(
      const LoadedCheckpoint initial,
      LoadCheckpoint(Path("artifacts/x"), kInitialFile, at::kCPU, at::kFloat));
  ASSERT_OK_AND_ASSIGN(
      const LoadedCheckpoint trained,
      LoadCheckpoint(Path("artifacts/x"), kModelFile, at::kCPU, at::kFloat));
  const Gpt2 expected = Gpt2::Initialize(initial.model.config(), 3);
  for (size_t i = 0; i < expected.names().size(); ++i)
    EXPECT_TRUE(
        at::equal(initial.model.parameters()[i], expected.parameters()[i]));
  EXPECT_FALSE(
      at::equal(trained.model.parameters()[0], expected.parameters()[0]));
  EXPECT_EQ(trained.trained_points, 6);
  EXPECT_EQ(trained.inputs.train().steps(), 24);
  EXPECT_FALSE(result.non_finite);
}

TEST_F(TrainTest, ADivergedRunIsPublishedAndFlagged) {
  v1::TrainInputs inputs = SmallInputs();
  inputs.mutable_train()->set_learning_rate(10);
  inputs.mutable_train()->set_warmup_steps(0);
  inputs.mutable_train()->set_beta2(0);
  inputs.mutable_train()->set_beta1(0);
  inputs.mutable_train()->set_steps(400);
  inputs.mutable_train()->set_schedule(v1::SCHEDULE_CONSTANT);
  inputs.mutable_data()->add_eigenvalues(1e36);
  inputs.mutable_data()->add_eigenvalues(1e36);
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Train(inputs, Context("x", 1)));
  EXPECT_TRUE(result.non_finite);
  EXPECT_LT(steps_run_, 400);
  ASSERT_OK_AND_ASSIGN(
      const LoadedCheckpoint loaded,
      LoadCheckpoint(Path("artifacts/x"), kModelFile, at::kCPU, at::kFloat));
  EXPECT_TRUE(loaded.non_finite);
}

TEST_F(TrainTest, ImpossibleParametersAreInvalid) {
  const auto expect = [&](const v1::TrainInputs& inputs, const char* message) {
    EXPECT_THAT(
        Train(inputs, Context("x", 1)),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  v1::TrainInputs inputs = SmallInputs();
  inputs.mutable_model()->set_heads(3);
  expect(inputs, "3 heads do not divide width 16");
  inputs = SmallInputs();
  inputs.mutable_model()->set_positions(5);
  expect(inputs, "train.points (6) exceeds model.positions (5)");
  inputs = SmallInputs();
  inputs.mutable_model()->set_size(v1::MODEL_SIZE_TINY);
  expect(inputs, "model.size is not resolved");
  inputs = SmallInputs();
  inputs.mutable_data()->add_eigenvalues(1);
  expect(inputs, "1 values for 2 dims");
  inputs = SmallInputs();
  inputs.mutable_data()->set_family(v1::FAMILY_SPARSE_LINEAR);
  expect(inputs, "data.sparsity = 3 exceeds data.dims = 2");
  inputs.mutable_data()->set_sparsity(2);
  inputs.mutable_train()->mutable_curriculum()->set_dims_start(1);
  expect(inputs,
         "train.curriculum.dims_start (1) is less than data.sparsity (2)");
  inputs = SmallInputs();
  inputs.mutable_train()->set_steps(1'000'000'000);
  inputs.mutable_train()->set_batch(65536);
  expect(inputs, "2^44 prompts");
  StageContext context = Context("x", 1);
  context.device = "tpu";
  EXPECT_THAT(Train(SmallInputs(), context),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tpu")));
}

// value of the measurement of `predictor` at `position`.
const Measurement& Find(const StageResult& result, const std::string& predictor,
                        int position) {
  const auto found =
      std::find_if(result.measurements.begin(), result.measurements.end(),
                   [&](const Measurement& m) {
                     return m.predictor == predictor && m.position == position;
                   });
  EXPECT_NE(found, result.measurements.end());
  return *found;
}

TEST_F(TrainTest, BaselinesHaveTheirClosedForms) {
  v1::TrainInputs inputs = SmallInputs();
  inputs.mutable_data()->set_noise_std(0);
  inputs.mutable_data()->set_dims(5);
  inputs.mutable_train()->set_points(9);
  inputs.mutable_train()->set_steps(1);
  inputs.mutable_train()->set_validation_prompts(4096);
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Train(inputs, Context("x", 1)));
  ASSERT_EQ(result.measurements.size(), 27U);
  for (int i = 0; i < 9; ++i) {
    const Measurement& zero = Find(result, "zero", i);
    const Measurement& least_squares = Find(result, "least_squares", i);
    EXPECT_EQ(zero.name, "error");
    EXPECT_EQ(zero.n, 4096);
    // Garg et al.: E y^2 = d; least squares d (1 - i/d) below d points, exact
    // from d on.
    EXPECT_NEAR(zero.value, 5, 4 * zero.standard_error) << i;
    if (i < 5) {
      EXPECT_NEAR(least_squares.value, 5.0 - i,
                  4 * least_squares.standard_error)
          << i;
    } else {
      EXPECT_LT(least_squares.value, 1e-8) << i;
    }
  }
  // Var y^2 over prompts: y = w.x, E y^4 = 3 (d^2 + 2 d), so the standard error
  // is known too.
  const double expected = std::sqrt((3 * (25.0 + 10) - 25) / 4096);
  EXPECT_NEAR(Find(result, "zero", 0).standard_error / expected, 1, 0.15);
}

// Measured with this recipe in PyTorch over five seeds: last point .23 to .35
// of the zero predictor's error.
TEST_F(TrainTest, TheSmallPresetLearns) {
  v1::TrainInputs inputs;
  inputs.mutable_model()->set_layers(2);
  inputs.mutable_model()->set_heads(2);
  inputs.mutable_model()->set_width(32);
  inputs.mutable_model()->set_init_std(0.08);
  inputs.mutable_data()->set_dims(2);
  inputs.mutable_train()->set_points(8);
  inputs.mutable_train()->set_steps(600);
  inputs.mutable_train()->set_learning_rate(3e-3);
  inputs.mutable_train()->set_warmup_steps(100);
  ASSERT_OK_AND_ASSIGN(const StageResult result,
                       Train(inputs, Context("x", 1)));
  const double last =
      Find(result, "model", 7).value / Find(result, "zero", 7).value;
  RecordProperty("normalised_last_error", std::to_string(last));
  EXPECT_LT(last, 0.7);
  EXPECT_GT(last, 0.05);  // better than this recipe ever was: labels would leak
  EXPECT_GT(Find(result, "model", 0).value / Find(result, "zero", 0).value,
            0.9);
}

}  // namespace
}  // namespace iclsweep
