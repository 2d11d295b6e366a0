// iclsweep version: what this program is and what formats it speaks.
#include "absl/strings/str_format.h"
#include "coordinator/cli/command.h"
#include "nlohmann/json.hpp"
#include "proto/base/build_info.h"
#include "proto/base/domain.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {

void AddVersion(CLI::App* app, CommandContext* context) {
  CLI::App* command = app->add_subcommand(
      "version", "Version, build and formats of this program.");
  AddJsonOption(command, context);
  command->callback([context] {
    nlohmann::json document = {{"version", ProgramVersion()},
                               {"build", BuildVersion()},
                               {"schema", kSchemaVersion},
                               {"key_format", kKeyFormatVersion}};
    for (const Stage stage : kAllStages)
      document["numerics"][std::string(StageName(stage))] =
          NumericsVersion(stage);
    if (context->json) {
      absl::PrintF("%s\n", document.dump());
    } else {
      absl::PrintF("iclsweep %s (%s)\nschema %d, key format %d\n",
                   ProgramVersion(), BuildVersion(), kSchemaVersion,
                   kKeyFormatVersion);
    }
    context->exit_code = kAllDone;
  });
}

}  // namespace iclsweep
