// How long a job takes, learned from jobs that were measured: seconds = a +
// b * passes + c * flops with a, b, c >= 0, by least squares on relative
// errors, scaled so that the measured total comes out. Deterministic; no clock.
#pragma once

#include <array>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/spec/work.h"

namespace iclsweep {

struct MeasuredJob {
  Work work;
  double seconds = 0;
};

class Rate {
 public:
  // REQUIRES: at least one job.
  explicit Rate(absl::Span<const MeasuredJob> jobs);

  double Seconds(const Work& work) const;
  // What the expected time is multiplied by at the ends of the 90 % interval:
  // the 5 % and 95 % quantiles of measured over expected, further apart by
  // 1 + 1 / sqrt(jobs), since few jobs show little of their spread.
  double low() const { return low_; }
  double high() const { return high_; }
  size_t jobs() const { return jobs_; }
  // Whether jobs of about that much work were measured: within a factor of 3 of
  // the smallest and the largest. Beyond, twice the interval either way is
  // wise.
  bool Covers(const Work& work) const;

 private:
  static std::array<double, 3> Features(const Work& work) {
    return {1, work.passes, work.flops};
  }
  void Fit(absl::Span<const MeasuredJob> jobs);
  void FindInterval(absl::Span<const MeasuredJob> jobs);

  std::array<double, 3> seconds_per_{};  // job, pass, flop
  double low_ = 1;
  double high_ = 1;
  size_t jobs_ = 0;
  double least_flops_ = 0;
  double most_flops_ = 0;
};

}  // namespace iclsweep
