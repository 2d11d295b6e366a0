// What a sweep will cost, learned from the jobs that this database has
// measured: device time per stage and kind of device, with an interval, and
// room on disk.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "coordinator/spec/rate.h"
#include "coordinator/spec/sweep_spec.h"
#include "storage/sqlite/database.h"

namespace iclsweep {

// What is done in a database, by stage.
struct History {
  struct OfStage {
    absl::flat_hash_set<JobKey> done;
    // By kind of device; at most 2,000 jobs of the stage, any as likely as
    // another, that one attempt finished.
    std::map<std::string, std::vector<MeasuredJob>> measured;
  };
  std::map<Stage, OfStage> stages;  // that have results
  int64_t results = 0;
  int64_t database_bytes = 0;
};
// nullptr: no database, an empty history.
absl::StatusOr<History> ReadHistory(Database* database);

struct StageCount {
  Stage stage = Stage::kTrain;
  uint64_t jobs = 0;  // distinct ones
  uint64_t done = 0;  // of these, in the history
};
// The jobs of `spec` by stage, in the order of its stages. Keys are worked out
// only for stages that have results.
absl::StatusOr<std::vector<StageCount>> CountStages(const SweepSpec& spec,
                                                    const History& history);

// Jobs of one stage that are not done, on one kind of device.
struct StageForecast {
  Stage stage = Stage::kTrain;
  std::string device_kind;
  uint64_t jobs = 0;
  double seconds = 0;       // of one device, all jobs together
  double low_seconds = 0;   // 90 % interval (rate.h), twice as far where some
  double high_seconds = 0;  // job is unlike all that were measured
  double longest_seconds = 0;  // one job
  uint64_t measured = 0;       // jobs it was learned from
  bool beyond = false;         // some job is unlike all of these
};

struct Forecast {
  std::vector<StageForecast> stages;  // with a history, and something to run
  std::vector<Stage> unknown;         // without a history
  uint64_t checkpoints = 0;           // that trainings will leave
  double checkpoint_bytes = 0;        // all of them
  double database_bytes = 0;          // growth; 0 = not known
};

// Of stages with more than 20,000 jobs, a sample stands for all.
absl::StatusOr<Forecast> MakeForecast(const SweepSpec& spec,
                                      const std::vector<StageCount>& counts,
                                      const History& history);

// Seconds until `workers` devices of that kind have run everything, when no
// stage is unknown: the work shared evenly, or the longest training and what
// waits for it, whichever is longer.
double WallSeconds(const Forecast& forecast, const std::string& device_kind,
                   uint64_t workers);

}  // namespace iclsweep
