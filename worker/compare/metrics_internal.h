// Arithmetic shared by the sources of metrics.h; nobody else's business.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/compare/metrics.h"

namespace iclsweep::metrics_internal {

using Vector = std::vector<double>;

double Dot(const double* a, const double* b, int64_t n);
double Norm(const double* a, int64_t n);
Vector Difference(const double* a, const double* b, int64_t n);

// Nothing for a denominator of 0.
std::optional<double> Ratio(double numerator, double denominator);

// non_finite_input.
absl::Status CheckFinite(const ArrayView& view);
// shape_mismatch, empty_input, non_finite_input.
absl::Status CheckAlike(std::initializer_list<const ArrayView*> views);

// Means of value(offset) per layer and over layers. [L, Q, ...]: `offset` is
// that of the query's first element.
LayerValues OverQueries(
    const ArrayView& view,
    absl::FunctionRef<std::optional<double>(int64_t offset)> value);

}  // namespace iclsweep::metrics_internal
