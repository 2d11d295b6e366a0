#include "worker/tasks/lasso.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace iclsweep {
namespace {

constexpr int kMostRounds = 10'000;
// Of a diagonal entry: pivots below are those of a singular matrix.
constexpr double kSingular = 1e-13;

int SignOf(double x) { return (x > 0) - (x < 0); }

// L of L L' = a symmetric matrix of `size` rows, until row `rank`, where the
// matrix turns out to be singular (rank = size: it is not). Row `rank` holds
// L^-1 of the matrix's row.
struct Cholesky {
  size_t size = 0;
  size_t rank = 0;
  std::vector<double> rows;  // [size][size]
  double At(size_t i, size_t j) const { return rows[i * size + j]; }
};

// The first entries of b in place: by L^-1, by L'^-1.
void SolveLower(const Cholesky& l, std::vector<double>* b) {
  for (size_t i = 0; i < l.rank; ++i) {
    for (size_t k = 0; k < i; ++k) (*b)[i] -= l.At(i, k) * (*b)[k];
    (*b)[i] /= l.At(i, i);
  }
}
void SolveUpper(const Cholesky& l, std::vector<double>* b) {
  for (size_t i = l.rank; i-- > 0;) {
    for (size_t k = i + 1; k < l.rank; ++k) (*b)[i] -= l.At(k, i) * (*b)[k];
    (*b)[i] /= l.At(i, i);
  }
}

// A way to go from w, on the coordinates `active`.
struct Move {
  std::vector<double> direction;  // [active]
  double longest = 1;             // infinite: until a weight becomes 0
};

// The problem in w: minimise w'Gw / 2 - c'w + alpha |w|_1 with G = X'X / n and
// c = X'y / n.
class Lasso {
 public:
  Lasso(const Examples& context, double alpha);

  std::vector<double> Minimise() const;

 private:
  double Gram(size_t i, size_t j) const { return gram_[i * dims_ + j]; }
  // c - Gw.
  std::vector<double> Residual(const std::vector<double>& w) const;
  // One pass of coordinate descent.
  void Sweep(std::vector<double>* w) const;
  // Goes to the minimum among the vectors with the zeros and signs of w, or
  // with more zeros.
  void SettleOnFace(std::vector<double>* w) const;
  Cholesky Factor(const std::vector<size_t>& active) const;
  Move MoveFrom(const std::vector<double>& w,
                const std::vector<size_t>& active) const;
  bool IsMinimiser(const std::vector<double>& w) const;

