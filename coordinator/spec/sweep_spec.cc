#include "coordinator/spec/sweep_spec.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/spec/checks.h"
#include "coordinator/spec/errors.h"
#include "coordinator/spec/existing_models.h"
#include "coordinator/spec/freeze.h"
#include "coordinator/spec/grid.h"
#include "coordinator/spec/resolve.h"
#include "coordinator/spec/yaml_reader.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

constexpr size_t kLongestName = 128;

absl::Status CheckName(const v1::SweepFile& base, const Places& places) {
  if (!base.has_name() || base.name().empty())
    return ParameterError(places, "name", "a sweep needs a name");
  const std::string& name = base.name();
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-';
  });
  if (plain && name.size() <= kLongestName) return absl::OkStatus();
  return ParameterError(
      places, "name",
      absl::StrCat("name must be 1 to ", kLongestName,
                   " of A-Z a-z 0-9 _ . -, not ", Quoted(name)));
}

absl::Status FindStages(const Places& places, SweepSpec* spec) {
  for (const Stage stage : kAllStages) {
    if (places.Has(StageName(stage))) spec->stages.push_back(stage);
  }
  if (spec->stages.empty()) {
    return SpecError(places.FileName(), Place(),
                     "nothing to do: no section train, evaluate, compare or "
                     "theory (a stage is present when its section is)");
  }
  for (const Stage stage : {Stage::kEvaluate, Stage::kCompare}) {
    if (spec->Has(stage) && !spec->Has(Stage::kTrain)) {
      return ParameterError(
          places, StageName(stage),
          absl::StrCat(StageName(stage),
                       " needs a trained model: add a train section"));
    }
  }
  return absl::OkStatus();
}

// A section that no stage reads is probably a mistake, but harmless.
void WarnOfIdleSections(const Places& places, SweepSpec* spec) {
  const std::vector<std::string> paths =
      LeafPaths(*v1::SweepFile::descriptor());
  for (const std::string section : {"model", "data", "prompt", "seed"}) {
    if (!places.Has(section)) continue;
    const bool idle =
        std::none_of(paths.begin(), paths.end(), [&](const std::string& path) {
          const bool here =
              path == section || absl::StartsWith(path, section + ".");
          return here && places.Has(path) &&
                 std::any_of(spec->stages.begin(), spec->stages.end(),
                             [&](Stage stage) {
                               return StageReads(*spec, stage, path);
                             });
        });
    if (!idle) continue;
    spec->warnings.push_back(absl::StrCat(
        Where(places.FileName(), places.Find(section)), ": ", section,
        " has no effect: no stage of this sweep reads it"));
  }
}

absl::Status CheckSetOnce(const Axis& axis, Place place, const Places& places) {
  if (!places.Has(axis.path)) return absl::OkStatus();
  return SpecError(
      places.FileName(), place,
      absl::StrCat(axis.path, " is an axis here and also set at line ",
                   places.Find(axis.path).line, "; keep one"));
}

absl::Status CheckAxisIsRead(const SweepSpec& spec, const Axis& axis,
                             const Places& places) {
  const bool read = std::any_of(
      spec.stages.begin(), spec.stages.end(),
      [&](Stage stage) { return StageReads(spec, stage, axis.path); });
  if (read) return absl::OkStatus();
  const auto names =
      absl::StrJoin(spec.stages, ", ", [](std::string* out, Stage stage) {
        absl::StrAppend(out, StageName(stage));
      });
  return ParameterError(places, axis.path,
                        absl::StrCat("axis ", axis.path,
                                     " has no effect: no stage of this sweep (",
                                     names, ") reads it"));
}

// Reads `grid`, `zip` and `exclude`.
class GridReader {
 public:
  GridReader(const YamlNode& root, const ParseOptions& options, Places* places,
             SweepSpec* spec)
      : root_(root), options_(options), places_(*places), spec_(*spec) {
    context_.file_name = places_.FileName();
    context_.max_values = options.max_cells;
  }

