#include "worker/model/checkpoint.h"

#include <google/protobuf/util/json_util.h>

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "ATen/ATen.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "proto/base/sha256.h"
#include "proto/base/status_macros.h"
#include "worker/model/files.h"
#include "worker/model/safetensors.h"

namespace iclsweep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat =
    1;  // of the "iclsweep" object; a reader refuses a newer one

std::string Join(const std::string& dir, const char* name) {
  return (fs::path(dir) / name).string();
}

// Another copy of the checkpoint may do.
absl::Status Damaged(const absl::Status& status) {
  return absl::UnavailableError(absl::StrCat("checkpoint: ", status.message()));
}

absl::StatusOr<int> ReadInt(const json& object, const char* name,
                            const std::string& path) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) {
    return absl::UnavailableError(
        absl::StrCat("checkpoint: ", path, " has no integer ", name));
  }
  const auto value = found->get<int64_t>();
  if (value < 0 || value > 1'000'000'000) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint: ", path, ": ", name, " is ", value));
  }
  return static_cast<int>(value);
}

absl::StatusOr<json> ConfigJson(const CheckpointContent& content) {
  const ModelConfig& config = content.model->config();
  std::string inputs_text;
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  const auto status = google::protobuf::util::MessageToJsonString(
      content.inputs, &inputs_text, print);
  if (!status.ok())
    return absl::InternalError(
        absl::StrCat("checkpoint: TrainInputs: ", status.ToString()));
  return json{{"model_type", "gpt2"},
              {"architectures", {"GPT2Model"}},
              {"activation_function", "gelu_new"},
              {"n_layer", config.layers},
              {"n_head", config.heads},
              {"n_embd", config.width},
              {"n_inner", nullptr},
              {"n_positions", 2 * config.positions},
              {"vocab_size", 1},
              {"bos_token_id", 0},
              {"eos_token_id", 0},
              {"layer_norm_epsilon", 1e-5},
              {"initializer_range", config.init_std},
              {"attn_pdrop", 0.0},
              {"embd_pdrop", 0.0},
              {"resid_pdrop", 0.0},
              {"scale_attn_weights", true},
              {"scale_attn_by_inverse_layer_idx", false},
              {"use_cache", false},
              {"torch_dtype", "float32"},
              {"iclsweep",
               {{"format", kFormat},
                {"dims", config.dims},
                {"init_std", config.init_std},
                {"trained_points", content.trained_points},
                {"key", content.key},
                {"inputs", json::parse(inputs_text)},
                {"non_finite", content.non_finite}}}};
}

struct LoadedDescription {
  int64_t trained_points = 0;
  v1::TrainInputs inputs;
  bool non_finite = false;
};

// Reads the "iclsweep" object.
absl::Status ReadOwnObject(const json& own, const std::string& path,
                           ModelConfig* config, LoadedDescription* loaded) {
  if (!own.is_object())
    return absl::UnavailableError(
        absl::StrCat("checkpoint: ", path, ": iclsweep is not an object"));
  ASSIGN_OR_RETURN(const int format, ReadInt(own, "format", path));
  if (format != kFormat)
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint: ", path, " has format ", format));
  ASSIGN_OR_RETURN(config->dims, ReadInt(own, "dims", path));
  ASSIGN_OR_RETURN(loaded->trained_points,
                   ReadInt(own, "trained_points", path));
  const auto init_std = own.find("init_std");
  if (init_std != own.end() && init_std->is_number())
    config->init_std = init_std->get<double>();
  const auto inputs = own.find("inputs");
  if (inputs == own.end())
    return absl::UnavailableError(
        absl::StrCat("checkpoint: ", path, " has no inputs"));
  const auto status = google::protobuf::util::JsonStringToMessage(
      inputs->dump(), &loaded->inputs);
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("checkpoint: ", path, ": inputs: ", status.ToString()));
  }
  loaded->non_finite = own.value("non_finite", json(false)) == json(true);
  return absl::OkStatus();
}

