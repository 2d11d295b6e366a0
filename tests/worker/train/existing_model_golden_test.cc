// A model that another program trained, taken through the stage: what is
// published predicts what that program predicted (golden/garg_gpt2_tiny,
// made with Hugging Face's GPT2Model).
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/sha256.h"
#include "tests/worker/model/golden.h"
#include "tests/worker/model/scratch.h"
#include "worker/model/checkpoint.h"
#include "worker/train/run.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::GoldenPath;
using ::iclsweep::testing::MaxDifference;
using ::iclsweep::testing::StatusIs;
using ::testing::HasSubstr;
using Tensors = std::map<std::string, at::Tensor>;

class ExistingModelTest : public testing::Scratch {
 protected:
  // Puts the weights where the coordinator does, and names them.
  v1::TrainInputs Import(const Tensors& tensors) const {
    const auto bytes = SerializeSafetensors({tensors, {}});
    EXPECT_OK(bytes.status());
    const std::string sha256 = Sha256Hex(*bytes);
    const std::string folder = Path(absl::StrCat("imported/", sha256));
    EXPECT_OK(CreateDirectories(folder));
    EXPECT_OK(WriteFileDurably(folder + "/model.safetensors", *bytes));
    v1::TrainInputs inputs;
    inputs.mutable_model()->set_layers(3);
    inputs.mutable_model()->set_heads(2);
    inputs.mutable_model()->set_width(64);
    inputs.mutable_model()->set_positions(101);
    inputs.mutable_train()->set_validation_prompts(4);
    inputs.mutable_train()->set_checkpoint("sha256:" + sha256);
    return inputs;
  }
  StageContext Context() const {
    StageContext context;
    context.device_kind = "cpu/test";
    context.artifact_dir = Path("");
    context.artifact_name = "taken";
    return context;
  }
  Tensors Golden() const {
    auto file = ReadSafetensors(
        (GoldenPath("garg_gpt2_tiny") / "model.safetensors").string());
    EXPECT_OK(file.status());
    return file->tensors;
  }
};

TEST_F(ExistingModelTest, PublishedModelPredictsAsItDidElsewhere) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("garg_gpt2_tiny");
  const auto path = GoldenPath("garg_gpt2_tiny");
  ASSERT_OK_AND_ASSIGN(
      const TensorFile batch,
      ReadSafetensors((path / "batches.safetensors").string()));
  ASSERT_OK_AND_ASSIGN(
      const TensorFile golden,
      ReadSafetensors((path / "golden_f32.safetensors").string()));
  // Under every way in which programs name them.
  const std::function<std::string(const std::string&)> names[] = {
      [](const std::string& name) { return name; },
      [](const std::string& name) {
        absl::string_view bare = name;
        const bool backbone = absl::ConsumePrefix(&bare, "_backbone.");
        absl::ConsumePrefix(&bare, "_");
        return absl::StrCat(backbone ? "transformer." : "", bare);
      },
      [](const std::string& name) {
        return std::string(absl::StripPrefix(name, "_backbone."));
      },
  };
  for (const auto& named : names) {
    Tensors tensors;
    for (const auto& [name, tensor] : Golden()) tensors[named(name)] = tensor;
    tensors[named("_backbone.wte.weight")] = at::zeros({7, 64});
    tensors[named("_backbone.h.0.attn.bias")] = at::ones({1, 1, 202, 202});
    StageContext context = Context();
    context.artifact_name = absl::StrCat("taken-", tensors.begin()->first);
    ASSERT_OK_AND_ASSIGN(const StageResult result,
                         Train(Import(tensors), context));
    EXPECT_TRUE(result.curve.empty());
    ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded,
                         LoadCheckpoint(Path(context.artifact_name), kModelFile,
                                        at::kCPU, at::kFloat));
    EXPECT_LE(MaxDifference(loaded.model.Forward(batch.tensors.at("xs"),
                                                 batch.tensors.at("ys")),
                            golden.tensors.at("pred")),
              5e-6);
    EXPECT_EQ(loaded.trained_points, 41);
  }
}

TEST_F(ExistingModelTest, OtherBytesThanNamedAreNotTaken) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("garg_gpt2_tiny");
  v1::TrainInputs inputs = Import(Golden());
  const std::string sha256 = inputs.train().checkpoint().substr(7);
  const std::string file =
      Path(absl::StrCat("imported/", sha256, "/model.safetensors"));
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(file));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_OK(WriteFileDurably(file, bytes));
  EXPECT_THAT(Train(inputs, Context()),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("was changed; submit the sweep again")));
  std::filesystem::remove(file);
  EXPECT_THAT(Train(inputs, Context()),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("cannot be read; submit the sweep again")));
}

TEST_F(ExistingModelTest, WeightsThatAreNotThisModelAreNamed) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("garg_gpt2_tiny");
  const Tensors good = Golden();
  const struct {
    const char* name;
    at::Tensor value;
    const char* message;
  } cases[] = {
      {"_backbone.h.2.mlp.c_fc.weight", at::zeros({64, 128}),
       "_backbone.h.2.mlp.c_fc.weight"},
      {"_backbone.h.3.ln_1.weight", at::zeros({64}),
       "_backbone.h.3.ln_1.weight"},
      {"_read_out.bias", at::full({1}, NAN),
       "_read_out.bias holds values that are not finite"},
      {"read_out.bias", at::zeros({1}), "_read_out.bias under two names"},
  };
  for (const auto& bad : cases) {
    Tensors tensors = good;
    tensors[bad.name] = bad.value;
    EXPECT_THAT(
        Train(Import(tensors), Context()),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)));
  }
  Tensors tensors = good;
  tensors.erase("_backbone.ln_f.bias");
  EXPECT_THAT(Train(Import(tensors), Context()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("_backbone.ln_f.bias")));
}

}  // namespace
}  // namespace iclsweep
