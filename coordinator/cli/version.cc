// iclsweep version: what this program is and what formats it speaks.
#include "absl/strings/str_format.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/options.h"
#include "nlohmann/json.hpp"
#include "proto/base/build_info.h"
#include "proto/base/domain.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {

namespace {

int PrintVersion(bool json) {
  nlohmann::json document = {{"version", ProgramVersion()},
                             {"build", BuildVersion()},
                             {"schema", kSchemaVersion},
                             {"key_format", kKeyFormatVersion}};
  for (const Stage stage : kAllStages) {
    document["numerics"][std::string(StageName(stage))] =
        NumericsVersion(stage);
  }
  if (json) {
    absl::PrintF("%s\n", document.dump());
  } else {
    absl::PrintF("iclsweep %s (%s)\nschema %d, key format %d\n",
                 ProgramVersion(), BuildVersion(), kSchemaVersion,
                 kKeyFormatVersion);
  }
  return kAllDone;
}

}  // namespace

void AddVersion(CLI::App* app, CommandContext* context) {
  Command command(app, context, "version",
                  "Version, build and formats of this program.");
  command.Json();
  command.Run([context] { return PrintVersion(context->json); });
}

}  // namespace iclsweep
