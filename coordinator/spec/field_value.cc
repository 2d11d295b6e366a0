#include "coordinator/spec/field_value.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "coordinator/spec/errors.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// What is being read, and where: the arguments every parser needs.
struct Subject {
  const FieldDescriptor& field;
  absl::string_view path;
  const YamlNode& node;
  absl::string_view file;

  absl::Status Wrong(absl::string_view takes) const {
    return WrongType(file, node.place, path, takes, Describe(node));
  }
};

bool IsInteger(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
}

bool LooksLikeInteger(absl::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+'))
    text.remove_prefix(1);
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isdigit(c); });
}

absl::StatusOr<FieldValue> ParseInteger(const Subject& subject) {
  const std::string& text = subject.node.scalar;
  if (subject.node.quoted || !LooksLikeInteger(text)) {
    const bool zeros = !subject.node.quoted && text.size() > 1 &&
                       LooksLikeInteger(absl::StrCat("1", text));
    return subject.Wrong(zeros ? "a whole number without leading zeros"
                               : "a whole number");
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value))
    return subject.Wrong("a whole number up to 9223372036854775807");
  if (subject.field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 &&
      (value > std::numeric_limits<int32_t>::max() ||
       value < std::numeric_limits<int32_t>::min())) {
    return subject.Wrong("a whole number up to 2147483647");
  }
  RETURN_IF_ERROR(CheckRange(subject.field, subject.path,
                             static_cast<double>(value), text, subject.file,
                             subject.node.place));
  return FieldValue(value);
}

absl::StatusOr<FieldValue> ParseDouble(const Subject& subject) {
  const std::string& text = subject.node.scalar;
  double value = 0;
  if (subject.node.quoted) return subject.Wrong("a number");
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == "nan" || lower == ".nan") {
    return SpecError(subject.file, subject.node.place,
                     absl::StrCat(subject.path, " must not be NaN"));
  }
  if (!absl::SimpleAtod(text, &value) || std::isnan(value) || text[0] == ' ')
    return subject.Wrong("a number");
  if (std::isinf(value)) {
    return SpecError(
        subject.file, subject.node.place,
        absl::StrCat(subject.path, " must be a finite number, not ",
                     Quoted(text)));
  }
  if (value == 0) value = 0.0;  // -0.0
  RETURN_IF_ERROR(CheckRange(subject.field, subject.path, value, text,
                             subject.file, subject.node.place));
  return FieldValue(value);
}

absl::StatusOr<FieldValue> ParseBool(const Subject& subject) {
  if (!subject.node.quoted && subject.node.scalar == "true")
    return FieldValue(true);
  if (!subject.node.quoted && subject.node.scalar == "false")
    return FieldValue(false);
  return subject.Wrong("true or false");
}

absl::StatusOr<FieldValue> ParseEnum(const Subject& subject) {
  const EnumDescriptor& type = *subject.field.enum_type();
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    names.push_back(EnumText(*type.value(i)));
    if (names.back() == subject.node.scalar)
      return FieldValue(int64_t{type.value(i)->number()});
  }
  const std::string hint =
      DidYouMean(absl::AsciiStrToLower(subject.node.scalar), names);
  return WrongType(subject.file, subject.node.place, subject.path,
                   absl::StrCat("one of ", absl::StrJoin(names, ", ")),
                   Describe(subject.node) + hint);
}

absl::string_view Takes(const FieldDescriptor& field) {
  if (IsInteger(field)) return "a whole number";
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) return "a number";
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return "true or false";
  return "a word";
}

}  // namespace

