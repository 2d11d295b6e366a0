#include <cmath>
#include <numeric>

#include "proto/base/status_macros.h"
#include "worker/compare/metrics.h"
#include "worker/compare/metrics_internal.h"

namespace iclsweep {
namespace {

using metrics_internal::CheckAlike;
using metrics_internal::Difference;
using metrics_internal::Dot;
using metrics_internal::Ratio;
using metrics_internal::Vector;

}  // namespace

absl::StatusOr<ImprovementCounts> CountImprovements(const Predictions& f,
                                                    double improvement) {
  RETURN_IF_ERROR(CheckAlike({&f.zsl, &f.ft, &f.icl, &f.label}));
  const int64_t n = f.label.size();
  const double mean = std::accumulate(f.label.data, f.label.data + n, 0.0) /
                      static_cast<double>(n);
  double variance = 0;
  for (int64_t i = 0; i < n; ++i)
    variance += (f.label.data[i] - mean) * (f.label.data[i] - mean) /
                static_cast<double>(n);
  const auto error = [&](const ArrayView& view, int64_t i) {
    const double d = view.data[i] - f.label.data[i];
    return d * d;
  };
  ImprovementCounts counts;
  const int64_t queries = f.label.shape[1];
  for (int64_t r = 0; r < f.label.shape[0]; ++r) {
    for (auto* sums : {&counts.ft, &counts.icl, &counts.both, &counts.kept})
      sums->push_back(0);
    for (int64_t i = r * queries; i < (r + 1) * queries; ++i) {
      const double zsl = error(f.zsl, i);
      if (zsl < 0.01 * variance) {
        ++counts.excluded;
        continue;
      }
      const bool ft = error(f.ft, i) <= (1 - improvement) * zsl;
      const bool icl = error(f.icl, i) <= (1 - improvement) * zsl;
      ++counts.kept.back();
      counts.ft.back() += ft ? 1 : 0;
      counts.icl.back() += icl ? 1 : 0;
      counts.both.back() += ft && icl ? 1 : 0;
    }
  }
  return counts;
}

Recovery RecoveryOf(const ImprovementCounts& counts, int64_t without) {
  const auto total = [&](const std::vector<int64_t>& sums) {
    const int64_t all = std::accumulate(sums.begin(), sums.end(), int64_t{0});
    return static_cast<double>(
        without < 0 ? all : all - sums[static_cast<size_t>(without)]);
  };
  Recovery recovery;
  recovery.rec2ftp = Ratio(total(counts.both), total(counts.ft));
  recovery.base_rate = Ratio(total(counts.icl), total(counts.kept));
  if (recovery.rec2ftp && recovery.base_rate)
    recovery.lift = Ratio(*recovery.rec2ftp, *recovery.base_rate);
  return recovery;
}

std::vector<double> SignedAgreement(const Predictions& f) {
  Vector agreement;
  const int64_t queries = f.label.shape[1];
  for (int64_t r = 0; r < f.label.shape[0]; ++r) {
    int64_t agree = 0;
    for (int64_t i = r * queries; i < (r + 1) * queries; ++i) {
      agree +=
          (f.icl.data[i] - f.zsl.data[i]) * (f.ft.data[i] - f.zsl.data[i]) > 0
              ? 1
              : 0;
    }
    agreement.push_back(static_cast<double>(agree) /
                        static_cast<double>(queries));
  }
  return agreement;
}

std::vector<std::optional<double>> FunctionUpdateCosine(const Predictions& f) {
  std::vector<std::optional<double>> cosines;
  const int64_t queries = f.label.shape[1];
  for (int64_t r = 0; r < f.label.shape[0]; ++r) {
    const int64_t at = r * queries;
    const Vector icl = Difference(f.icl.data + at, f.zsl.data + at, queries);
    const Vector ft = Difference(f.ft.data + at, f.zsl.data + at, queries);
    cosines.push_back(Ratio(Dot(icl.data(), ft.data(), queries),
                            std::sqrt(Dot(icl.data(), icl.data(), queries) *
                                      Dot(ft.data(), ft.data(), queries))));
  }
  return cosines;
}

std::optional<double> RelativePredictionDistance(const ArrayView& a,
                                                 const ArrayView& b,
                                                 int64_t without) {
  const int64_t queries = a.shape[1];
  const auto left_out = [&](int64_t i) { return i / queries == without; };
  double count = 0;
  double mean = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    if (left_out(i)) continue;
    count += 1;
    mean += b.data[i];
  }
  if (count == 0) return std::nullopt;
  mean /= count;
  double distance = 0;
  double spread = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    if (left_out(i)) continue;
    distance += (a.data[i] - b.data[i]) * (a.data[i] - b.data[i]);
    spread += (b.data[i] - mean) * (b.data[i] - mean);
  }
  return Ratio(distance, spread);
}

double JackknifeStandardError(const std::vector<double>& left_out) {
  const auto n = static_cast<double>(left_out.size());
  const double mean =
      std::accumulate(left_out.begin(), left_out.end(), 0.0) / n;
  double squares = 0;
  for (const double value : left_out)
    squares += (value - mean) * (value - mean);
  return std::sqrt((n - 1) / n * squares);
}

}  // namespace iclsweep
