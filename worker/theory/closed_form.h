// Expected errors and drift of pretrained one-layer linear attention on
// continual prompts, in closed form: the unified form behind Lemma 4.1 and
// Theorems 4.3 and 4.4 of Li, Ding, Hu, arXiv 2605.28705, with label noise, and
// with random task vectors. No sampling, no LibTorch; predictions on concrete
// prompts are worker/tasks/linear_attention.h.
//
// Every predictor is y^ = x_q' Gamma^-1 sum_i a_i S_i, S_i = sum of x y over
// the M examples of the task at position i. Here a_i is one number a up to a
// horizon and 0 beyond (t, T 1-based positions):
//   LSA                 a = 1 / M            up to T
//   MSA, own query      a = 1 / (t(M+1))     up to t
//   MSA, final query    a = 1 / (T(M+1)+1)   up to T
// With A = Gamma^-1 Lambda Gamma^-1, mu_i = Lambda w_i, |v|^2 = v' Lambda v and
// Sigma_i = mu_i mu_i' + (w_i' Lambda w_i + sigma_i^2) Lambda:
//   b = M a Gamma^-1 mu_t - w_t
//   h = M a Gamma^-1 sum_{i != t} mu_i
//   E (y^ - y_t)^2 = sigma_t^2                          irreducible
//     + M a^2 tr(Sigma_t A)                             own variance
//     + M a^2 sum_{i != t} tr(Sigma_i A)                other variance
//     + |b|^2                                           own bias
//     + |h|^2 + 2 b' Lambda h                           interference
// and, with delta = a_final - a_own, the drift
//   E (y^_final - y^_own)^2 = M sum_i delta_i^2 tr(Sigma_i A)      variance
//     + M^2 (sum_i delta_i mu_i)' A (sum_i delta_i mu_i)           mean
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace iclsweep {

// N of Gamma (0 = infinite) and the label noise of the pretraining prompts.
struct Pretraining {
  int64_t length = 0;
  double noise_variance = 0;
};

// Lambda and Gamma, ready to be applied. Thread-safe after construction.
class InputCovariance {
 public:
  // Errors: InvalidArgument unless every eigenvalue is positive.
  static absl::StatusOr<InputCovariance> Diagonal(
      std::vector<double> eigenvalues, const Pretraining& pretraining);
  // lambda: [dims][dims], symmetric. Errors: InvalidArgument unless positive
  // definite.
  static absl::StatusOr<InputCovariance> Dense(std::vector<double> lambda,
                                               int dims,
                                               const Pretraining& pretraining);

  int Dims() const { return dims_; }
  std::vector<double> Lambda(const std::vector<double>& v) const;  // Lambda v
  std::vector<double> GammaInverse(
      const std::vector<double>& v) const;  // Gamma^-1 v
  std::vector<double> Excess(const std::vector<double>& v)
      const;  // (Gamma - Lambda) v, without cancellation

 private:
  InputCovariance() = default;
  int dims_ = 0;
  bool diagonal_ = false;
  std::vector<double> lambda_;  // [dims] when diagonal, else [dims][dims]
  std::vector<double>
      gamma_;  // as lambda_; when dense, the Cholesky factor of Gamma
  double excess_scale_ =
      0;  // Gamma - Lambda = excess_scale_ Lambda + excess_shift_ I
  double excess_shift_ = 0;
};

// All that the closed form needs to know of the tasks, by position, with P =
// Gamma^-1 Lambda: [tasks] or [tasks][tasks].
struct TaskMoments {
  int tasks = 0;
  double trace = 0;                    // tr(Lambda A)
  std::vector<double> noise_variance;  // sigma_i^2, of context and query labels
  std::vector<double> norm;            // E w_i' Lambda w_i
  std::vector<double> norm_defect;     // E w_i' Lambda (I - P) w_i
  std::vector<double> defect;          // E |(I - P) w_i|^2_Lambda
  std::vector<double> cross;           // E w_i' Lambda P w_j
  std::vector<double> square;  // E (P w_i)' Lambda (P w_j) = E mu_i' A mu_j
};
// tasks: [noise_variance.size()][dims].
TaskMoments FixedTasks(const InputCovariance& covariance,
                       const std::vector<double>& tasks,
                       std::vector<double> noise_variance);
// E[w_i w_j'] = correlations[i][j] I.
TaskMoments RandomTasks(const InputCovariance& covariance,
                        const std::vector<double>& correlations,
                        std::vector<double> noise_variance);

struct ErrorParts {
  double irreducible = 0;
  double variance_own = 0;
  double variance_other = 0;
  double bias_own = 0;
  double interference = 0;  // negative: the other tasks help in the mean
  double Total() const {
    return irreducible + variance_own + variance_other + bias_own +
           interference;
  }
};
struct DriftParts {
  double variance = 0;
  double mean = 0;
  double Total() const { return variance + mean; }
};

// Error at the task of 0-based `position`, M = examples. REQUIRES: 0 <=
// position < tasks, examples >= 1.
ErrorParts MsaOwnError(const TaskMoments& moments, int examples, int position);
ErrorParts MsaFinalError(const TaskMoments& moments, int examples,
                         int position);
ErrorParts LsaError(const TaskMoments& moments, int examples,
                    int position);  // own and final query alike: no drift
// The same task alone in the prompt (T = 1, same M).
ErrorParts MsaSingleError(const TaskMoments& moments, int examples,
                          int position);
ErrorParts LsaSingleError(const TaskMoments& moments, int examples,
                          int position);
DriftParts MsaDrift(const TaskMoments& moments, int examples, int position);

}  // namespace iclsweep
