#include "coordinator/spec/errors.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace iclsweep {
namespace {

constexpr size_t kLongestQuote = 60;

// Edits that turn one word into the other: a letter more, less or other, or
// two neighbours swapped.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string Quoted(absl::string_view text) {
  if (text.size() <= kLongestQuote)
    return absl::StrCat("'", absl::Utf8SafeCEscape(text), "'");
  size_t end = kLongestQuote;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;  // not inside a UTF-8 sequence
  return absl::StrCat("'", absl::Utf8SafeCEscape(text.substr(0, end)), "...'");
}

std::string DidYouMean(absl::string_view word,
                       const std::vector<std::string>& candidates) {
  if (word.size() > 100) return "";
  size_t best = std::max<size_t>(1, word.size() / 3) + 1;
  absl::string_view nearest;
  for (const std::string& candidate : candidates) {
    const size_t distance = Distance(word, candidate);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
}

std::string Where(absl::string_view file, Place place) {
  if (place.line == 0) return std::string(file);
  return absl::StrCat(file, ":", place.line, ":", place.column);
}

absl::Status SpecError(absl::string_view file, Place place,
                       absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat(Where(file, place), ": ", message));
}

absl::Status ParameterError(const Places& places, absl::string_view path,
                            absl::string_view message) {
  return SpecError(places.FileName(), places.Find(path), message);
}

absl::Status NotYaml(absl::string_view file, Place place,
                     absl::string_view why) {
  return SpecError(file, place, absl::StrCat("not valid YAML: ", why));
}

absl::Status UnknownKey(absl::string_view file, Place place,
                        absl::string_view section, absl::string_view key,
                        absl::string_view hint) {
  const std::string in = section.empty() ? "" : absl::StrCat(" in ", section);
  return SpecError(file, place,
                   absl::StrCat("unknown key ", Quoted(key), in, hint));
}

absl::Status DuplicateKey(absl::string_view file, Place place,
                          absl::string_view key, Place first) {
  return SpecError(
      file, place,
      absl::StrCat(Quoted(key), " is set twice; first at line ", first.line));
}

absl::Status WrongType(absl::string_view file, Place place,
                       absl::string_view path, absl::string_view takes,
                       absl::string_view got) {
  return SpecError(file, place,
                   absl::StrCat(path, " takes ", takes, ", not ", got));
}

absl::Status NotAvailable(absl::string_view file, Place place,
                          absl::string_view what) {
  return SpecError(file, place,
                   absl::StrCat(what, " is not available in this version"));
}

absl::Status EmptyAxis(absl::string_view file, Place place,
                       absl::string_view path) {
  return SpecError(file, place, absl::StrCat("axis ", path, " has no values"));
}

absl::Status GridTooLarge(absl::string_view file, Place place,
                          absl::string_view product, absl::string_view limit) {
  return SpecError(
      file, place,
      absl::StrCat("the grid has ", product, " cells, more than the limit of ",
                   limit, " (--max-cells sets it)"));
}

}  // namespace iclsweep
