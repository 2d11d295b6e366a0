// iclsweep plan: what a sweep file means, before anything runs.
#include "coordinator/spec/plan.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/forecast_text.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/sweep_file.h"
#include "coordinator/service/server.h"
#include "coordinator/spec/cells.h"
#include "coordinator/spec/grid.h"
#include "nlohmann/json.hpp"
#include "proto/base/status_macros.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {
namespace {

struct PlanArguments {
  std::string file;
  int64_t workers = 1;
  bool calibration = false;
  int64_t max_cells = 10'000'000;
};

double CellsPerJob(const SweepSpec& spec, const StageCount& count) {
  return static_cast<double>(CellCount(spec)) / static_cast<double>(count.jobs);
}

// The grid's dimensions: an axis, or axes that advance together.
std::vector<std::pair<std::string, uint64_t>> Dimensions(
    const SweepSpec& spec) {
  std::vector<std::pair<std::string, uint64_t>> dimensions;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const Axis& axis = spec.axes[i];
    if (Follows(spec, i)) {
      absl::StrAppend(&dimensions.back().first, " with ", axis.path);
    } else {
      dimensions.emplace_back(axis.path, axis.size());
    }
  }
  return dimensions;
}

uint64_t ExcludedPoints(const SweepSpec& spec) {
  return spec.cells == nullptr ? 0 : spec.cells->points() - spec.cells->cells();
}

// All that plan tells of a sweep.
struct PlannedSweep {
  const SweepSpec& spec;
  std::vector<StageCount> counts;
  uint64_t jobs = 0;
  uint64_t done = 0;
  Forecast forecast;
};

absl::StatusOr<PlannedSweep> LookAhead(const SweepSpec& spec,
                                       const std::string& data_dir) {
  std::unique_ptr<Database> database;
  absl::StatusOr<std::unique_ptr<Database>> opened =
      OpenForReading(DatabaseFile(data_dir));
  if (opened.ok()) {
    database = *std::move(opened);
  } else if (!absl::IsNotFound(opened.status())) {
    return opened.status();
  }
  PlannedSweep planned{spec, {}, 0, 0, {}};
  ASSIGN_OR_RETURN(const History history, ReadHistory(database.get()));
  ASSIGN_OR_RETURN(planned.counts, CountStages(spec, history));
  ASSIGN_OR_RETURN(planned.forecast,
                   MakeForecast(spec, planned.counts, history));
  for (const StageCount& count : planned.counts) {
    planned.jobs += count.jobs;
    planned.done += count.done;
  }
  return planned;
}

nlohmann::json PlanJson(const PlannedSweep& planned, uint64_t workers) {
  const SweepSpec& spec = planned.spec;
  nlohmann::json document = {
      {"sweep", spec.name},
      {"spec_hash", spec.hash_hex},
      {"cells", CellCount(spec)},
      {"excluded", ExcludedPoints(spec)},
      {"jobs", planned.jobs},
      {"done", planned.done},
      {"to_run", planned.jobs - planned.done},
      {"forecast", ForecastJson(planned.forecast, workers)}};
  for (const StageCount& count : planned.counts) {
    document["stages"].push_back(
        {{"stage", std::string(StageName(count.stage))},
         {"jobs", count.jobs},
         {"done", count.done},
         {"to_run", count.jobs - count.done},
         {"cells_per_job", CellsPerJob(spec, count)}});
  }
  return document;
}

void PrintPlan(const PlannedSweep& planned) {
  const SweepSpec& spec = planned.spec;
  absl::PrintF("sweep %s: %d cells\n", spec.name, CellCount(spec));
  for (const auto& [axes, values] : Dimensions(spec))
    absl::PrintF("  axis %s: %d values\n", axes, values);
  if (spec.cells != nullptr)
    absl::PrintF("  excluded: %d of %d points\n", ExcludedPoints(spec),
                 spec.cells->points());
  absl::PrintF("\n%-10s %12s %16s %14s %12s\n", "stage", "jobs",
               "cells per job", "already done", "to run");
  for (const StageCount& count : planned.counts) {
    absl::PrintF("%-10s %12d %16.6g %14d %12d\n", StageName(count.stage),
                 count.jobs, CellsPerJob(spec, count), count.done,
                 count.jobs - count.done);
  }
  absl::PrintF("%-10s %12d %16s %14d %12d\n", "all", planned.jobs, "",
               planned.done, planned.jobs - planned.done);
}

absl::Status Plan(const PlanArguments& arguments,
                  const CommandContext& context) {
  if (arguments.calibration && arguments.file.empty())
    return PrintCalibration(context);
  if (arguments.file.empty() || arguments.calibration)
    return absl::InvalidArgumentError(
        "plan takes a sweep file, or --calibration and none");
  ASSIGN_OR_RETURN(const GivenSweep given,
                   ReadSweep(arguments.file, arguments.max_cells,
                             ArtifactDir(context.data_dir)));
  ASSIGN_OR_RETURN(const PlannedSweep planned,
                   LookAhead(given.spec, context.data_dir));
  const auto workers = static_cast<uint64_t>(arguments.workers);
  if (context.json) {
    absl::PrintF("%s\n", PlanJson(planned, workers).dump());
    return absl::OkStatus();
  }
  PrintPlan(planned);
  absl::PrintF("%s", ForecastText(planned.forecast, workers, context.data_dir));
  return absl::OkStatus();
}

}  // namespace

void AddPlan(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<PlanArguments>();
  Command command(app, context, "plan",
                  "Cells and jobs of a sweep file, what of it is done already, "
                  "and what the rest will cost; runs nothing.");
  command.Positional("sweep", &arguments->file, "sweep file (YAML)");
  command.Count("--workers", &arguments->workers, 1, 1'000'000,
                "devices to share the work, for the time on the wall");
  command.Flag("--calibration", &arguments->calibration,
               "what earlier sweeps took beside what was expected of them");
  command.Count("--max-cells", &arguments->max_cells, 1, kMostCells,
                "refuse larger grids");
  command.Data();
  command.Json();
  command.Run(
      [arguments, context] { return ExitCode(Plan(*arguments, *context)); });
}

}  // namespace iclsweep
