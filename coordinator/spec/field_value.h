// One value of one parameter: parsed from YAML by the field's type, checked
// against its range option, written into a message, and shown. Sections and
// axes share it, so that a value means the same in both.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/spec/place.h"
#include "coordinator/spec/yaml_tree.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace iclsweep {

// int64: integers and enum numbers; double: never NaN, infinite or -0.0;
// vector: a task order.
using FieldValue =
    std::variant<int64_t, double, bool, std::string, std::vector<int32_t>>;

// The element a scalar (or an element of a list) field takes. Errors:
// InvalidArgument with the place.
absl::StatusOr<FieldValue> ParseFieldValue(
    const google::protobuf::FieldDescriptor& field, absl::string_view path,
    const YamlNode& node, absl::string_view file);
// A list of distinct whole numbers, [0, 2, 1] or the text 0-2-1.
absl::StatusOr<std::vector<int32_t>> ParseOrder(absl::string_view path,
                                                const YamlNode& node,
                                                absl::string_view file);
// InvalidArgument unless `value` lies in the field's range option and type.
absl::Status CheckRange(const google::protobuf::FieldDescriptor& field,
                        absl::string_view path, double value,
                        absl::string_view shown, absl::string_view file,
                        Place place);

// Sets a scalar field, replaces a list field by an order, or (with `add`)
// appends an element.
void SetField(const google::protobuf::FieldDescriptor& field,
              const FieldValue& value, google::protobuf::Message* message,
              bool add = false);
// The value of a scalar field, its default when unset. REQUIRES: not a list,
// not a message.
FieldValue GetField(const google::protobuf::FieldDescriptor& field,
                    const google::protobuf::Message& message);
// Its declared default.
FieldValue DefaultOf(const google::protobuf::FieldDescriptor& field);
FieldValue GetElement(const google::protobuf::FieldDescriptor& field,
                      const google::protobuf::Message& message, int index);

// "tiny", "0-1-2", "45", "0.001": what a sweep file would say; the shortest
// text that reads back to the same bits.
std::string ValueText(const google::protobuf::FieldDescriptor& field,
                      const FieldValue& value);
// The same as JSON: numbers and booleans bare, the rest in quotes.
std::string ValueJson(const google::protobuf::FieldDescriptor& field,
                      const FieldValue& value);
std::string OrderText(absl::Span<const int32_t> order);
std::string ShortestDouble(double value);
// GEOMETRY_ANGLE -> angle.
std::string EnumText(const google::protobuf::EnumValueDescriptor& value);

}  // namespace iclsweep
