#include "worker/tasks/linear_attention.h"

#include <numeric>

namespace iclsweep {
namespace {

// S_s of every position, [tasks][dims].
std::vector<double> BlockSums(const OrderedPrompt& prompt) {
  const int64_t dims = prompt.dims;
  std::vector<double> sums(static_cast<size_t>(prompt.tasks) * dims, 0.0);
  for (int s = 0; s < prompt.tasks; ++s) {
    for (int m = 0; m < prompt.examples; ++m) {
      const int64_t point = int64_t{s} * prompt.examples + m;
      for (int64_t i = 0; i < dims; ++i)
        sums[s * dims + i] +=
            prompt.inputs[point * dims + i] * prompt.labels[point];
    }
  }
  return sums;
}

// x' Gamma^-1 sum.
double Read(const double* x, const double* sum,
            const std::vector<double>& gamma) {
  double value = 0;
  for (size_t i = 0; i < gamma.size(); ++i) value += x[i] * sum[i] / gamma[i];
  return value;
}

void Add(const double* block_sum, std::vector<double>* total) {
  for (size_t i = 0; i < total->size(); ++i) (*total)[i] += block_sum[i];
}

}  // namespace

GammaTerms GammaOf(double trace, int64_t pretraining_length,
                   double noise_variance) {
  if (pretraining_length == 0) return {};
  const auto length = static_cast<double>(pretraining_length);
  return {1 + 1 / length, (trace + noise_variance) / length};
}

std::vector<double> GammaDiagonal(const std::vector<double>& eigenvalues,
                                  int64_t pretraining_length,
                                  double noise_variance) {
  const double trace =
      std::accumulate(eigenvalues.begin(), eigenvalues.end(), 0.0);
  const GammaTerms terms = GammaOf(trace, pretraining_length, noise_variance);
  std::vector<double> gamma;
  gamma.reserve(eigenvalues.size());
  for (const double value : eigenvalues)
    gamma.push_back(terms.scale * value + terms.shift);
  return gamma;
}

QueryPredictions PredictLsa(const OrderedPrompt& prompt,
                            const std::vector<double>& gamma) {
  const std::vector<double> sums = BlockSums(prompt);
  std::vector<double> total(gamma.size(), 0.0);
  for (int s = 0; s < prompt.tasks; ++s)
    Add(&sums[static_cast<size_t>(s) * gamma.size()], &total);
  QueryPredictions predictions;
  for (int s = 0; s < prompt.tasks; ++s) {
    const double* query =
        &prompt.queries[static_cast<size_t>(s) * gamma.size()];
    predictions.own.push_back(Read(query, total.data(), gamma) /
                              prompt.examples);
    predictions.single.push_back(
        Read(query, &sums[static_cast<size_t>(s) * gamma.size()], gamma) /
        prompt.examples);
  }
  predictions.last = predictions.own;
  return predictions;
}

QueryPredictions PredictMsa(const OrderedPrompt& prompt,
                            const std::vector<double>& gamma) {
  const std::vector<double> sums = BlockSums(prompt);
  const double block = prompt.examples + 1.0;
  std::vector<double> seen(gamma.size(), 0.0);
  QueryPredictions predictions;
  for (int s = 0; s < prompt.tasks; ++s) {
    const double* query =
        &prompt.queries[static_cast<size_t>(s) * gamma.size()];
    const double* own_sum = &sums[static_cast<size_t>(s) * gamma.size()];
    Add(own_sum, &seen);
    predictions.own.push_back(Read(query, seen.data(), gamma) /
                              ((s + 1) * block));
    predictions.single.push_back(Read(query, own_sum, gamma) / block);
  }
  for (int s = 0; s < prompt.tasks; ++s) {
    const double* query =
        &prompt.queries[static_cast<size_t>(s) * gamma.size()];
    predictions.last.push_back(Read(query, seen.data(), gamma) /
                               (prompt.tasks * block + 1));
  }
  return predictions;
}

}  // namespace iclsweep
