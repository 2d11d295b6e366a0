#include "worker/tasks/baselines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace iclsweep {
namespace {

double Dot(const double* a, const double* b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// A column-major matrix of `rows` x `columns`.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;

  Matrix(int64_t r, int64_t c)
      : rows(r), columns(c), values(static_cast<size_t>(r * c), 0.0) {}
  double* Column(int64_t j) { return &values[static_cast<size_t>(j * rows)]; }
};

// I - beta v v', with v on entries from .. rows-1; v lives in the column it
// eliminated, the diagonal of R beside it.
struct Reflector {
  double beta = 0;      // 0: the identity
  double diagonal = 0;  // R's entry
};

// Turns `column` from entry `from` on into (diagonal, 0, ..., 0); leaves v in
// its place.
Reflector Eliminate(double* column, int64_t from, int64_t rows) {
  const double norm = std::sqrt(Dot(column + from, column + from, rows - from));
  if (norm == 0) return {};
  const double diagonal = column[from] > 0 ? -norm : norm;
  column[from] -= diagonal;
  return {1 / (-diagonal * column[from]), diagonal};
}

void Reflect(const Reflector& reflector, const double* v, int64_t from,
             int64_t rows, double* column) {
  const double along =
      reflector.beta * Dot(v + from, column + from, rows - from);
  for (int64_t i = from; i < rows; ++i) column[i] -= along * v[i];
}

// Householder QR with column pivoting of `a`, applied to `b` as well.
struct PivotedQr {
  std::vector<double> diagonal;  // of R, [rank]; R's other entries are above
                                 // the diagonal of `a`
  std::vector<int64_t>
      pivot;  // column j of R belongs to column pivot[j] of the input
  int64_t Rank() const { return static_cast<int64_t>(diagonal.size()); }
};

PivotedQr Factor(double cut, Matrix* a, std::vector<double>* b) {
  PivotedQr qr;
  qr.pivot.resize(static_cast<size_t>(a->columns));
  std::iota(qr.pivot.begin(), qr.pivot.end(), 0);
  for (int64_t k = 0; k < std::min(a->rows, a->columns); ++k) {
    int64_t best = k;
    double largest = -1;
    for (int64_t j = k; j < a->columns; ++j) {
      const double rest = Dot(a->Column(j) + k, a->Column(j) + k, a->rows - k);
      if (rest > largest) {
        largest = rest;
        best = j;
      }
    }
    const double size = std::sqrt(std::max(largest, 0.0));
    if (size == 0 || (k > 0 && size <= cut * std::fabs(qr.diagonal[0]))) break;
    if (best != k) {
      std::swap_ranges(a->Column(k), a->Column(k) + a->rows, a->Column(best));
      std::swap(qr.pivot[static_cast<size_t>(k)],
                qr.pivot[static_cast<size_t>(best)]);
    }
    const Reflector reflector = Eliminate(a->Column(k), k, a->rows);
    for (int64_t j = k + 1; j < a->columns; ++j)
      Reflect(reflector, a->Column(k), k, a->rows, a->Column(j));
    Reflect(reflector, a->Column(k), k, a->rows, b->data());
    qr.diagonal.push_back(reflector.diagonal);
  }
  return qr;
}

// Solves R z = c for an upper triangular R of full rank.
std::vector<double> BackSubstitute(const PivotedQr& qr, Matrix* a,
                                   std::vector<double> c) {
  for (int64_t k = qr.Rank(); k-- > 0;) {
    c[static_cast<size_t>(k)] /= qr.diagonal[static_cast<size_t>(k)];
    for (int64_t i = 0; i < k; ++i)
      c[static_cast<size_t>(i)] -= a->Column(k)[i] * c[static_cast<size_t>(k)];
  }
  c.resize(static_cast<size_t>(qr.Rank()));
  return c;
}

// Minimum-norm z with (R11 R12) z = c: the transpose is Q2 U, so z = Q2 (U'^-1
// c, 0).
std::vector<double> MinimumNorm(const PivotedQr& qr, Matrix* a,
                                const std::vector<double>& c) {
  const int64_t rank = qr.Rank();
  Matrix transposed(a->columns, rank);
  for (int64_t k = 0; k < rank; ++k) {
    transposed.Column(k)[k] = qr.diagonal[static_cast<size_t>(k)];
    for (int64_t j = k + 1; j < a->columns; ++j)
      transposed.Column(k)[j] = a->Column(j)[k];
  }
  std::vector<Reflector> reflectors;
  std::vector<double> z(static_cast<size_t>(a->columns), 0.0);
  for (int64_t k = 0; k < rank; ++k) {
    reflectors.push_back(Eliminate(transposed.Column(k), k, transposed.rows));
    for (int64_t j = k + 1; j < rank; ++j) {
      Reflect(reflectors.back(), transposed.Column(k), k, transposed.rows,
              transposed.Column(j));
    }
    const double known = Dot(transposed.Column(k), z.data(), k);
    z[static_cast<size_t>(k)] =
        (c[static_cast<size_t>(k)] - known) / reflectors.back().diagonal;
  }
  for (int64_t k = rank; k-- > 0;) {
    Reflect(reflectors[static_cast<size_t>(k)], transposed.Column(k), k,
            transposed.rows, z.data());
  }
  return z;
}

// Minimum-norm least squares of a w = b.
std::vector<double> Solve(Matrix a, std::vector<double> b, double cut) {
  const PivotedQr qr = Factor(cut, &a, &b);
  std::vector<double> w(static_cast<size_t>(a.columns), 0.0);
  if (qr.Rank() == 0) return w;
  const std::vector<double> z = qr.Rank() == a.columns
                                    ? BackSubstitute(qr, &a, std::move(b))
                                    : MinimumNorm(qr, &a, b);
  for (size_t j = 0; j < w.size(); ++j)
    w[static_cast<size_t>(qr.pivot[j])] = z[j];
  return w;
}

}  // namespace

