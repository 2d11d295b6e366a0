#include "worker/compare/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

constexpr double kTiny = 1e-20;  // added to lengths in the published variants
constexpr double kRelative =
    1e-8;  // an update below this share of |ZSL| is undefined

using Vector = std::vector<double>;

double Dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

double Norm(const double* a, int64_t n) { return std::sqrt(Dot(a, a, n)); }

Vector Difference(const double* a, const double* b, int64_t n) {
  Vector d(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) d[static_cast<size_t>(i)] = a[i] - b[i];
  return d;
}

// 0 where a vector is 0.
double CosineWithTiny(const double* a, const double* b, int64_t n) {
  return Dot(a, b, n) / (Norm(a, n) * Norm(b, n) + kTiny);
}

absl::Status CheckFinite(const ArrayView& view) {
  const bool finite = std::all_of(view.data, view.data + view.size(),
                                  [](double v) { return std::isfinite(v); });
  return finite ? absl::OkStatus()
                : absl::InvalidArgumentError("non_finite_input");
}

absl::Status CheckAlike(std::initializer_list<const ArrayView*> views) {
  const ArrayView& first = **views.begin();
  for (const ArrayView* view : views) {
    if (view->shape != first.shape)
      return absl::InvalidArgumentError("shape_mismatch");
  }
  if (first.size() == 0) return absl::InvalidArgumentError("empty_input");
  for (const ArrayView* view : views) RETURN_IF_ERROR(CheckFinite(*view));
  return absl::OkStatus();
}

// Means of value(offset) per layer and over layers. [L, Q, ...]: `offset` is
// that of the query's first element.
LayerValues OverQueries(
    const ArrayView& view,
    absl::FunctionRef<std::optional<double>(int64_t offset)> value) {
  const int64_t layers = view.shape[0];
  const int64_t queries = view.shape[1];
  const int64_t stride = view.size() / (layers * queries);
  LayerValues result;
  double layer_sum = 0;
  int64_t layers_defined = 0;
  for (int64_t l = 0; l < layers; ++l) {
    double sum = 0;
    int64_t defined = 0;
    for (int64_t q = 0; q < queries; ++q) {
      const std::optional<double> v = value((l * queries + q) * stride);
      if (!v) continue;
      sum += *v;
      ++defined;
    }
    result.undefined_per_layer.push_back(queries - defined);
    result.per_layer.push_back(
        defined > 0 ? std::optional<double>(sum / static_cast<double>(defined))
                    : std::nullopt);
    if (defined == 0) continue;
    layer_sum += *result.per_layer.back();
    ++layers_defined;
  }
  if (layers_defined > 0)
    result.overall = layer_sum / static_cast<double>(layers_defined);
  return result;
}

// The updates of one query and the length of its zero-shot state.
struct Updates {
  Vector icl, ft;
  double icl_norm = 0, ft_norm = 0, zsl_norm = 0;
};

Updates UpdatesAt(const AttentionOutputs& h, int64_t offset) {
  const int64_t width = h.zsl.shape[2];
  Updates u{Difference(h.icl.data + offset, h.zsl.data + offset, width),
            Difference(h.ft.data + offset, h.zsl.data + offset, width)};
  u.icl_norm = Norm(u.icl.data(), width);
  u.ft_norm = Norm(u.ft.data(), width);
  u.zsl_norm = Norm(h.zsl.data + offset, width);
  return u;
}

absl::StatusOr<LayerValues> OverUpdates(
    const AttentionOutputs& h,
    absl::FunctionRef<std::optional<double>(const Updates&)> value) {
  RETURN_IF_ERROR(CheckAlike({&h.zsl, &h.icl, &h.ft}));
  return OverQueries(
      h.zsl, [&](int64_t offset) { return value(UpdatesAt(h, offset)); });
}

double NullOf(const Updates& u) {
  const auto shrink = [&](double norm) {
    const double rho = norm / u.zsl_norm;
    return 1 - 1 / std::sqrt(1 + rho * rho);
  };
  return 0.5 * std::sqrt(shrink(u.icl_norm) * shrink(u.ft_norm));
}

