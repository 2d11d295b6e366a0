// The stages on a GPU, where there is one: close to the CPU's numbers, and the
// same bits twice.
#include <cmath>

#include "tests/support/status_matchers.h"
#include "tests/worker/model/scratch.h"
#include "worker/device.h"
#include "worker/evaluate/run.h"
#include "worker/train/run.h"

namespace iclsweep {
namespace {

class CudaTest : public testing::Scratch {
 protected:
  void SetUp() override {
    testing::Scratch::SetUp();
    const absl::StatusOr<Provenance> device = SetUpDevice("cuda", 1);
    if (!device.ok()) GTEST_SKIP() << device.status().message();
  }

  Checkpoints checkpoints_;
  StageContext Context(const std::string& device, const std::string& name) {
    StageContext context;
    context.device = device;
    context.device_kind = device;
    context.artifact_dir = Path("artifacts");
    context.artifact_name = name;
    context.partial_dir = Path("partial-" + name);
    context.attempt = 1;
    context.checkpoint_dir = Path("artifacts") + "/" + name;
    return context;
  }

  static v1::TrainInputs Inputs() {
    v1::TrainInputs inputs;
    inputs.mutable_model()->set_layers(2);
    inputs.mutable_model()->set_heads(2);
    inputs.mutable_model()->set_width(32);
    inputs.mutable_model()->set_init_std(0.08);
    inputs.mutable_data()->set_dims(2);
    inputs.mutable_train()->set_points(8);
    inputs.mutable_train()->set_steps(20);
    inputs.mutable_train()->set_learning_rate(1e-3);
    inputs.mutable_train()->set_curve_interval(1);
    inputs.mutable_train()->set_validation_prompts(64);
    return inputs;
  }
};

TEST_F(CudaTest, TrainingFollowsTheCpuAndRepeatsItsOwnBits) {
  ASSERT_OK_AND_ASSIGN(const StageResult cpu,
                       Train(Inputs(), Context("cpu", "cpu")));
  ASSERT_OK_AND_ASSIGN(const StageResult first,
                       Train(Inputs(), Context("cuda", "first")));
  ASSERT_OK_AND_ASSIGN(const StageResult second,
                       Train(Inputs(), Context("cuda", "second")));
  ASSERT_EQ(first.curve.size(), cpu.curve.size());
  for (size_t i = 0; i < cpu.curve.size(); ++i) {
    EXPECT_NEAR(first.curve[i].value, cpu.curve[i].value, 1e-3) << i;
    EXPECT_EQ(first.curve[i].value, second.curve[i].value) << i;
  }
  EXPECT_EQ(first.artifact->sha256, second.artifact->sha256);
}

TEST_F(CudaTest, EvaluationFollowsTheCpu) {
  ASSERT_OK(Train(Inputs(), Context("cpu", "model")).status());
  v1::EvaluateInputs inputs;
  inputs.mutable_prompt()->set_tasks(2);
  inputs.mutable_prompt()->set_examples_per_task(2);
  inputs.mutable_prompt()->mutable_data()->set_dims(2);
  inputs.mutable_evaluate()->set_prompts(300);
  inputs.mutable_evaluate()->set_pretraining_length(8);
  ASSERT_OK_AND_ASSIGN(
      const StageResult cpu,
      Evaluate(inputs, Context("cpu", "model"), &checkpoints_));
  ASSERT_OK_AND_ASSIGN(
      const StageResult cuda,
      Evaluate(inputs, Context("cuda", "model"), &checkpoints_));
  ASSERT_EQ(cpu.measurements.size(), cuda.measurements.size());
  for (size_t i = 0; i < cpu.measurements.size(); ++i) {
    const double scale = 1 + std::abs(cpu.measurements[i].value);
    EXPECT_NEAR(cuda.measurements[i].value, cpu.measurements[i].value,
                1e-4 * scale)
        << cpu.measurements[i].predictor << " " << cpu.measurements[i].name;
  }
}

}  // namespace
}  // namespace iclsweep
