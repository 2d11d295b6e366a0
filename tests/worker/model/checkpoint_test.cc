#include "worker/model/checkpoint.h"

#include <filesystem>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/base/sha256.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/model/golden.h"
#include "tests/worker/model/scratch.h"
#include "worker/model/files.h"
#include "worker/model/predict.h"
#include "worker/model/safetensors.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::MaxDifference;
using ::iclsweep::testing::ReadJson;
using ::iclsweep::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointTest : public testing::Scratch {
 protected:
  CheckpointTest() {
    content_.model = &model_;
    content_.initial = &initial_;
    content_.trained_points = 7;
    content_.inputs.set_seed(5);
    content_.inputs.mutable_train()->set_learning_rate(0.1);
    content_.key = "feed";
  }

  const ModelConfig config_{.layers = 2,
                            .heads = 2,
                            .width = 8,
                            .positions = 9,
                            .dims = 3,
                            .init_std = 0.25};
  const Gpt2 model_ = Gpt2::Initialize(config_, 1);
  const Gpt2 initial_ = Gpt2::Initialize(config_, 2);
  CheckpointContent content_;
};

TEST_F(CheckpointTest, WhatIsPublishedIsLoadedBack) {
  ASSERT_OK_AND_ASSIGN(const Artifact artifact,
                       PublishCheckpoint(content_, Path("artifacts"), "one"));

  ASSERT_OK_AND_ASSIGN(
      const LoadedCheckpoint loaded,
      LoadCheckpoint(Path("artifacts/one"), kModelFile, at::kCPU, at::kDouble));
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint initial,
                       LoadCheckpoint(Path("artifacts/one"), kInitialFile,
                                      at::kCPU, at::kFloat));

  EXPECT_EQ(artifact.path, "one");
  ASSERT_OK_AND_ASSIGN(const std::string bytes,
                       ReadFile(Path("artifacts/one/model.safetensors")));
  EXPECT_EQ(artifact.sha256, Sha256Hex(bytes));
  EXPECT_GT(artifact.bytes, 2 * static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(loaded.trained_points, 7);
  EXPECT_EQ(loaded.inputs.seed(), 5);
  EXPECT_EQ(loaded.inputs.train().learning_rate(), 0.1);
  EXPECT_FALSE(loaded.non_finite);
  EXPECT_EQ(loaded.model.config().dims, 3);
  EXPECT_EQ(loaded.model.config().positions, 9);
  for (size_t i = 0; i < model_.names().size(); ++i) {
    EXPECT_TRUE(at::equal(loaded.model.parameters()[i],
                          model_.parameters()[i].to(at::kDouble)))
        << model_.names()[i];
    EXPECT_TRUE(
        at::equal(initial.model.parameters()[i], initial_.parameters()[i]))
        << model_.names()[i];
  }
}

TEST_F(CheckpointTest, ConfigHoldsHuggingFaceKeys) {
  content_.non_finite = true;
  ASSERT_OK(PublishCheckpoint(content_, Path("artifacts"), "one"));
  const nlohmann::json config = ReadJson(Path("artifacts/one/config.json"));
  EXPECT_EQ(config["model_type"], "gpt2");
  EXPECT_EQ(config["n_layer"], 2);
  EXPECT_EQ(config["n_head"], 2);
  EXPECT_EQ(config["n_embd"], 8);
  EXPECT_EQ(config["n_positions"], 18);
  EXPECT_EQ(config["activation_function"], "gelu_new");
  EXPECT_EQ(config["iclsweep"]["key"], "feed");
  EXPECT_EQ(config["iclsweep"]["inputs"]["train"]["learning_rate"], 0.1);
  ASSERT_OK_AND_ASSIGN(
      const LoadedCheckpoint loaded,
      LoadCheckpoint(Path("artifacts/one"), kModelFile, at::kCPU, at::kFloat));
  EXPECT_TRUE(loaded.non_finite);
}

TEST_F(CheckpointTest, TheSameWeightsMayBePublishedTwice) {
  ASSERT_OK_AND_ASSIGN(const Artifact first,
                       PublishCheckpoint(content_, Path("artifacts"), "one"));
  ASSERT_OK_AND_ASSIGN(const Artifact second,
                       PublishCheckpoint(content_, Path("artifacts"), "one"));
  EXPECT_EQ(first.sha256, second.sha256);
}

