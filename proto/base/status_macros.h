// RETURN_IF_ERROR and ASSIGN_OR_RETURN for absl::Status: the installed abseil
// has none.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ICLSWEEP_CONCAT_INNER(a, b) a##b
#define ICLSWEEP_CONCAT(a, b) ICLSWEEP_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression` (an absl::Status) is
// not OK.
#define RETURN_IF_ERROR(expression)                              \
  do {                                                           \
    absl::Status status_of_expression = (expression);            \
    if (!status_of_expression.ok()) return status_of_expression; \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): target may be a declaration
#define ICLSWEEP_ASSIGN_OR_RETURN(holder, target, expression) \
  auto holder = (expression);                                 \
  if (!holder.ok()) return std::move(holder).status();        \
  target = *std::move(holder)
// NOLINTEND(bugprone-macro-parentheses)

// ASSIGN_OR_RETURN(auto x, F()): x = *F(), or returns F's status.
#define ASSIGN_OR_RETURN(target, expression)                              \
  ICLSWEEP_ASSIGN_OR_RETURN(ICLSWEEP_CONCAT(status_or_holder_, __LINE__), \
                            target, expression)
