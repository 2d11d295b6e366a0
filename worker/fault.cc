#include "worker/fault.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"

namespace iclsweep {

std::function<void(const std::string& point)> FaultHookFromEnvironment() {
  const char* directory = std::getenv("ICLSWEEP_FAULT_DIR");
  if (directory == nullptr || *directory == '\0') return nullptr;
  return [dir = std::string(directory)](const std::string& point) {
    const std::filesystem::path hold = absl::StrCat(dir, "/hold.", point);
    const std::filesystem::path held =
        absl::StrCat(dir, "/held.", point, ".", ::getpid());
    std::error_code error;
    if (!std::filesystem::exists(hold, error)) return;
    std::ofstream(held) << "held\n";
    while (std::filesystem::exists(hold, error))
      RealClock()->SleepMicros(5'000);
    std::filesystem::remove(held, error);
  };
}

}  // namespace iclsweep
