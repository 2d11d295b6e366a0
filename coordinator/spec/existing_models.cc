#include "coordinator/spec/existing_models.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "coordinator/spec/errors.h"
#include "coordinator/spec/resolve.h"
#include "coordinator/spec/yaml_reader.h"
#include "proto/base/domain.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

constexpr absl::string_view kSumPrefix = "sha256:";

// One size of a model: where a sweep file says it, and where it is known from.
struct Size {
  const char* path;
  int ModelFacts::*fact;
  void (*set)(v1::SweepFile* base, int value);
};
constexpr Size kSizes[] = {
    {"model.layers", &ModelFacts::layers,
     [](v1::SweepFile* base, int value) {
       base->mutable_model()->set_layers(value);
     }},
    {"model.heads", &ModelFacts::heads,
     [](v1::SweepFile* base, int value) {
       base->mutable_model()->set_heads(value);
     }},
    {"model.width", &ModelFacts::width,
     [](v1::SweepFile* base, int value) {
       base->mutable_model()->set_width(value);
     }},
    {"model.positions", &ModelFacts::positions,
     [](v1::SweepFile* base, int value) {
       base->mutable_model()->set_positions(value);
     }},
    {"data.dims", &ModelFacts::dims,
     [](v1::SweepFile* base, int value) {
       base->mutable_data()->set_dims(value);
     }},
    {"train.points", &ModelFacts::trained_points,
     [](v1::SweepFile* base, int value) {
       base->mutable_train()->set_points(value);
     }},
};

using Visit = std::function<absl::Status(YamlNode* value)>;

absl::Status VisitValues(YamlNode* values, const Visit& visit) {
  if (values->kind == YamlNode::Kind::kScalar) return visit(values);
  for (YamlNode& item : values->items)
    RETURN_IF_ERROR(VisitValues(&item, visit));
  return absl::OkStatus();
}

// Below grid, zip and exclude: the values of every axis of that name.
absl::Status VisitAxes(YamlNode* node, const Visit& visit) {
  for (YamlNode& item : node->items) RETURN_IF_ERROR(VisitAxes(&item, visit));
  for (YamlEntry& entry : node->entries) {
    if (entry.key == kCheckpointPath)
      RETURN_IF_ERROR(VisitValues(&entry.value, visit));
  }
  return absl::OkStatus();
}

