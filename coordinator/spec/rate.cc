#include "coordinator/spec/rate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace iclsweep {
namespace {

constexpr size_t kFeatures = 3;
constexpr double kShortest = 1e-6;  // what clocks tell apart
using Vector = std::array<double, kFeatures>;

double SecondsOf(const MeasuredJob& job) {
  return std::max(job.seconds, kShortest);
}

// Minimises |1 - A x|^2 over x >= 0, given A'A and A'1, one coordinate after
// another. Where several do equally well the last one, flops, explains all: of
// jobs of one size nobody knows better.
Vector NonNegativeLeastSquares(const std::array<Vector, kFeatures>& gram,
                               const Vector& target) {
  constexpr int most_rounds = 10'000;
  Vector x{};
  for (int round = 0; round < most_rounds; ++round) {
    double change = 0;
    for (size_t j = kFeatures; j-- > 0;) {
      if (gram.at(j).at(j) <= 0) continue;
      double rest = target.at(j);
      for (size_t k = 0; k < kFeatures; ++k)
        if (k != j) rest -= gram.at(j).at(k) * x.at(k);
      const double next = std::max(0.0, rest / gram.at(j).at(j));
      change = std::max(change, std::abs(next - x.at(j)));
      x.at(j) = next;
    }
    if (change < 1e-12) break;
  }
  return x;
}

double Quantile(std::vector<double> sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  const double part = at - static_cast<double>(low);
  return (1 - part) * sorted[low] + part * sorted[high];
}

}  // namespace

Rate::Rate(absl::Span<const MeasuredJob> jobs) : jobs_(jobs.size()) {
  Fit(jobs);
  FindInterval(jobs);
  const auto [least, most] = std::minmax_element(
      jobs.begin(), jobs.end(), [](const MeasuredJob& a, const MeasuredJob& b) {
        return a.work.flops < b.work.flops;
      });
  least_flops_ = least->work.flops;
  most_flops_ = most->work.flops;
}

void Rate::Fit(absl::Span<const MeasuredJob> jobs) {
  // Columns are scaled to the same size, so that one bound on the change fits
  // all.
  Vector scale{};
  for (const MeasuredJob& job : jobs) {
    const Vector features = Features(job.work);
    for (size_t j = 0; j < kFeatures; ++j)
      scale.at(j) = std::max(scale.at(j), features.at(j) / SecondsOf(job));
  }
  std::array<Vector, kFeatures> gram{};
  Vector target{};
  for (const MeasuredJob& job : jobs) {
    Vector row = Features(job.work);
    for (size_t j = 0; j < kFeatures; ++j)
      row.at(j) =
          scale.at(j) > 0 ? row.at(j) / SecondsOf(job) / scale.at(j) : 0;
    for (size_t j = 0; j < kFeatures; ++j) {
      target.at(j) += row.at(j);
      for (size_t k = 0; k < kFeatures; ++k)
        gram.at(j).at(k) += row.at(j) * row.at(k);
    }
  }
  seconds_per_ = NonNegativeLeastSquares(gram, target);
  for (size_t j = 0; j < kFeatures; ++j)
    if (scale.at(j) > 0) seconds_per_.at(j) /= scale.at(j);
  double measured = 0;
  double expected = 0;
  for (const MeasuredJob& job : jobs) {
    measured += SecondsOf(job);
    expected += Seconds(job.work);
  }
  for (double& seconds : seconds_per_) seconds *= measured / expected;
}

void Rate::FindInterval(absl::Span<const MeasuredJob> jobs) {
  std::vector<double> ratios;
  ratios.reserve(jobs.size());
  for (const MeasuredJob& job : jobs)
    ratios.push_back(SecondsOf(job) / Seconds(job.work));
  std::sort(ratios.begin(), ratios.end());
  const double wider = 1 + 1 / std::sqrt(static_cast<double>(jobs.size()));
  low_ = std::min(1.0, Quantile(ratios, 0.05)) / wider;
  high_ = std::max(1.0, Quantile(ratios, 0.95)) * wider;
}

double Rate::Seconds(const Work& work) const {
  const Vector features = Features(work);
  double seconds = 0;
  for (size_t j = 0; j < kFeatures; ++j)
    seconds += seconds_per_.at(j) * features.at(j);
  return seconds;
}

bool Rate::Covers(const Work& work) const {
  return work.flops >= least_flops_ / 3 && work.flops <= most_flops_ * 3;
}

}  // namespace iclsweep
