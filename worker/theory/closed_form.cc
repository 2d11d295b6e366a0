#include "worker/theory/closed_form.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/tasks/linear_attention.h"

namespace iclsweep {
namespace {

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// In-place lower Cholesky factor of a symmetric [n][n] matrix; false when it is
// not positive definite.
bool Cholesky(int n, std::vector<double>* matrix) {
  const auto at = [&](int i, int j) -> double& {
    return (*matrix)[static_cast<size_t>(i) * n + j];
  };
  for (int j = 0; j < n; ++j) {
    for (int i = j; i < n; ++i) {
      double sum = at(i, j);
      for (int k = 0; k < j; ++k) sum -= at(i, k) * at(j, k);
      if (i > j) {
        at(i, j) = sum / at(j, j);
      } else if (sum > 0) {
        at(j, j) = std::sqrt(sum);
      } else {
        return false;
      }
    }
  }
  return true;
}

// Solves L L' x = v.
std::vector<double> CholeskySolve(const std::vector<double>& factor,
                                  std::vector<double> v) {
  const size_t n = v.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) v[i] -= factor[i * n + k] * v[k];
    v[i] /= factor[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) v[i] -= factor[k * n + i] * v[k];
    v[i] /= factor[i * n + i];
  }
  return v;
}

// Lambda, P and I - P applied to one vector w.
struct Applied {
  std::vector<double> lambda;         // Lambda w
  std::vector<double> kept;           // P w
  std::vector<double> lambda_kept;    // Lambda P w
  std::vector<double> defect;         // (I - P) w = Gamma^-1 (Gamma - Lambda) w
  std::vector<double> lambda_defect;  // Lambda (I - P) w
};
Applied Apply(const InputCovariance& covariance, const std::vector<double>& w) {
  Applied applied;
  applied.lambda = covariance.Lambda(w);
  applied.kept = covariance.GammaInverse(applied.lambda);
  applied.lambda_kept = covariance.Lambda(applied.kept);
  applied.defect = covariance.GammaInverse(covariance.Excess(w));
  applied.lambda_defect = covariance.Lambda(applied.defect);
  return applied;
}

TaskMoments EmptyMoments(std::vector<double> noise_variance) {
  const size_t tasks = noise_variance.size();
  TaskMoments moments;
  moments.tasks = static_cast<int>(tasks);
  moments.noise_variance = std::move(noise_variance);
  for (auto* diagonal : {&moments.norm, &moments.norm_defect, &moments.defect})
    diagonal->assign(tasks, 0.0);
  for (auto* full : {&moments.cross, &moments.square})
    full->assign(tasks * tasks, 0.0);
  return moments;
}

// Traces over the space: what the moments of a task with E[w w'] = I are.
struct Traces {
  double lambda_a = 0;
  double norm = 0;
  double norm_defect = 0;
  double defect = 0;
  double cross = 0;
  double square = 0;
};
Traces TracesOf(const InputCovariance& covariance) {
  Traces traces;
  std::vector<double> unit(static_cast<size_t>(covariance.Dims()), 0.0);
  for (size_t i = 0; i < unit.size(); ++i) {
    unit[i] = 1;
    const Applied applied = Apply(covariance, unit);
    // tr(Lambda A) = tr(P P): entry (i, i) is the i-th component of P (P e_i).
    traces.lambda_a += covariance.GammaInverse(applied.lambda_kept)[i];
    traces.norm += applied.lambda[i];
    traces.norm_defect += applied.lambda_defect[i];
    traces.defect += Dot(applied.defect, applied.lambda_defect);
    traces.cross += applied.lambda_kept[i];
    traces.square += Dot(applied.kept, applied.lambda_kept);
    unit[i] = 0;
  }
  return traces;
}

// y^ = x_q' Gamma^-1 a sum of S over the first `horizon` positions, or over one
// position when `alone`.
struct Predictor {
  int horizon = 0;
  bool alone = false;
  double a = 0;
  double shortfall = 0;  // 1 - M a
};

