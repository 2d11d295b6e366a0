#include "coordinator/spec/sweep_spec.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/spec/checks.h"
#include "coordinator/spec/errors.h"
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

absl::Status RefuseLaterForms(const YamlNode& root, absl::string_view file) {
  for (const char* form : {"zip", "exclude"}) {
    const YamlEntry* entry = FindEntry(root, form);
    if (entry == nullptr || entry->value.kind == YamlNode::Kind::kNull)
      continue;
    const bool empty = entry->value.kind == YamlNode::Kind::kList &&
                       entry->value.items.empty();
    if (!empty) return NotAvailable(file, entry->place, form);
  }
  return absl::OkStatus();
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

absl::Status ReadGrid(const YamlNode& root, const ParseOptions& options,
                      Places* places, SweepSpec* spec) {
  const YamlEntry* grid = FindEntry(root, "grid");
  if (grid == nullptr || grid->value.kind == YamlNode::Kind::kNull)
    return absl::OkStatus();
  if (grid->value.kind != YamlNode::Kind::kMap) {
    return WrongType(places->FileName(), grid->value.place, "grid",
                     "a mapping (axis: [values])", Describe(grid->value));
  }
  AxisContext context;
  context.file_name = places->FileName();
  context.tasks = FindEntry(grid->value, "prompt.tasks") == nullptr
                      ? spec->base.prompt().tasks()
                      : 0;
  context.max_values = options.max_cells;
  for (const YamlEntry& entry : grid->value.entries) {
    ASSIGN_OR_RETURN(Axis axis, ParseAxis(entry, context, &spec->warnings));
    RETURN_IF_ERROR(CheckSetOnce(axis, entry.place, *places));
    spec->axes.push_back(std::move(axis));
  }
  for (size_t i = 0; i < spec->axes.size(); ++i) {
    places->Record(spec->axes[i].path, grid->value.entries[i].place);
  }
  const std::optional<uint64_t> cells = CheckedCellCount(*spec);
  if (!cells.has_value() || *cells > options.max_cells) {
    return GridTooLarge(places->FileName(), grid->place, GridProduct(*spec),
                        absl::StrCat(options.max_cells));
  }
  for (const Axis& axis : spec->axes)
    RETURN_IF_ERROR(CheckAxisIsRead(*spec, axis, *places));
  return absl::OkStatus();
}

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

absl::StatusOr<SweepSpec> ParseSweep(absl::string_view yaml,
                                     absl::string_view file_name,
                                     const ParseOptions& options) {
  ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(yaml, file_name));
  SweepSpec spec;
  Places places(file_name);
  RETURN_IF_ERROR(
      ReadTree(root, {"grid", "zip", "exclude"}, &spec.base, &places));
  RETURN_IF_ERROR(CheckName(spec.base, places));
  spec.name = spec.base.name();
  RETURN_IF_ERROR(RefuseLaterForms(root, file_name));
  RETURN_IF_ERROR(FindStages(places, &spec));
  RETURN_IF_ERROR(ReadGrid(root, options, &places, &spec));
  WarnOfIdleSections(places, &spec);
  RETURN_IF_ERROR(CheckSpec(spec, places));
  spec.hash_hex = SpecHash(spec);
  return spec;
}

}  // namespace iclsweep