Vector Normalised(const double* a, int64_t n) {
  const double length = Norm(a, n) + kTiny;
  Vector u(a, a + n);
  for (double& v : u) v /= length;
  return u;
}

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

std::optional<double> Ratio(double numerator, double denominator) {
  if (denominator == 0) return std::nullopt;
  return numerator / denominator;
}

}  // namespace

int64_t ArrayView::size() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         [](int64_t a, int64_t b) { return a * b; });
}

int64_t LayerValues::undefined() const {
  return std::accumulate(undefined_per_layer.begin(), undefined_per_layer.end(),
                         int64_t{0});
}

absl::StatusOr<LayerValues> SimaouRaw(const AttentionOutputs& h) {
  return OverUpdates(h, [](const Updates& u) -> std::optional<double> {
    const double least = kRelative * u.zsl_norm;
    if (u.icl_norm <= least || u.ft_norm <= least) return std::nullopt;
    return Dot(u.icl.data(), u.ft.data(), static_cast<int64_t>(u.icl.size())) /
           (u.icl_norm * u.ft_norm);
  });
}

absl::StatusOr<LayerValues> SimaouNorm(const AttentionOutputs& h) {
  RETURN_IF_ERROR(CheckAlike({&h.zsl, &h.icl, &h.ft}));
  const int64_t width = h.zsl.shape[2];
  return OverQueries(h.zsl, [&](int64_t offset) -> std::optional<double> {
    const Vector zsl = Normalised(h.zsl.data + offset, width);
    const Vector icl = Difference(Normalised(h.icl.data + offset, width).data(),
                                  zsl.data(), width);
    const Vector ft = Difference(Normalised(h.ft.data + offset, width).data(),
                                 zsl.data(), width);
    return CosineWithTiny(icl.data(), ft.data(), width);
  });
}

absl::StatusOr<LayerValues> SimaouNull(const AttentionOutputs& h) {
  return OverUpdates(h, [](const Updates& u) -> std::optional<double> {
    if (u.zsl_norm == 0) return std::nullopt;
    return NullOf(u);
  });
}

absl::StatusOr<LayerValues> SimaouNormExcess(const AttentionOutputs& h) {
  ASSIGN_OR_RETURN(LayerValues excess, SimaouNorm(h));
  ASSIGN_OR_RETURN(const LayerValues null, SimaouNull(h));
  for (size_t l = 0; l < excess.per_layer.size(); ++l) {
    if (!null.per_layer[l]) {
      excess.per_layer[l].reset();
    } else {
      *excess.per_layer[l] -= *null.per_layer[l];
    }
  }
  excess.undefined_per_layer = null.undefined_per_layer;
  double sum = 0;
  double defined = 0;
  for (const std::optional<double>& value : excess.per_layer) {
    sum += value.value_or(0);
    defined += value ? 1 : 0;
  }
  excess.overall = Ratio(sum, defined);
  return excess;
}

absl::StatusOr<LayerValues> UpdateNormRatio(const AttentionOutputs& h) {
  return OverUpdates(
      h, [](const Updates& u) { return Ratio(u.ft_norm, u.icl_norm); });
}

absl::StatusOr<LayerValues> Simam(const ArrayView& a, const ArrayView& b) {
  RETURN_IF_ERROR(CheckAlike({&a, &b}));
  const int64_t heads = a.shape[2];
  const int64_t positions = a.shape[3];
  return OverQueries(a, [&](int64_t offset) -> std::optional<double> {
    double sum = 0;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = offset + h * positions;
      sum += CosineWithTiny(a.data + at, b.data + at, positions);
    }
    return sum / static_cast<double>(heads);
  });
}

absl::StatusOr<LayerValues> SimamDelta(const ArrayView& a, const ArrayView& b,
                                       const ArrayView& zero) {
  RETURN_IF_ERROR(CheckAlike({&a, &b, &zero}));
  const Vector da = Difference(a.data, zero.data, a.size());
  const Vector db = Difference(b.data, zero.data, b.size());
  return Simam({da.data(), a.shape}, {db.data(), b.shape});
}

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
