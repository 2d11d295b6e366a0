#include "coordinator/spec/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/spec/errors.h"
#include "coordinator/spec/orders.h"
#include "coordinator/spec/yaml_reader.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr absl::string_view kOrderPath = "prompt.task_order";

bool IsInteger(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
}

// An int64 of 0 or more.
const FieldDescriptor& AnyWhole() {
  return *v1::TrainInputs::descriptor()->FindFieldByName("seed");
}

// Reads one axis; the members are what every step needs.
class AxisParser {
 public:
  AxisParser(const YamlEntry& entry, const AxisContext& context,
             std::vector<std::string>* warnings)
      : entry_(entry),
        node_(entry.value),
        context_(context),
        warnings_(*warnings) {
    axis_.path = entry.key;
  }

  absl::StatusOr<Axis> Parse() {
    RETURN_IF_ERROR(FindRoute());
    if (node_.kind == YamlNode::Kind::kMap) {
      RETURN_IF_ERROR(ParseGenerated());
    } else if (node_.kind == YamlNode::Kind::kList) {
      RETURN_IF_ERROR(ParseListed());
    } else if (node_.kind == YamlNode::Kind::kNull) {
      return EmptyAxis(context_.file_name, entry_.place, axis_.path);
    } else {
      return WrongType(context_.file_name, node_.place,
                       absl::StrCat("axis ", axis_.path), "a list of values",
                       absl::StrCat(Describe(node_), "; write [",
                                    node_.scalar.substr(0, 40), "]"));
    }
    if (axis_.size() == 0)
      return EmptyAxis(context_.file_name, entry_.place, axis_.path);
    return std::move(axis_);
  }

 private:
  absl::Status ErrorHere(absl::string_view message) const {
    return SpecError(context_.file_name, entry_.place, message);
  }

  absl::Status FindRoute() {
    const Descriptor* type = v1::SweepFile::descriptor();
    for (const absl::string_view part : absl::StrSplit(axis_.path, '.')) {
      const FieldDescriptor* field =
          type == nullptr ? nullptr : type->FindFieldByName(std::string(part));
      if (field == nullptr) return UnknownPath();
      axis_.route.push_back(field);
      type = field->message_type();
    }
    const absl::string_view section = axis_.route.front()->name();
    if (type != nullptr) {
      return ErrorHere(
          absl::StrCat("axis ", axis_.path,
                       " is a section; an axis names one parameter, such as ",
                       axis_.path, ".", type->field(0)->name()));
    }
    if (section == "name" || section == "limits" || section == "shuffle")
      return ErrorHere(absl::StrCat(axis_.path, " cannot be an axis"));
    if (axis_.Field().is_repeated() && axis_.path != kOrderPath) {
      return ErrorHere(
          absl::StrCat(axis_.path, " is a list and cannot be an axis"));
    }
    return absl::OkStatus();
  }

  absl::Status UnknownPath() const {
    const std::vector<std::string> paths =
        LeafPaths(*v1::SweepFile::descriptor());
    std::string hint = DidYouMean(axis_.path, paths);
    for (const std::string& path :
         paths) {  // the last part alone: dims -> data.dims
      if (path.size() > axis_.path.size() &&
          path.substr(path.rfind('.') + 1) == axis_.path) {
        hint = absl::StrCat("; did you mean '", path, "'?");
        break;
      }
    }
    return ErrorHere(absl::StrCat("unknown axis ", Quoted(axis_.path), hint));
  }

  absl::Status ParseListed() {
    std::vector<AxisValue> values;
    std::map<AxisValue, Place> seen;
    for (const YamlNode& item : node_.items) {
      ASSIGN_OR_RETURN(AxisValue value, ParseAxisValue(axis_, item, context_));
      const auto [first, fresh] = seen.emplace(value, item.place);
      if (!fresh && !context_.keep_repeated) {
        warnings_.push_back(absl::StrCat(
            Where(context_.file_name, item.place), ": axis ", axis_.path,
            " has ", ValueText(axis_.Field(), value), " twice (first at line ",
            first->second.line, "); the second is dropped"));
        continue;
      }
      values.push_back(std::move(value));
    }
    axis_.values = std::move(values);
    return absl::OkStatus();
  }

