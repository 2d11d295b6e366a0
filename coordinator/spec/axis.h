// One axis of the grid: a parameter's dotted path and the values it takes,
// listed or generated (a range, all orders, a sample of orders; these cost no
// memory per value). It knows how to write a value into the sections of a cell.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/spec/field_value.h"
#include "coordinator/spec/place.h"
#include "coordinator/spec/yaml_tree.h"
#include "google/protobuf/descriptor.h"
#include "iclsweep/v1/params.pb.h"

namespace iclsweep {

using AxisValue = FieldValue;

// start, start + step, ...: `count` values.
struct IntegerRange {
  int64_t start = 0;
  int64_t step = 1;
  uint64_t count = 0;
};

// All orders of `tasks` tasks, or a sample of them.
struct OrderSet {
  int tasks = 0;
  uint64_t count = 0;
  bool sampled = false;
  int64_t seed = 0;
  std::vector<uint64_t> ranks;  // of a sample, at most kMostNumberedTasks tasks
  std::vector<std::vector<int32_t>> orders;  // of a sample of longer ones
};

struct Axis {
  std::string path;  // "prompt.task_order"
  std::vector<const google::protobuf::FieldDescriptor*>
      route;  // from SweepFile to the field
  std::variant<std::vector<AxisValue>, IntegerRange, OrderSet> values;
  int zip = -1;  // axes of one number advance together; -1 = by itself

  const google::protobuf::FieldDescriptor& Field() const {
    return *route.back();
  }
  uint64_t size() const;
  AxisValue ValueAt(uint64_t index) const;
  // As a sweep file would say it ("tiny", "0-1-2", "45"), and as JSON.
  std::string TextAt(uint64_t index) const {
    return ValueText(Field(), ValueAt(index));
  }
  std::string JsonAt(uint64_t index) const {
    return ValueJson(Field(), ValueAt(index));
  }
  void Apply(uint64_t index, v1::SweepFile* cell) const;
  // Where the value stands; of an axis that advances with others it may stand
  // at several places. Empty = nowhere.
  std::vector<uint64_t> IndicesOf(const AxisValue& value) const;
};

// What reading an axis needs to know about the rest of the file.
struct AxisContext {
  absl::string_view file_name;
  int tasks = 0;            // prompt.tasks; 0 when it is an axis itself
  uint64_t max_values = 0;  // generated sets that are kept in memory (samples)
                            // are refused above this
  bool keep_repeated = false;  // values may repeat: other axes tell them apart
};

// Errors: InvalidArgument for an unknown path (with a suggestion), a path that
// cannot vary, an empty axis, a bad value, an order that does not fit
// context.tasks. Values that repeat are dropped and reported, unless
// context.keep_repeated.
absl::StatusOr<Axis> ParseAxis(const YamlEntry& entry,
                               const AxisContext& context,
                               std::vector<std::string>* warnings);

// One value of the axis. Errors: InvalidArgument with the place.
absl::StatusOr<AxisValue> ParseAxisValue(const Axis& axis, const YamlNode& node,
                                         const AxisContext& context);

}  // namespace iclsweep
