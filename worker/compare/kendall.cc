#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/status.h"
#include "proto/base/status_macros.h"
#include "worker/compare/metrics.h"
#include "worker/compare/metrics_internal.h"

namespace iclsweep {
namespace {

using metrics_internal::CheckAlike;
using metrics_internal::CheckFinite;
using metrics_internal::Dot;
using metrics_internal::OverQueries;
using metrics_internal::Ratio;
using metrics_internal::Vector;

// Merge-sorts values[begin, end) and returns how many pairs were out of order;
// equal ones are not.
int64_t CountSwaps(std::vector<double>* values, std::vector<double>* scratch,
                   size_t begin, size_t end) {
  if (end - begin < 2) return 0;
  const size_t middle = begin + (end - begin) / 2;
  int64_t swaps = CountSwaps(values, scratch, begin, middle) +
                  CountSwaps(values, scratch, middle, end);
  size_t left = begin;
  size_t right = middle;
  for (size_t out = begin; out < end; ++out) {
    const bool take_right =
        left == middle || (right < end && (*values)[right] < (*values)[left]);
    if (take_right) swaps += static_cast<int64_t>(middle - left);
    (*scratch)[out] = (*values)[take_right ? right++ : left++];
  }
  std::copy(scratch->begin() + static_cast<std::ptrdiff_t>(begin),
            scratch->begin() + static_cast<std::ptrdiff_t>(end),
            values->begin() + static_cast<std::ptrdiff_t>(begin));
  return swaps;
}

// Pairs of equal elements, which must stand together.
int64_t CountTies(size_t n, absl::FunctionRef<bool(size_t, size_t)> equal) {
  int64_t ties = 0;
  int64_t run = 1;
  for (size_t i = 1; i < n; ++i) {
    run = equal(i - 1, i) ? run + 1 : 1;
    ties += run - 1;
  }
  return ties;
}

double RoundForRanking(double value) {
  return std::nearbyint(value * 1e10) / 1e10;
}

}  // namespace

absl::StatusOr<KendallTau> Kendall(const std::vector<double>& x,
                                   const std::vector<double>& y) {
  if (x.size() != y.size())
    return absl::InvalidArgumentError("length_mismatch");
  RETURN_IF_ERROR(CheckFinite({x.data(), {static_cast<int64_t>(x.size())}}));
  RETURN_IF_ERROR(CheckFinite({y.data(), {static_cast<int64_t>(y.size())}}));
  const size_t n = x.size();
  KendallTau tau;
  if (n < 2) return tau;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return x[a] != x[b] ? x[a] < x[b] : y[a] < y[b];
  });
  const auto same_x = [&](size_t a, size_t b) {
    return x[order[a]] == x[order[b]];
  };
  const int64_t ties_x = CountTies(n, same_x);
  const int64_t ties_both = CountTies(n, [&](size_t a, size_t b) {
    return same_x(a, b) && y[order[a]] == y[order[b]];
  });
  std::vector<double> sorted(n);
  for (size_t i = 0; i < n; ++i) sorted[i] = y[order[i]];
  std::vector<double> scratch(n);
  const int64_t discordant = CountSwaps(&sorted, &scratch, 0, n);
  const int64_t ties_y =
      CountTies(n, [&](size_t a, size_t b) { return sorted[a] == sorted[b]; });
  const auto pairs = static_cast<int64_t>(n * (n - 1) / 2);
  const auto difference =
      static_cast<double>(pairs - ties_x - ties_y + ties_both - 2 * discordant);
  tau.tau_a = difference / static_cast<double>(pairs);
  const double untied_x = static_cast<double>(pairs - ties_x);
  const double untied_y = static_cast<double>(pairs - ties_y);
  tau.tau_b = Ratio(difference, std::sqrt(untied_x * untied_y));
  return tau;
}

absl::StatusOr<LayerValues> KendallDemo(const ArrayView& icl,
                                        const ArrayView& ft) {
  RETURN_IF_ERROR(CheckAlike({&icl, &ft}));
  const int64_t tokens = icl.shape[2];
  return OverQueries(icl, [&](int64_t offset) -> std::optional<double> {
    const double* a = icl.data + offset;
    const double* b = ft.data + offset;
    return Kendall({a, a + tokens}, {b, b + tokens})
        ->tau_b;  // alike and finite: checked above
  });
}

std::vector<double> DemoScoresIcl(const ArrayView& logits) {
  const int64_t heads = logits.shape[2];
  const int64_t tokens = logits.shape[3];
  Vector scores(static_cast<size_t>(logits.size() / heads));
  for (size_t i = 0; i < scores.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / tokens;
    const int64_t token = static_cast<int64_t>(i) % tokens;
    double sum = 0;
    for (int64_t h = 0; h < heads; ++h)
      sum += logits.data[(row * heads + h) * tokens + token];
    scores[i] = RoundForRanking(sum);
  }
  return scores;
}

std::vector<double> DemoScoresFt(const ArrayView& train,
                                 const ArrayView& query) {
  const int64_t width = train.shape[2];
  Vector scores;
  for (int64_t l = 0; l < query.shape[0]; ++l) {
    for (int64_t q = 0; q < query.shape[1]; ++q) {
      for (int64_t n = 0; n < train.shape[1]; ++n) {
        scores.push_back(RoundForRanking(
            Dot(train.data + (l * train.shape[1] + n) * width,
                query.data + (l * query.shape[1] + q) * width, width)));
      }
    }
  }
  return scores;
}

}  // namespace iclsweep
