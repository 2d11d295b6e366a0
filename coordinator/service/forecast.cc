#include "coordinator/service/forecast.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>

#include "coordinator/spec/plan.h"
#include "coordinator/spec/resolve.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

constexpr size_t kMostMeasured = 2'000;
constexpr uint64_t kMostSampled = 20'000;

// Keeps some of a stream, each element as likely as any other.
class Reservoir {
 public:
  void Add(int64_t id) {
    ++seen_;
    if (kept_.size() < kMostMeasured) {
      kept_.push_back(id);
    } else if (const uint64_t place = random_() % seen_;
               place < kMostMeasured) {
      kept_[place] = id;
    }
  }
  const std::vector<int64_t>& kept() const { return kept_; }

 private:
  std::mt19937_64 random_;  // the same sample of the same database
  uint64_t seen_ = 0;
  std::vector<int64_t> kept_;
};

absl::Status ReadMeasured(Database* database, int64_t job, Stage stage,
                          History::OfStage* history) {
  Statement query = database->Prepare(
      "SELECT r.device_kind, r.duration_us, j.inputs, t.inputs FROM result AS "
      "r JOIN job AS j USING (job_id) LEFT JOIN job_dependency AS d USING "
      "(job_id) LEFT JOIN job AS t ON t.job_id = d.depends_on_job_id WHERE "
      "r.job_id = ? AND r.attempt_number = 1");
  query.Bind(job);
  ASSIGN_OR_RETURN(const bool row, query.Step());
  if (!row) return absl::OkStatus();
  const std::string train = query.Text(3);
  ASSIGN_OR_RETURN(const Work work, WorkOf(stage, query.Text(2),
                                           query.IsNull(3) ? nullptr : &train));
  history->measured[query.Text(0)].push_back(
      {work, static_cast<double>(query.Integer(1)) / 1e6});
  return absl::OkStatus();
}

// The work of a stage's jobs that are not done, or of a sample of them.
struct PlannedWork {
  std::vector<Work> jobs;
  double checkpoint_bytes = 0;  // of these
};

absl::StatusOr<PlannedWork> SampleWork(const SweepSpec& spec, Stage stage,
                                       const History::OfStage* history,
                                       uint64_t most) {
  PlannedWork planned;
  RETURN_IF_ERROR(SampleJobs(
      spec, stage, most,
      [&](const PlannedJob& job, const PlannedJob* train) -> absl::Status {
        if (history != nullptr && history->done.contains(job.key))
          return absl::OkStatus();
        ASSIGN_OR_RETURN(const Work work,
                         WorkOf(stage, job.inputs,
                                train == nullptr ? nullptr : &train->inputs));
        planned.jobs.push_back(work);
        if (stage != Stage::kTrain) return absl::OkStatus();
        v1::TrainInputs inputs;
        if (inputs.ParseFromString(job.inputs))
          planned.checkpoint_bytes +=
              static_cast<double>(CheckpointBytes(inputs));
        return absl::OkStatus();
      }));
  return planned;
}

StageForecast Expect(const StageCount& count, const PlannedWork& planned,
                     const Rate& rate) {
  StageForecast forecast;
  forecast.stage = count.stage;
  forecast.jobs = count.jobs - count.done;
  forecast.measured = rate.jobs();
  for (const Work& work : planned.jobs) {
    const double seconds = rate.Seconds(work);
    forecast.seconds += seconds;
    forecast.longest_seconds = std::max(forecast.longest_seconds, seconds);
    forecast.beyond = forecast.beyond || !rate.Covers(work);
  }
  forecast.seconds *= static_cast<double>(forecast.jobs) /
                      static_cast<double>(planned.jobs.size());
  const double wider = forecast.beyond ? 2 : 1;
  forecast.low_seconds = forecast.seconds * rate.low() / wider;
  forecast.high_seconds = forecast.seconds * rate.high() * wider;
  return forecast;
}

}  // namespace

