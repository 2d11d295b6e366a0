#include "coordinator/cli/table.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "coordinator/cli/output.h"
#include "nlohmann/json.hpp"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

std::string CellText(const Statement& query, int column, bool exact) {
  switch (query.Type(column)) {
    case 'n':
      return "";
    case 'i':
      return absl::StrCat(query.Integer(column));
    case 'r':
      return exact ? ExactDouble(query.Real(column))
                   : absl::StrFormat("%.4g", query.Real(column));
    case 'b':
      return absl::BytesToHexString(query.Text(column));
    default:
      return query.Text(column);
  }
}

std::string CsvText(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// Tabs separate cells and newlines rows, so neither may be in one.
std::string TabText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\t", " "}, {"\n", " "}, {"\r", " "}});
}

std::string JsonText(const Statement& query, int column) {
  switch (query.Type(column)) {
    case 'n':
      return "null";
    case 'i':
      return CellText(query, column, /*exact=*/true);
    case 'r':  // JSON has no infinity; by name, as in the canonical export
      return std::isfinite(query.Real(column))
                 ? ExactDouble(query.Real(column))
                 : JsonString(ExactDouble(query.Real(column)));
    default:
      return JsonString(CellText(query, column, true));
  }
}

std::string Line(const Statement& query, const PrintOptions& options,
                 const std::vector<std::string>& names) {
  std::string line;
  for (int column = 0; column < query.columns(); ++column) {
    const char* separator = column == 0                          ? ""
                            : options.format == RowFormat::kTabs ? "\t"
                                                                 : ",";
    if (options.format == RowFormat::kJsonLines) {
      absl::StrAppend(&line, separator,
                      JsonString(names[static_cast<size_t>(column)]), ":",
                      JsonText(query, column));
    } else if (options.format == RowFormat::kCsv) {
      absl::StrAppend(&line, separator, CsvText(CellText(query, column, true)));
    } else {
      absl::StrAppend(&line, separator, TabText(CellText(query, column, true)));
    }
  }
  return options.format == RowFormat::kJsonLines ? absl::StrCat("{", line, "}")
                                                 : line;
}

void PrintAligned(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<bool>& number, std::FILE* out) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", number[i] ? padding : row[i],
                      number[i] ? row[i] : padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::FPrintF(out, "%s\n", line);
  }
}

absl::StatusOr<size_t> PrintAlignedRows(Statement* query,
                                        const std::vector<std::string>& names,
                                        const PrintOptions& options,
                                        std::FILE* out) {
  std::vector<std::vector<std::string>> rows = {names};
  std::vector<bool> number(names.size(), true);
  size_t count = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, query->Step());
    if (!more) break;
    ++count;
    if (options.limit > 0 && count > options.limit) continue;
    std::vector<std::string> row;
    for (int column = 0; column < query->columns(); ++column) {
      row.push_back(CellText(*query, column, options.exact));
      const char type = query->Type(column);
      if (type == 't' || type == 'b')
        number[static_cast<size_t>(column)] = false;
    }
    rows.push_back(std::move(row));
  }
  PrintAligned(rows, number, out);
  if (options.limit > 0 && count > options.limit)
    absl::FPrintF(out, "... and %d more rows\n", count - options.limit);
  RETURN_IF_ERROR(FlushOutput(out));
  return count;
}

std::string HeaderLine(const std::vector<std::string>& names,
                       RowFormat format) {
  const bool csv = format == RowFormat::kCsv;
  std::string line;
  for (const std::string& name : names)
    absl::StrAppend(&line, &name == &names.front() ? "" : (csv ? "," : "\t"),
                    csv ? CsvText(name) : TabText(name));
  return line;
}

// Readers of JSON keep one of several members of a name.
absl::Status CheckNamesDiffer(const std::vector<std::string>& names) {
  std::set<absl::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second)
      return absl::InvalidArgumentError(absl::StrCat(
          "two columns are named '", name, "'; name them apart with AS"));
  }
  return absl::OkStatus();
}

}  // namespace

RowFormat FormatFor(bool json) {
  if (json) return RowFormat::kJsonLines;
  return ::isatty(STDOUT_FILENO) != 0 ? RowFormat::kAligned : RowFormat::kTabs;
}

std::string ExactDouble(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

std::string JsonString(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<size_t> PrintRows(Statement* query, const PrintOptions& options,
                                 std::FILE* out) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(query->columns()));
  for (int column = 0; column < query->columns(); ++column)
    names.push_back(query->ColumnName(column));
  if (options.format == RowFormat::kAligned)
    return PrintAlignedRows(query, names, options, out);
  if (options.format == RowFormat::kJsonLines) {
    RETURN_IF_ERROR(CheckNamesDiffer(names));
  } else {
    absl::FPrintF(out, "%s\n", HeaderLine(names, options.format));
  }
  size_t count = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, query->Step());
    if (!more) break;
    ++count;
    absl::FPrintF(out, "%s\n", Line(*query, options, names));
    if (std::ferror(out) != 0) break;  // nobody gets the rest
  }
  RETURN_IF_ERROR(FlushOutput(out));
  return count;
}

}  // namespace iclsweep
