#include "coordinator/service/existing_model.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "proto/base/sha256.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kWeights[] = "model.safetensors";
constexpr char kConfig[] = "config.json";
constexpr uint64_t kLongestHeader = 100'000'000;

std::string In(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

absl::Status BadFile(const std::string& file, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", why));
}

absl::StatusOr<int> PositiveInt(const json& object, const char* name,
                                const std::string& file) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer())
    return BadFile(file, absl::StrCat("has no integer ", name));
  const auto value = found->get<int64_t>();
  if (value < 1 || value > 1'000'000'000)
    return BadFile(file, absl::StrCat(name, " is ", value));
  return static_cast<int>(value);
}

// What the model computes beyond its sizes; all else of GPT2Config is training
// or text. Absent keys mean GPT2Config's defaults, which are these.
absl::Status CheckVariant(const json& config, int width,
                          const std::string& file) {
  const auto other = [&](const char* key, absl::string_view takes) {
    return BadFile(file, absl::StrCat(key, " is ", config[key].dump(),
                                      ", but only ", takes, " is computed"));
  };
  const std::string gelu = "activation_function";
  if (config.contains(gelu) && config[gelu] != "gelu_new" &&
      config[gelu] != "gelu_pytorch_tanh")
    return other(gelu.c_str(), "gelu_new");
  if (config.contains("layer_norm_epsilon") &&
      config["layer_norm_epsilon"] != 1e-5)
    return other("layer_norm_epsilon", "1e-5");
  if (config.contains("n_inner") && !config["n_inner"].is_null() &&
      config["n_inner"] != 4 * int64_t{width})
    return other("n_inner", "4 * n_embd");
  if (config.contains("scale_attn_weights") &&
      config["scale_attn_weights"] != true)
    return other("scale_attn_weights", "true");
  for (const char* key :
       {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (config.contains(key) && config[key] != false)
      return other(key, "false");
  }
  return absl::OkStatus();
}

absl::StatusOr<json> ReadConfig(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    return BadFile(file, absl::StrCat("cannot read it: ", std::strerror(errno),
                                      "; a model's folder has ", kWeights,
                                      " and ", kConfig));
  json config = json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return BadFile(file, "is not a JSON object");
  return config;
}

// The header of a safetensors file: name -> {dtype, shape, data_offsets}.
absl::StatusOr<json> ReadHeader(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    return BadFile(file, absl::StrCat("cannot read it: ", std::strerror(errno),
                                      "; deploy/models/ makes one of a .pt"));
  std::array<unsigned char, 8> bytes{};
  stream.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
  uint64_t length = 0;
  for (size_t i = bytes.size(); i-- > 0;) length = length << 8 | bytes.at(i);
  if (!stream || length > kLongestHeader)
    return BadFile(file, "is not a safetensors file");
  std::string text(length, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(length));
  if (!stream) return BadFile(file, "is not a safetensors file: cut off");
  json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object())
    return BadFile(file, "is not a safetensors file: its header is no JSON");
  return header;
}

// The shape of the first of `names` that the file has. The worker reads the
// rest (worker/train/import.h).
absl::StatusOr<std::vector<int64_t>> MatrixShape(
    const json& header, const std::vector<std::string>& names,
    const std::string& file) {
  for (const std::string& name : names) {
    const auto found = header.find(name);
    if (found == header.end()) continue;
    const json shape = found->value("shape", json());
    if (shape.is_array() && shape.size() == 2 && shape[0].is_number_integer() &&
        shape[1].is_number_integer())
      return std::vector<int64_t>{shape[0].get<int64_t>(),
                                  shape[1].get<int64_t>()};
    return BadFile(file, absl::StrCat(name, " is not a matrix"));
  }
  return BadFile(file, absl::StrCat("has no ", names.front(),
                                    ": not a model of Garg et al.'s kind"));
}

absl::Status ReadShapes(const std::string& file, ModelFacts* facts) {
  ASSIGN_OR_RETURN(const json header, ReadHeader(file));
  ASSIGN_OR_RETURN(
      const std::vector<int64_t> read_in,
      MatrixShape(header, {"_read_in.weight", "read_in.weight"}, file));
  if (read_in[0] != facts->width)
    return BadFile(file, absl::StrCat("_read_in.weight has ", read_in[0],
                                      " rows, but n_embd of ", kConfig, " is ",
                                      facts->width));
  facts->dims = static_cast<int>(read_in[1]);
  ASSIGN_OR_RETURN(const std::vector<int64_t> positions,
                   MatrixShape(header,
                               {"_backbone.wpe.weight", "backbone.wpe.weight",
                                "transformer.wpe.weight", "wpe.weight"},
                               file));
  if (positions[0] != 2 * int64_t{facts->positions})
    return BadFile(file, absl::StrCat("wpe.weight has ", positions[0],
                                      " rows, but n_positions of ", kConfig,
                                      " is ", 2 * int64_t{facts->positions},
                                      "; both count tokens, 2 per point"));
  return absl::OkStatus();
}

