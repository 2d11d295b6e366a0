#include "worker/tasks/order.h"

#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace iclsweep {

absl::StatusOr<std::vector<int>> TaskOrder(const v1::PromptParams& prompt) {
  const int tasks = prompt.tasks();
  std::vector<int> order(prompt.task_order().begin(),
                         prompt.task_order().end());
  if (order.empty()) {
    order.resize(static_cast<size_t>(tasks));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  std::vector<bool> seen(static_cast<size_t>(tasks), false);
  bool permutation = static_cast<int>(order.size()) == tasks;
  for (const int task : order) {
    if (task < 0 || task >= tasks || seen[static_cast<size_t>(task)]) {
      permutation = false;
      break;
    }
    seen[static_cast<size_t>(task)] = true;
  }
  if (!permutation) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt.task_order = ", absl::StrJoin(order, "-"),
                     " is not a permutation of 0 .. ", tasks - 1));
  }
  return order;
}

}  // namespace iclsweep
