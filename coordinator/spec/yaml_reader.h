// One YAML document into one proto message, by reflection: keys are field
// names, nested mappings are submessages. Strict: unknown keys (with "did you
// mean"), wrong types, values outside a field's range option, duplicate keys
// and NaN are errors with file:line:column. A key without a value is an empty
// section. Enums are written in lower case without their prefix. It checks
// single fields only; what fields mean together is checks.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/spec/place.h"
#include "coordinator/spec/yaml_tree.h"
#include "google/protobuf/message.h"

namespace iclsweep {

// Reads all of `text`; the place of every key read is recorded under its dotted
// path.
absl::StatusOr<Places> ReadYaml(absl::string_view text,
                                absl::string_view file_name,
                                google::protobuf::Message* message);

// The same for a tree. Top-level keys in `others` are left to the caller.
absl::Status ReadTree(const YamlNode& root,
                      const std::vector<std::string>& others,
                      google::protobuf::Message* message, Places* places);

// Dotted paths of every field below a message type that is not a message
// itself.
std::vector<std::string> LeafPaths(const google::protobuf::Descriptor& type);

}  // namespace iclsweep
