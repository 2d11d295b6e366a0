#include "worker/tasks/linear_attention.h"

#include <cmath>
#include <numeric>

#include "tests/support/status_matchers.h"
#include "tests/worker/tasks/prompts.h"

namespace iclsweep {
namespace {

using testing::MakePrompt;

// The layer as it is defined (iccl paper, section 3 and appendix A), with
// explicit matrices: columns p_j of the prompt, W* = a^(1/4) diag(0, ..., 0,
// 1), V* = a^(-1/4) diag(Gamma^-1, 0), a = tr(Gamma^-2). Returns the label row
// at `column` (0-based).
class ExplicitLayer {
 public:
  ExplicitLayer(std::vector<std::vector<double>> columns,
                const std::vector<double>& gamma)
      : columns_(std::move(columns)), gamma_(gamma) {
    double a = 0;
    for (const double g : gamma) a += 1 / (g * g);
    root_ = std::pow(a, 0.25);
  }

  // f = P + W P (P'VP) / rho.
  double Unmasked(size_t column, double rho) const {
    return Sum(column, columns_.size(), rho);
  }
  // f_j = p_j + (1/j) sum_{i <= j} (p_i' V p_j) W p_i, j 1-based.
  double Masked(size_t column) const {
    return Sum(column, column + 1, static_cast<double>(column + 1));
  }

 private:
  double Sum(size_t column, size_t until, double divisor) const {
    const size_t d = gamma_.size();
    double value = 0;
    for (size_t i = 0; i < until; ++i) {
      double score = 0;  // p_i' V p_j
      for (size_t k = 0; k < d; ++k)
        score += columns_[i][k] / gamma_[k] / root_ * columns_[column][k];
      value += score * root_ * columns_[i][d] / divisor;
    }
    return columns_[column][d] + value;
  }

  std::vector<std::vector<double>> columns_;
  std::vector<double> gamma_;
  double root_ = 0;
};

size_t AsIndex(int64_t i) { return static_cast<size_t>(i); }

std::vector<double> Column(const double* x, int dims, double y) {
  std::vector<double> column(x, x + dims);
  column.push_back(y);
  return column;
}

// Columns of the blocks from .. to-1 and, when `final_query` >= 0, the final
// query of that position.
std::vector<std::vector<double>> Columns(const OrderedPrompt& p, int from,
                                         int to, int final_query) {
  std::vector<std::vector<double>> columns;
  for (int s = from; s < to; ++s) {
    for (int m = 0; m < p.examples; ++m) {
      const int64_t point = int64_t{s} * p.examples + m;
      columns.push_back(Column(&p.inputs[AsIndex(point * p.dims)], p.dims,
                               p.labels[AsIndex(point)]));
    }
    columns.push_back(
        Column(&p.queries[AsIndex(int64_t{s} * p.dims)], p.dims, 0));
  }
  if (final_query >= 0)
    columns.push_back(
        Column(&p.queries[AsIndex(int64_t{final_query} * p.dims)], p.dims, 0));
  return columns;
}

OrderedPrompt DrawOne(int tasks, int examples, int dims) {
  v1::PromptParams prompt = MakePrompt(tasks, examples, dims);
  prompt.mutable_data()->set_noise_std(0.3);
  for (int i = 0; i < dims; ++i)
    prompt.mutable_data()->add_eigenvalues(0.5 + i);
  std::vector<int> order;
  for (int t = tasks; t-- > 0;) order.push_back(t);
  return InOrder(*DrawPrompts(prompt, 3, 0, 1), 0, order);
}

TEST(LinearAttentionTest, MaskedPredictionsEqualTheExplicitLayer) {
  for (const auto& [tasks, examples, dims] :
       {std::array{3, 4, 3}, {1, 1, 1}, {5, 19, 20}, {4, 2, 7}}) {
    const OrderedPrompt prompt = DrawOne(tasks, examples, dims);
    std::vector<double> eigenvalues(AsIndex(dims));
    std::iota(eigenvalues.begin(), eigenvalues.end(), 0.5);
    const std::vector<double> gamma = GammaDiagonal(eigenvalues, 10, 0.2);
    const QueryPredictions got = PredictMsa(prompt, gamma);
    for (int s = 0; s < tasks; ++s) {
      const auto at = static_cast<size_t>(s);
      const ExplicitLayer whole(Columns(prompt, 0, tasks, s), gamma);
      const auto own = static_cast<size_t>((s + 1) * (examples + 1) - 1);
      EXPECT_NEAR(got.own[at], whole.Masked(own), 1e-12);
      EXPECT_NEAR(got.last[at],
                  whole.Masked(static_cast<size_t>(tasks * (examples + 1))),
                  1e-12);
      const ExplicitLayer alone(Columns(prompt, s, s + 1, -1), gamma);
      EXPECT_NEAR(got.single[at], alone.Masked(static_cast<size_t>(examples)),
                  1e-12);
    }
  }
}

TEST(LinearAttentionTest, UnmaskedPredictionsEqualTheExplicitLayer) {
  const OrderedPrompt prompt = DrawOne(3, 4, 3);
  const std::vector<double> gamma = GammaDiagonal({0.5, 1.5, 2.5}, 10, 0);
  const QueryPredictions got = PredictLsa(prompt, gamma);
  for (int s = 0; s < 3; ++s) {
    const auto at = static_cast<size_t>(s);
    const ExplicitLayer whole(Columns(prompt, 0, 3, s), gamma);
    EXPECT_NEAR(got.own[at],
                whole.Unmasked(static_cast<size_t>((s + 1) * 5 - 1), 4), 1e-12);
    EXPECT_NEAR(got.last[at], whole.Unmasked(15, 4), 1e-12);
    const ExplicitLayer alone(Columns(prompt, s, s + 1, -1), gamma);
    EXPECT_NEAR(got.single[at], alone.Unmasked(4, 4), 1e-12);
  }
}

// The numbers of the paper notes' fixture: Lambda = diag(0.5, 1, 2), N = 10.
TEST(LinearAttentionTest, GammaOfTheFixture) {
  const std::vector<double> gamma = GammaDiagonal({0.5, 1, 2}, 10, 0);
  EXPECT_NEAR(gamma[0], 0.9, 1e-15);
  EXPECT_NEAR(gamma[1], 1.45, 1e-15);
  EXPECT_NEAR(gamma[2], 2.55, 1e-15);
}

TEST(LinearAttentionTest,
     GammaGrowsWithPretrainingNoiseAndIsLambdaForInfiniteLength) {
  EXPECT_EQ(GammaDiagonal({0.5, 1, 2}, 0, 7), (std::vector<double>{0.5, 1, 2}));
  const std::vector<double> noisy = GammaDiagonal({0.5, 1, 2}, 10, 4);
  EXPECT_NEAR(noisy[0], 0.9 + 0.4, 1e-15);
}

}  // namespace
}  // namespace iclsweep
