// The model against PyTorch: golden/garg_gpt2_tiny (Hugging Face GPT2Model) and
// golden/anchor_weights (trained models).
#include <cmath>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/model/anchor.h"
#include "tests/worker/model/golden.h"
#include "tests/worker/model/scratch.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/model/files.h"
#include "worker/model/gpt2.h"
#include "worker/model/predict.h"
#include "worker/model/safetensors.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::GoldenPath;
using ::iclsweep::testing::MaxDifference;
using ::iclsweep::testing::ReadJson;

class GargGoldenTest : public testing::Scratch {
 protected:
  void Load(at::ScalarType type) {
    const std::filesystem::path folder = GoldenPath("garg_gpt2_tiny");
    const nlohmann::json config = ReadJson(folder / "meta.json")["config"];
    ASSERT_OK_AND_ASSIGN(
        const TensorFile weights,
        ReadSafetensors((folder / "model.safetensors").string()));
    ASSERT_OK_AND_ASSIGN(
        batches_, ReadSafetensors((folder / "batches.safetensors").string()));
    ASSERT_OK_AND_ASSIGN(
        golden_, ReadSafetensors(
                     (folder / (type == at::kFloat ? "golden_f32.safetensors"
                                                   : "golden_f64.safetensors"))
                         .string()));
    const ModelConfig sizes{.layers = config["n_layer"],
                            .heads = config["n_head"],
                            .width = config["n_embd"],
                            .positions = config["n_positions"],
                            .dims = config["n_dims"]};
    ASSERT_OK_AND_ASSIGN(Gpt2 model, Gpt2::Create(sizes, type, at::kCPU));
    ASSERT_OK(model.SetParameters(weights.tensors));
    model_.push_back(model);
    xs_ = batches_.tensors.at("xs").to(type);
    ys_ = batches_.tensors.at("ys").to(type);
  }

  // Tolerances of the data set's README.
  void ExpectForwardAndGradients(at::ScalarType type, double pred, double loss,
                                 double gradient) {
    Load(type);
    Gpt2& model = model_.front();
    model.RequireGradients(true);
    const at::Tensor prediction = model.Forward(xs_, ys_);
    const at::Tensor squared = (ys_ - prediction).square();
    EXPECT_LE(MaxDifference(prediction, golden_.tensors.at("pred")), pred);
    EXPECT_LE(
        MaxDifference(squared.mean().view({1}), golden_.tensors.at("loss")),
        loss);
    EXPECT_LE(
        MaxDifference(squared.mean(0), golden_.tensors.at("loss_per_point")),
        loss);
    const std::vector<at::Tensor> hidden =
        model.HiddenStates(xs_.narrow(0, 0, 2), ys_.narrow(0, 0, 2));
    for (size_t i = 0; i < hidden.size(); ++i) {
      EXPECT_LE(MaxDifference(hidden[i], golden_.tensors.at("hidden." +
                                                            std::to_string(i))),
                pred)
          << i;
    }
    const std::vector<at::Tensor> gradients =
        torch::autograd::grad({squared.mean()}, model.parameters());
    for (size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_LE(MaxDifference(gradients[i],
                              golden_.tensors.at("grad." + model.names()[i])),
                gradient)
          << model.names()[i];
    }
  }

  std::vector<Gpt2> model_;
  TensorFile batches_;
  TensorFile golden_;
  at::Tensor xs_, ys_;
};

TEST_F(GargGoldenTest, DoubleForwardHiddenStatesAndGradientsMatchPyTorch) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("garg_gpt2_tiny");
  ExpectForwardAndGradients(at::kDouble, 1e-12, 1e-12, 1e-12);
}

TEST_F(GargGoldenTest, FloatForwardHiddenStatesAndGradientsMatchPyTorch) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("garg_gpt2_tiny");
  ExpectForwardAndGradients(at::kFloat, 5e-6, 2e-5, 1e-5);
}

