// Partial checkpoints of a training run: everything a later attempt needs to go
// on bit for bit (weights, Adam's moments, steps done, the curve so far). Not
// the published artifact (worker/model/checkpoint.h).
//
// Layout: partial_dir/<attempt>/step-<n>/ with state.safetensors, state.json
// and a checksum manifest, each folder appearing whole by rename. An attempt
// reads everyone's and writes only its own; the coordinator removes them all
// once the training's result is committed. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/domain.h"
#include "worker/model/safetensors.h"

namespace iclsweep {

// What a partial checkpoint must agree on with the run that resumes from it.
struct RunIdentity {
  std::string inputs_sha256;  // of the stage's parameters
  std::string device_kind;    // other devices round differently
  uint32_t numerics_version = 0;
};

struct PartialState {
  int64_t step = 0;  // steps done
  std::vector<CurvePoint> curve;
  TensorFile tensors;
};

class PartialStore {
 public:
  // An empty partial_dir stores and finds nothing.
  PartialStore(std::string partial_dir, uint32_t attempt, RunIdentity identity);

  bool enabled() const { return !partial_dir_.empty(); }

  // Publishes `state` as step-<n> of this attempt and keeps this attempt's
  // newest two. Unavailable (disk).
  absl::Status Save(const PartialState& state) const;

  // The furthest valid state of any attempt with the same identity; damaged and
  // foreign ones are passed over.
  std::optional<PartialState> LoadNewest() const;

 private:
  absl::StatusOr<PartialState> Load(const std::string& directory) const;
  std::string OwnDirectory() const;

  std::string partial_dir_;
  uint32_t attempt_;
  RunIdentity identity_;
};

}  // namespace iclsweep
