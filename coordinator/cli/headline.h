// The few numbers a sweep is looked at for first, as one or two queries per
// stage over the `results` view: averaged over task orders and seeds, one row
// per combination of the other axes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/sqlite/database.h"

namespace iclsweep {

struct Headline {
  std::string name;  // "compare_further"; tells the tables apart in JSON
  std::string title;
  std::string note;  // how many cells are extrapolated; empty when none is
  std::string sql;   // what a user could type
};

// Those of every stage that has results in the sweep. NotFound: no such sweep.
absl::StatusOr<std::vector<Headline>> Headlines(Database* database,
                                                const std::string& sweep);

// Prints every headline table with its query; as JSON the rows only, each with
// the name of its `table`.
absl::Status PrintHeadlines(Database* database, const std::string& sweep,
                            bool json);

// The sweep's name; the newest one for "". NotFound when there is none.
absl::StatusOr<std::string> ResolveSweepName(Database* database,
                                             const std::string& sweep);

}  // namespace iclsweep