  absl::Status Read() {
    const YamlEntry* grid = Find("grid");
    const YamlEntry* zip = Find("zip");
    RETURN_IF_ERROR(CheckForms(grid, zip));
    context_.tasks = TasksVary(grid, zip) ? 0 : spec_.base.prompt().tasks();
    if (grid != nullptr) RETURN_IF_ERROR(ReadAxes(grid->value, -1));
    if (zip != nullptr) RETURN_IF_ERROR(ReadZip(zip->value));
    const YamlEntry* exclude = Find("exclude");
    const std::optional<uint64_t> points = CheckedPointCount(spec_);
    const uint64_t most =
        exclude == nullptr ? options_.max_cells : CellMap::kMostPoints;
    if (!points.has_value() || *points > most) {
      const YamlEntry* where = grid != nullptr ? grid : zip;
      return GridTooLarge(places_.FileName(), where->place, GridProduct(spec_),
                          exclude == nullptr
                              ? absl::StrCat(most)
                              : absl::StrCat(most, " points with exclude"));
    }
    for (const Axis& axis : spec_.axes)
      RETURN_IF_ERROR(CheckAxisIsRead(spec_, axis, places_));
    return exclude == nullptr ? absl::OkStatus() : ReadExclusions(*exclude);
  }

 private:
  absl::Status ErrorAt(Place place, absl::string_view message) const {
    return SpecError(places_.FileName(), place, message);
  }

  // Nothing where there is none, or an empty one.
  const YamlEntry* Find(absl::string_view key) const {
    const YamlEntry* entry = FindEntry(root_, key);
    if (entry == nullptr || entry->value.kind == YamlNode::Kind::kNull)
      return nullptr;
    const YamlNode& value = entry->value;
    const bool empty =
        value.kind == YamlNode::Kind::kList && value.items.empty();
    return empty && key != "grid" ? nullptr : entry;
  }

  absl::Status CheckForms(const YamlEntry* grid, const YamlEntry* zip) const {
    if (grid != nullptr && grid->value.kind != YamlNode::Kind::kMap)
      return WrongType(places_.FileName(), grid->value.place, "grid",
                       "a mapping (axis: [values])", Describe(grid->value));
    if (zip == nullptr) return absl::OkStatus();
    if (zip->value.kind != YamlNode::Kind::kList)
      return WrongType(places_.FileName(), zip->value.place, "zip",
                       "a list of mappings ([{axis: [values], axis: "
                       "[values]}])",
                       Describe(zip->value));
    for (const YamlNode& group : zip->value.items) {
      if (group.kind != YamlNode::Kind::kMap || group.entries.empty())
        return WrongType(places_.FileName(), group.place, "zip",
                         "mappings (axis: [values], axis: [values])",
                         Describe(group));
    }
    return absl::OkStatus();
  }

  static bool TasksVary(const YamlEntry* grid, const YamlEntry* zip) {
    constexpr absl::string_view tasks = "prompt.tasks";
    if (grid != nullptr && FindEntry(grid->value, tasks) != nullptr)
      return true;
    return zip != nullptr &&
           std::any_of(zip->value.items.begin(), zip->value.items.end(),
                       [&](const YamlNode& group) {
                         return FindEntry(group, tasks) != nullptr;
                       });
  }

  absl::Status ReadAxes(const YamlNode& map, int zip) {
    context_.keep_repeated = zip >= 0;
    for (const YamlEntry& entry : map.entries) {
      ASSIGN_OR_RETURN(Axis axis, ParseAxis(entry, context_, &spec_.warnings));
      axis.zip = zip;
      if (spec_.FindAxis(axis.path) != nullptr)
        return ErrorAt(
            entry.place,
            absl::StrCat(axis.path, " is an axis already, at line ",
                         places_.Find(axis.path).line, "; keep one"));
      RETURN_IF_ERROR(CheckSetOnce(axis, entry.place, places_));
      axis_places_.emplace_back(axis.path, entry.place);
      spec_.axes.push_back(std::move(axis));
    }
    for (const auto& [path, place] : axis_places_) places_.Record(path, place);
    return absl::OkStatus();
  }

  absl::Status ReadZip(const YamlNode& groups) {
    for (size_t i = 0; i < groups.items.size(); ++i) {
      const size_t first = spec_.axes.size();
      RETURN_IF_ERROR(ReadAxes(groups.items[i], static_cast<int>(i)));
      RETURN_IF_ERROR(CheckLengths(first));
      DropRepeated(first);
    }
    return absl::OkStatus();
  }

