// The checkpoint artifact: a folder with model.safetensors (trained weights),
// initial.safetensors (the weights training started from, for the untrained
// control), config.json and manifest.json, published whole or not at all.
//
// Names are those of Garg et al.'s checkpoints on Hugging Face's GPT2Model,
// without its unused word table: GPT2Model.from_pretrained(folder,
// key_mapping={'^_backbone\\.': ''}) reads the backbone. config.json holds
// GPT2Config's keys (n_positions counts tokens, 2 per point) and an "iclsweep"
// object: format, dims, init_std, trained_points, key, inputs (TrainInputs as
// protobuf JSON) and non_finite. A folder without that object is read too: its
// sizes come from the GPT2Config keys and the weights' shapes.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"
#include "worker/model/gpt2.h"

namespace iclsweep {

inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kInitialFile[] = "initial.safetensors";
inline constexpr char kConfigFile[] = "config.json";

// That the folder holds what was published: every file as in its manifest, and
// weights with this SHA-256 where one is given. A folder without a manifest
// (another program's) passes when none is given. Unavailable, naming the file.
absl::Status VerifyCheckpoint(const std::string& dir,
                              const std::string& sha256);

struct LoadedCheckpoint {
  Gpt2 model;
  int64_t trained_points = 0;  // without the "iclsweep" object: all positions
  v1::TrainInputs inputs;      // without the "iclsweep" object: empty
  bool non_finite = false;
};

// The parameters of a safetensors file under this program's names: a backbone
// called transformer., backbone. or nothing is _backbone., read_in and read_out
// get their underscore; the word table and buffers of Hugging Face's files
// (wte, attn.bias, attn.masked_bias) are left out. Errors: Unavailable (missing
// or damaged), InvalidArgument (one parameter twice), ResourceExhausted.
absl::StatusOr<std::map<std::string, at::Tensor>> ReadWeights(
    const std::string& path);

// Reads `weights_file` (kModelFile or kInitialFile) of the checkpoint folder
// `dir` (ReadWeights). Errors: Unavailable (missing or damaged:
// another copy may do), InvalidArgument (sizes that make no model),
// ResourceExhausted, Internal (device).
absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& dir,
                                                const std::string& weights_file,
                                                at::Device device,
                                                at::ScalarType type);

// Whether `points` is more than the checkpoint was trained on. InvalidArgument
// when `prompt.allow_extrapolation` does not allow that, when its positions do
// not hold that many, or when it was trained on another input dimension;
// `arithmetic` says in the message how the points came about.
absl::StatusOr<bool> Extrapolates(const LoadedCheckpoint& checkpoint,
                                  const v1::PromptParams& prompt,
                                  int64_t points, absl::string_view arithmetic);

struct CheckpointContent {
  const Gpt2* model = nullptr;
  const Gpt2* initial = nullptr;
  int64_t trained_points = 0;
  v1::TrainInputs inputs;
  std::string key;
  bool non_finite = false;
};

// Publishes artifact_dir/name. A folder left there by an earlier attempt is
// kept when it is valid and holds the same weights, replaced when it is
// damaged. Errors: Internal when a valid folder with other weights is there (it
// may be in use), Unavailable (disk).
absl::StatusOr<Artifact> PublishCheckpoint(const CheckpointContent& content,
                                           const std::string& artifact_dir,
                                           const std::string& name);

}  // namespace iclsweep
