#include "proto/canonical.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"
#include "proto/base/sha256.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status Refuse(const FieldDescriptor& field, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field.full_name(), ": ", why));
}

// Big-endian, 4 or 8 bytes.
template <typename Integer>
void AppendBigEndian(Integer value, std::string* out) {
  char bytes[sizeof(Integer)];
  for (size_t i = sizeof bytes; i-- > 0;
       value = static_cast<Integer>(value >> 8)) {
    bytes[i] = static_cast<char>(value & 0xFF);
  }
  out->append(bytes, sizeof bytes);
}
void AppendUint32(uint32_t value, std::string* out) {
  AppendBigEndian(value, out);
}
void AppendUint64(uint64_t value, std::string* out) {
  AppendBigEndian(value, out);
}

void AppendPart(absl::string_view part, std::string* out) {
  AppendUint64(part.size(), out);
  out->append(part.data(), part.size());
}

uint64_t CanonicalBits(double value) {
  if (value == 0) value = 0.0;  // -0.0
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// The letter of the table in the header, or 0 for a type without a form.
char KindOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_INT32:
    case FieldDescriptor::TYPE_INT64:
      return 'i';
    case FieldDescriptor::TYPE_UINT32:
    case FieldDescriptor::TYPE_UINT64:
      return 'u';
    case FieldDescriptor::TYPE_BOOL:
      return 'b';
    case FieldDescriptor::TYPE_DOUBLE:
      return 'd';
    case FieldDescriptor::TYPE_ENUM:
      return 'e';
    case FieldDescriptor::TYPE_STRING:
      return 's';
    case FieldDescriptor::TYPE_MESSAGE:
      return field.is_map() ? '\0' : 'm';
    default:
      return '\0';
  }
}

absl::Status AppendDouble(const FieldDescriptor& field, double value,
                          std::string* out) {
  if (std::isnan(value)) return Refuse(field, "NaN has no canonical form");
  AppendUint64(CanonicalBits(value), out);
  return absl::OkStatus();
}

absl::Status AppendString(const FieldDescriptor& field,
                          const std::string& value, std::string* out) {
  const bool plain =
      !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
        return absl::ascii_isalnum(c) || absl::StrContains("_.:/-", c);
      });
  if (!plain)
    return Refuse(field,
                  "a string must be one or more of A-Z a-z 0-9 _ . : / -");
  *out += value;
  return absl::OkStatus();
}

absl::Status AppendForm(const Message& message, std::string* out);

absl::Status AppendElement(const Message& message, const FieldDescriptor& field,
                           int index, std::string* out) {
  const Reflection& reflection = *message.GetReflection();
  std::string scratch;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      AppendUint64(static_cast<uint64_t>(int64_t{
                       reflection.GetRepeatedInt32(message, &field, index)}),
                   out);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_INT64:
      AppendUint64(static_cast<uint64_t>(
                       reflection.GetRepeatedInt64(message, &field, index)),
                   out);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_UINT32:
      AppendUint64(reflection.GetRepeatedUInt32(message, &field, index), out);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_UINT64:
      AppendUint64(reflection.GetRepeatedUInt64(message, &field, index), out);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL:
      out->push_back(reflection.GetRepeatedBool(message, &field, index) ? '\1'
                                                                        : '\0');
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return AppendDouble(
          field, reflection.GetRepeatedDouble(message, &field, index), out);
    case FieldDescriptor::CPPTYPE_ENUM:
      AppendUint64(
          static_cast<uint64_t>(
              int64_t{reflection.GetRepeatedEnumValue(message, &field, index)}),
          out);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_STRING:
      return AppendString(field,
                          reflection.GetRepeatedStringReference(
                              message, &field, index, &scratch),
                          out);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AppendForm(reflection.GetRepeatedMessage(message, &field, index),
                        out);
    default:
      return Refuse(field, "this type has no canonical form");
  }
}

