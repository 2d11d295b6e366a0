#include "coordinator/spec/yaml_reader.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/spec/errors.h"
#include "coordinator/spec/field_value.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void AppendLeafPaths(const Descriptor& type, const std::string& prefix,
                     std::vector<std::string>* paths) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string path = absl::StrCat(prefix, field.name());
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AppendLeafPaths(*field.message_type(), path + ".", paths);
    } else {
      paths->push_back(path);
    }
  }
}

class TreeReader {
 public:
  TreeReader(const Descriptor& root, const std::vector<std::string>& others,
             Places* places)
      : root_(root), others_(others), places_(*places) {}

  absl::Status ReadSection(const YamlNode& node, const std::string& path,
                           Message* message) {
    if (node.kind == YamlNode::Kind::kNull) return absl::OkStatus();
    if (node.kind != YamlNode::Kind::kMap) {
      return WrongType(places_.FileName(), node.place,
                       path.empty() ? "a sweep file" : path,
                       "a mapping (key: value)", Describe(node));
    }
    for (const YamlEntry& entry : node.entries) {
      const bool elsewhere =
          path.empty() &&
          std::find(others_.begin(), others_.end(), entry.key) != others_.end();
      if (!elsewhere) RETURN_IF_ERROR(ReadEntry(entry, path, message));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadEntry(const YamlEntry& entry, const std::string& section,
                         Message* message) {
    const FieldDescriptor* field =
        message->GetDescriptor()->FindFieldByName(entry.key);
    if (field == nullptr) {
      return UnknownKey(places_.FileName(), entry.place, section, entry.key,
                        Hint(entry.key, section, *message->GetDescriptor()));
    }
    const std::string path =
        section.empty() ? entry.key : absl::StrCat(section, ".", entry.key);
    places_.Record(path, entry.place);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return ReadSection(
          entry.value, path,
          message->GetReflection()->MutableMessage(message, field));
    }
    return field->is_repeated()
               ? ReadList(*field, path, entry.value, message)
               : ReadScalar(*field, path, entry.value, message);
  }

  absl::Status ReadScalar(const FieldDescriptor& field, const std::string& path,
                          const YamlNode& node, Message* message) {
    if (node.kind == YamlNode::Kind::kList ||
        node.kind == YamlNode::Kind::kMap) {
      return WrongType(places_.FileName(), node.place, path, "one value",
                       absl::StrCat(Describe(node),
                                    "; several values belong under grid, as ",
                                    path, ": [...]"));
    }
    ASSIGN_OR_RETURN(const FieldValue value,
                     ParseFieldValue(field, path, node, places_.FileName()));
    SetField(field, value, message);
    return absl::OkStatus();
  }

  absl::Status ReadList(const FieldDescriptor& field, const std::string& path,
                        const YamlNode& node, Message* message) {
    const bool integers = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
    if (integers && node.kind == YamlNode::Kind::kMap) {
      return WrongType(
          places_.FileName(), node.place, path, "one order",
          absl::StrCat("a mapping; several orders belong under grid, as ", path,
                       ": {permutations: all}"));
    }
    if (integers) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> order,
                       ParseOrder(path, node, places_.FileName()));
      SetField(field, order, message);
      return absl::OkStatus();
    }
    if (node.kind != YamlNode::Kind::kList) {
      return WrongType(places_.FileName(), node.place, path, "a list",
                       Describe(node));
    }
    for (const YamlNode& item : node.items) {
      ASSIGN_OR_RETURN(const FieldValue value,
                       ParseFieldValue(field, path, item, places_.FileName()));
      SetField(field, value, message, /*add=*/true);
    }
    return absl::OkStatus();
  }

  // A sibling with nearly this name, else the place where exactly this name
  // belongs.
  std::string Hint(const std::string& key, const std::string& section,
                   const Descriptor& type) const {
    for (const std::string& path : LeafPaths(root_)) {
      if (absl::EndsWith(path, absl::StrCat(".", key)))
        return absl::StrCat("; did you mean '", path, "'?");
    }
    std::vector<std::string> names;
    names.reserve(type.field_count() + others_.size());
    for (int i = 0; i < type.field_count(); ++i)
      names.push_back(type.field(i)->name());
    if (section.empty())
      names.insert(names.end(), others_.begin(), others_.end());
    return DidYouMean(key, names);
  }

  const Descriptor& root_;
  const std::vector<std::string>& others_;
  Places& places_;
};

}  // namespace

std::vector<std::string> LeafPaths(const Descriptor& type) {
  std::vector<std::string> paths;
  AppendLeafPaths(type, "", &paths);
  return paths;
}

absl::Status ReadTree(const YamlNode& root,
                      const std::vector<std::string>& others, Message* message,
                      Places* places) {
  return TreeReader(*message->GetDescriptor(), others, places)
      .ReadSection(root, "", message);
}

absl::StatusOr<Places> ReadYaml(absl::string_view text,
                                absl::string_view file_name, Message* message) {
  ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, file_name));
  Places places(file_name);
  RETURN_IF_ERROR(ReadTree(root, {}, message, &places));
  return places;
}

}  // namespace iclsweep
