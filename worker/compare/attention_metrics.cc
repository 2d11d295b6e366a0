#include <cmath>

#include "proto/base/status_macros.h"
#include "worker/compare/metrics.h"
#include "worker/compare/metrics_internal.h"

namespace iclsweep {
namespace {

using metrics_internal::CheckAlike;
using metrics_internal::Difference;
using metrics_internal::Dot;
using metrics_internal::Norm;
using metrics_internal::OverQueries;
using metrics_internal::Ratio;
using metrics_internal::Vector;

constexpr double kTiny = 1e-20;  // added to lengths in the published variants
// An update below this share of |ZSL| is undefined.
constexpr double kRelative = 1e-8;

// 0 where a vector is 0.
double CosineWithTiny(const double* a, const double* b, int64_t n) {
  return Dot(a, b, n) / (Norm(a, n) * Norm(b, n) + kTiny);
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

}  // namespace

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

}  // namespace iclsweep
