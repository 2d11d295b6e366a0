#include "coordinator/spec/yaml_tree.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "coordinator/spec/errors.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr int kMostLevels = 64;
constexpr int64_t kMostNodes = 1'000'000;

// Bytes of the UTF-8 sequence at the start of `text`, 0 when it is malformed
// (overlong, surrogate, cut off).
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F))
    return 0;
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
    return 0;
  return length;
}

absl::Status CheckText(absl::string_view text, absl::string_view file) {
  if (text.size() > kMostBytes)
    return NotYaml(file, Place(), "the file is larger than 1 MiB");
  Place place{1, 1};
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const size_t length = Utf8Length(text);
    if (length == 0) return NotYaml(file, place, "not UTF-8 text");
    const bool control =
        (c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7F;
    if (control)
      return NotYaml(file, place,
                     absl::StrFormat("control character 0x%02x", c));
    text.remove_prefix(length);
    place = c == '\n' ? Place{place.line + 1, 1}
                      : Place{place.line, place.column + 1};
  }
  return absl::OkStatus();
}

// The commonest cause of a syntax error that does not name it.
std::string TabHint(absl::string_view text) {
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const size_t indent = std::min(line.find_first_not_of(" \t"), line.size());
    if (absl::StrContains(line.substr(0, indent), '\t'))
      return absl::StrCat("; line ", number,
                          " is indented by a tab, YAML takes spaces");
  }
  return "";
}

Place PlaceOf(const YAML::Mark& mark) {
  if (mark.line < 0 || mark.column < 0) return Place();
  return Place{mark.line + 1, mark.column + 1};
}

// Copies yaml-cpp's graph into a tree, within the limits.
class Copier {
 public:
  explicit Copier(absl::string_view file) : file_(file) {}

  // `fallback` is the place of a null, whose own mark points at the next line.
  absl::Status Copy(const YAML::Node& from, Place fallback, int level,
                    YamlNode* to) {
    to->place = from.IsNull() ? fallback : PlaceOf(from.Mark());
    if (level > kMostLevels)
      return NotYaml(file_, to->place, "more than 64 levels of nesting");
    if (++nodes_ > kMostNodes)
      return NotYaml(file_, to->place,
                     "more than 1000000 values once aliases are expanded");
    const std::string& tag = from.Tag();
    if (!tag.empty() && tag != "?" && tag != "!")
      return NotYaml(file_, to->place, "tags (!!type) cannot be used");
    switch (from.Type()) {
      case YAML::NodeType::Scalar:
        to->kind = YamlNode::Kind::kScalar;
        to->scalar = from.Scalar();
        to->quoted = tag == "!";
        return absl::OkStatus();
      case YAML::NodeType::Sequence:
        return CopyList(from, level, to);
      case YAML::NodeType::Map:
        return CopyMap(from, level, to);
      default:
        to->kind = YamlNode::Kind::kNull;
        return absl::OkStatus();
    }
  }

 private:
  absl::Status CopyList(const YAML::Node& from, int level, YamlNode* to) {
    to->kind = YamlNode::Kind::kList;
    for (const YAML::Node& item : from) {
      to->items.emplace_back();
      RETURN_IF_ERROR(Copy(item, to->place, level + 1, &to->items.back()));
    }
    return absl::OkStatus();
  }

  absl::Status CopyMap(const YAML::Node& from, int level, YamlNode* to) {
    to->kind = YamlNode::Kind::kMap;
    std::map<std::string, Place> seen;
    for (auto it = from.begin(); it != from.end(); ++it) {
      const Place place =
          it->first.IsNull() ? to->place : PlaceOf(it->first.Mark());
      if (!it->first.IsScalar())
        return NotYaml(file_, place, "a key must be a word");
      YamlEntry entry{it->first.Scalar(), place, {}};
      const auto [first, fresh] = seen.emplace(entry.key, place);
      if (!fresh) return DuplicateKey(file_, place, entry.key, first->second);
      RETURN_IF_ERROR(Copy(it->second, place, level + 1, &entry.value));
      to->entries.push_back(std::move(entry));
    }
    return absl::OkStatus();
  }

  absl::string_view file_;
  int64_t nodes_ = 0;
};

// Notes where documents begin; the rest of the events is ignored.
class DocumentStarts final : public YAML::EventHandler {
 public:
  const std::vector<Place>& Found() const { return places_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    places_.push_back(PlaceOf(mark));
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  std::vector<Place> places_;
};

// Exactly one document. At most two are looked at: on a stray comma, yaml-cpp
// reports empty documents for ever, so YAML::LoadAll never returns.
absl::Status CheckOneDocument(const std::string& text, absl::string_view file) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  while (starts.Found().size() < 2 && parser.HandleNextDocument(starts)) {
  }
  if (starts.Found().empty()) {
    return SpecError(file, Place(), "the sweep file is empty");
  }
  if (starts.Found().size() == 1) return absl::OkStatus();
  const Place second = starts.Found()[1];
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  const bool marked = second.line >= 1 &&
                      second.line <= static_cast<int>(lines.size()) &&
                      absl::StartsWith(lines[second.line - 1], "---");
  return marked
             ? SpecError(file, second,
                         "a second YAML document begins; a sweep file is one")
             : NotYaml(file, second, "the document has ended before this");
}

absl::StatusOr<YamlNode> LoadOneDocument(const std::string& text,
                                         absl::string_view file) {
  RETURN_IF_ERROR(CheckOneDocument(text, file));
  const YAML::Node document = YAML::Load(text);
  if (document.IsNull()) {
    return SpecError(file, Place(), "the sweep file is empty");
  }
  YamlNode root;
  RETURN_IF_ERROR(Copier(file).Copy(document, Place{1, 1}, 0, &root));
  return root;
}

}  // namespace

std::string Describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a mapping";
    case YamlNode::Kind::kScalar:
      break;
  }
  return absl::StrCat(node.quoted ? "the text " : "", Quoted(node.scalar));
}

const YamlEntry* FindEntry(const YamlNode& map, absl::string_view key) {
  const auto it =
      std::find_if(map.entries.begin(), map.entries.end(),
                   [&](const YamlEntry& entry) { return entry.key == key; });
  return it == map.entries.end() ? nullptr : &*it;
}

absl::StatusOr<YamlNode> ParseYaml(absl::string_view text,
                                   absl::string_view file_name) {
  RETURN_IF_ERROR(CheckText(text, file_name));
  // The border where yaml-cpp's exceptions end.
  try {
    return LoadOneDocument(std::string(text), file_name);
  } catch (const YAML::DeepRecursion& error) {
    return NotYaml(file_name, PlaceOf(error.mark),
                   "more than 64 levels of nesting");
  } catch (const YAML::Exception& error) {
    return NotYaml(file_name, PlaceOf(error.mark),
                   absl::StrCat(error.msg, TabHint(text)));
  } catch (const std::exception& error) {
    return NotYaml(file_name, Place(), error.what());
  }
}

}  // namespace iclsweep
