// A trained model (golden/anchor_weights, qsB_0: d = 3, 3 layers, 4 heads,
// width 64) on continual prompts, against the same measurement made in Python
// with plain passes: T = 3, fresh independent tasks, 4,096 prompts of its own
// random numbers, errors divided by d. Two independent samples: they agree
// within 4 standard errors of their difference.
#include <cmath>

#include "ATen/ATen.h"
#include "proto/base/sha256.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/evaluate/rows.h"
#include "tests/worker/model/golden.h"
#include "tests/worker/model/scratch.h"
#include "tests/worker/tasks/prompts.h"
#include "worker/evaluate/model_pass.h"
#include "worker/evaluate/prompts.h"

namespace iclsweep {
namespace {

using testing::GoldenPath;

constexpr int kDims = 3;
// The weights the numbers below were measured on.
constexpr char kSha256[] =
    "4f143337a8a414775195cfcd61d8ff1422d8d3f348644254e4cbca0d54ec65d1";

std::string AnchorPath() {
  return (GoldenPath("anchor_weights") / "qsB_0.safetensors").string();
}

// Parameters under our names; the file's matrices of blocks are [out, in].
Gpt2 LoadAnchor() {
  const auto file = ReadSafetensors(AnchorPath());
  EXPECT_OK(file);
  const ModelConfig config{
      .layers = 3,
      .heads = 4,
      .width = 64,
      .positions = static_cast<int>(file->tensors.at("wpe").size(0) / 2),
      .dims = kDims};
  Gpt2 model = *Gpt2::Create(config, at::kFloat, at::kCPU);
  std::map<std::string, at::Tensor> converted;
  for (const std::string& own : model.names()) {
    std::string name = own;
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"_backbone.", ""},
          {"_read_", "read_"},
          {"attn.c_", "c_"},
          {"mlp.c_proj", "m_proj"},
          {"mlp.c_fc", "c_fc"},
          {"wpe.weight", "wpe"}}) {
      if (const size_t at = name.find(from); at != std::string::npos)
        name.replace(at, from.size(), to);
    }
    const at::Tensor& theirs = file->tensors.at(name);
    converted[own] = own.starts_with("_backbone.h.") && theirs.dim() == 2
                         ? theirs.t()
                         : theirs;
  }
  EXPECT_OK(model.SetParameters(converted));
  return model;
}

struct Value {
  double mean;
  double error;
};
struct Golden {
  int examples;
  const char* name;
  Value tasks[3];
};

constexpr Golden kGolden[] = {
    {1, "G", {{0.658, 0.023}, {1.0117, 0.0337}, {1.107, 0.0399}}},
    {1, "F", {{0.2518, 0.0078}, {0.2522, 0.0077}, {0.1007, 0.0032}}},
    {1, "E_final", {{0.9105, 0.0308}, {0.9746, 0.0306}, {1.016, 0.0369}}},
    {1, "delta_E", {{0.2525, 0.0181}, {-0.0371, 0.0184}, {-0.091, 0.0124}}},
    {1, "G_single", {{0.658, 0.023}, {0.7171, 0.0265}, {0.7159, 0.0264}}},
    {1, "NT", {{0, 0}, {0.2945, 0.0221}, {0.3912, 0.0267}}},
    {4, "G", {{0.1848, 0.0086}, {0.8842, 0.0302}, {1.4318, 0.044}}},
    {4, "F", {{0.3869, 0.0118}, {0.023, 0.0007}, {0.0011, 0.0001}}},
    {4, "E_final", {{0.5748, 0.0204}, {0.8755, 0.0293}, {1.4285, 0.0439}}},
    {4, "delta_E", {{0.39, 0.0168}, {-0.0087, 0.0054}, {-0.0033, 0.0016}}},
    {4, "G_single", {{0.1848, 0.0086}, {0.19, 0.0085}, {0.1973, 0.0088}}},
    {4, "NT", {{0, 0}, {0.6942, 0.0275}, {1.2345, 0.0427}}},
};

class ContinualGoldenTest : public testing::Scratch {};

TEST_F(ContinualGoldenTest, ATrainedModelForgetsAsInPython) {
  if (const auto sha256 = Sha256HexOfFile(AnchorPath());
      !sha256.ok() || *sha256 != kSha256) {
    GTEST_SKIP() << "golden data set anchor_weights has no " << AnchorPath()
                 << " with SHA-256 " << kSha256;
  }
  const Gpt2 model = LoadAnchor();
  const auto answers = [&](const PromptBlock& block,
                           const std::vector<int>& order)
      -> absl::StatusOr<std::vector<QueryPredictions>> {
    return PredictModel(model, at::kCPU, block, order);
  };
  for (const int examples : {1, 4}) {
    v1::EvaluateInputs inputs;
    *inputs.mutable_prompt() = testing::MakePrompt(3, examples, kDims);
    inputs.mutable_prompt()->set_task_set(v1::TASK_SET_FRESH);
    inputs.mutable_evaluate()->set_prompts(4096);
    ASSERT_OK_AND_ASSIGN(const auto measurements,
                         EvaluatePrompts(inputs, answers, {}));
    const auto rows = testing::ByKey(measurements);
    for (const Golden& golden : kGolden) {
      for (int t = 0; golden.examples == examples && t < 3; ++t) {
        const Measurement& row = rows.at({"model", golden.name, t, t});
        const double error =
            std::hypot(row.standard_error / kDims, golden.tasks[t].error);
        // 5e-5: the table is rounded to 4 decimals.
        EXPECT_NEAR(row.value / kDims, golden.tasks[t].mean, 4 * error + 5e-5)
            << golden.name << " task " << t << ", M = " << examples;
      }
    }
  }
}

}  // namespace
}  // namespace iclsweep