TEST_F(GargGoldenTest, WritingTheirFileAgainGivesTheSameBytes) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("garg_gpt2_tiny");
  const std::filesystem::path folder = GoldenPath("garg_gpt2_tiny");
  for (const char* name :
       {"model.safetensors", "batches.safetensors", "golden_f64.safetensors"}) {
    ASSERT_OK_AND_ASSIGN(const std::string theirs,
                         ReadFile((folder / name).string()));
    ASSERT_OK_AND_ASSIGN(const TensorFile content,
                         ParseSafetensors(theirs, name));
    ASSERT_OK_AND_ASSIGN(const std::string ours, SerializeSafetensors(content));
    EXPECT_TRUE(ours == theirs) << name;
  }
}

TEST_F(GargGoldenTest, PredictReadsTheirFolderWithAPlainHuggingFaceConfig) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("garg_gpt2_tiny");
  Load(at::kFloat);
  const ModelConfig& sizes = model_.front().config();
  std::filesystem::copy(GoldenPath("garg_gpt2_tiny") / "model.safetensors",
                        Path("model.safetensors"));
  const nlohmann::json config = {{"n_layer", sizes.layers},
                                 {"n_head", sizes.heads},
                                 {"n_embd", sizes.width},
                                 {"n_positions", 2 * sizes.positions}};
  ASSERT_OK(WriteFileDurably(Path("config.json"), config.dump()));
  ASSERT_OK(Predict(
      Path(""), (GoldenPath("garg_gpt2_tiny") / "batches.safetensors").string(),
      Path("pred")));
  ASSERT_OK_AND_ASSIGN(const TensorFile out, ReadSafetensors(Path("pred")));
  EXPECT_LE(MaxDifference(out.tensors.at("pred"), golden_.tensors.at("pred")),
            5e-6);
}

// --- trained models with nn.Linear layout ---

class AnchorWeightsTest : public testing::Scratch {
 protected:
  static void Check(const std::filesystem::path& check_path) {
    SCOPED_TRACE(check_path.string());
    const nlohmann::json check = ReadJson(check_path);
    ASSERT_EQ(check["x"], "1.4*sin(1+0.7b+1.3i+2.1j)");
    ASSERT_EQ(check["w"], "1.4*cos(0.5+b+1.7j)");
    ASSERT_OK_AND_ASSIGN(const Gpt2 model, testing::LoadAnchor(check["name"]));
    const ModelConfig& config = model.config();
    const std::string shape =
        absl::StrCat(config.layers, "/", config.heads, "/", config.width);
    ASSERT_EQ(check["shape"], shape);
    ASSERT_EQ(check["d"], config.dims);

    const auto expected =
        check["pred_f64"].get<std::vector<std::vector<double>>>();
    const auto batch = static_cast<int64_t>(expected.size());
    const int64_t points = check["points"];
    at::Tensor xs = at::zeros({batch, points, config.dims});
    at::Tensor w = at::zeros({batch, config.dims});
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t j = 0; j < config.dims; ++j) {
        w[b][j] = 1.4 * std::cos(0.5 + static_cast<double>(b) +
                                 1.7 * static_cast<double>(j));
        for (int64_t i = 0; i < points; ++i) {
          xs[b][i][j] = 1.4 * std::sin(1 + 0.7 * static_cast<double>(b) +
                                       1.3 * static_cast<double>(i) +
                                       2.1 * static_cast<double>(j));
        }
      }
    }
    const at::Tensor ys = (xs * w.unsqueeze(1)).sum(-1);
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const at::Tensor pred =
          model.Clone(type, at::kCPU).Forward(xs.to(type), ys.to(type));
      for (int64_t b = 0; b < batch; ++b) {
        EXPECT_LE(
            MaxDifference(pred[b], at::tensor(expected[static_cast<size_t>(b)],
                                              at::kDouble)),
            5e-6)
            << c10::toString(type);
      }
    }
  }
};

TEST_F(AnchorWeightsTest, TrainedModelsPredictAsInPyTorch) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("anchor_weights");
  int models = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(GoldenPath("anchor_weights"))) {
    if (entry.path().string().ends_with(".check.json")) {
      Check(entry.path());
      ++models;
    }
  }
  EXPECT_GT(models, 0);
}

}  // namespace
}  // namespace iclsweep