ErrorParts ErrorOf(const TaskMoments& moments, int examples, int t,
                   const Predictor& predictor) {
  const double weight = examples * predictor.a;
  const double per_task = weight * predictor.a;  // M a^2
  const auto tasks = static_cast<size_t>(moments.tasks);
  const auto own = static_cast<size_t>(t);
  const auto variance = [&](size_t i) {
    return moments.square[i * tasks + i] +
           (moments.norm[i] + moments.noise_variance[i]) * moments.trace;
  };
  ErrorParts parts;
  parts.irreducible = moments.noise_variance[own];
  parts.variance_own = per_task * variance(own);
  // b = -((1 - Ma) w + Ma (I - P) w): a sum of positive parts, where Ma P w - w
  // would cancel.
  const double left = predictor.shortfall;
  parts.bias_own = left * left * moments.norm[own] +
                   2 * left * weight * moments.norm_defect[own] +
                   weight * weight * moments.defect[own];
  if (predictor.alone) return parts;
  double square = 0;
  double cross = 0;
  for (size_t i = 0; i < static_cast<size_t>(predictor.horizon); ++i) {
    if (i == own) continue;
    parts.variance_other += per_task * variance(i);
    cross += weight * moments.square[own * tasks + i] -
             moments.cross[own * tasks + i];
    for (size_t j = 0; j < static_cast<size_t>(predictor.horizon); ++j) {
      if (j != own) square += moments.square[i * tasks + j];
    }
  }
  parts.interference = weight * weight * square + 2 * weight * cross;
  return parts;
}

// divisor = 1 / a.
Predictor Masked(int horizon, int examples, int64_t divisor) {
  return {.horizon = horizon,
          .alone = false,
          .a = 1 / static_cast<double>(divisor),
          .shortfall = static_cast<double>(divisor - examples) /
                       static_cast<double>(divisor)};
}

}  // namespace

absl::StatusOr<InputCovariance> InputCovariance::Diagonal(
    std::vector<double> eigenvalues, const Pretraining& pretraining) {
  for (const double value : eigenvalues) {
    if (!(value > 0))
      return absl::InvalidArgumentError(absl::StrCat(
          "covariance has an eigenvalue that is not positive: ", value));
  }
  InputCovariance covariance;
  covariance.dims_ = static_cast<int>(eigenvalues.size());
  covariance.diagonal_ = true;
  const double trace =
      std::accumulate(eigenvalues.begin(), eigenvalues.end(), 0.0);
  const GammaTerms terms =
      GammaOf(trace, pretraining.length, pretraining.noise_variance);
  covariance.gamma_ = GammaDiagonal(eigenvalues, pretraining.length,
                                    pretraining.noise_variance);
  covariance.excess_scale_ =
      pretraining.length == 0 ? 0 : 1 / static_cast<double>(pretraining.length);
  covariance.excess_shift_ = terms.shift;
  covariance.lambda_ = std::move(eigenvalues);
  return covariance;
}

absl::StatusOr<InputCovariance> InputCovariance::Dense(
    std::vector<double> lambda, int dims, const Pretraining& pretraining) {
  const auto n = static_cast<size_t>(dims);
  double trace = 0;
  for (size_t i = 0; i < n; ++i) trace += lambda[i * n + i];
  const GammaTerms terms =
      GammaOf(trace, pretraining.length, pretraining.noise_variance);
  InputCovariance covariance;
  covariance.dims_ = dims;
  covariance.gamma_ = lambda;
  for (double& value : covariance.gamma_) value *= terms.scale;
  for (size_t i = 0; i < n; ++i) covariance.gamma_[i * n + i] += terms.shift;
  std::vector<double> check = lambda;
  if (!Cholesky(dims, &check) || !Cholesky(dims, &covariance.gamma_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "covariance of ", dims, " dimensions is not positive definite"));
  }
  covariance.excess_scale_ =
      pretraining.length == 0 ? 0 : 1 / static_cast<double>(pretraining.length);
  covariance.excess_shift_ = terms.shift;
  covariance.lambda_ = std::move(lambda);
  return covariance;
}

std::vector<double> InputCovariance::Lambda(
    const std::vector<double>& v) const {
  std::vector<double> out(v.size(), 0.0);
  for (size_t i = 0; i < v.size(); ++i) {
    if (diagonal_) {
      out[i] = lambda_[i] * v[i];
      continue;
    }
    for (size_t j = 0; j < v.size(); ++j)
      out[i] += lambda_[i * v.size() + j] * v[j];
  }
  return out;
}

std::vector<double> InputCovariance::GammaInverse(
    const std::vector<double>& v) const {
  if (!diagonal_) return CholeskySolve(gamma_, v);
  std::vector<double> out(v.size());
  for (size_t i = 0; i < v.size(); ++i) out[i] = v[i] / gamma_[i];
  return out;
}

std::vector<double> InputCovariance::Excess(
    const std::vector<double>& v) const {
  std::vector<double> out = Lambda(v);
  for (size_t i = 0; i < v.size(); ++i)
    out[i] = excess_scale_ * out[i] + excess_shift_ * v[i];
  return out;
}

