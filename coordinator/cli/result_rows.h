// The rows of a sweep that `results` and `export` print: which, and in which
// order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/options.h"
#include "storage/sqlite/database.h"

namespace iclsweep {

// Which rows; "" = all.
struct ResultFilter {
  std::string stage;
  std::string predictor;
  std::string name;
  std::optional<int64_t> limit = std::nullopt;  // the first rows
};

inline bool IsEmpty(const ResultFilter& filter) {
  return filter.stage.empty() && filter.predictor.empty() &&
         filter.name.empty() && !filter.limit.has_value();
}

// The options --stage, --predictor, --name and --limit.
void AddResultFilter(Command* command, ResultFilter* filter);

// A query for these rows of the view `results`: by cell, then by stage in the
// order in which they run, then by what was measured.
std::string ResultRowsSql(const std::string& sweep, const ResultFilter& filter);

// Whether there is such a row. False when the stage, or the whole sweep, has no
// result yet. InvalidArgument when the filter names what is not there: with
// what is.
absl::StatusOr<bool> HasResultRows(Database* database, const std::string& sweep,
                                   const ResultFilter& filter);

}  // namespace iclsweep
