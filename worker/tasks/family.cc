#include "worker/tasks/family.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

constexpr int kDeepest = 16;

double Dot(const double* a, const double* b, int64_t dims) {
  double sum = 0;
  for (int64_t i = 0; i < dims; ++i) sum += a[i] * b[i];
  return sum;
}

// The stream of what tasks drawn from `weights` have beside their weights.
Purpose StructureOf(Purpose weights) {
  switch (weights) {
    case Purpose::kTrainTask:
      return Purpose::kTrainStructure;
    case Purpose::kValidationTask:
      return Purpose::kValidationStructure;
    case Purpose::kTaskSet:
      return Purpose::kTaskSetStructure;
    case Purpose::kTuneTaskSet:
      return Purpose::kTuneStructure;
    case Purpose::kCompareTaskSet:
      return Purpose::kCompareStructure;
    case Purpose::kWrongTaskSet:
      return Purpose::kWrongStructure;
    default:
      std::abort();  // not a stream of tasks
  }
}

// Zeroes all but `kept` of the first `live` weights, and those after them: the
// coordinates with the smallest of `live` uniform draws are a uniform subset.
void KeepSubset(DrawAddress address, int64_t dims, int64_t live, int64_t kept,
                double* w) {
  std::vector<std::pair<double, int64_t>> ranks;  // draw, coordinate
  for (int64_t i = 0; i < live; ++i) {
    address.coordinate = static_cast<uint32_t>(i);
    ranks.emplace_back(Uniform(address), i);
  }
  std::sort(ranks.begin(), ranks.end());
  std::vector<bool> is_kept(static_cast<size_t>(dims), false);
  for (int64_t i = 0; i < kept; ++i)
    is_kept[static_cast<size_t>(ranks[static_cast<size_t>(i)].second)] = true;
  for (int64_t i = 0; i < dims; ++i) {
    if (!is_kept[static_cast<size_t>(i)]) w[i] = 0;
  }
}

absl::Status AtLeastOne(absl::string_view where, absl::string_view field,
                        int value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ".", field, " = ", value, " must be at least 1"));
}

}  // namespace

absl::Status CheckFamily(const v1::DataParams& data, absl::string_view where) {
  RETURN_IF_ERROR(AtLeastOne(where, "dims", data.dims()));
  switch (data.family()) {
    case v1::FAMILY_LINEAR:
    case v1::FAMILY_QUADRATIC:
      return absl::OkStatus();
    case v1::FAMILY_SPARSE_LINEAR:
      RETURN_IF_ERROR(AtLeastOne(where, "sparsity", data.sparsity()));
      if (data.sparsity() <= data.dims()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(where, ".sparsity = ", data.sparsity(), " exceeds ",
                       where, ".dims = ", data.dims()));
    case v1::FAMILY_NOISY_LINEAR:
      if (data.noise_std() > 0) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(where, ".noise_std = ", data.noise_std(),
                       " must be above 0 for family noisy_linear"));
    case v1::FAMILY_RELU_2NN:
      return AtLeastOne(where, "hidden", data.hidden());
    case v1::FAMILY_DECISION_TREE:
      RETURN_IF_ERROR(AtLeastOne(where, "depth", data.depth()));
      if (data.depth() <= kDeepest) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          where, ".depth = ", data.depth(), " must be at most ", kDeepest));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      where, ".family = ", static_cast<int>(data.family()), " is unknown"));
}

TaskFamily::TaskFamily(const v1::DataParams& data)
    : family_(data.family()),
      dims_(data.dims()),
      sparsity_(data.sparsity()),
      hidden_(data.hidden()),
      noise_std_(data.noise_std()) {
  if (family_ == v1::FAMILY_DECISION_TREE)
    inner_nodes_ = (int64_t{1} << data.depth()) - 1;
  if (family_ != v1::FAMILY_NOISY_LINEAR) return;
  const double trace = data.eigenvalues().empty()
                           ? static_cast<double>(dims_)
                           : std::accumulate(data.eigenvalues().begin(),
                                             data.eigenvalues().end(), 0.0);
  label_scale_ =
      std::sqrt(static_cast<double>(dims_) / (trace + noise_std_ * noise_std_));
}

// relu_2nn: v, then the u_j one after the other. decision_tree: the leaves from
// left to right, then the coordinates tested, by node.
int64_t TaskFamily::Size() const {
  if (family_ == v1::FAMILY_RELU_2NN) return hidden_ * (1 + dims_);
  if (family_ == v1::FAMILY_DECISION_TREE) return 2 * inner_nodes_ + 1;
  return dims_;
}

void TaskFamily::Draw(const DrawAddress& address, int64_t live,
                      double* task) const {
  DrawAddress structure = address;
  structure.purpose = StructureOf(address.purpose);
  if (family_ == v1::FAMILY_RELU_2NN) {
    FillNormal(address, hidden_, task);
    for (int64_t j = 0; j < hidden_; ++j) {
      structure.example = static_cast<uint32_t>(j);
      FillNormal(structure, dims_, task + hidden_ + j * dims_);
    }
    return;
  }
  if (family_ == v1::FAMILY_DECISION_TREE) {
    FillNormal(address, inner_nodes_ + 1, task);
    double* tested = task + inner_nodes_ + 1;
    for (int64_t j = 0; j < inner_nodes_; ++j) {
      structure.coordinate = static_cast<uint32_t>(j);
      tested[j] = std::floor(Uniform(structure) * static_cast<double>(dims_));
    }
    return;
  }
  FillNormal(address, dims_, task);
  if (family_ == v1::FAMILY_SPARSE_LINEAR)
    KeepSubset(structure, dims_, live, sparsity_, task);
}

double TaskFamily::Label(const double* task, const double* x,
                         const DrawAddress& noise) const {
  double y = Value(task, x);
  if (noise_std_ > 0) y += noise_std_ * Normal(noise);
  return label_scale_ * y;
}

double TaskFamily::Value(const double* task, const double* x) const {
  switch (family_) {
    case v1::FAMILY_LINEAR:
    case v1::FAMILY_SPARSE_LINEAR:
    case v1::FAMILY_NOISY_LINEAR:
      return Dot(task, x, dims_);
    case v1::FAMILY_RELU_2NN:
      return ReluValue(task, x);
    case v1::FAMILY_QUADRATIC:
      return QuadraticValue(task, x);
    case v1::FAMILY_DECISION_TREE:
      return TreeValue(task, x);
  }
  std::abort();
}

double TaskFamily::ReluValue(const double* task, const double* x) const {
  double sum = 0;
  for (int64_t j = 0; j < hidden_; ++j) {
    const double input = Dot(task + hidden_ + j * dims_, x, dims_);
    if (input > 0) sum += task[j] * input;
  }
  return sum * std::sqrt(2 / static_cast<double>(hidden_));
}

double TaskFamily::QuadraticValue(const double* task, const double* x) const {
  double sum = 0;
  for (int64_t i = 0; i < dims_; ++i) sum += task[i] * (x[i] * x[i]);
  return sum / std::sqrt(3.0);
}

double TaskFamily::TreeValue(const double* task, const double* x) const {
  const double* tested = task + inner_nodes_ + 1;
  int64_t node = 0;
  while (node < inner_nodes_)
    node = 2 * node + (x[static_cast<int64_t>(tested[node])] > 0 ? 2 : 1);
  return task[node - inner_nodes_];
}

}  // namespace iclsweep
