#include "coordinator/cli/sweep_file.h"

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "coordinator/cli/command.h"
#include "coordinator/service/existing_model.h"
#include "coordinator/service/server.h"
#include "proto/base/status_macros.h"

namespace iclsweep {

absl::StatusOr<GivenSweep> ReadSweep(const std::string& file, int64_t max_cells,
                                     const std::string& artifact_dir) {
  GivenSweep given;
  ASSIGN_OR_RETURN(*given.request.mutable_sweep_yaml(), ReadSweepFile(file));
  given.request.set_file_name(file);
  given.request.set_folder(
      std::filesystem::path(Absolute(file)).parent_path().string());
  given.request.set_max_cells(static_cast<uint64_t>(max_cells));
  ModelReader models(given.request.folder(), artifact_dir);
  ParseOptions options;
  options.max_cells = given.request.max_cells();
  options.read_model = [&](const std::string& checkpoint) {
    return models.Read(checkpoint);
  };
  ASSIGN_OR_RETURN(given.spec,
                   ParseSweep(given.request.sweep_yaml(), file, options));
  for (const std::string& warning : given.spec.warnings)
    absl::FPrintF(stderr, "iclsweep: warning: %s\n", warning);
  return given;
}

}  // namespace iclsweep