  absl::Status CheckLengths(size_t first) const {
    const Axis& lead = spec_.axes[first];
    for (size_t i = first + 1; i < spec_.axes.size(); ++i) {
      const Axis& axis = spec_.axes[i];
      if (axis.size() == lead.size()) continue;
      return ErrorAt(
          places_.Find(axis.path),
          absl::StrCat("zip: ", axis.path, " has ", axis.size(),
                       " values, but ", lead.path, " (line ",
                       places_.Find(lead.path).line, ") has ", lead.size(),
                       "; lists that advance together are equally long"));
    }
    return absl::OkStatus();
  }

  // Places at which all axes from `first` on say the same again. Generated
  // values do not repeat.
  void DropRepeated(size_t first) {
    std::vector<std::vector<AxisValue>*> lists;
    for (size_t i = first; i < spec_.axes.size(); ++i) {
      auto* list = std::get_if<std::vector<AxisValue>>(&spec_.axes[i].values);
      if (list == nullptr) return;
      lists.push_back(list);
    }
    std::set<std::vector<AxisValue>> seen;
    for (size_t place = 0; place < lists.front()->size();) {
      std::vector<AxisValue> values;
      values.reserve(lists.size());
      for (const auto* list : lists) values.push_back((*list)[place]);
      if (seen.insert(std::move(values)).second) {
        ++place;
        continue;
      }
      spec_.warnings.push_back(absl::StrCat(
          Where(places_.FileName(), places_.Find(spec_.axes[first].path)),
          ": zip: place ", place + 1, " of ", spec_.axes[first].path,
          " and its companions repeats an earlier one; it is dropped"));
      for (auto* list : lists)
        list->erase(list->begin() + static_cast<std::ptrdiff_t>(place));
    }
  }

  absl::Status ReadExclusions(const YamlEntry& exclude) {
    if (exclude.value.kind != YamlNode::Kind::kList)
      return WrongType(places_.FileName(), exclude.value.place, "exclude",
                       "a list of mappings ([{axis: value, axis: [values]}])",
                       Describe(exclude.value));
    for (const YamlNode& entry : exclude.value.items) {
      ASSIGN_OR_RETURN(Exclusion exclusion, ReadExclusion(entry));
      spec_.exclusions.push_back(std::move(exclusion));
    }
    const std::vector<bool> matched = MakeCells();
    for (size_t i = 0; i < matched.size(); ++i) {
      if (matched[i]) continue;
      spec_.warnings.push_back(
          absl::StrCat(Where(places_.FileName(), exclude.value.items[i].place),
                       ": exclude: no cell matches this entry"));
    }
    if (spec_.cells->cells() == 0)
      return ErrorAt(exclude.place, "exclude leaves no cell");
    if (spec_.cells->cells() > options_.max_cells)
      return GridTooLarge(places_.FileName(), exclude.place,
                          absl::StrCat(GridProduct(spec_), ", after exclude ",
                                       spec_.cells->cells()),
                          absl::StrCat(options_.max_cells));
    return absl::OkStatus();
  }

  absl::StatusOr<Exclusion> ReadExclusion(const YamlNode& entry) const {
    if (entry.kind != YamlNode::Kind::kMap || entry.entries.empty())
      return WrongType(places_.FileName(), entry.place, "exclude",
                       "mappings (axis: value, axis: [values])",
                       Describe(entry));
    Exclusion exclusion;
    for (const YamlEntry& of : entry.entries) {
      const Axis* axis = spec_.FindAxis(of.key);
      if (axis == nullptr) {
        std::vector<std::string> paths;
        for (const Axis& known : spec_.axes) paths.push_back(known.path);
        return ErrorAt(of.place, absl::StrCat("exclude: ", Quoted(of.key),
                                              " is no axis of this grid",
                                              DidYouMean(of.key, paths)));
      }
      ASSIGN_OR_RETURN(std::vector<uint64_t> digits, DigitsOf(*axis, of.value));
      exclusion.axes.emplace_back(axis - spec_.axes.data(), std::move(digits));
    }
    return exclusion;
  }

