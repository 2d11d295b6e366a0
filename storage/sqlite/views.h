// The views people query. They are API: documented in README.md, remade from
// the axes of all sweeps at every submit.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace iclsweep {

struct AxisColumn {
  std::string path;    // prompt.angle_degrees
  std::string column;  // angle_degrees
};

// One column per path: its last element, or the whole path with '_' where that
// would collide with another axis, with a column of the views, or with an SQL
// keyword. Sorted by path; duplicates dropped.
std::vector<AxisColumn> AxisColumns(absl::Span<const std::string> paths);

// SQL that drops and makes all views.
std::string ViewsSql(absl::Span<const std::string> axis_paths);

}  // namespace iclsweep
