// What each cause of a failed attempt costs. Every cause has its own budget, so
// that a scale-down does not use up what is meant for program errors, and a job
// that kills every worker it meets still ends.
#pragma once

#include <array>
#include <cstdint>

#include "proto/base/domain.h"

namespace iclsweep {

class RetryBudgets {
 public:
  // Not the job's doing, whatever it is.
  static bool IsFree(Cause cause) {
    return cause == Cause::kUndelivered || cause == Cause::kPreempted ||
           cause == Cause::kDrained;
  }

  // Counts one failure of that cause; true when the job may run again.
  bool Charge(Cause cause, uint32_t max_attempts) {
    uint32_t& spent = spent_[static_cast<size_t>(cause)];
    ++spent;
    switch (cause) {
      case Cause::kInvalid:
      case Cause::kOutOfMemory:
        return false;  // the same inputs would fail the same way
      default:
        return IsFree(cause) || spent < max_attempts;
    }
  }

  // A published partial checkpoint is progress: what killed the job before it
  // does not count any more.
  void Checkpointed() {
    spent_[static_cast<size_t>(Cause::kCrashed)] = 0;
    spent_[static_cast<size_t>(Cause::kLost)] = 0;
  }

  void Restore(Cause cause, uint32_t spent) {
    spent_[static_cast<size_t>(cause)] = spent;
  }
  uint32_t spent(Cause cause) const {
    return spent_[static_cast<size_t>(cause)];
  }

 private:
  std::array<uint32_t, 11> spent_{};
};

}  // namespace iclsweep
