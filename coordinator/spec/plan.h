// How much work a sweep is: the distinct jobs of every stage, found by
// projecting the grid onto the axes the stage reads instead of walking its
// cells. It knows nothing of what already exists; the caller looks keys up.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/spec/cells.h"
#include "coordinator/spec/sweep_spec.h"

namespace iclsweep {

struct StagePlan {
  Stage stage = Stage::kTrain;
  uint64_t cells = 0;  // cells that need one of them
  uint64_t jobs = 0;   // distinct keys
};

// One entry per stage of the sweep, in the order of kAllStages.
absl::StatusOr<std::vector<StagePlan>> PlanStages(const SweepSpec& spec);

// Called with each distinct key of the stage once; `depends_on` is empty, the
// keys are given. A status that is not OK ends the walk and is returned.
using JobVisitor = std::function<absl::Status(
    const PlannedJob& job, absl::Span<const JobKey> dependencies)>;
absl::Status ForEachDistinctJob(const SweepSpec& spec, Stage stage,
                                const JobVisitor& visit);

// Called with distinct jobs of the stage and the train job each depends on
// (nullptr: none): at about `most` points, evenly spaced over those that its
// keys are made of, or at all where there are no more.
using SampleVisitor =
    std::function<absl::Status(const PlannedJob& job, const PlannedJob* train)>;
absl::Status SampleJobs(const SweepSpec& spec, Stage stage, uint64_t most,
                        const SampleVisitor& visit);

}  // namespace iclsweep
