#include <algorithm>
#include <cmath>
#include <numeric>

#include "proto/base/status_macros.h"
#include "worker/compare/metrics_internal.h"

namespace iclsweep {

int64_t ArrayView::size() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         [](int64_t a, int64_t b) { return a * b; });
}

int64_t LayerValues::Undefined() const {
  return std::accumulate(undefined_per_layer.begin(), undefined_per_layer.end(),
                         int64_t{0});
}

namespace metrics_internal {

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

std::optional<double> Ratio(double numerator, double denominator) {
  if (denominator == 0) return std::nullopt;
  return numerator / denominator;
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

}  // namespace metrics_internal
}  // namespace iclsweep