// The name this program gives a parameter: _backbone. and _read_in., which
// other programs write as transformer., backbone., nothing; read_in.
std::string OwnName(absl::string_view name) {
  for (const absl::string_view ends : {"read_in.", "read_out."}) {
    if (absl::StartsWith(name, ends)) return absl::StrCat("_", name);
  }
  for (const absl::string_view prefix : {"transformer.", "backbone."}) {
    if (absl::ConsumePrefix(&name, prefix))
      return absl::StrCat("_backbone.", name);
  }
  for (const absl::string_view part : {"wpe.", "wte.", "h.", "ln_f."}) {
    if (absl::StartsWith(name, part)) return absl::StrCat("_backbone.", name);
  }
  return std::string(name);
}

// What older Hugging Face files carry beside the parameters.
bool IsBuffer(absl::string_view name) {
  return name == "_backbone.wte.weight" || absl::EndsWith(name, ".attn.bias") ||
         absl::EndsWith(name, ".attn.masked_bias");
}

}  // namespace

absl::StatusOr<std::map<std::string, at::Tensor>> ReadWeights(
    const std::string& path) {
  absl::StatusOr<TensorFile> file = ReadSafetensors(path);
  if (absl::IsResourceExhausted(file.status())) return file.status();
  if (!file.ok()) return Damaged(file.status());
  std::map<std::string, at::Tensor> weights;
  for (auto& [name, tensor] : file->tensors) {
    const std::string own = OwnName(name);
    if (IsBuffer(own)) continue;
    if (!weights.emplace(own, std::move(tensor)).second)
      return absl::InvalidArgumentError(absl::StrCat(
          "checkpoint: ", path, " holds ", own, " under two names"));
  }
  return weights;
}

namespace {

absl::StatusOr<int> DimsOfWeights(
    const std::map<std::string, at::Tensor>& tensors, const std::string& path) {
  const auto found = tensors.find("_read_in.weight");
  if (found == tensors.end() || found->second.dim() != 2) {
    return absl::UnavailableError(
        absl::StrCat("checkpoint: ", path, " has no matrix _read_in.weight"));
  }
  return static_cast<int>(found->second.size(1));
}

absl::StatusOr<Artifact> Describe(const std::string& directory,
                                  const std::string& name) {
  ASSIGN_OR_RETURN(std::string sha256,
                   Sha256HexOfFile(Join(directory, kModelFile)));
  Artifact artifact{.path = name, .sha256 = std::move(sha256)};
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    artifact.bytes += static_cast<int64_t>(it->file_size(error));
  }
  if (error)
    return absl::UnavailableError(absl::StrCat(
        "cannot read the size of ", directory, ": ", error.message()));
  return artifact;
}

// With a checkpoint of our own that is gone.
constexpr char kWhatToDo[] =
    "jobs that needed it stay failed: start in a fresh --data directory";

// Of a training of ours: what somebody took away by hand.
absl::Status CheckNothingRemoved(const std::string& dir) {
  const std::string manifest(kManifestName);
  for (const char* name :
       {kModelFile, kInitialFile, kConfigFile, manifest.c_str()}) {
    const std::string file = Join(dir, name);
    std::error_code error;
    if (fs::exists(file, error) || error) continue;
    return absl::UnavailableError(
        absl::StrCat("checkpoint: ", file,
                     ", which the training made, was removed; ", kWhatToDo));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyCheckpoint(const std::string& dir,
                              const std::string& sha256) {
  const bool has_manifest =
      fs::exists(Join(dir, std::string(kManifestName).c_str()));
  if (!has_manifest && sha256.empty()) return absl::OkStatus();
  if (!sha256.empty()) RETURN_IF_ERROR(CheckNothingRemoved(dir));
  if (const absl::Status status = CheckManifest(dir); !status.ok()) {
    absl::Status damaged = Damaged(status);
    if (sha256.empty()) return damaged;
    return absl::UnavailableError(
        absl::StrCat(damaged.message(), "; ", kWhatToDo));
  }
  if (sha256.empty()) return absl::OkStatus();
  const std::string weights = Join(dir, kModelFile);
  ASSIGN_OR_RETURN(const std::string found, Sha256HexOfFile(weights));
  if (found == sha256) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "checkpoint: ", weights, " is not what was trained: SHA-256 ", found,
      ", recorded ", sha256, "; ", kWhatToDo));
}

absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& dir,
                                                const std::string& weights_file,
                                                at::Device device,
                                                at::ScalarType type) {
  const std::string config_path = Join(dir, kConfigFile);
  const absl::StatusOr<std::string> text = ReadFile(config_path);
  if (!text.ok()) return Damaged(text.status());
  const json file = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object())
    return absl::UnavailableError(
        absl::StrCat("checkpoint: ", config_path, " is not a JSON object"));
  const std::string weights_path = Join(dir, weights_file.c_str());
  ASSIGN_OR_RETURN(const auto weights, ReadWeights(weights_path));

  ModelConfig config;
  ASSIGN_OR_RETURN(config.layers, ReadInt(file, "n_layer", config_path));
  ASSIGN_OR_RETURN(config.heads, ReadInt(file, "n_head", config_path));
  ASSIGN_OR_RETURN(config.width, ReadInt(file, "n_embd", config_path));
  ASSIGN_OR_RETURN(const int tokens, ReadInt(file, "n_positions", config_path));
  config.positions = tokens / 2;
  ASSIGN_OR_RETURN(config.dims, DimsOfWeights(weights, weights_path));
  // Sizes are checked against the weights before anything of that size is
  // allocated.
  if (static_cast<size_t>(config.layers) > weights.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint: ", weights_path, " has no ", config.layers, " layers"));
  }
  LoadedDescription description{config.positions, {}, false};
  if (const auto own = file.find("iclsweep"); own != file.end()) {
    RETURN_IF_ERROR(ReadOwnObject(*own, config_path, &config, &description));
  }
  ASSIGN_OR_RETURN(Gpt2 model, Gpt2::Create(config, type, device));
  LoadedCheckpoint loaded{std::move(model), description.trained_points,
                          std::move(description.inputs),
                          description.non_finite};
  if (const absl::Status status = loaded.model.SetParameters(weights);
      !status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat("checkpoint: ", weights_path, ": ", status.message()));
  }
  return loaded;
}

absl::StatusOr<bool> Extrapolates(const LoadedCheckpoint& checkpoint,
                                  const v1::PromptParams& prompt,
                                  int64_t points,
                                  absl::string_view arithmetic) {
  const ModelConfig& config = checkpoint.model.config();
  if (prompt.data().dims() != config.dims) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt.data.dims = ", prompt.data().dims(),
                     ", but the model was trained on ", config.dims));
  }
  if (points > config.positions) {
    return absl::InvalidArgumentError(
        absl::StrCat(arithmetic, " = ", points, " points exceed the model's ",
                     config.positions, " positions (model.positions)"));
  }
  const bool extrapolated = points > checkpoint.trained_points;
  if (extrapolated && !prompt.allow_extrapolation()) {
    return absl::InvalidArgumentError(absl::StrCat(
        arithmetic, " = ", points, " points exceed the ",
        checkpoint.trained_points,
        " it was trained on (train.points); prompt.allow_extrapolation "
        "overrides"));
  }
  return extrapolated;
}

absl::StatusOr<Artifact> PublishCheckpoint(const CheckpointContent& content,
                                           const std::string& artifact_dir,
                                           const std::string& name) {
  ASSIGN_OR_RETURN(const json config, ConfigJson(content));
  const std::string target = Join(artifact_dir, name.c_str());
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  ASSIGN_OR_RETURN(
      const std::string model,
      SerializeSafetensors({content.model->NamedParameters(), metadata}));
  const absl::Status published = PublishDirectory(
      target, [&](const std::string& temporary) -> absl::Status {
        RETURN_IF_ERROR(WriteFileDurably(Join(temporary, kModelFile), model));
        RETURN_IF_ERROR(
            WriteSafetensors(Join(temporary, kInitialFile),
                             {content.initial->NamedParameters(), metadata}));
        return WriteFileDurably(Join(temporary, kConfigFile),
                                config.dump(1) + "\n");
      });
  if (!published.ok() && published.code() != absl::StatusCode::kAlreadyExists)
    return published;
  ASSIGN_OR_RETURN(Artifact artifact, Describe(target, name));
  if (const std::string own = Sha256Hex(model); artifact.sha256 != own) {
    return absl::InternalError(absl::StrCat(
        "checkpoint: ", target, " holds other weights (", artifact.sha256,
        ") than this attempt trained (", own, ")"));
  }
  return artifact;
}

}  // namespace iclsweep
