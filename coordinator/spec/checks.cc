#include "coordinator/spec/checks.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/errors.h"
#include "coordinator/spec/existing_models.h"
#include "coordinator/spec/field_value.h"
#include "coordinator/spec/grid.h"
#include "coordinator/spec/resolve.h"
#include "proto/base/status_macros.h"
#include "proto/families.h"

namespace iclsweep {
namespace {

using Cell = v1::SweepFile;

struct Check {
  std::vector<std::string> reads;  // paths
  std::function<absl::Status(const Cell&, const Places&)> run;
};

absl::Status CheckModel(const Cell& cell, const Places& places) {
  const auto model = ResolveModel(cell);
  if (!model.ok())
    return ParameterError(places, "model.size", model.status().message());
  if (model->width() % model->heads() != 0) {
    return ParameterError(
        places, places.Has("model.heads") ? "model.heads" : "model.width",
        absl::StrCat("model.heads must divide model.width: ", model->width(),
                     " / ", model->heads(), " is not whole"));
  }
  if (model->positions() < cell.train().points()) {
    return ParameterError(
        places, "model.positions",
        absl::StrCat("model.positions ", model->positions(),
                     " is less than train.points ", cell.train().points()));
  }
  return absl::OkStatus();
}

absl::Status CheckEigenvalues(const v1::DataParams& data,
                              const std::string& section,
                              const Places& places) {
  if (data.eigenvalues_size() == 0 || data.eigenvalues_size() == data.dims())
    return absl::OkStatus();
  const std::string path = section + ".eigenvalues";
  return ParameterError(
      places, places.Has(path) ? path : "data.eigenvalues",
      absl::StrCat(section, ".eigenvalues has ", data.eigenvalues_size(),
                   " values, but ", section, ".dims is ", data.dims()));
}

// Where `section`.field is written; for prompt.data, which inherits, maybe in
// `data`.
std::string WrittenPath(const Places& places, const std::string& section,
                        const std::string& field) {
  const std::string path = absl::StrCat(section, ".", field);
  return places.Has(path) ? path : absl::StrCat("data.", field);
}

std::string FamilyText(v1::Family family) {
  return EnumText(*v1::Family_descriptor()->FindValueByNumber(family));
}

absl::Status CheckFamily(const v1::DataParams& data, const std::string& section,
                         const Places& places) {
  if (data.family() == v1::FAMILY_SPARSE_LINEAR &&
      data.sparsity() > data.dims()) {
    const std::string sparsity = WrittenPath(places, section, "sparsity");
    return ParameterError(
        places,
        places.Has(sparsity) ? sparsity : WrittenPath(places, section, "dims"),
        absl::StrCat(section, ".sparsity ", data.sparsity(), " exceeds ",
                     section, ".dims ", data.dims(), "; lower the sparsity"));
  }
  if (data.family() == v1::FAMILY_NOISY_LINEAR && data.noise_std() == 0) {
    return ParameterError(places, WrittenPath(places, section, "family"),
                          absl::StrCat("family noisy_linear needs ", section,
                                       ".noise_std above 0, such as 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckTrainFamily(const Cell& cell, const Places& places) {
  RETURN_IF_ERROR(CheckFamily(cell.data(), "data", places));
  const int live = cell.train().curriculum().dims_start();
  if (cell.data().family() != v1::FAMILY_SPARSE_LINEAR || live == 0 ||
      live >= cell.data().sparsity())
    return absl::OkStatus();
  return ParameterError(
      places, "train.curriculum.dims_start",
      absl::StrCat("train.curriculum.dims_start ", live,
                   " is less than data.sparsity ", cell.data().sparsity(),
                   "; start with at least as many dims"));
}

absl::Status CheckClosedForm(const Cell& cell, const Places& places) {
  const v1::Family family = ResolvePrompt(cell).data().family();
  if (HasClosedForm(family)) return absl::OkStatus();
  return ParameterError(
      places, "theory",
      absl::StrCat("theory covers the families linear and noisy_linear, not ",
                   FamilyText(family), "; remove the theory section"));
}

absl::Status CheckGeometry(const Cell& cell, const Places& places) {
  const v1::PromptParams prompt = ResolvePrompt(cell);
  const v1::Family family = prompt.data().family();
  if (prompt.geometry() == v1::GEOMETRY_ANGLE && !HasDenseWeights(family)) {
    return ParameterError(
        places, "prompt.geometry",
        absl::StrCat("geometry angle needs tasks that are dense weight vectors "
                     "(linear, noisy_linear, quadratic), not ",
                     FamilyText(family), "; use independent or clustered"));
  }
  const double angle = prompt.angle_degrees();
  const int tasks = prompt.tasks();
  const int dims = prompt.data().dims();
  if (angle == 90 && tasks > dims) {
    return ParameterError(
        places, "prompt.angle_degrees",
        absl::StrCat("at 90 degrees all tasks are orthogonal, which needs "
                     "prompt.tasks <= dims, but ",
                     tasks, " > ", dims));
  }
  if (angle > 0 && tasks > 1 && dims < 2) {
    return ParameterError(places, "prompt.angle_degrees",
                          "an angle between tasks needs at least 2 dims");
  }
  return absl::OkStatus();
}

absl::Status CheckOrder(const Cell& cell, const Places& places) {
  const v1::PromptParams& prompt = cell.prompt();
  if (prompt.task_order_size() == 0) return absl::OkStatus();
  const std::vector<int32_t> order(prompt.task_order().begin(),
                                   prompt.task_order().end());
  std::vector<int32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = prompt.task_order_size() == prompt.tasks();
  for (int i = 0; permutation && i < prompt.tasks(); ++i)
    permutation = sorted[i] == i;
  if (permutation) return absl::OkStatus();
  return ParameterError(places, "prompt.task_order",
                        absl::StrCat("order ", Quoted(OrderText(order)),
                                     " is not a permutation of the tasks 0 .. ",
                                     prompt.tasks() - 1, " (prompt.tasks is ",
                                     prompt.tasks(), ")"));
}

// `needs` is the arithmetic that gave `points`.
absl::Status CheckLength(const Cell& cell, const Places& places, int64_t points,
                         const std::string& needs) {
  const std::string at = places.Has("prompt.examples_per_task")
                             ? "prompt.examples_per_task"
                             : "prompt.tasks";
  const int64_t trained = cell.train().points();
  if (points > trained && !cell.prompt().allow_extrapolation()) {
    return ParameterError(places, at,
                          absl::StrCat(needs, ", but train.points is ", trained,
                                       " (prompt.allow_extrapolation: true "
                                       "accepts this, results are flagged)"));
  }
  const int64_t positions =
      cell.model().positions() == 0 ? trained : cell.model().positions();
  if (points > positions) {
    return ParameterError(
        places, at,
        absl::StrCat(needs, ", but the model has room for ", positions,
                     " (model.positions; train.points unless set)"));
  }
  return absl::OkStatus();
}

absl::Status CheckEvaluateLength(const Cell& cell, const Places& places) {
  const int64_t tasks = cell.prompt().tasks();
  const int64_t examples = cell.prompt().examples_per_task();
  const int64_t points = tasks * (examples + 1) + 1;
  return CheckLength(cell, places, points,
                     absl::StrCat("evaluate needs T(M+1)+1 = ", tasks, "*",
                                  examples + 1, "+1 = ", points, " points"));
}

absl::Status CheckCompareLength(const Cell& cell, const Places& places) {
  const int64_t tasks = cell.prompt().tasks();
  const int64_t examples = cell.prompt().examples_per_task();
  const int64_t anchors = cell.compare().anchors();
  const int64_t points = tasks * examples + anchors + 1;
  return CheckLength(
      cell, places, points,
      absl::StrCat("compare needs T*M+anchors+1 = ", tasks, "*", examples, "+",
                   anchors, "+1 = ", points, " points"));
}

// Over the whole sweep: an angle that no cell uses.
absl::Status CheckAngleIsUsed(const SweepSpec& spec, const Places& places) {
  const bool written = spec.base.prompt().has_angle_degrees() ||
                       spec.FindAxis("prompt.angle_degrees") != nullptr;
  if (!written) return absl::OkStatus();
  const Axis* geometry = spec.FindAxis("prompt.geometry");
  bool used = geometry == nullptr &&
              spec.base.prompt().geometry() == v1::GEOMETRY_ANGLE;
  for (uint64_t i = 0; geometry != nullptr && i < geometry->size(); ++i) {
    used =
        used || std::get<int64_t>(geometry->ValueAt(i)) == v1::GEOMETRY_ANGLE;
  }
  if (used) return absl::OkStatus();
  return ParameterError(
      places, "prompt.angle_degrees",
      "prompt.angle_degrees has no effect without prompt.geometry: angle");
}

absl::Status RunCheck(const SweepSpec& spec, const Check& check,
                      const Places& places) {
  std::vector<int> axes;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const bool read = std::find(check.reads.begin(), check.reads.end(),
                                spec.axes[i].path) != check.reads.end();
    if (read) axes.push_back(static_cast<int>(i));
  }
  const Projection projection(spec, std::move(axes));
  std::vector<uint64_t> digits(spec.axes.size(), 0);
  CellSections cell(spec);
  const std::vector<bool> with_cells = PointsWithCells(spec, projection);
  for (uint64_t point = 0; point < projection.size(); ++point) {
    if (!with_cells.empty() && !with_cells[point]) continue;
    projection.DigitsAt(point, &digits);
    cell.Set(digits);
    RETURN_IF_ERROR(check.run(cell.Sections(), places));
  }
  return absl::OkStatus();
}

bool HasPrompts(const SweepSpec& spec) {
  return spec.Has(Stage::kEvaluate) || spec.Has(Stage::kCompare) ||
         spec.Has(Stage::kTheory);
}

// Whether tasks of this family are trained on or shown with the value of
// `section`.field.
bool FamilyReads(const SweepSpec& spec, const Cell& cell, const Places& places,
                 const std::string& section,
                 const google::protobuf::FieldDescriptor& field) {
  const v1::Family family = *OnlyFamily(field);
  if (section == "data" && spec.Has(Stage::kTrain) &&
      cell.data().family() == family)
    return true;
  const bool shown = WrittenPath(places, "prompt.data", field.name()) ==
                     absl::StrCat(section, ".", field.name());
  return shown && HasPrompts(spec) &&
         ResolvePrompt(cell).data().family() == family;
}

// Over the whole sweep: a parameter of one family in a sweep that never has it.
absl::Status CheckFamilyFieldIsUsed(
    const SweepSpec& spec, const Places& places, const std::string& section,
    const google::protobuf::FieldDescriptor& field) {
  const std::string path = absl::StrCat(section, ".", field.name());
  if (!OnlyFamily(field) || !places.Has(path)) return absl::OkStatus();
  const bool read =
      HasPrompts(spec) || (section == "data" && spec.Has(Stage::kTrain));
  if (!read) return absl::OkStatus();  // the section is warned of
  bool used = false;
  const Check check = {{"data.family", "prompt.data.family"},
                       [&](const Cell& cell, const Places&) {
                         used = used ||
                                FamilyReads(spec, cell, places, section, field);
                         return absl::OkStatus();
                       }};
  RETURN_IF_ERROR(RunCheck(spec, check, places));
  if (used) return absl::OkStatus();
  return ParameterError(
      places, path,
      absl::StrCat(path, " has no effect without ", section,
                   ".family: ", FamilyText(*OnlyFamily(field)), "; remove it"));
}

absl::Status CheckFamilyFieldsAreUsed(const SweepSpec& spec,
                                      const Places& places) {
  const auto& type = *v1::DataParams::descriptor();
  for (const std::string section : {"data", "prompt.data"}) {
    for (int i = 0; i < type.field_count(); ++i) {
      RETURN_IF_ERROR(
          CheckFamilyFieldIsUsed(spec, places, section, *type.field(i)));
    }
  }
  return absl::OkStatus();
}

std::vector<Check> ChecksFor(const SweepSpec& spec) {
  std::vector<Check> checks;
  const std::vector<std::string> lengths = {
      "prompt.tasks", "prompt.examples_per_task", "prompt.allow_extrapolation",
      "train.points", "model.positions"};
  if (spec.Has(Stage::kTrain)) {
    checks.push_back({{"model.size", "model.layers", "model.heads",
                       "model.width", "model.positions", "train.points"},
                      CheckModel});
    if (!spec.models.empty()) {
      checks.push_back(
          {ModelSizePaths(), [&spec](const Cell& cell, const Places& places) {
             return CheckModelSizes(spec.models, cell, places);
           }});
    }
    checks.push_back(
        {{"data.dims"}, [](const Cell& cell, const Places& places) {
           return CheckEigenvalues(cell.data(), "data", places);
         }});
    checks.push_back({{"data.family", "data.dims", "data.sparsity",
                       "data.noise_std", "train.curriculum.dims_start"},
                      CheckTrainFamily});
  }
  if (HasPrompts(spec)) {
    checks.push_back({{"data.dims", "prompt.data.dims"},
                      [](const Cell& cell, const Places& places) {
                        return CheckEigenvalues(ResolvePrompt(cell).data(),
                                                "prompt.data", places);
                      }});
    checks.push_back(
        {{"data.family", "prompt.data.family", "data.dims", "prompt.data.dims",
          "data.sparsity", "prompt.data.sparsity", "data.noise_std",
          "prompt.data.noise_std"},
         [](const Cell& cell, const Places& places) {
           return CheckFamily(ResolvePrompt(cell).data(), "prompt.data",
                              places);
         }});
    checks.push_back(
        {{"prompt.geometry", "prompt.angle_degrees", "prompt.tasks",
          "data.dims", "prompt.data.dims", "data.family", "prompt.data.family"},
         CheckGeometry});
    // With one value of prompt.tasks, the orders of an axis were checked as
    // they were read.
    const bool axis_is_checked =
        spec.FindAxis("prompt.task_order") != nullptr &&
        spec.FindAxis("prompt.tasks") == nullptr;
    if (!axis_is_checked)
      checks.push_back({{"prompt.task_order", "prompt.tasks"}, CheckOrder});
  }
  if (spec.Has(Stage::kTheory))
    checks.push_back({{"data.family", "prompt.data.family"}, CheckClosedForm});
  if (spec.Has(Stage::kEvaluate))
    checks.push_back({lengths, CheckEvaluateLength});
  if (spec.Has(Stage::kCompare)) {
    checks.push_back({lengths, CheckCompareLength});
    checks.back().reads.emplace_back("compare.anchors");
  }
  return checks;
}

}  // namespace

absl::Status CheckSpec(const SweepSpec& spec, const Places& places) {
  RETURN_IF_ERROR(CheckAngleIsUsed(spec, places));
  RETURN_IF_ERROR(CheckFamilyFieldsAreUsed(spec, places));
  for (const Check& check : ChecksFor(spec))
    RETURN_IF_ERROR(RunCheck(spec, check, places));
  return absl::OkStatus();
}

}  // namespace iclsweep