  absl::Status ParseGenerated() {
    if (axis_.path == kOrderPath) return ParseOrders();
    for (const YamlEntry& key : node_.entries) {
      const bool spaced = key.key == "linspace" || key.key == "logspace";
      if (spaced && node_.entries.size() == 1) return ParseSpaced(key);
    }
    return ParseRange();
  }

  // {linspace: [first, last, n]}, {logspace: [first, last, n]}: n values, both
  // ends among them, with equal differences or equal ratios.
  absl::Status ParseSpaced(const YamlEntry& key) {
    const std::string path = absl::StrCat(key.key, " of axis ", axis_.path);
    if (axis_.Field().cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) {
      return SpecError(
          context_.file_name, key.place,
          absl::StrCat(key.key, " generates real numbers; ", axis_.path,
                       IsInteger(axis_.Field())
                           ? " takes whole ones: {range: [first, "
                             "end, step]}, or a list"
                           : " needs a list of values"));
    }
    const YamlNode& given = key.value;
    if (given.kind != YamlNode::Kind::kList || given.items.size() != 3)
      return WrongType(context_.file_name, given.place, path,
                       "[first, last, number of values]", Describe(given));
    std::array<double, 2> ends{};
    for (size_t i = 0; i < ends.size(); ++i) {
      ASSIGN_OR_RETURN(const FieldValue end,
                       ParseFieldValue(axis_.Field(), path, given.items[i],
                                       context_.file_name));
      ends[i] = std::get<double>(end);
    }
    ASSIGN_OR_RETURN(
        const FieldValue number,
        ParseFieldValue(AnyWhole(), path, given.items[2], context_.file_name));
    const int64_t count = std::get<int64_t>(number);
    if (count < 2 || static_cast<uint64_t>(count) > context_.max_values)
      return WrongType(context_.file_name, given.items[2].place, path,
                       absl::StrCat("2 to ", context_.max_values, " values"),
                       absl::StrCat(count));
    if (!(ends[0] < ends[1]))
      return SpecError(context_.file_name, given.place,
                       absl::StrCat(path,
                                    ": the first value must be below the "
                                    "last one"));
    if (key.key == "logspace" && !(ends[0] > 0))
      return SpecError(context_.file_name, given.items[0].place,
                       absl::StrCat(path, ": both ends must be above 0"));
    return SetSpaced(ends[0], ends[1], count, key.key == "logspace");
  }

