#include "coordinator/cli/forecast_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/table.h"
#include "nlohmann/json.hpp"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

std::set<std::string> DeviceKinds(const Forecast& forecast) {
  std::set<std::string> kinds;
  for (const StageForecast& stage : forecast.stages)
    kinds.insert(stage.device_kind);
  return kinds;
}

// Of all stages on one kind of device.
StageForecast Total(const Forecast& forecast, const std::string& device_kind) {
  StageForecast total;
  total.device_kind = device_kind;
  for (const StageForecast& stage : forecast.stages) {
    if (stage.device_kind != device_kind) continue;
    total.jobs += stage.jobs;
    total.seconds += stage.seconds;
    total.low_seconds += stage.low_seconds;
    total.high_seconds += stage.high_seconds;
    total.longest_seconds =
        std::max(total.longest_seconds, stage.longest_seconds);
    total.measured += stage.measured;
    total.beyond = total.beyond || stage.beyond;
  }
  return total;
}

std::string Hours(double seconds) {
  const double hours = seconds / 3600;
  return hours < 0.0005 ? "< 0.001" : absl::StrFormat("%.3g", hours);
}

std::string Line(absl::string_view name, const StageForecast& stage) {
  return absl::StrFormat(
      "%-10s %-24s %12s %21s %12s %14s\n", name, stage.device_kind,
      Hours(stage.seconds),
      stage.high_seconds / 3600 < 0.0005
          ? ""
          : absl::StrCat(Hours(stage.low_seconds), " .. ",
                         Hours(stage.high_seconds)),
      ShortTime(stage.longest_seconds),
      absl::StrCat(stage.measured, stage.beyond ? " *" : ""));
}

std::string Bytes(double bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(units)) {
    bytes /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.3g %s", bytes, units[unit]);
}

std::string DiskText(const Forecast& forecast) {
  std::string text;
  if (forecast.checkpoints > 0)
    text = absl::StrCat(forecast.checkpoints, " checkpoints, ",
                        Bytes(forecast.checkpoint_bytes));
  if (forecast.database_bytes > 0)
    absl::StrAppend(&text, text.empty() ? "" : "; ", "database about ",
                    Bytes(forecast.database_bytes));
  return text;
}

std::string TableText(const Forecast& forecast) {
  std::string text = absl::StrFormat(
      "\n%-10s %-24s %12s %21s %12s %14s\n", "stage", "on", "device-hours",
      "90 % interval", "longest job", "jobs measured");
  bool beyond = false;
  for (const std::string& kind : DeviceKinds(forecast)) {
    for (const StageForecast& stage : forecast.stages) {
      if (stage.device_kind == kind)
        absl::StrAppend(&text, Line(StageName(stage.stage), stage));
    }
    const StageForecast total = Total(forecast, kind);
    beyond = beyond || total.beyond;
    absl::StrAppend(&text, Line("all", total));
  }
  if (beyond)
    absl::StrAppend(&text,
                    "* some of these jobs are much smaller or larger than any "
                    "that was measured: the interval is twice as wide\n");
  return text;
}

}  // namespace

std::string ForecastText(const Forecast& forecast, uint64_t workers,
                         const std::string& data_dir) {
  std::string text;
  if (!forecast.stages.empty()) text = TableText(forecast);
  if (!forecast.stages.empty() && forecast.unknown.empty()) {
    for (const std::string& kind : DeviceKinds(forecast)) {
      const StageForecast total = Total(forecast, kind);
      const double wall = WallSeconds(forecast, kind, workers);
      absl::StrAppend(
          &text, "wall time with ", workers,
          workers == 1 ? " worker on " : " workers on ", kind, ": ",
          ShortTime(wall), " (",
          ShortTime(wall * total.low_seconds / total.seconds), " .. ",
          ShortTime(wall * total.high_seconds / total.seconds), ")\n");
    }
  }
  if (const std::string disk = DiskText(forecast); !disk.empty())
    absl::StrAppend(&text, text.empty() ? "\n" : "", "disk: ", disk, "\n");
  if (forecast.unknown.empty()) return text;
  const auto name = [](std::string* out, Stage stage) {
    absl::StrAppend(out, StageName(stage));
  };
  absl::StrAppend(
      &text, text.empty() ? "\n" : "", "no time is known for ",
      absl::StrJoin(forecast.unknown, ", ", name), ": ", data_dir,
      " has no such results yet; a short run gives some:\n  iclsweep run "
      "deploy/sweeps/calibration.yaml --data ",
      data_dir, "\n");
  return text;
}

nlohmann::json ForecastJson(const Forecast& forecast, uint64_t workers) {
  nlohmann::json document = {
      {"stages", nlohmann::json::array()},
      {"unknown", nlohmann::json::array()},
      {"checkpoints", forecast.checkpoints},
      {"checkpoint_bytes", std::llround(forecast.checkpoint_bytes)},
      {"database_bytes", std::llround(forecast.database_bytes)},
      {"workers", workers},
      {"wall_s", nlohmann::json::object()}};
  for (const StageForecast& stage : forecast.stages) {
    document["stages"].push_back(
        {{"stage", std::string(StageName(stage.stage))},
         {"device_kind", stage.device_kind},
         {"jobs", stage.jobs},
         {"expected_s", stage.seconds},
         {"low_s", stage.low_seconds},
         {"high_s", stage.high_seconds},
         {"longest_s", stage.longest_seconds},
         {"jobs_measured", stage.measured},
         {"beyond", stage.beyond}});
  }
  for (const Stage stage : forecast.unknown)
    document["unknown"].push_back(std::string(StageName(stage)));
  if (!forecast.unknown.empty()) return document;
  for (const std::string& kind : DeviceKinds(forecast))
    document["wall_s"][kind] = WallSeconds(forecast, kind, workers);
  return document;
}

absl::Status PrintCalibration(const CommandContext& context) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   OpenResults(context));
  // Of the expected time, the share of the jobs that are done.
  Statement query = database->Prepare(
      "SELECT sweep, stage, device_kind, jobs, jobs_done, "
      "round(expected_s * jobs_done / jobs, 3) AS expected_s, "
      "round(low_s * jobs_done / jobs, 3) AS low_s, "
      "round(high_s * jobs_done / jobs, 3) AS high_s, "
      "round(measured_s, 3) AS measured_s, "
      "round(measured_s / (expected_s * jobs_done / jobs), 3) AS ratio, "
      "CASE WHEN jobs_done = 0 THEN 'not run' "
      "WHEN measured_s < low_s * jobs_done / jobs THEN 'faster' "
      "WHEN measured_s > high_s * jobs_done / jobs THEN 'slower' "
      "ELSE 'inside' END AS interval FROM forecasts");
  PrintOptions options;
  options.format = FormatFor(context.json);
  ASSIGN_OR_RETURN(const size_t rows, PrintRows(&query, options, stdout));
  if (rows == 0)
    absl::FPrintF(stderr,
                  "iclsweep: no sweep in %s was submitted with a forecast: "
                  "there is one as soon as some of its stages were measured "
                  "before\n",
                  context.data_dir);
  return absl::OkStatus();
}

}  // namespace iclsweep
