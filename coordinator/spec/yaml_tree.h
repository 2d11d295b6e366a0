// One YAML document as a plain tree with places. It isolates the rest from
// yaml-cpp (its exceptions, aliases, marks and silent tolerance): what reaches
// the tree is one document, valid UTF-8, without duplicate keys, tags or
// unbounded expansion of aliases. It knows nothing about parameters.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/spec/place.h"

namespace iclsweep {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string scalar;
  bool quoted = false;  // 'x', "x" and block text: never a number
  Place place;          // of an alias: of what it stands for
  std::vector<YamlNode> items;
  std::vector<YamlEntry> entries;  // in file order
};

struct YamlEntry {
  std::string key;
  Place place;
  YamlNode value;
};

// What a node is, for messages: "nothing", "a list", "a mapping", or its text
// in quotes.
std::string Describe(const YamlNode& node);
// nullptr when the mapping has no such key.
const YamlEntry* FindEntry(const YamlNode& map, absl::string_view key);

// Limits: 1 MiB of text, 64 levels, 1,000,000 nodes after aliases. Errors:
// InvalidArgument, one line with the place.
absl::StatusOr<YamlNode> ParseYaml(absl::string_view text,
                                   absl::string_view file_name);

}  // namespace iclsweep
