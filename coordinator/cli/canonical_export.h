// The canonical export: what a sweep's results are, without when, where and how
// often they were computed.
#pragma once

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "storage/sqlite/database.h"

namespace iclsweep {

// JSON Lines: first the cells by index, then the jobs by key, each followed by
// its weights' SHA-256, its curve and its measurements in the order of their
// names. Doubles read back to the same bits.
absl::Status WriteCanonical(Database* database, const std::string& sweep,
                            std::FILE* out);

}  // namespace iclsweep
