// Families of tasks: what y = f(x) is, how a task is drawn and its labels made.
// One definition for training, evaluation and comparison. Garg et al. 2022
// (arXiv 2208.01066, section 3 and appendix A.3) and their repository's
// tasks.py, with x in R^dims, z ~ N(0, 1) and noise_std = sigma:
//   linear         y = <w, x> + sigma z, w ~ N(0, I)
//   sparse_linear  the same, but only `sparsity` coordinates of w, a uniform
//                  subset, are kept
//   noisy_linear   y = s (<w, x> + sigma z) with sigma > 0 and s = sqrt(dims /
//                  (tr Lambda + sigma^2)), so that E[y^2] = dims. The original
//                  divides by the standard deviation of the batch at hand,
//                  which ties a prompt to its batch.
//   relu_2nn       y = sqrt(2 / hidden) sum_j v_j max(0, <u_j, x>) + sigma z,
//                  u_j, v_j ~ N(0, I), no biases
//   quadratic      y = sum_i w_i x_i^2 / sqrt(3) + sigma z, w ~ N(0, I)
//   decision_tree  y = leaf + sigma z. A full binary tree: each inner node
//                  tests x_u > 0 for a uniform coordinate u, its children are
//                  2j+1 (no) and 2j+2 (yes); leaves ~ N(0, 1)
// For N(0, I) inputs and sigma = 0, E[y^2] = dims for all but sparse_linear
// (sparsity) and decision_tree (1). Values are not normalised further.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/streams.h"

namespace iclsweep {

// InvalidArgument naming the field, `where` ("data", "prompt.data") before it:
// a family unknown here, a shape that is not positive, a depth above 16, more
// weights kept than dims, noisy_linear without noise.
absl::Status CheckFamily(const v1::DataParams& data, absl::string_view where);

// A family with its shape. A task of it is a plain array of doubles, Size()
// long. No libm: the same bits on every x86-64 machine.
class TaskFamily {
 public:
  // REQUIRES: CheckFamily(data) is OK; data.eigenvalues, the diagonal of
  // Lambda, is empty (Lambda = I) or has dims positive values.
  explicit TaskFamily(const v1::DataParams& data);

  // Doubles of one task.
  int64_t Size() const;

  // Draws the task at (seed, purpose, prompt, task) into task[Size()].
  // `purpose` is a stream of tasks: kTrainTask, kValidationTask, kTaskSet,
  // kTuneTaskSet, kCompareTaskSet or kWrongTaskSet. Weights are drawn for every
  // coordinate; those kept by sparse_linear lie among the first `live` (Garg et
  // al.: the curriculum's). Weights and hidden units nest in dims and hidden.
  // REQUIRES: live >= sparsity.
  void Draw(const DrawAddress& address, int64_t live, double* task) const;

  // The label of x [dims], noise included, whose draw is at `noise`.
  double Label(const double* task, const double* x,
               const DrawAddress& noise) const;

  // The factor s of noisy_linear; 1 for every other family.
  double LabelScale() const { return label_scale_; }

 private:
  double Value(const double* task, const double* x) const;
  double ReluValue(const double* task, const double* x) const;
  double QuadraticValue(const double* task, const double* x) const;
  double TreeValue(const double* task, const double* x) const;

  v1::Family family_;
  int64_t dims_;
  int64_t sparsity_;
  int64_t hidden_;
  int64_t inner_nodes_ = 0;  // of the tree: 2^depth - 1
  double noise_std_;
  double label_scale_ = 1;
};

}  // namespace iclsweep