absl::StatusOr<History> ReadHistory(Database* database) {
  History history;
  if (database == nullptr) return history;
  std::map<Stage, Reservoir> chosen;
  {
    Statement query = database->Prepare(
        "SELECT key, stage, job_id FROM job WHERE state = 'done'");
    while (true) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) break;
      const std::optional<JobKey> key = JobKeyFromBytes(query.Text(0));
      const std::optional<Stage> stage = StageFromName(query.Text(1));
      if (!key.has_value() || !stage.has_value()) continue;
      history.stages[*stage].done.insert(*key);
      chosen[*stage].Add(query.Integer(2));
      ++history.results;
    }
  }
  for (const auto& [stage, reservoir] : chosen) {
    for (const int64_t job : reservoir.kept())
      RETURN_IF_ERROR(
          ReadMeasured(database, job, stage, &history.stages[stage]));
  }
  ASSIGN_OR_RETURN(const int64_t pages,
                   database->QueryInteger("PRAGMA page_count"));
  ASSIGN_OR_RETURN(const int64_t page_bytes,
                   database->QueryInteger("PRAGMA page_size"));
  history.database_bytes = pages * page_bytes;
  return history;
}

namespace {

absl::StatusOr<uint64_t> CountDone(const SweepSpec& spec, Stage stage,
                                   const History::OfStage& history) {
  uint64_t done = 0;
  RETURN_IF_ERROR(ForEachDistinctJob(
      spec, stage, [&](const PlannedJob& job, absl::Span<const JobKey>) {
        if (history.done.contains(job.key)) ++done;
        return absl::OkStatus();
      }));
  return done;
}

}  // namespace

absl::StatusOr<std::vector<StageCount>> CountStages(const SweepSpec& spec,
                                                    const History& history) {
  ASSIGN_OR_RETURN(const std::vector<StagePlan> plans, PlanStages(spec));
  std::vector<StageCount> counts;
  counts.reserve(plans.size());
  for (const StagePlan& plan : plans) {
    StageCount count{plan.stage, plan.jobs, 0};
    const auto found = history.stages.find(plan.stage);
    if (found != history.stages.end()) {
      ASSIGN_OR_RETURN(count.done, CountDone(spec, plan.stage, found->second));
    }
    counts.push_back(count);
  }
  return counts;
}

absl::StatusOr<Forecast> MakeForecast(const SweepSpec& spec,
                                      const std::vector<StageCount>& counts,
                                      const History& history) {
  Forecast forecast;
  uint64_t to_run = 0;
  for (const StageCount& count : counts) {
    const uint64_t jobs = count.jobs - count.done;
    to_run += jobs;
    if (jobs == 0) continue;
    const auto found = history.stages.find(count.stage);
    const bool known =
        found != history.stages.end() && !found->second.measured.empty();
    if (!known) forecast.unknown.push_back(count.stage);
    if (!known && count.stage != Stage::kTrain) continue;
    const History::OfStage* past =
        found == history.stages.end() ? nullptr : &found->second;
    ASSIGN_OR_RETURN(PlannedWork planned,
                     SampleWork(spec, count.stage, past, kMostSampled));
    if (planned.jobs.empty()) {  // the few that are left were not met
      ASSIGN_OR_RETURN(planned,
                       SampleWork(spec, count.stage, past, UINT64_MAX));
    }
    if (count.stage == Stage::kTrain) {
      forecast.checkpoints = jobs;
      forecast.checkpoint_bytes = planned.checkpoint_bytes *
                                  static_cast<double>(jobs) /
                                  static_cast<double>(planned.jobs.size());
    }
    if (!known) continue;
    for (const auto& [device_kind, measured] : found->second.measured) {
      forecast.stages.push_back(Expect(count, planned, Rate(measured)));
      forecast.stages.back().device_kind = device_kind;
    }
  }
  if (history.results > 0)
    forecast.database_bytes = static_cast<double>(history.database_bytes) /
                              static_cast<double>(history.results) *
                              static_cast<double>(to_run);
  return forecast;
}

double WallSeconds(const Forecast& forecast, const std::string& device_kind,
                   uint64_t workers) {
  double shared = 0;
  double training = 0;
  double after = 0;
  double alone = 0;
  for (const StageForecast& stage : forecast.stages) {
    if (stage.device_kind != device_kind) continue;
    shared += stage.seconds / static_cast<double>(workers);
    if (stage.stage == Stage::kTrain) {
      training = stage.longest_seconds;
    } else if (DependsOnTrain(stage.stage)) {
      after = std::max(after, stage.longest_seconds);
    } else {
      alone = std::max(alone, stage.longest_seconds);
    }
  }
  return std::max({shared, training + after, alone});
}

}  // namespace iclsweep