// Appends nothing when the value is the declared default. REQUIRES: the field
// is set.
absl::Status AppendSingular(const Message& message,
                            const FieldDescriptor& field, std::string* out) {
  const Reflection& reflection = *message.GetReflection();
  std::string scratch;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      const int32_t value = reflection.GetInt32(message, &field);
      if (value != field.default_value_int32())
        AppendUint64(static_cast<uint64_t>(int64_t{value}), out);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      const int64_t value = reflection.GetInt64(message, &field);
      if (value != field.default_value_int64())
        AppendUint64(static_cast<uint64_t>(value), out);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      const uint32_t value = reflection.GetUInt32(message, &field);
      if (value != field.default_value_uint32()) AppendUint64(value, out);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      const uint64_t value = reflection.GetUInt64(message, &field);
      if (value != field.default_value_uint64()) AppendUint64(value, out);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      const bool value = reflection.GetBool(message, &field);
      if (value != field.default_value_bool())
        out->push_back(value ? '\1' : '\0');
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double value = reflection.GetDouble(message, &field);
      if (CanonicalBits(value) == CanonicalBits(field.default_value_double()))
        return absl::OkStatus();
      return AppendDouble(field, value, out);
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int value = reflection.GetEnumValue(message, &field);
      if (value != field.default_value_enum()->number())
        AppendUint64(static_cast<uint64_t>(int64_t{value}), out);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string& value =
          reflection.GetStringReference(message, &field, &scratch);
      return value == field.default_value_string()
                 ? absl::OkStatus()
                 : AppendString(field, value, out);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AppendForm(reflection.GetMessage(message, &field), out);
    default:
      return Refuse(field, "this type has no canonical form");
  }
}

void AppendRecord(int number, char kind, absl::string_view payload,
                  std::string* out) {
  AppendUint32(static_cast<uint32_t>(number), out);
  out->push_back(kind);
  AppendPart(payload, out);
}

absl::Status AppendField(const Message& message, const FieldDescriptor& field,
                         std::string* out) {
  const char kind = KindOf(field);
  if (kind == '\0' || field.real_containing_oneof() != nullptr) {
    return Refuse(field, "this type has no canonical form");
  }
  const Reflection& reflection = *message.GetReflection();
  std::string payload;
  if (!field.is_repeated()) {
    if (!reflection.HasField(message, &field)) return absl::OkStatus();
    RETURN_IF_ERROR(AppendSingular(message, field, &payload));
    if (!payload.empty()) AppendRecord(field.number(), kind, payload, out);
    return absl::OkStatus();
  }
  const int size = reflection.FieldSize(message, &field);
  if (size == 0) return absl::OkStatus();
  std::string element;
  for (int i = 0; i < size; ++i) {
    element.clear();
    RETURN_IF_ERROR(AppendElement(message, field, i, &element));
    AppendPart(element, &payload);
  }
  AppendRecord(field.number(),
               absl::ascii_toupper(static_cast<unsigned char>(kind)), payload,
               out);
  return absl::OkStatus();
}

absl::Status AppendForm(const Message& message, std::string* out) {
  const Descriptor& type = *message.GetDescriptor();
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        type.full_name(), ": unknown field or enum value at field number ",
        unknown.field(0).number()));
  }
  if (type.extension_range_count() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(type.full_name(), ": extensions have no canonical form"));
  }
  std::vector<const FieldDescriptor*> fields(type.field_count());
  for (int i = 0; i < type.field_count(); ++i) fields[i] = type.field(i);
  const auto by_number = [](const FieldDescriptor* a,
                            const FieldDescriptor* b) {
    return a->number() < b->number();
  };
  if (!std::is_sorted(fields.begin(), fields.end(), by_number)) {
    std::sort(fields.begin(), fields.end(), by_number);
  }
  for (const FieldDescriptor* field : fields)
    RETURN_IF_ERROR(AppendField(message, *field, out));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> CanonicalForm(const Message& message) {
  std::string form;
  RETURN_IF_ERROR(AppendForm(message, &form));
  return form;
}

absl::StatusOr<JobKey> ComputeJobKey(Stage stage, const Message& inputs,
                                     absl::Span<const JobKey> dependencies,
                                     bool fast) {
  ASSIGN_OR_RETURN(const std::string form, CanonicalForm(inputs));
  std::string text;
  std::string number;
  AppendUint32(kKeyFormatVersion, &number);
  AppendPart(number, &text);
  AppendPart(StageName(stage), &text);
  number.clear();
  AppendUint32(NumericsVersion(stage), &number);
  AppendPart(number, &text);
  AppendPart(fast ? "fast" : "strict", &text);
  AppendPart(form, &text);
  for (const JobKey& key : dependencies) {
    AppendPart(
        absl::string_view(reinterpret_cast<const char*>(key.bytes.data()),
                          key.bytes.size()),
        &text);
  }
  return JobKey{Sha256().Update(text).Finish()};
}

}  // namespace iclsweep
