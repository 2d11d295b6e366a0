#include "worker/agent/repeat.h"

#include <algorithm>
#include <utility>

#include "spdlog/spdlog.h"

namespace iclsweep {
namespace {

constexpr int64_t kTellEveryUs = 60'000'000;
constexpr int64_t kLongestPauseUs = 5'000'000;

}  // namespace

Repeat::Repeat(std::string what, const Clock* clock)
    : what_(std::move(what)), clock_(clock) {}

int64_t Repeat::After(const absl::Status& failure) {
  const int64_t now = clock_->MonotonicMicros();
  if (!failing_ || now - told_us_ >= kTellEveryUs) {
    spdlog::warn("cannot {}: {}; trying again", what_,
                 std::string(failure.message()));
    told_us_ = now;
  }
  failing_ = true;
  return std::exchange(pause_us_, std::min(pause_us_ * 2, kLongestPauseUs));
}

void Repeat::Answered() {
  if (std::exchange(failing_, false))
    spdlog::info("the coordinator answers again: could {}", what_);
}

}  // namespace iclsweep
