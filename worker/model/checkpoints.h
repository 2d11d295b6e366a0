// The checkpoint that a worker's jobs read, kept loaded from one job to the
// next. Jobs that read the same one are leased together, so one is enough.
// Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/stage.h"
#include "worker/model/checkpoint.h"

namespace iclsweep {

class Checkpoints {
 public:
  using Loaded = std::shared_ptr<const LoadedCheckpoint>;

  // `weights_file` of the context's checkpoint on its device: verified
  // (VerifyCheckpoint) and loaded (LoadCheckpoint), or as it was kept. Only
  // one whose SHA-256 is recorded is kept, until another folder or sum is
  // asked for: what is kept is what was trained, whatever became of the file.
  absl::StatusOr<Loaded> Get(const StageContext& context,
                             const std::string& weights_file,
                             at::ScalarType type);

 private:
  struct Kept {
    std::string weights_file;
    std::string device;
    at::ScalarType type = at::kFloat;
    Loaded loaded;
  };

  std::string dir_;
  std::string sha256_;
  std::vector<Kept> kept_;  // of that folder
};

}  // namespace iclsweep