TEST_F(CheckpointTest, OtherWeightsDoNotReplaceAValidArtifact) {
  ASSERT_OK_AND_ASSIGN(const Artifact first,
                       PublishCheckpoint(content_, Path("artifacts"), "one"));
  content_.model = &initial_;
  EXPECT_THAT(
      PublishCheckpoint(content_, Path("artifacts"), "one"),
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr("other weights"), HasSubstr(first.sha256))));
}

TEST_F(CheckpointTest, ADamagedArtifactIsReplaced) {
  ASSERT_OK(PublishCheckpoint(content_, Path("artifacts"), "one"));
  std::filesystem::resize_file(Path("artifacts/one/model.safetensors"), 100);
  EXPECT_THAT(
      LoadCheckpoint(Path("artifacts/one"), kModelFile, at::kCPU, at::kFloat),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("model.safetensors")));
  content_.model = &initial_;
  ASSERT_OK(PublishCheckpoint(content_, Path("artifacts"), "one"));
  EXPECT_OK(
      LoadCheckpoint(Path("artifacts/one"), kModelFile, at::kCPU, at::kFloat));
}

TEST_F(CheckpointTest, WhatWasPublishedIsVerified) {
  ASSERT_OK_AND_ASSIGN(const Artifact artifact,
                       PublishCheckpoint(content_, Path("artifacts"), "one"));
  const std::string dir = Path("artifacts/one");
  EXPECT_OK(VerifyCheckpoint(dir, artifact.sha256));
  EXPECT_OK(VerifyCheckpoint(dir, ""));
  EXPECT_THAT(VerifyCheckpoint(dir, std::string(64, '0')),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(artifact.sha256),
                             HasSubstr("start in a fresh --data"))));
  for (const char* name : {kModelFile, kInitialFile, kConfigFile}) {
    const std::string file = dir + "/" + name;
    ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(file));
    const std::string whole = bytes;
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    ASSERT_OK(WriteFileDurably(file, bytes));
    for (const std::string& sha256 : {std::string(), artifact.sha256}) {
      // The advice is for checkpoints of a sweep, not for any folder.
      EXPECT_THAT(
          VerifyCheckpoint(dir, sha256),
          StatusIs(absl::StatusCode::kUnavailable,
                   AllOf(HasSubstr(file),
                         HasSubstr(sha256.empty() ? "damaged" : "--data"))));
    }
    ASSERT_OK(WriteFileDurably(file, whole));
  }
}

TEST_F(CheckpointTest, AFolderWithoutAManifestIsAnotherPrograms) {
  ASSERT_OK(PublishCheckpoint(content_, Path("artifacts"), "one").status());
  const std::string dir = Path("artifacts/one");
  std::filesystem::remove(dir + "/manifest.json");
  EXPECT_OK(VerifyCheckpoint(dir, ""));
  EXPECT_THAT(VerifyCheckpoint(dir, std::string(64, '0')),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("manifest")));
}

TEST_F(CheckpointTest, WhatWasRemovedIsNamedWithWhatToDo) {
  ASSERT_OK_AND_ASSIGN(const Artifact artifact,
                       PublishCheckpoint(content_, Path("artifacts"), "one"));
  const std::string dir = Path("artifacts/one");
  for (const std::string name :
       {kModelFile, kInitialFile, kConfigFile, "manifest.json"}) {
    const std::string file = absl::StrCat(dir, "/", name);
    std::filesystem::rename(file, dir + "-kept");
    EXPECT_THAT(VerifyCheckpoint(dir, artifact.sha256),
                StatusIs(absl::StatusCode::kUnavailable,
                         AllOf(HasSubstr(file + ", which"),
                               HasSubstr("start in a fresh --data"))));
    std::filesystem::rename(dir + "-kept", file);
  }
  std::filesystem::remove_all(dir);
  EXPECT_THAT(VerifyCheckpoint(dir, artifact.sha256),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("fresh")));
}

