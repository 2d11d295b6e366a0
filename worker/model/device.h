// What every stage asks of LibTorch before it computes: a device by name and
// deterministic kernels.
#pragma once

#include <string>

#include "ATen/Context.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "c10/core/Device.h"

namespace iclsweep {

// "cpu" or "cuda" (the one visible device); else InvalidArgument.
inline absl::StatusOr<at::Device> DeviceFromName(const std::string& name) {
  if (name == "cpu") return at::Device(at::kCPU);
  if (name == "cuda") return at::Device(at::kCUDA, 0);
  return absl::InvalidArgumentError(
      absl::StrCat("device ", name, " is neither cpu nor cuda"));
}

// For the whole process: an operation without a deterministic kernel fails
// instead of giving other bits. On CUDA cuBLAS further needs
// CUBLAS_WORKSPACE_CONFIG=:4096:8 in the environment.
inline void UseDeterministicKernels() {
  at::globalContext().setDeterministicAlgorithms(/*deterministic=*/true,
                                                 /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

}  // namespace iclsweep