  absl::Status SetSpaced(double first, double last, int64_t count,
                         bool logarithmic) {
    std::vector<AxisValue> values;
    values.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const double part =
          static_cast<double>(i) / static_cast<double>(count - 1);
      double value =
          logarithmic
              ? std::exp((1 - part) * std::log(first) + part * std::log(last))
              : (1 - part) * first + part * last;
      if (i == 0) value = first;
      if (i == count - 1) value = last;
      if (!values.empty() && values.back() == AxisValue(value))
        return ErrorHere(absl::StrCat("axis ", axis_.path, ": ", count,
                                      " values between ", ShortestDouble(first),
                                      " and ", ShortestDouble(last),
                                      " are too close to tell apart"));
      values.emplace_back(value);
    }
    axis_.values = std::move(values);
    return absl::OkStatus();
  }

  absl::Status ParseRange() {
    for (const YamlEntry& key : node_.entries) {
      if (key.key == "range") continue;
      const bool orders = key.key == "permutations" || key.key == "sample";
      return UnknownKey(
          context_.file_name, key.place, absl::StrCat("axis ", axis_.path),
          key.key,
          orders
              ? absl::StrCat("; it generates orders, for the axis ", kOrderPath)
              : DidYouMean(key.key, {"range", "linspace", "logspace"}));
    }
    if (node_.entries.empty())
      return EmptyAxis(context_.file_name, entry_.place, axis_.path);
    const YamlNode& bounds = node_.entries[0].value;
    if (!IsInteger(axis_.Field())) {
      return SpecError(context_.file_name, node_.entries[0].place,
                       absl::StrCat("range generates whole numbers; ",
                                    axis_.path, " needs a list of values"));
    }
    const std::string path = absl::StrCat("range of axis ", axis_.path);
    if (bounds.kind != YamlNode::Kind::kList || bounds.items.size() < 2 ||
        bounds.items.size() > 3) {
      return WrongType(context_.file_name, bounds.place, path,
                       "[first, end] or [first, end, step]", Describe(bounds));
    }
    std::vector<int64_t> numbers;
    for (const YamlNode& item : bounds.items) {
      ASSIGN_OR_RETURN(
          const FieldValue number,
          ParseFieldValue(AnyWhole(), path, item, context_.file_name));
      numbers.push_back(std::get<int64_t>(number));
    }
    return MakeRange(numbers, bounds.place);
  }

  absl::Status MakeRange(const std::vector<int64_t>& numbers, Place place) {
    IntegerRange range{numbers[0], numbers.size() == 3 ? numbers[2] : 1, 0};
    if (range.step < 1)
      return SpecError(context_.file_name, place,
                       "the step of a range must be at least 1");
    if (numbers[1] <= numbers[0]) {
      return SpecError(
          context_.file_name, place,
          absl::StrCat("axis ", axis_.path, " has no values: range [",
                       numbers[0], ", ", numbers[1],
                       ") is empty (the end is not included)"));
    }
    range.count = (static_cast<uint64_t>(numbers[1] - numbers[0]) - 1) /
                      static_cast<uint64_t>(range.step) +
                  1;
    const int64_t last =
        range.start + static_cast<int64_t>(range.count - 1) * range.step;
    for (const int64_t end : {range.start, last}) {
      if (axis_.Field().cpp_type() == FieldDescriptor::CPPTYPE_INT32 &&
          end > std::numeric_limits<int32_t>::max()) {
        return WrongType(context_.file_name, place, axis_.path,
                         "a whole number up to 2147483647", absl::StrCat(end));
      }
      RETURN_IF_ERROR(CheckRange(axis_.Field(), axis_.path,
                                 static_cast<double>(end), absl::StrCat(end),
                                 context_.file_name, place));
    }
    axis_.values = range;
    return absl::OkStatus();
  }

  absl::Status ParseOrders() {
    const YamlEntry* sample = nullptr;
    OrderSet set;
    set.tasks = context_.tasks;
    for (const YamlEntry& key : node_.entries) {
      if (key.key == "permutations") {
        if (key.value.scalar == "all") continue;
        return WrongType(
            context_.file_name, key.value.place, "permutations", "all",
            absl::StrCat(Describe(key.value),
                         "; {sample: 24, seed: 1} draws some of them"));
      }
      if (key.key != "sample" && key.key != "seed") {
        return UnknownKey(
            context_.file_name, key.place, absl::StrCat("axis ", axis_.path),
            key.key, DidYouMean(key.key, {"permutations", "sample", "seed"}));
      }
      ASSIGN_OR_RETURN(
          const FieldValue number,
          ParseFieldValue(AnyWhole(), key.key, key.value, context_.file_name));
      if (key.key == "seed") {
        set.seed = std::get<int64_t>(number);
      } else {
        sample = &key;
        set.count = static_cast<uint64_t>(std::get<int64_t>(number));
      }
    }
    if (node_.entries.empty())
      return EmptyAxis(context_.file_name, entry_.place, axis_.path);
    if (set.tasks == 0) {
      return ErrorHere(absl::StrCat("axis ", axis_.path,
                                    " generates orders, so prompt.tasks must "
                                    "have one value; it is an axis"));
    }
    if (sample != nullptr) return SampleOrders(*sample, std::move(set));
    if (FindEntry(node_, "permutations") == nullptr) {
      return ErrorHere("seed needs sample, as {sample: 24, seed: 1}");
    }
    if (FindEntry(node_, "seed") != nullptr)
      return ErrorHere("seed has no effect on all permutations");
    // More than 2^64 is more than any limit; the grid's size is checked later.
    set.count =
        OrderCount(set.tasks).value_or(std::numeric_limits<uint64_t>::max());
    axis_.values = std::move(set);
    return absl::OkStatus();
  }

  absl::Status SampleOrders(const YamlEntry& sample, OrderSet set) {
    set.sampled = true;
    const auto all = OrderCount(set.tasks);
    if (all.has_value() && set.count > *all) {
      return SpecError(
          context_.file_name, sample.place,
          absl::StrCat("a sample of ", set.count, " orders, but ", set.tasks,
                       " tasks have only ", set.tasks, "! = ", *all));
    }
    if (set.count > context_.max_values) {
      return GridTooLarge(context_.file_name, sample.place,
                          absl::StrCat(axis_.path, " ", set.count),
                          absl::StrCat(context_.max_values));
    }
    if (all.has_value()) {
      set.ranks = SampleRanks(set.tasks, set.count, set.seed);
    } else {
      set.orders = SampleLongOrders(set.tasks, set.count, set.seed);
    }
    axis_.values = std::move(set);
    return absl::OkStatus();
  }

  const YamlEntry& entry_;
  const YamlNode& node_;
  const AxisContext& context_;
  std::vector<std::string>& warnings_;
  Axis axis_;
};

}  // namespace

