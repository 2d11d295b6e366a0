// The order in which the tasks of a prompt appear. Positions, not identities,
// differ between orders: nothing drawn for a task depends on where it stands.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"

namespace iclsweep {

// order[s] is the identity of the task at position s; an empty task_order means
// 0, 1, 2, ... Errors: InvalidArgument unless task_order is empty or a
// permutation of 0 .. tasks-1.
absl::StatusOr<std::vector<int>> TaskOrder(const v1::PromptParams& prompt);

}  // namespace iclsweep
