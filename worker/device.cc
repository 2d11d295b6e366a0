#include "worker/device.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <malloc.h>
#include <torch/version.h>
#include <unistd.h>

#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/base/build_info.h"
#include "proto/base/devices.h"

namespace iclsweep {
namespace {

absl::Status LoadCuda() {
  if (::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("CUDA cannot be used: ", ::dlerror(),
                     "; deploy/setup.sh --cuda installs what is missing"));
  }
  if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() < 1) {
    return absl::FailedPreconditionError(
        "CUDA cannot be used: LibTorch sees no device");
  }
  return absl::OkStatus();
}

// The GPU's model name from the driver (device 0: a child sees only its own),
// e.g. "NVIDIA H200".
std::string GpuModel() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return "cuda";
  const auto init =
      reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto name_of = reinterpret_cast<int (*)(char*, int, int)>(
      ::dlsym(driver, "cuDeviceGetName"));
  std::array<char, 128> name{};
  if (init == nullptr || name_of == nullptr || init(0) != 0 ||
      name_of(name.data(), 127, 0) != 0)
    return "cuda";
  return name.data();
}

// A step frees and takes the same large blocks again and again: they stay with
// the process instead of being unmapped and cleared anew (8 % of a step of the
// tiny model).
void KeepFreedMemory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest there is
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace

absl::StatusOr<Provenance> SetUpDevice(const std::string& device, int threads) {
  KeepFreedMemory();
  at::set_num_threads(threads);
  // Can be set once per process.
  if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
  at::globalContext().setFlushDenormal(true);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  Provenance provenance;
  provenance.build = BuildVersion();
  provenance.torch_version = TORCH_VERSION;
  provenance.threads = static_cast<uint32_t>(threads);
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  provenance.host = host.data();
  if (device == "cuda") {
    const absl::Status loaded = LoadCuda();
    if (!loaded.ok()) return loaded;
    provenance.device_kind = GpuModel();
  } else {
    provenance.device_kind = absl::StrCat("cpu/", CpuCapability());
  }
  return provenance;
}

}  // namespace iclsweep
