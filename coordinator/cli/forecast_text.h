// What a sweep will cost, for people and as JSON; and what earlier sweeps cost
// beside what was expected of them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/cli/command.h"
#include "coordinator/service/forecast.h"
#include "nlohmann/json_fwd.hpp"

namespace iclsweep {

// A table of device time per stage and kind of device, the time on the wall for
// `workers` devices, disk; what is missing for more, and the command that
// brings it. Nothing to run: empty.
std::string ForecastText(const Forecast& forecast, uint64_t workers,
                         const std::string& data_dir);
nlohmann::json ForecastJson(const Forecast& forecast, uint64_t workers);

// Prints a row per sweep, stage and kind of device: expected seconds of the
// jobs that are done by now, their interval, and what they took. Unavailable:
// the database.
absl::Status PrintCalibration(const CommandContext& context);

}  // namespace iclsweep
