#include "worker/model/predict.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "c10/core/GradMode.h"
#include "proto/base/status_macros.h"
#include "worker/model/checkpoint.h"
#include "worker/model/safetensors.h"
#include "worker/model/torch_status.h"

namespace iclsweep {
namespace {

constexpr int64_t kRows = 256;  // prompts per pass: bounds memory

std::string ShapeOf(const at::Tensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.sizes(), ", "), "]");
}

struct Prompts {
  at::Tensor xs;
  at::Tensor ys;
};

absl::StatusOr<Prompts> ReadPrompts(const std::string& path) {
  const absl::StatusOr<TensorFile> read = ReadSafetensors(path);
  if (absl::IsDataLoss(read.status()))  // the user's own file
    return absl::InvalidArgumentError(read.status().message());
  ASSIGN_OR_RETURN(const TensorFile file, read);
  const auto xs = file.tensors.find("xs");
  const auto ys = file.tensors.find("ys");
  if (xs == file.tensors.end() || ys == file.tensors.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompts: ", path, " must hold xs and ys"));
  }
  Prompts prompts{xs->second, ys->second};
  const at::ScalarType type = prompts.xs.scalar_type();
  if ((type != at::kFloat && type != at::kDouble) ||
      prompts.ys.scalar_type() != type) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompts: ", path, ": xs and ys must both be F32 or both be F64"));
  }
  if (prompts.xs.dim() != 3 || prompts.ys.dim() != 2 ||
      prompts.xs.sizes().slice(0, 2) != prompts.ys.sizes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompts: ", path, ": xs ", ShapeOf(prompts.xs), " and ys ",
        ShapeOf(prompts.ys), " are not [B, n, d] and [B, n]"));
  }
  return prompts;
}

}  // namespace

absl::Status Predict(const std::string& checkpoint_dir,
                     const std::string& prompts_safetensors,
                     const std::string& out_safetensors) {
  ASSIGN_OR_RETURN(const Prompts prompts, ReadPrompts(prompts_safetensors));
  RETURN_IF_ERROR(VerifyCheckpoint(checkpoint_dir, /*sha256=*/""));
  ASSIGN_OR_RETURN(const LoadedCheckpoint loaded,
                   LoadCheckpoint(checkpoint_dir, kModelFile, at::kCPU,
                                  prompts.xs.scalar_type()));
  const ModelConfig& config = loaded.model.config();
  if (prompts.xs.size(2) != config.dims) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompts: xs ", ShapeOf(prompts.xs),
                     " has not the model's ", config.dims, " dims"));
  }
  if (prompts.xs.size(1) > config.positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompts: ", prompts.xs.size(1), " points exceed the model's ",
        config.positions, " positions"));
  }
  ASSIGN_OR_RETURN(
      at::Tensor pred,
      CatchTorch("predict", [&]() -> absl::StatusOr<at::Tensor> {
        const c10::NoGradGuard no_gradients;
        at::Tensor out = at::zeros_like(prompts.ys);
        for (int64_t row = 0; row < out.size(0) && out.size(1) > 0;
             row += kRows) {
          const int64_t rows = std::min(kRows, out.size(0) - row);
          out.narrow(0, row, rows)
              .copy_(loaded.model.Forward(prompts.xs.narrow(0, row, rows),
                                          prompts.ys.narrow(0, row, rows)));
        }
        return out;
      }));
  return WriteSafetensors(out_safetensors, {{{"pred", std::move(pred)}}, {}});
}

}  // namespace iclsweep