TaskMoments FixedTasks(const InputCovariance& covariance,
                       const std::vector<double>& tasks,
                       std::vector<double> noise_variance) {
  TaskMoments moments = EmptyMoments(std::move(noise_variance));
  moments.trace = TracesOf(covariance).lambda_a;
  const auto count = static_cast<size_t>(moments.tasks);
  const int64_t dims = covariance.Dims();
  std::vector<std::vector<double>> w;
  std::vector<Applied> applied;
  for (size_t i = 0; i < count; ++i) {
    const auto first = tasks.begin() + static_cast<int64_t>(i) * dims;
    w.emplace_back(first, first + dims);
    applied.push_back(Apply(covariance, w[i]));
    moments.norm[i] = Dot(w[i], applied[i].lambda);
    moments.norm_defect[i] = Dot(w[i], applied[i].lambda_defect);
    moments.defect[i] = Dot(applied[i].defect, applied[i].lambda_defect);
  }
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < count; ++j) {
      moments.cross[i * count + j] = Dot(w[i], applied[j].lambda_kept);
      moments.square[i * count + j] =
          Dot(applied[i].kept, applied[j].lambda_kept);
    }
  }
  return moments;
}

TaskMoments RandomTasks(const InputCovariance& covariance,
                        const std::vector<double>& correlations,
                        std::vector<double> noise_variance) {
  TaskMoments moments = EmptyMoments(std::move(noise_variance));
  const Traces traces = TracesOf(covariance);
  moments.trace = traces.lambda_a;
  const auto count = static_cast<size_t>(moments.tasks);
  for (size_t i = 0; i < count; ++i) {
    const double own = correlations[i * count + i];
    moments.norm[i] = own * traces.norm;
    moments.norm_defect[i] = own * traces.norm_defect;
    moments.defect[i] = own * traces.defect;
  }
  for (size_t k = 0; k < correlations.size(); ++k) {
    moments.cross[k] = correlations[k] * traces.cross;
    moments.square[k] = correlations[k] * traces.square;
  }
  return moments;
}

ErrorParts MsaOwnError(const TaskMoments& moments, int examples, int position) {
  return ErrorOf(
      moments, examples, position,
      Masked(position + 1, examples, int64_t{position + 1} * (examples + 1)));
}

ErrorParts MsaFinalError(const TaskMoments& moments, int examples,
                         int position) {
  return ErrorOf(moments, examples, position,
                 Masked(moments.tasks, examples,
                        int64_t{moments.tasks} * (examples + 1) + 1));
}

ErrorParts LsaError(const TaskMoments& moments, int examples, int position) {
  return ErrorOf(moments, examples, position,
                 Masked(moments.tasks, examples, examples));
}

ErrorParts MsaSingleError(const TaskMoments& moments, int examples,
                          int position) {
  Predictor predictor = Masked(1, examples, examples + 1);
  predictor.alone = true;
  return ErrorOf(moments, examples, position, predictor);
}

ErrorParts LsaSingleError(const TaskMoments& moments, int examples,
                          int position) {
  Predictor predictor = Masked(1, examples, examples);
  predictor.alone = true;
  return ErrorOf(moments, examples, position, predictor);
}

DriftParts MsaDrift(const TaskMoments& moments, int examples, int position) {
  const auto tasks = static_cast<size_t>(moments.tasks);
  const double block = examples + 1.0;
  const double points = static_cast<double>(moments.tasks) * block + 1;
  const double seen = position + 1.0;
  // delta_i without the difference of two nearly equal numbers: Theorem 4.4's
  // c_t for tasks seen, d for later ones.
  const double past =
      -((static_cast<double>(moments.tasks) - seen) * block + 1) /
      (seen * block * points);
  const double future = 1 / points;
  const auto delta = [&](size_t i) {
    return static_cast<int>(i) <= position ? past : future;
  };
  DriftParts drift;
  double mean = 0;
  for (size_t i = 0; i < tasks; ++i) {
    const double square = moments.square[i * tasks + i];
    drift.variance += examples * delta(i) * delta(i) *
                      (square + (moments.norm[i] + moments.noise_variance[i]) *
                                    moments.trace);
    for (size_t j = 0; j < tasks; ++j)
      mean += delta(i) * delta(j) * moments.square[i * tasks + j];
  }
  // A squared norm; rounding may leave it a hair below 0 when the tasks are
  // identical.
  drift.mean = std::max(0.0, static_cast<double>(examples) * examples * mean);
  return drift;
}

}  // namespace iclsweep
