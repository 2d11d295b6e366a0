#include "coordinator/spec/freeze.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/spec/field_value.h"
#include "coordinator/spec/resolve.h"
#include "coordinator/spec/yaml_reader.h"
#include "google/protobuf/descriptor.h"
#include "proto/base/sha256.h"

namespace iclsweep {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr uint64_t kMostListed =
    1000;  // longer generated axes stay in their generating form
constexpr size_t kMostShown = 16;  // values of an axis in a difference

// A field that says nothing: the cell would be the same without it.
bool IsRedundant(const SweepSpec& spec, const std::string& path,
                 const FieldDescriptor& field, const Message& message) {
  if (field.is_repeated())
    return message.GetReflection()->FieldSize(message, &field) == 0;
  if (!message.GetReflection()->HasField(message, &field)) return true;
  const v1::SweepFile& base = spec.base;
  const FieldValue value = GetField(field, message);
  if (absl::StartsWith(path, "prompt.data.")) {  // inherited from data
    return spec.FindAxis(absl::StrCat("data.", field.name())) == nullptr &&
           value == GetField(field, base.data());
  }
  if (field.name() ==
      "pretraining_noise_std") {  // inherited from data.noise_std
    return spec.FindAxis("data.noise_std") == nullptr &&
           value == FieldValue(base.data().noise_std());
  }
  const bool preset = spec.FindAxis("model.size") != nullptr ||
                      base.model().size() != v1::MODEL_SIZE_CUSTOM;
  const bool shape =
      path == "model.layers" || path == "model.heads" || path == "model.width";
  if (preset && shape) return false;  // a preset accepts it or not
  return value == DefaultOf(field);
}

std::string FieldJson(const FieldDescriptor& field, const Message& message) {
  if (!field.is_repeated()) return ValueJson(field, GetField(field, message));
  const int size = message.GetReflection()->FieldSize(message, &field);
  std::vector<std::string> elements;
  elements.reserve(size);
  for (int i = 0; i < size; ++i) {
    elements.push_back(ValueJson(field, GetElement(field, message, i)));
  }
  return absl::StrCat("[", absl::StrJoin(elements, ", "), "]");
}

// path -> JSON of every parameter that says something.
void Flatten(const SweepSpec& spec, const std::string& prefix,
             const Message& message, std::map<std::string, std::string>* out) {
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string path = absl::StrCat(prefix, field.name());
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!IsRedundant(spec, path, field, message))
        (*out)[path] = FieldJson(field, message);
    } else if (message.GetReflection()->HasField(message, &field)) {
      Flatten(spec, path + ".",
              message.GetReflection()->GetMessage(message, &field), out);
    }
  }
}

std::map<std::string, std::string> Parameters(const SweepSpec& spec) {
  std::map<std::string, std::string> parameters;
  Flatten(spec, "", spec.base, &parameters);
  return parameters;
}

// The members of a section as JSON, in the order of the fields; empty without
// content.
std::string SectionJson(const std::map<std::string, std::string>& parameters,
                        const std::string& prefix, const Descriptor& type) {
  std::vector<std::string> members;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string path = absl::StrCat(prefix, field.name());
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const std::string inner =
          SectionJson(parameters, path + ".", *field.message_type());
      const auto stage =
          prefix.empty() ? StageFromName(field.name()) : std::nullopt;
      const bool present =
          stage.has_value() &&
          parameters.count(absl::StrCat("stage ", field.name())) > 0;
      if (!inner.empty() || present)
        members.push_back(
            absl::StrCat("\"", field.name(), "\": {", inner, "}"));
    } else if (const auto it = parameters.find(path); it != parameters.end()) {
      members.push_back(absl::StrCat("\"", field.name(), "\": ", it->second));
    }
  }
  return absl::StrJoin(members, ", ");
}

std::vector<std::string> AxisJsonValues(const Axis& axis, uint64_t count) {
  std::vector<std::string> values;
  for (uint64_t i = 0; i < count; ++i) values.push_back(axis.JsonAt(i));
  return values;
}