std::string ShortestDouble(double value) {
  for (int digits = 15; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double back = 0;
    if (absl::SimpleAtod(text, &back) && back == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

std::string EnumText(const google::protobuf::EnumValueDescriptor& value) {
  std::string prefix;  // ModelSize -> MODEL_SIZE_
  for (const char c : value.type()->name()) {
    if (absl::ascii_isupper(c) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(c);
  }
  prefix += '_';
  return absl::AsciiStrToLower(absl::StripPrefix(value.name(), prefix));
}

absl::Status CheckRange(const FieldDescriptor& field, absl::string_view path,
                        double value, absl::string_view shown,
                        absl::string_view file, Place place) {
  if (!field.options().HasExtension(v1::range)) return absl::OkStatus();
  const v1::Range& range = field.options().GetExtension(v1::range);
  const bool below =
      range.has_min() &&
      (range.exclusive_min() ? value <= range.min() : value < range.min());
  const bool above = range.has_max() && value > range.max();
  if (!below && !above) return absl::OkStatus();
  std::string bounds;
  if (range.has_min()) {
    bounds = absl::StrCat(range.exclusive_min() ? "greater than " : "at least ",
                          absl::StrFormat("%.17g", range.min()));
  }
  if (range.has_max()) {
    absl::StrAppend(&bounds, bounds.empty() ? "" : " and ", "at most ",
                    absl::StrFormat("%.15g", range.max()));
  }
  return SpecError(file, place,
                   absl::StrCat(path, " must be ", bounds, ", not ", shown));
}

absl::StatusOr<FieldValue> ParseFieldValue(const FieldDescriptor& field,
                                           absl::string_view path,
                                           const YamlNode& node,
                                           absl::string_view file) {
  const Subject subject{field, path, node, file};
  if (node.kind != YamlNode::Kind::kScalar) return subject.Wrong(Takes(field));
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return ParseInteger(subject);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return ParseDouble(subject);
    case FieldDescriptor::CPPTYPE_BOOL:
      return ParseBool(subject);
    case FieldDescriptor::CPPTYPE_ENUM:
      return ParseEnum(subject);
    case FieldDescriptor::CPPTYPE_STRING:
      return FieldValue(node.scalar);
    default:
      return subject.Wrong("a section");
  }
}

absl::StatusOr<std::vector<int32_t>> ParseOrder(absl::string_view path,
                                                const YamlNode& node,
                                                absl::string_view file) {
  constexpr absl::string_view takes = "an order such as [0, 2, 1] or 0-2-1";
  std::vector<std::string> parts;
  if (node.kind == YamlNode::Kind::kScalar) {
    parts = absl::StrSplit(node.scalar, '-');
  } else if (node.kind == YamlNode::Kind::kList) {
    for (const YamlNode& item : node.items)
      parts.push_back(item.quoted ? "" : item.scalar);
  } else {
    return WrongType(file, node.place, path, takes, Describe(node));
  }
  std::vector<int32_t> order;
  for (const std::string& part : parts) {
    int32_t task = 0;
    if (!LooksLikeInteger(part) || !absl::SimpleAtoi(part, &task) || task < 0) {
      return WrongType(file, node.place, path, takes,
                       node.kind == YamlNode::Kind::kList
                           ? absl::StrCat("[", absl::StrJoin(parts, ", "), "]")
                           : Describe(node));
    }
    order.push_back(task);
  }
  return order;
}

void SetField(const FieldDescriptor& field, const FieldValue& value,
              Message* message, bool add) {
  const Reflection& reflection = *message->GetReflection();
  if (const auto* order = std::get_if<std::vector<int32_t>>(&value)) {
    reflection.ClearField(message, &field);
    for (const int32_t task : *order)
      reflection.AddInt32(message, &field, task);
    return;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      const auto number = static_cast<int32_t>(std::get<int64_t>(value));
      return add ? reflection.AddInt32(message, &field, number)
                 : reflection.SetInt32(message, &field, number);
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      const int64_t number = std::get<int64_t>(value);
      return add ? reflection.AddInt64(message, &field, number)
                 : reflection.SetInt64(message, &field, number);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double number = std::get<double>(value);
      return add ? reflection.AddDouble(message, &field, number)
                 : reflection.SetDouble(message, &field, number);
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      const bool truth = std::get<bool>(value);
      return add ? reflection.AddBool(message, &field, truth)
                 : reflection.SetBool(message, &field, truth);
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto number = static_cast<int>(std::get<int64_t>(value));
      return add ? reflection.AddEnumValue(message, &field, number)
                 : reflection.SetEnumValue(message, &field, number);
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const auto& text = std::get<std::string>(value);
      return add ? reflection.AddString(message, &field, text)
                 : reflection.SetString(message, &field, text);
    }
    default:
      std::abort();  // the callers only come here with scalar fields
  }
}

FieldValue GetField(const FieldDescriptor& field, const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return int64_t{reflection.GetInt32(message, &field)};
    case FieldDescriptor::CPPTYPE_INT64:
      return int64_t{reflection.GetInt64(message, &field)};
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return int64_t{reflection.GetEnumValue(message, &field)};
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field);
    default:
      std::abort();
  }
}

FieldValue DefaultOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return int64_t{field.default_value_int32()};
    case FieldDescriptor::CPPTYPE_INT64:
      return int64_t{field.default_value_int64()};
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return field.default_value_double();
    case FieldDescriptor::CPPTYPE_BOOL:
      return field.default_value_bool();
    case FieldDescriptor::CPPTYPE_ENUM:
      return int64_t{field.default_value_enum()->number()};
    case FieldDescriptor::CPPTYPE_STRING:
      return field.default_value_string();
    default:
      std::abort();
  }
}

FieldValue GetElement(const FieldDescriptor& field, const Message& message,
                      int index) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return int64_t{reflection.GetRepeatedInt32(message, &field, index)};
    case FieldDescriptor::CPPTYPE_INT64:
      return int64_t{reflection.GetRepeatedInt64(message, &field, index)};
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetRepeatedDouble(message, &field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return int64_t{reflection.GetRepeatedEnumValue(message, &field, index)};
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetRepeatedString(message, &field, index);
    default:
      std::abort();
  }
}

std::string OrderText(absl::Span<const int32_t> order) {
  return absl::StrJoin(order, "-");
}

std::string ValueText(const FieldDescriptor& field, const FieldValue& value) {
  if (const auto* order = std::get_if<std::vector<int32_t>>(&value))
    return OrderText(*order);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* truth = std::get_if<bool>(&value))
    return *truth ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value))
    return ShortestDouble(*number);
  const int64_t integer = std::get<int64_t>(value);
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM)
    return absl::StrCat(integer);
  return EnumText(
      *field.enum_type()->FindValueByNumber(static_cast<int>(integer)));
}

std::string ValueJson(const FieldDescriptor& field, const FieldValue& value) {
  const std::string text = ValueText(field, value);
  const bool bare = std::holds_alternative<bool>(value) ||
                    std::holds_alternative<double>(value) ||
                    (std::holds_alternative<int64_t>(value) &&
                     field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM);
  return bare ? text : absl::StrCat("\"", text, "\"");
}

}  // namespace iclsweep
