#include "worker/train/existing_model.h"

#include <map>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/sha256.h"
#include "proto/base/status_macros.h"
#include "worker/model/checkpoint.h"

namespace iclsweep {

absl::StatusOr<Gpt2> LoadExistingModel(const v1::TrainInputs& inputs,
                                       const ModelConfig& config,
                                       const std::string& artifact_dir,
                                       at::Device device) {
  absl::string_view sha256 = inputs.train().checkpoint();
  if (!absl::ConsumePrefix(&sha256, "sha256:"))
    return absl::InvalidArgumentError(absl::StrCat("train.checkpoint is ",
                                                   inputs.train().checkpoint(),
                                                   ", not a sha256:"));
  const std::string file =
      absl::StrCat(artifact_dir, "/imported/", sha256, "/", kModelFile);
  const absl::StatusOr<std::string> found = Sha256HexOfFile(file);
  if (!found.ok() || *found != sha256)
    return absl::UnavailableError(absl::StrCat(
        "train.checkpoint: ", file,
        found.ok() ? " was changed" : " cannot be read",
        "; submit the sweep again with the model's folder to copy it anew"));
  ASSIGN_OR_RETURN(const auto weights, ReadWeights(file));
  ASSIGN_OR_RETURN(Gpt2 model, Gpt2::Create(config, at::kFloat, device));
  if (const absl::Status status = model.SetParameters(weights); !status.ok())
    return absl::Status(status.code(), absl::StrCat("train.checkpoint: ", file,
                                                    ": ", status.message()));
  for (size_t i = 0; i < model.names().size(); ++i) {
    if (at::isfinite(model.parameters()[i]).all().item<bool>()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("train.checkpoint: ", file, ": ", model.names()[i],
                     " holds values that are not finite"));
  }
  return model;
}

}  // namespace iclsweep