std::string AxisJson(const Axis& axis) {
  if (axis.size() > kMostListed) {
    if (const auto* range = std::get_if<IntegerRange>(&axis.values)) {
      const int64_t last =
          range->start + static_cast<int64_t>(range->count - 1) * range->step;
      return absl::StrCat("{\"range\": [", range->start, ", ", last + 1, ", ",
                          range->step, "]}");
    }
  }
  if (const auto* orders = std::get_if<OrderSet>(&axis.values)) {
    const bool listed = axis.size() <= kMostListed && orders->tasks <= 10;
    if (!listed && orders->sampled)
      return absl::StrCat("{\"sample\": ", orders->count,
                          ", \"seed\": ", orders->seed, "}");
    if (!listed) return "{\"permutations\": \"all\"}";
  }
  return absl::StrCat(
      "[", absl::StrJoin(AxisJsonValues(axis, axis.size()), ", "), "]");
}

// For people: no quotes, cut after kMostShown values.
std::string AxisText(const Axis& axis) {
  std::vector<std::string> values;
  for (uint64_t i = 0; i < std::min<uint64_t>(axis.size(), kMostShown); ++i)
    values.push_back(axis.TextAt(i));
  const std::string more = axis.size() > kMostShown
                               ? absl::StrCat(", ... ", axis.size(), " values")
                               : "";
  return absl::StrCat("[", absl::StrJoin(values, ", "), more, "]");
}

std::string Unquoted(absl::string_view json) {
  std::string text(json);
  text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
  return text;
}

// What a parameter is when nothing was written.
std::string UnwrittenText(const SweepSpec& spec, const std::string& path) {
  if (spec.FindAxis(path) != nullptr) return "(in the grid)";
  if (absl::StartsWith(path, "prompt.data.") ||
      absl::EndsWith(path, ".pretraining_noise_std"))
    return "(inherited)";
  const Descriptor* type = v1::SweepFile::descriptor();
  const FieldDescriptor* field = nullptr;
  for (size_t start = 0; type != nullptr;) {
    const size_t dot = path.find('.', start);
    field = type->FindFieldByName(path.substr(start, dot - start));
    type = field == nullptr ? nullptr : field->message_type();
    start = dot + 1;
  }
  if (field == nullptr || field->is_repeated()) return "[]";
  return ValueText(*field, DefaultOf(*field));
}

void DiffParameters(const SweepSpec& before, const SweepSpec& after,
                    std::vector<std::string>* lines) {
  const auto old_values = Parameters(before);
  const auto new_values = Parameters(after);
  const auto text = [](const SweepSpec& spec, const auto& values,
                       const std::string& path) {
    const auto it = values.find(path);
    return it == values.end() ? UnwrittenText(spec, path)
                              : Unquoted(it->second);
  };
  for (const std::string& path : LeafPaths(*v1::SweepFile::descriptor())) {
    const auto old_value = old_values.find(path);
    const auto new_value = new_values.find(path);
    const bool in_old = old_value != old_values.end();
    const bool in_new = new_value != new_values.end();
    if (in_old == in_new && (!in_old || old_value->second == new_value->second))
      continue;
    lines->push_back(absl::StrCat(path, ": ", text(before, old_values, path),
                                  " -> ", text(after, new_values, path)));
  }
}

void DiffAxes(const SweepSpec& before, const SweepSpec& after,
              std::vector<std::string>* lines) {
  std::vector<std::string> kept_before;
  std::vector<std::string> kept_after;
  for (const Axis& axis : before.axes) {
    const Axis* other = after.FindAxis(axis.path);
    if (other == nullptr) {
      lines->push_back(absl::StrCat("grid ", axis.path, ": ", AxisText(axis),
                                    " -> (not in the grid)"));
      continue;
    }
    kept_before.push_back(axis.path);
    if (AxisJson(axis) == AxisJson(*other)) continue;
    const bool same_text = AxisText(axis) == AxisText(*other);
    lines->push_back(absl::StrCat("grid ", axis.path, ": ", AxisText(axis),
                                  " -> ", AxisText(*other),
                                  same_text ? " (other values)" : ""));
  }
  for (const Axis& axis : after.axes) {
    if (before.FindAxis(axis.path) != nullptr) {
      kept_after.push_back(axis.path);
    } else {
      lines->push_back(absl::StrCat("grid ", axis.path,
                                    ": (not in the grid) -> ", AxisText(axis)));
    }
  }
  if (kept_before == kept_after) return;
  lines->push_back(
      absl::StrCat("grid order: ", absl::StrJoin(kept_before, ", "), " -> ",
                   absl::StrJoin(kept_after, ", ")));
}

