#include "worker/stages.h"

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "worker/compare/run.h"
#include "worker/evaluate/run.h"
#include "worker/theory/run.h"
#include "worker/train/run.h"

namespace iclsweep {
namespace {

// For benchmarks and tests of everything around a stage.
absl::StatusOr<StageResult> Noop(const v1::NoopInputs& inputs,
                                 const StageContext& context) {
  if (inputs.noop().microseconds() > 0)
    RealClock()->SleepMicros(inputs.noop().microseconds());
  context.Progress(1, 1, 1);
  StageResult result;
  Measurement m;
  m.predictor = "noop";
  m.name = "index";
  m.value = static_cast<double>(inputs.noop().index());
  result.measurements.push_back(m);
  return result;
}

}  // namespace

absl::StatusOr<StageResult> RunStage(const v1::LeasedJob& job,
                                     const StageContext& context,
                                     Checkpoints* checkpoints) {
  switch (job.inputs_case()) {
    case v1::LeasedJob::kTrain:
      return Train(job.train(), context);
    case v1::LeasedJob::kEvaluate:
      return Evaluate(job.evaluate(), context, checkpoints);
    case v1::LeasedJob::kCompare:
      return Compare(job.compare(), context, checkpoints);
    case v1::LeasedJob::kTheory:
      return RunTheory(job.theory(), context);
    case v1::LeasedJob::kNoop:
      return Noop(job.noop(), context);
    case v1::LeasedJob::INPUTS_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("job ", job.job_id(), ": has no inputs"));
}

}  // namespace iclsweep
