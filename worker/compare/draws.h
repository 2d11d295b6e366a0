// The prompts the comparison runs on. A replicate is one task set (its own, by
// number) with its demonstrations, and anchors and queries of the last task in
// the order. Plain tensors, float64 on the CPU.
#pragma once

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"

namespace iclsweep {

// R replicates, K = tasks * examples demonstrations in prompt order (no query
// slots), m anchors, Q queries, d dims.
struct Replicates {
  at::Tensor demo_xs, demo_ys;      // [R, K, d], [R, K]
  at::Tensor wrong_ys;              // [R, K]: labels of another task set
  at::Tensor anchor_xs, anchor_ys;  // [R, m, d], [R, m]
  at::Tensor query_xs, query_ys;    // [R, Q, d], [R, Q]
};

enum class ReplicateStream {
  kTune,    // for choosing the learning rate
  kMeasure  // for the results
};

// Replicates first .. first + count - 1. A draw depends on nothing but
// (compare.seed, stream, replicate, task identity, example, coordinate):
// demonstrations nest in examples and tasks, anchors and queries in their
// numbers, and orders with the same last task share everything.
// Errors: InvalidArgument (geometry, order, eigenvalues, family).
absl::StatusOr<Replicates> DrawReplicates(const v1::CompareInputs& inputs,
                                          ReplicateStream stream, int64_t first,
                                          int64_t count);

}  // namespace iclsweep