  size_t dims_;
  double alpha_;
  std::vector<double> gram_;
  std::vector<double> c_;
};

Lasso::Lasso(const Examples& context, double alpha)
    : dims_(static_cast<size_t>(context.dims)),
      alpha_(alpha),
      gram_(dims_ * dims_, 0.0),
      c_(dims_, 0.0) {
  const auto n = static_cast<double>(context.count);
  for (int64_t e = 0; e < context.count; ++e) {
    const double* x = context.inputs + e * context.dims;
    for (size_t i = 0; i < dims_; ++i) {
      c_[i] += x[i] * context.labels[e] / n;
      for (size_t j = 0; j < dims_; ++j)
        gram_[i * dims_ + j] += x[i] * x[j] / n;
    }
  }
}

std::vector<double> Lasso::Residual(const std::vector<double>& w) const {
  std::vector<double> residual = c_;
  for (size_t i = 0; i < dims_; ++i) {
    for (size_t j = 0; j < dims_; ++j) residual[i] -= Gram(i, j) * w[j];
  }
  return residual;
}

void Lasso::Sweep(std::vector<double>* w) const {
  std::vector<double> residual = Residual(*w);
  for (size_t i = 0; i < dims_; ++i) {
    if (Gram(i, i) == 0) continue;
    const double before = (*w)[i];
    const double pull = residual[i] + Gram(i, i) * before;
    const double rest = std::max(std::fabs(pull) - alpha_, 0.0);
    (*w)[i] = SignOf(pull) * rest / Gram(i, i);
    const double change = (*w)[i] - before;
    for (size_t j = 0; j < dims_; ++j) residual[j] -= Gram(i, j) * change;
  }
}

// The optimality conditions, up to the rounding of the sums they consist of.
bool Lasso::IsMinimiser(const std::vector<double>& w) const {
  const std::vector<double> residual = Residual(w);
  for (size_t i = 0; i < dims_; ++i) {
    double terms = std::fabs(c_[i]);
    for (size_t j = 0; j < dims_; ++j) terms += std::fabs(Gram(i, j) * w[j]);
    const double rounding = 2 * static_cast<double>(dims_) *
                            std::numeric_limits<double>::epsilon() * terms;
    const double excess = w[i] == 0
                              ? std::fabs(residual[i]) - alpha_
                              : std::fabs(residual[i] - alpha_ * SignOf(w[i]));
    if (excess > rounding) return false;
  }
  return true;
}

Cholesky Lasso::Factor(const std::vector<size_t>& active) const {
  const size_t m = active.size();
  Cholesky l{m, 0, std::vector<double>(m * m, 0.0)};
  for (; l.rank < m; ++l.rank) {
    const size_t i = l.rank;
    double* row = &l.rows[i * m];
    double pivot = Gram(active[i], active[i]);
    const double smallest = kSingular * pivot;
    for (size_t j = 0; j < i; ++j) {
      row[j] = Gram(active[i], active[j]);
      for (size_t k = 0; k < j; ++k) row[j] -= row[k] * l.At(j, k);
      row[j] /= l.At(j, j);
      pivot -= row[j] * row[j];
    }
    if (pivot <= smallest) break;
    row[i] = std::sqrt(pivot);
  }
  return l;
}

// To the solution of G w = c - alpha signs on the active coordinates. Where G
// is singular there, along a direction in which the fit stays the same and
// |w|_1 does not grow.
Move Lasso::MoveFrom(const std::vector<double>& w,
                     const std::vector<size_t>& active) const {
  const Cholesky l = Factor(active);
  Move move{std::vector<double>(l.size, 0.0)};
  std::vector<double>& direction = move.direction;
  if (l.rank == l.size) {
    for (size_t i = 0; i < l.size; ++i)
      direction[i] = c_[active[i]] - alpha_ * SignOf(w[active[i]]);
    SolveLower(l, &direction);
    SolveUpper(l, &direction);
    for (size_t i = 0; i < l.size; ++i) direction[i] -= w[active[i]];
    return move;
  }
  move.longest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < l.rank; ++i) direction[i] = -l.At(l.rank, i);
  SolveUpper(l, &direction);
  direction[l.rank] = 1;
  double growth = 0;
  for (size_t i = 0; i < l.size; ++i)
    growth += SignOf(w[active[i]]) * direction[i];
  if (growth > 0) {
    for (double& part : direction) part = -part;
  }
  return move;
}

void Lasso::SettleOnFace(std::vector<double>* w) const {
  while (true) {
    std::vector<size_t> active;
    for (size_t i = 0; i < dims_; ++i) {
      if ((*w)[i] != 0) active.push_back(i);
    }
    const Move move = MoveFrom(*w, active);
    double length = move.longest;
    size_t blocked = dims_;  // the first weight to become 0 on the way
    for (size_t i = 0; i < active.size(); ++i) {
      const double until = -(*w)[active[i]] / move.direction[i];
      if (until > 0 && until <= length) {
        length = until;
        blocked = active[i];
      }
    }
    for (size_t i = 0; i < active.size(); ++i)
      (*w)[active[i]] += length * move.direction[i];
    if (blocked == dims_) return;
    (*w)[blocked] = 0;
  }
}

std::vector<double> Lasso::Minimise() const {
  std::vector<double> w(dims_, 0.0);
  for (int round = 0; round < kMostRounds; ++round) {
    Sweep(&w);
    SettleOnFace(&w);
    if (IsMinimiser(w)) return w;
  }
  return std::vector<double>(dims_, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

std::vector<double> LassoWeights(const Examples& context, double alpha) {
  if (context.count == 0)
    return std::vector<double>(static_cast<size_t>(context.dims), 0.0);
  return Lasso(context, alpha).Minimise();
}

}  // namespace iclsweep