uint64_t Axis::size() const {
  if (const auto* range = std::get_if<IntegerRange>(&values))
    return range->count;
  if (const auto* orders = std::get_if<OrderSet>(&values)) return orders->count;
  return std::get<std::vector<AxisValue>>(values).size();
}

AxisValue Axis::ValueAt(uint64_t index) const {
  if (const auto* range = std::get_if<IntegerRange>(&values)) {
    return range->start + static_cast<int64_t>(index) * range->step;
  }
  if (const auto* set = std::get_if<OrderSet>(&values)) {
    if (!set->orders.empty()) return set->orders[index];
    return NthOrder(set->tasks, set->sampled ? set->ranks[index] : index);
  }
  return std::get<std::vector<AxisValue>>(values)[index];
}

void Axis::Apply(uint64_t index, v1::SweepFile* cell) const {
  google::protobuf::Message* message = cell;
  for (size_t i = 0; i + 1 < route.size(); ++i)
    message = message->GetReflection()->MutableMessage(message, route[i]);
  SetField(Field(), ValueAt(index), message);
}

std::vector<uint64_t> Axis::IndicesOf(const AxisValue& value) const {
  std::vector<uint64_t> indices;
  if (const auto* range = std::get_if<IntegerRange>(&values)) {
    const auto* number = std::get_if<int64_t>(&value);
    if (number == nullptr || *number < range->start ||
        (*number - range->start) % range->step != 0)
      return indices;
    const auto index =
        static_cast<uint64_t>((*number - range->start) / range->step);
    if (index < range->count) indices.push_back(index);
    return indices;
  }
  for (uint64_t index = 0; index < size(); ++index) {
    if (ValueAt(index) == value) indices.push_back(index);
  }
  return indices;
}

absl::StatusOr<AxisValue> ParseAxisValue(const Axis& axis, const YamlNode& node,
                                         const AxisContext& context) {
  if (axis.path != kOrderPath)
    return ParseFieldValue(axis.Field(), axis.path, node, context.file_name);
  ASSIGN_OR_RETURN(std::vector<int32_t> order,
                   ParseOrder(axis.path, node, context.file_name));
  if (context.tasks > 0) {
    std::vector<int32_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int32_t> all(static_cast<size_t>(context.tasks));
    std::iota(all.begin(), all.end(), 0);
    if (sorted != all) {
      return SpecError(context.file_name, node.place,
                       absl::StrCat("order ", Quoted(OrderText(order)),
                                    " is not a permutation of the tasks 0 .. ",
                                    context.tasks - 1, " (prompt.tasks is ",
                                    context.tasks, ")"));
    }
  }
  return AxisValue(std::move(order));
}

absl::StatusOr<Axis> ParseAxis(const YamlEntry& entry,
                               const AxisContext& context,
                               std::vector<std::string>* warnings) {
  return AxisParser(entry, context, warnings).Parse();
}

}  // namespace iclsweep
