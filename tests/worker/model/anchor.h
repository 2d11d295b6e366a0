// The trained models of golden/anchor_weights as a Gpt2: their names and
// nn.Linear layout ([out, in]) turned into ours (Conv1D, [in, out]).
#pragma once

#include <cstdio>
#include <map>
#include <string>

#include "ATen/ATen.h"
#include "proto/base/status_macros.h"
#include "tests/worker/model/golden.h"
#include "worker/model/gpt2.h"
#include "worker/model/safetensors.h"

namespace iclsweep::testing {

// Their name of our parameter `name`.
inline std::string AnchorName(std::string name) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (const size_t at = name.find(from); at != std::string::npos) {
      name.replace(at, from.size(), to);
    }
  };
  replace("_backbone.", "");
  replace("_read_", "read_");
  replace("attn.c_attn", "c_attn");
  replace("attn.c_proj", "c_proj");
  replace("mlp.c_proj", "m_proj");
  replace("mlp.c_fc", "c_fc");
  return name == "wpe.weight" ? "wpe" : name;
}

// float32 on the CPU; sizes from the file and its metadata.
inline absl::StatusOr<Gpt2> LoadAnchor(const std::string& name) {
  const std::string path =
      (GoldenPath("anchor_weights") / (name + ".safetensors")).string();
  ASSIGN_OR_RETURN(const TensorFile file, ReadSafetensors(path));
  ModelConfig config;
  if (std::sscanf(file.metadata.at("shape").c_str(), "%d/%d/%d", &config.layers,
                  &config.heads, &config.width) != 3) {
    return absl::DataLossError(path + ": no shape");
  }
  config.dims = static_cast<int>(file.tensors.at("read_in.weight").size(1));
  config.positions = static_cast<int>(file.tensors.at("wpe").size(0) / 2);
  config.init_std = std::stod(file.metadata.at("init"));
  ASSIGN_OR_RETURN(Gpt2 model, Gpt2::Create(config, at::kFloat, at::kCPU));
  if (model.names().size() != file.tensors.size()) {
    return absl::DataLossError(path + ": another number of tensors");
  }
  std::map<std::string, at::Tensor> converted;
  for (const std::string& own : model.names()) {
    const at::Tensor& theirs = file.tensors.at(AnchorName(own));
    const bool block_matrix =
        own.find("_backbone.h.") == 0 && theirs.dim() == 2;
    converted[own] = block_matrix ? theirs.t() : theirs;
  }
  RETURN_IF_ERROR(model.SetParameters(converted));
  return model;
}

}  // namespace iclsweep::testing