  // One value or a list of them; [0, 2, 1] is one order.
  absl::StatusOr<std::vector<uint64_t>> DigitsOf(const Axis& axis,
                                                 const YamlNode& value) const {
    const bool plain =
        value.kind == YamlNode::Kind::kList && axis.Field().is_repeated() &&
        std::all_of(value.items.begin(), value.items.end(),
                    [](const YamlNode& item) {
                      return item.kind == YamlNode::Kind::kScalar &&
                             !absl::StrContains(item.scalar, '-');
                    });
    const bool several = value.kind == YamlNode::Kind::kList && !plain;
    if (several && value.items.empty())
      return ErrorAt(value.place, absl::StrCat("exclude: ", axis.path,
                                               " has no value here"));
    std::set<uint64_t> digits;
    for (size_t i = 0; i < (several ? value.items.size() : 1); ++i) {
      const YamlNode& item = several ? value.items[i] : value;
      ASSIGN_OR_RETURN(const AxisValue wanted,
                       ParseAxisValue(axis, item, context_));
      const std::vector<uint64_t> found = axis.IndicesOf(wanted);
      if (found.empty()) return ErrorAt(item.place, NotAValue(axis, wanted));
      digits.insert(found.begin(), found.end());
    }
    return std::vector<uint64_t>(digits.begin(), digits.end());
  }

  static std::string NotAValue(const Axis& axis, const AxisValue& wanted) {
    constexpr uint64_t shown = 16;
    std::vector<std::string> values;
    for (uint64_t i = 0; i < std::min(axis.size(), shown); ++i)
      values.push_back(axis.TextAt(i));
    if (axis.size() > shown) values.emplace_back("...");
    return absl::StrCat("exclude: ", ValueText(axis.Field(), wanted),
                        " is no value of axis ", axis.path, " (",
                        absl::StrJoin(values, ", "), ")");
  }

  // Which exclusions match something.
  std::vector<bool> MakeCells() {
    auto cells = std::make_shared<CellMap>();
    std::vector<bool> matched(spec_.exclusions.size(), false);
    const Projection grid = WholeGrid(spec_);
    std::vector<uint64_t> digits(spec_.axes.size(), 0);
    for (uint64_t point = 0; point < grid.size(); ++point) {
      grid.DigitsAt(point, &digits);
      bool is_cell = true;
      for (size_t i = 0; i < matched.size(); ++i) {
        if (!spec_.exclusions[i].Matches(digits)) continue;
        matched[i] = true;
        is_cell = false;
      }
      cells->Add(is_cell);
    }
    spec_.cells = std::move(cells);
    return matched;
  }

  const YamlNode& root_;
  const ParseOptions& options_;
  Places& places_;
  SweepSpec& spec_;
  AxisContext context_;
  std::vector<std::pair<std::string, Place>> axis_places_;
};

}  // namespace

bool SweepSpec::Has(Stage stage) const {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

const Axis* SweepSpec::FindAxis(absl::string_view path) const {
  const auto it = std::find_if(axes.begin(), axes.end(), [&](const Axis& axis) {
    return axis.path == path;
  });
  return it == axes.end() ? nullptr : &*it;
}

bool SweepSpec::TakesModels() const {
  return !base.train().checkpoint().empty() ||
         FindAxis(kCheckpointPath) != nullptr;
}

absl::StatusOr<SweepSpec> ParseSweep(absl::string_view yaml,
                                     absl::string_view file_name,
                                     const ParseOptions& options) {
  ASSIGN_OR_RETURN(YamlNode root, ParseYaml(yaml, file_name));
  SweepSpec spec;
  Places places(file_name);
  ASSIGN_OR_RETURN(spec.models, PinModels(file_name, options, &root));
  RETURN_IF_ERROR(
      ReadTree(root, {"grid", "zip", "exclude"}, &spec.base, &places));
  RETURN_IF_ERROR(CheckName(spec.base, places));
  spec.name = spec.base.name();
  RETURN_IF_ERROR(FindStages(places, &spec));
  RETURN_IF_ERROR(GridReader(root, options, &places, &spec).Read());
  WarnOfIdleSections(places, &spec);
  RETURN_IF_ERROR(TakeModelSizes(places, &spec));
  RETURN_IF_ERROR(CheckSpec(spec, places));
  spec.hash_hex = SpecHash(spec);
  return spec;
}

absl::StatusOr<SweepSpec> ParseStoredSweep(absl::string_view yaml,
                                           absl::string_view name) {
  ParseOptions options;
  options.max_cells = std::numeric_limits<uint64_t>::max();
  return ParseSweep(yaml, absl::StrCat("sweep ", name, " (stored)"), options);
}

}  // namespace iclsweep
