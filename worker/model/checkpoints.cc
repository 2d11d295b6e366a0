#include "worker/model/checkpoints.h"

#include <utility>

#include "proto/base/status_macros.h"
#include "worker/model/device.h"

namespace iclsweep {

absl::StatusOr<Checkpoints::Loaded> Checkpoints::Get(
    const StageContext& context, const std::string& weights_file,
    at::ScalarType type) {
  if (dir_ != context.checkpoint_dir || sha256_ != context.checkpoint_sha256 ||
      sha256_.empty()) {
    kept_.clear();
    dir_ = context.checkpoint_dir;
    sha256_ = context.checkpoint_sha256;
  }
  for (const Kept& kept : kept_) {
    if (kept.weights_file == weights_file && kept.device == context.device &&
        kept.type == type)
      return kept.loaded;
  }
  ASSIGN_OR_RETURN(const at::Device device, DeviceFromName(context.device));
  if (kept_.empty())
    RETURN_IF_ERROR(
        VerifyCheckpoint(context.checkpoint_dir, context.checkpoint_sha256));
  ASSIGN_OR_RETURN(
      LoadedCheckpoint loaded,
      LoadCheckpoint(context.checkpoint_dir, weights_file, device, type));
  kept_.push_back(
      {weights_file, context.device, type,
       std::make_shared<const LoadedCheckpoint>(std::move(loaded))});
  return kept_.back().loaded;
}

}  // namespace iclsweep
