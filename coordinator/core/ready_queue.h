// The ready jobs of one sweep, each in order of its id, which is the order in
// which the sweep's cells name them. Kept apart by stage and by the job whose
// result they read (their parent), so that a worker can be given what fits the
// checkpoint it has loaded.
//
// A job may have left the ready state through another sweep that wants it too:
// such entries stay until they would be handed out, which the caller's test
// sorts out. So an entry costs 8 bytes, and cancelling a sweep touches none.
//
// Deterministic; not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "proto/base/domain.h"

namespace iclsweep {

class ReadyQueue {
 public:
  // Jobs that may be leased together.
  struct Family {
    Stage stage = Stage::kTrain;
    JobId parent;  // 0 = they read no other job's result
  };
  using IsReady = absl::FunctionRef<bool(JobId)>;

  void Push(const Family& family, JobId job);

  // The family of the first job that a worker of these stages (bits, StageBit)
  // may run, or of its first job with that parent when there is one; nullopt
  // when there is none. Drops entries that are not ready any more.
  std::optional<Family> First(uint32_t stages, JobId preferred_parent,
                              IsReady is_ready);
  // The family's first ready job, taken out; 0 when there is none (left).
  JobId Pop(const Family& family, IsReady is_ready);

 private:
  using Heap = std::vector<JobId>;  // the lowest id first
  struct StageJobs {
    std::map<JobId, Heap> by_parent;
    std::set<std::pair<JobId, JobId>> firsts;  // (first job, parent)
  };

  StageJobs* Of(Stage stage) { return &stages_[static_cast<size_t>(stage)]; }
  // Takes the first entry of a heap out.
  void Drop(StageJobs* jobs, std::map<JobId, Heap>::iterator heap);
  // The first ready entry of the stage, of `parent` if that is not 0.
  JobId FirstOf(StageJobs* jobs, JobId parent, IsReady is_ready);
  JobId FirstOfAny(StageJobs* jobs, IsReady is_ready, JobId* parent);

  std::array<StageJobs, kStageNumbers> stages_;
};

}  // namespace iclsweep
