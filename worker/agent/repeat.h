// A call that is repeated until it is answered.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/base/clock.h"

namespace iclsweep {

// Says how long to wait, 0.2, 0.4, ... 5 seconds, and logs the first failure,
// one a minute, and the end of it. Not thread-safe.
class Repeat {
 public:
  // "cannot <what>: ..."; `clock` must outlive it.
  Repeat(std::string what, const Clock* clock);
  // Micros until the next try.
  int64_t After(const absl::Status& failure);
  void Answered();

 private:
  const std::string what_;
  const Clock* const clock_;
  bool failing_ = false;
  int64_t told_us_ = 0;
  int64_t pause_us_ = 200'000;
};

}  // namespace iclsweep