absl::Status Sync(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (synced) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(reason)));
}

bool Holds(const std::string& folder, const std::string& sha256) {
  const absl::StatusOr<std::string> found =
      Sha256HexOfFile(In(folder, kWeights));
  std::error_code error;
  return found.ok() && *found == sha256 &&
         fs::exists(In(folder, kConfig), error);
}

// Fills `temporary`, which is beside its place.
absl::Status Fill(const std::string& temporary, const std::string& folder,
                  const std::string& sha256) {
  std::error_code error;
  fs::create_directories(temporary, error);
  for (const char* name : {kWeights, kConfig}) {
    if (!error)
      fs::copy_file(In(folder, name), In(temporary, name),
                    fs::copy_options::overwrite_existing, error);
    if (error)
      return absl::UnavailableError(absl::StrCat("cannot copy ", folder, "/",
                                                 name, " to ", temporary, ": ",
                                                 error.message()));
    RETURN_IF_ERROR(Sync(In(temporary, name)));
  }
  if (Holds(temporary, sha256)) return Sync(temporary);
  return absl::AbortedError(
      absl::StrCat(folder, " was changed while it was read; try again"));
}

absl::Status Copy(const std::string& folder, const std::string& sha256,
                  const std::string& target) {
  if (Holds(target, sha256)) return absl::OkStatus();
  const std::string temporary = absl::StrCat(target, ".", ::getpid(), ".new");
  absl::Status status = Fill(temporary, folder, sha256);
  std::error_code error;
  if (status.ok()) {
    fs::remove_all(target, error);  // damaged
    if (!error) fs::rename(temporary, target, error);
    status = error ? absl::UnavailableError(absl::StrCat(
                         "cannot write ", target, ": ", error.message()))
                   : Sync(fs::path(target).parent_path().string());
  }
  if (!status.ok()) fs::remove_all(temporary, error);
  return status;
}

std::string ImportedFolder(const std::string& artifact_dir,
                           absl::string_view sha256) {
  return absl::StrCat(artifact_dir, "/imported/", sha256);
}

}  // namespace

absl::StatusOr<ModelFacts> ReadModelFolder(const std::string& folder) {
  const std::string config_file = In(folder, kConfig);
  ASSIGN_OR_RETURN(const json config, ReadConfig(config_file));
  ModelFacts facts;
  ASSIGN_OR_RETURN(facts.layers, PositiveInt(config, "n_layer", config_file));
  ASSIGN_OR_RETURN(facts.heads, PositiveInt(config, "n_head", config_file));
  ASSIGN_OR_RETURN(facts.width, PositiveInt(config, "n_embd", config_file));
  ASSIGN_OR_RETURN(const int tokens,
                   PositiveInt(config, "n_positions", config_file));
  if (tokens % 2 != 0)
    return BadFile(config_file,
                   absl::StrCat("n_positions is ", tokens,
                                "; it counts tokens, 2 per point"));
  facts.positions = tokens / 2;
  RETURN_IF_ERROR(CheckVariant(config, facts.width, config_file));
  const json own = config.value("iclsweep", config);
  if (own.is_object() && own.contains("trained_points")) {
    ASSIGN_OR_RETURN(facts.trained_points,
                     PositiveInt(own, "trained_points", config_file));
  }
  const std::string weights = In(folder, kWeights);
  RETURN_IF_ERROR(ReadShapes(weights, &facts));
  ASSIGN_OR_RETURN(facts.sha256, Sha256HexOfFile(weights));
  return facts;
}

absl::StatusOr<ModelFacts> ModelReader::Read(const std::string& checkpoint) {
  absl::string_view sum = checkpoint;
  if (absl::ConsumePrefix(&sum, "sha256:")) {
    ModelFacts unknown;
    unknown.sha256 = std::string(sum);
    if (artifact_dir_.empty()) return unknown;
    const std::string folder = ImportedFolder(artifact_dir_, sum);
    if (Holds(folder, unknown.sha256)) return ReadModelFolder(folder);
    return absl::InvalidArgumentError(
        absl::StrCat("no model ", checkpoint, " is in ", artifact_dir_,
                     "/imported; name the folder it lies in"));
  }
  const std::string folder =
      (fs::path(base_folder_) / checkpoint).lexically_normal().string();
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return absl::InvalidArgumentError(
        absl::StrCat("there is no folder ", folder));
  ASSIGN_OR_RETURN(ModelFacts facts, ReadModelFolder(folder));
  folders_[facts.sha256] = folder;
  return facts;
}

absl::Status ModelReader::CopyAll() const {
  for (const auto& [sha256, folder] : folders_) {
    const std::string target = ImportedFolder(artifact_dir_, sha256);
    std::error_code error;
    fs::create_directories(fs::path(target).parent_path(), error);
    if (error)
      return absl::UnavailableError(
          absl::StrCat("cannot make ", target, ": ", error.message()));
    RETURN_IF_ERROR(Copy(folder, sha256, target));
  }
  return absl::OkStatus();
}

}  // namespace iclsweep