bool IsSum(absl::string_view digits) {
  return digits.size() == 64 &&
         std::all_of(digits.begin(), digits.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

class Pinner {
 public:
  Pinner(absl::string_view file_name, const ParseOptions& options)
      : file_name_(file_name), options_(options) {}

  absl::Status Pin(YamlNode* value) {
    if (value->scalar.empty())
      return ErrorAt(*value, "the name of a model's folder is empty");
    const bool is_sum = absl::StartsWith(value->scalar, kSumPrefix);
    ModelFacts facts;
    if (is_sum) {
      facts.sha256 = value->scalar.substr(kSumPrefix.size());
      if (!IsSum(facts.sha256))
        return ErrorAt(*value,
                       absl::StrCat("sha256: takes 64 digits of 0-9 a-f, not ",
                                    Quoted(facts.sha256)));
    } else if (!options_.read_model) {
      return ErrorAt(*value,
                     "a folder cannot be read here; write sha256:<hex>");
    }
    if (options_.read_model) {
      const absl::StatusOr<ModelFacts> read =
          options_.read_model(value->scalar);
      if (!read.ok()) return ErrorAt(*value, read.status().message());
      facts = *read;
    }
    value->scalar = absl::StrCat(kSumPrefix, facts.sha256);
    value->quoted = true;
    models_[value->scalar] = facts;
    return absl::OkStatus();
  }

  std::map<std::string, ModelFacts>& models() { return models_; }

 private:
  absl::Status ErrorAt(const YamlNode& value, absl::string_view message) const {
    return SpecError(file_name_, value.place,
                     absl::StrCat(kCheckpointPath, ": ", message));
  }

  absl::string_view file_name_;
  const ParseOptions& options_;
  std::map<std::string, ModelFacts> models_;
};

// The one value that all models have; 0 = they differ, or it is not known.
int SharedFact(const std::map<std::string, ModelFacts>& models,
               int ModelFacts::*fact) {
  const int first = models.begin()->second.*fact;
  const bool shared = std::all_of(
      models.begin(), models.end(),
      [&](const auto& model) { return model.second.*fact == first; });
  return shared ? first : 0;
}

absl::Status CheckNothingIdle(const Places& places) {
  for (const std::string& path : LeafPaths(*v1::SweepFile::descriptor())) {
    const bool idle = absl::StartsWith(path, "train.") &&
                      path != kCheckpointPath && path != "train.points" &&
                      path != "train.validation_prompts";
    if (idle && places.Has(path))
      return ParameterError(
          places, path,
          absl::StrCat(path,
                       " is not read: train.checkpoint takes an existing "
                       "model; remove one of them"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, ModelFacts>> PinModels(
    absl::string_view file_name, const ParseOptions& options, YamlNode* root) {
  Pinner pinner(file_name, options);
  const Visit pin = [&](YamlNode* value) { return pinner.Pin(value); };
  for (YamlEntry& entry : root->entries) {
    if (entry.key == "grid" || entry.key == "zip" || entry.key == "exclude")
      RETURN_IF_ERROR(VisitAxes(&entry.value, pin));
    if (entry.key != "train") continue;
    for (YamlEntry& parameter : entry.value.entries) {
      const bool named = parameter.key == "checkpoint" &&
                         parameter.value.kind == YamlNode::Kind::kScalar;
      if (named) RETURN_IF_ERROR(pin(&parameter.value));
    }
  }
  return std::move(pinner.models());
}

absl::Status TakeModelSizes(const Places& places, SweepSpec* spec) {
  if (!spec->TakesModels()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckNothingIdle(places));
  const bool preset = places.Has("model.size");
  for (const Size& size : kSizes) {
    const absl::string_view path = size.path;
    const bool of_preset =
        preset && (path == "model.layers" || path == "model.heads" ||
                   path == "model.width");
    const int value = SharedFact(spec->models, size.fact);
    if (value > 0 && !places.Has(path) && !of_preset)
      size.set(&spec->base, value);
  }
  return absl::OkStatus();
}

std::vector<std::string> ModelSizePaths() {
  std::vector<std::string> paths = {kCheckpointPath, "model.size"};
  for (const Size& size : kSizes) paths.emplace_back(size.path);
  return paths;
}

absl::Status CheckModelSizes(const std::map<std::string, ModelFacts>& models,
                             const v1::SweepFile& cell, const Places& places) {
  const auto found = models.find(cell.train().checkpoint());
  if (found == models.end()) return absl::OkStatus();
  const ModelFacts& facts = found->second;
  ASSIGN_OR_RETURN(const v1::ModelParams model, ResolveModel(cell));
  const ModelFacts said = {
      facts.sha256,      model.layers(),     model.heads(),       model.width(),
      model.positions(), cell.data().dims(), facts.trained_points};
  for (const Size& size : kSizes) {
    if (facts.*size.fact == 0 || facts.*size.fact == said.*size.fact) continue;
    const bool preset = places.Has("model.size") && !places.Has(size.path) &&
                        absl::StartsWith(size.path, "model.") &&
                        absl::string_view(size.path) != "model.positions";
    return ParameterError(
        places,
        places.Has(size.path) ? size.path
                              : (preset ? "model.size" : kCheckpointPath),
        absl::StrCat("the model ", cell.train().checkpoint().substr(0, 19),
                     "... has ", size.path, " ", facts.*size.fact, ", not ",
                     said.*size.fact,
                     "; leave it out, or give each model its own (zip)"));
  }
  return absl::OkStatus();
}

}  // namespace iclsweep