TEST_F(CheckpointTest, AMissingFolderIsUnavailable) {
  EXPECT_THAT(
      LoadCheckpoint(Path("absent"), kModelFile, at::kCPU, at::kFloat),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("config.json")));
}

TEST_F(CheckpointTest, WeightsOfAnotherShapeAreRefused) {
  ASSERT_OK(PublishCheckpoint(content_, Path("artifacts"), "one"));
  nlohmann::json config = ReadJson(Path("artifacts/one/config.json"));
  config["n_positions"] = 20;
  ASSERT_OK(WriteFileDurably(Path("artifacts/one/config.json"), config.dump()));
  EXPECT_THAT(
      LoadCheckpoint(Path("artifacts/one"), kModelFile, at::kCPU, at::kFloat),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("_backbone.wpe.weight")));
}

// --- Predict ---

class PredictTest : public CheckpointTest {
 protected:
  // A bare Hugging Face folder: no "iclsweep" object, and the buffers of older
  // files.
  void WriteBareFolder() {
    ASSERT_OK(CreateDirectories(Path("bare")));
    TensorFile file;
    file.tensors = model_.NamedParameters();
    file.tensors["_backbone.wte.weight"] = at::zeros({4, 8});
    file.tensors["_backbone.h.0.attn.bias"] =
        at::ones({1, 1, 18, 18}, at::kBool);
    file.tensors["_backbone.h.0.attn.masked_bias"] = at::full({}, -1e4);
    ASSERT_OK(WriteSafetensors(Path("bare/model.safetensors"), file));
    ASSERT_OK(WriteFileDurably(
        Path("bare/config.json"),
        R"({"n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 18})"));
  }
  absl::Status WritePrompts(const at::Tensor& xs, const at::Tensor& ys) {
    return WriteSafetensors(Path("prompts"), {{{"xs", xs}, {"ys", ys}}, {}});
  }
};

TEST_F(PredictTest, PredictsInTheTypeOfThePrompts) {
  WriteBareFolder();
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor xs = at::arange(0, 300 * 6 * 3, at::kDouble)
                              .sin()
                              .view({300, 6, 3})
                              .to(type);
    const at::Tensor ys = xs.sum(-1);
    ASSERT_OK(WritePrompts(xs, ys));
    ASSERT_OK(Predict(Path("bare"), Path("prompts"), Path("pred")));
    ASSERT_OK_AND_ASSIGN(const TensorFile out, ReadSafetensors(Path("pred")));
    EXPECT_EQ(out.tensors.at("pred").scalar_type(), type);
    const at::Tensor expected = model_.Clone(type, at::kCPU).Forward(xs, ys);
    EXPECT_LT(MaxDifference(out.tensors.at("pred"), expected),
              type == at::kFloat ? 1e-6 : 1e-14);
  }
}

TEST_F(PredictTest, PromptsThatDoNotFitAreRefused) {
  WriteBareFolder();
  const auto expect = [&](const at::Tensor& xs, const at::Tensor& ys,
                          const char* message) {
    ASSERT_OK(WritePrompts(xs, ys));
    EXPECT_THAT(
        Predict(Path("bare"), Path("prompts"), Path("pred")),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect(at::zeros({1, 2, 4}), at::zeros({1, 2}), "has not the model's 3 dims");
  expect(at::zeros({1, 10, 3}), at::zeros({1, 10}),
         "10 points exceed the model's 9 positions");
  expect(at::zeros({1, 2, 3}), at::zeros({1, 3}),
         "are not [B, n, d] and [B, n]");
  expect(at::zeros({1, 2, 3}), at::zeros({1, 2}, at::kDouble),
         "both be F32 or both be F64");
  ASSERT_OK(
      WriteSafetensors(Path("prompts"), {{{"xs", at::zeros({1, 2, 3})}}, {}}));
  EXPECT_THAT(
      Predict(Path("bare"), Path("prompts"), Path("pred")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("xs and ys")));
  ASSERT_OK(WriteFileDurably(Path("prompts"), "junk, not tensors"));
  EXPECT_THAT(
      Predict(Path("bare"), Path("prompts"), Path("pred")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(Path("prompts"))));
}

}  // namespace
}  // namespace iclsweep