std::vector<double> LeastSquaresWeights(const Examples& context) {
  return RidgeWeights(context, 0);
}

std::vector<double> RidgeWeights(const Examples& context, double lambda) {
  const int64_t dims = context.dims;
  // Ridge is least squares with dims more rows, sqrt(lambda) I w = 0: no
  // squared condition number.
  const int64_t rows = context.count + (lambda > 0 ? dims : 0);
  if (context.count == 0)
    return std::vector<double>(static_cast<size_t>(dims), 0.0);
  Matrix a(rows, dims);
  std::vector<double> b(static_cast<size_t>(rows), 0.0);
  std::copy(context.labels, context.labels + context.count, b.begin());
  for (int64_t j = 0; j < dims; ++j) {
    for (int64_t i = 0; i < context.count; ++i)
      a.Column(j)[i] = context.inputs[i * dims + j];
    if (lambda > 0) a.Column(j)[context.count + j] = std::sqrt(lambda);
  }
  const double cut = std::numeric_limits<double>::epsilon() *
                     static_cast<double>(std::max(rows, dims));
  return Solve(std::move(a), std::move(b), cut);
}

std::vector<double> AveragingWeights(const Examples& context) {
  std::vector<double> w(static_cast<size_t>(context.dims), 0.0);
  for (int64_t i = 0; i < context.count; ++i) {
    for (int64_t j = 0; j < context.dims; ++j)
      w[static_cast<size_t>(j)] +=
          context.inputs[i * context.dims + j] * context.labels[i];
  }
  for (double& value : w)
    value /= static_cast<double>(std::max<int64_t>(context.count, 1));
  return w;
}

double NearestThree(const Examples& context, const double* query) {
  std::vector<std::pair<double, int64_t>> near;  // squared distance, example
  for (int64_t i = 0; i < context.count; ++i) {
    double distance = 0;
    for (int64_t j = 0; j < context.dims; ++j) {
      const double difference = context.inputs[i * context.dims + j] - query[j];
      distance += difference * difference;
    }
    near.emplace_back(distance, i);
  }
  if (near.empty()) return 0;
  const int64_t kept = std::min<int64_t>(3, context.count);
  std::partial_sort(near.begin(), near.begin() + kept, near.end());
  double sum = 0;
  for (int64_t i = 0; i < kept; ++i)
    sum += context.labels[near[static_cast<size_t>(i)].second];
  return sum / static_cast<double>(kept);
}

QueryPredictions PredictQueries(const OrderedPrompt& prompt, ContextRule rule) {
  const auto tasks = static_cast<size_t>(prompt.tasks);
  const int64_t examples = prompt.examples;
  const int64_t dims = prompt.dims;
  QueryPredictions predictions{std::vector<double>(tasks),
                               std::vector<double>(tasks),
                               std::vector<double>(tasks)};
  for (int64_t s = 0; s < prompt.tasks; ++s) {
    const double* query = &prompt.queries[static_cast<size_t>(s * dims)];
    const double* own_inputs =
        &prompt.inputs[static_cast<size_t>(s * examples * dims)];
    const double* own_labels =
        &prompt.labels[static_cast<size_t>(s * examples)];
    const auto at = static_cast<size_t>(s);
    rule({own_inputs, own_labels, examples, prompt.dims}, query, 1,
         &predictions.single[at]);
    const Examples seen{prompt.inputs.data(), prompt.labels.data(),
                        (s + 1) * examples, prompt.dims};
    if (s + 1 == prompt.tasks) {
      rule(seen, prompt.queries.data(), prompt.tasks, predictions.last.data());
      predictions.own[at] = predictions.last[at];
    } else if (s == 0) {
      predictions.own[at] = predictions.single[at];  // the same context
    } else {
      rule(seen, query, 1, &predictions.own[at]);
    }
  }
  return predictions;
}

void PredictLinear(const std::vector<double>& weights, const double* queries,
                   int64_t count, double* out) {
  const auto dims = static_cast<int64_t>(weights.size());
  for (int64_t q = 0; q < count; ++q)
    out[q] = Dot(weights.data(), queries + q * dims, dims);
}

}  // namespace iclsweep