// An order alone would read back as several values.
std::vector<std::string> ExclusionJsons(const SweepSpec& spec) {
  std::vector<std::string> texts;
  for (const Exclusion& exclusion : spec.exclusions) {
    std::vector<std::string> members;
    for (const auto& [index, digits] : exclusion.axes) {
      const Axis& axis = spec.axes[index];
      std::vector<std::string> values;
      for (const uint64_t digit : digits) {
        std::string value = axis.JsonAt(digit);
        if (values.empty() || values.back() != value)
          values.push_back(std::move(value));
      }
      members.push_back(absl::StrCat("\"", axis.path, "\": [",
                                     absl::StrJoin(values, ", "), "]"));
    }
    texts.push_back(absl::StrCat("{", absl::StrJoin(members, ", "), "}"));
  }
  return texts;
}

// Which axes advance together.
std::vector<std::string> ZipTexts(const SweepSpec& spec) {
  std::map<int, std::vector<std::string>> zips;
  for (const Axis& axis : spec.axes) {
    if (axis.zip >= 0) zips[axis.zip].push_back(axis.path);
  }
  std::vector<std::string> texts;
  for (const auto& [zip, paths] : zips)
    texts.push_back(absl::StrJoin(paths, " with "));
  return texts;
}

void DiffLists(absl::string_view what, const std::vector<std::string>& before,
               const std::vector<std::string>& after,
               std::vector<std::string>* lines) {
  if (before == after) return;
  const auto text = [](const std::vector<std::string>& list) {
    return list.empty() ? std::string("none")
                        : Unquoted(absl::StrJoin(list, ", "));
  };
  lines->push_back(absl::StrCat(what, ": ", text(before), " -> ", text(after)));
}

}  // namespace

std::string CanonicalJson(const SweepSpec& spec) {
  std::map<std::string, std::string> parameters = Parameters(spec);
  for (const Stage stage : spec.stages)
    parameters[absl::StrCat("stage ", StageName(stage))] = "";
  std::string text = absl::StrCat(
      "{", SectionJson(parameters, "", *v1::SweepFile::descriptor()));
  std::vector<std::string> axes;
  std::map<int, std::vector<std::string>> zips;
  for (const Axis& axis : spec.axes)
    (axis.zip < 0 ? axes : zips[axis.zip])
        .push_back(absl::StrCat("\"", axis.path, "\": ", AxisJson(axis)));
  if (!axes.empty())
    absl::StrAppend(&text, ", \"grid\": {", absl::StrJoin(axes, ", "), "}");
  std::vector<std::string> groups;
  for (const auto& [zip, members] : zips)
    groups.push_back(absl::StrCat("{", absl::StrJoin(members, ", "), "}"));
  if (!groups.empty())
    absl::StrAppend(&text, ", \"zip\": [", absl::StrJoin(groups, ", "), "]");
  const std::vector<std::string> exclusions = ExclusionJsons(spec);
  if (!exclusions.empty())
    absl::StrAppend(&text, ", \"exclude\": [", absl::StrJoin(exclusions, ", "),
                    "]");
  return text + "}";
}

std::string SpecHash(const SweepSpec& spec) {
  return Sha256Hex(absl::StrCat("iclsweep sweep 1\n", CanonicalJson(spec)));
}

std::vector<std::string> DiffSpecs(const SweepSpec& before,
                                   const SweepSpec& after) {
  std::vector<std::string> lines;
  for (const Stage stage : kAllStages) {
    if (before.Has(stage) == after.Has(stage)) continue;
    lines.push_back(absl::StrCat(
        StageName(stage),
        after.Has(stage) ? ": absent -> present" : ": present -> absent"));
  }
  DiffParameters(before, after, &lines);
  DiffAxes(before, after, &lines);
  DiffLists("zip", ZipTexts(before), ZipTexts(after), &lines);
  DiffLists("exclude", ExclusionJsons(before), ExclusionJsons(after), &lines);
  return lines;
}

}  // namespace iclsweep
