// Models trained elsewhere, as a sweep file's train.checkpoint names them: a
// folder with model.safetensors (names of Garg et al.'s TransformerModel on
// Hugging Face's GPT2Model) and its GPT2Config as config.json. What is read
// here decides what a sweep means; a copy in artifacts/imported/<sha256>/ is
// what workers load, whatever becomes of the folder.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/spec/sweep_spec.h"

namespace iclsweep {

// Sizes and the SHA-256 of the weights. InvalidArgument naming the file: not
// there, not readable, sizes missing, a variant of GPT-2 that is not computed
// here.
absl::StatusOr<ModelFacts> ReadModelFolder(const std::string& folder);

// Reads what train.checkpoint names, for ParseOptions::read_model, and notes
// where each model lies. Folders that are not absolute start at `base_folder`;
// sha256:<hex> is looked up in `artifact_dir` (empty: nothing is known of it).
class ModelReader {
 public:
  ModelReader(std::string base_folder, std::string artifact_dir)
      : base_folder_(std::move(base_folder)),
        artifact_dir_(std::move(artifact_dir)) {}

  absl::StatusOr<ModelFacts> Read(const std::string& checkpoint);

  // Copies every model that Read found in a folder to
  // artifact_dir/imported/<sha256>, each whole or not at all; what lies there
  // undamaged stays. Errors: Aborted (a folder was changed meanwhile),
  // Unavailable (disk).
  absl::Status CopyAll() const;

 private:
  const std::string base_folder_;
  const std::string artifact_dir_;
  std::map<std::string, std::string> folders_;  // by sum
};

}  // namespace iclsweep
