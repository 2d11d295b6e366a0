// Rows as people and programs read them: aligned columns on a terminal,
// tab-separated lines elsewhere, JSON Lines on demand.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/sqlite/database.h"

namespace iclsweep {

enum class RowFormat { kAligned, kTabs, kCsv, kJsonLines };

// kAligned when stdout is a terminal, else kTabs; kJsonLines with --json.
RowFormat FormatFor(bool json);

struct PrintOptions {
  RowFormat format = RowFormat::kTabs;
  size_t limit = 0;    // rows of an aligned table; 0 = all. The rest is counted
                       // in a last line.
  bool exact = false;  // doubles so that they read back to the same bits, also
                       // in aligned tables
};

// Steps `query` to its end and prints every row. Returns the number of rows;
// Unavailable when they could not be written, InvalidArgument when JSON would
// give two columns one name.
absl::StatusOr<size_t> PrintRows(Statement* query, const PrintOptions& options,
                                 std::FILE* out);

// Shortest text that reads back to the same double; nan, inf and -inf by name.
std::string ExactDouble(double value);
// A JSON string with its quotes.
std::string JsonString(absl::string_view text);

}  // namespace iclsweep
