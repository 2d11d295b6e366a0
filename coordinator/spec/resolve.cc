#include "coordinator/spec/resolve.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/spec/field_value.h"
#include "proto/base/status_macros.h"
#include "proto/families.h"

namespace iclsweep {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct Shape {
  v1::ModelSize size;
  int layers;
  int heads;
  int width;
};
constexpr Shape kShapes[] = {{v1::MODEL_SIZE_TINY, 3, 2, 64},
                             {v1::MODEL_SIZE_SMALL, 6, 4, 128},
                             {v1::MODEL_SIZE_STANDARD, 12, 8, 256}};

const Message& Prototype(Stage stage) {
  switch (stage) {
    case Stage::kTrain:
      return v1::TrainInputs::default_instance();
    case Stage::kEvaluate:
      return v1::EvaluateInputs::default_instance();
    case Stage::kCompare:
      return v1::CompareInputs::default_instance();
    case Stage::kTheory:
      return v1::TheoryInputs::default_instance();
    case Stage::kNoop:
      return v1::NoopInputs::default_instance();
  }
  std::abort();
}

bool IsSet(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                             : reflection.HasField(message, &field);
}

// Copies one field of scalars, lists or a message between messages of any types
// that declare it alike.
void CopyField(const Message& from, const FieldDescriptor& from_field,
               Message* to, const FieldDescriptor& to_field) {
  if (!IsSet(from, from_field)) return;
  if (from_field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    to->GetReflection()
        ->MutableMessage(to, &to_field)
        ->CopyFrom(from.GetReflection()->GetMessage(from, &from_field));
  } else if (from_field.is_repeated()) {
    to->GetReflection()->ClearField(to, &to_field);
    for (int i = 0; i < from.GetReflection()->FieldSize(from, &from_field);
         ++i) {
      SetField(to_field, GetElement(from_field, from, i), to, /*add=*/true);
    }
  } else {
    SetField(to_field, GetField(from_field, from), to);
  }
}

// Unsets scalars equal to their default and submessages without content.
void ClearDefaults(Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  const Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated() || !reflection.HasField(*message, &field)) continue;
    bool redundant = false;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Message* part = reflection.MutableMessage(message, &field);
      ClearDefaults(part);
      redundant = part->ByteSizeLong() == 0;
    } else {
      redundant = GetField(field, *message) == DefaultOf(field);
    }
    if (redundant) reflection.ClearField(message, &field);
  }
}

// Unsets what has no meaning for the family of these tasks.
void ClearOtherFamilies(v1::DataParams* data) {
  const Descriptor& type = *v1::DataParams::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const std::optional<v1::Family> only = OnlyFamily(*type.field(i));
    if (only && *only != data->family())
      data->GetReflection()->ClearField(data, type.field(i));
  }
}

void FillEvaluate(const v1::SweepFile& cell, const v1::PromptParams& prompt,
                  v1::EvaluateParams* evaluate) {
  if (evaluate->pretraining_length() == 0)
    evaluate->set_pretraining_length(cell.train().points());
  if (!evaluate->has_pretraining_noise_std())
    evaluate->set_pretraining_noise_std(cell.data().noise_std());
  if (evaluate->ridge_lambda() == 0)
    evaluate->set_ridge_lambda(prompt.data().noise_std() *
                               prompt.data().noise_std());
  evaluate->set_lasso_alpha(LassoAlpha(*evaluate, prompt.data().family()));
}

void FillTheory(const v1::SweepFile& cell, v1::TheoryParams* theory) {
  if (theory->pretraining_length() == 0)
    theory->set_pretraining_length(cell.train().points());
  if (!theory->has_pretraining_noise_std())
    theory->set_pretraining_noise_std(cell.data().noise_std());
}

void FillCompare(v1::CompareParams* compare) {
  if (compare->tune_tasks() == 0) compare->set_tune_tasks(compare->tasks());
  if (compare->learning_rates_size() > 0) return;
  for (const double rate : {0.0005, 0.001, 0.002, 0.004, 0.008})
    compare->add_learning_rates(rate);
}

bool IsSetInBase(const SweepSpec& spec, absl::string_view section,
                 absl::string_view field) {
  const Message* message = &spec.base;
  for (const absl::string_view part : {section, field}) {
    const FieldDescriptor* found =
        message->GetDescriptor()->FindFieldByName(std::string(part));
    if (found == nullptr || !IsSet(*message, *found)) return false;
    if (found->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return true;
    message = &message->GetReflection()->GetMessage(*message, found);
  }
  return false;
}

// data.<field> or prompt.data.<field> that only one family reads.
bool IsOfOneFamily(absl::string_view path) {
  path = absl::StripPrefix(path, "prompt.");
  if (!absl::ConsumePrefix(&path, "data.")) return false;
  const FieldDescriptor* field =
      v1::DataParams::descriptor()->FindFieldByName(std::string(path));
  return field != nullptr && OnlyFamily(*field).has_value();
}

bool HasSection(Stage stage, absl::string_view section) {
  return Prototype(stage).GetDescriptor()->FindFieldByName(
             std::string(section)) != nullptr;
}

// prompt.data.<field> is written, in its section or as an axis.
bool PromptDataIsSet(const SweepSpec& spec, absl::string_view field) {
  if (spec.FindAxis(absl::StrCat("prompt.data.", field)) != nullptr)
    return true;
  const v1::DataParams& data = spec.base.prompt().data();
  const FieldDescriptor* found =
      data.GetDescriptor()->FindFieldByName(std::string(field));
  return found != nullptr && IsSet(data, *found);
}

}  // namespace

std::unique_ptr<Message> NewStageInputs(Stage stage) {
  return std::unique_ptr<Message>(Prototype(stage).New());
}

std::optional<v1::Family> OnlyFamily(const FieldDescriptor& field) {
  if (!field.options().HasExtension(v1::only_for)) return std::nullopt;
  return field.options().GetExtension(v1::only_for);
}

bool DependsOnTrain(Stage stage) {
  return stage == Stage::kEvaluate || stage == Stage::kCompare;
}

absl::StatusOr<v1::ModelParams> ResolveModel(const v1::SweepFile& cell) {
  v1::ModelParams model = cell.model();
  const auto shape = std::find_if(
      std::begin(kShapes), std::end(kShapes),
      [&](const Shape& candidate) { return candidate.size == model.size(); });
  if (shape != std::end(kShapes)) {
    const bool agrees =
        (!model.has_layers() || model.layers() == shape->layers) &&
        (!model.has_heads() || model.heads() == shape->heads) &&
        (!model.has_width() || model.width() == shape->width);
    if (!agrees) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model.size means ", shape->layers, " layers, ", shape->heads,
          " heads and width ", shape->width,
          "; leave out model.layers, heads and width, or use size: custom"));
    }
    model.set_layers(shape->layers);
    model.set_heads(shape->heads);
    model.set_width(shape->width);
  }
  model.set_size(v1::MODEL_SIZE_CUSTOM);
  if (model.positions() == 0) model.set_positions(cell.train().points());
  return model;
}

v1::PromptParams ResolvePrompt(const v1::SweepFile& cell) {
  v1::PromptParams prompt = cell.prompt();
  const Descriptor& type = *v1::DataParams::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    if (!IsSet(prompt.data(), *type.field(i))) {
      CopyField(cell.data(), *type.field(i), prompt.mutable_data(),
                *type.field(i));
    }
  }
  ClearOtherFamilies(prompt.mutable_data());
  if (prompt.geometry() != v1::GEOMETRY_ANGLE) prompt.clear_angle_degrees();
  bool identity = prompt.task_order_size() == prompt.tasks();
  for (int i = 0; identity && i < prompt.task_order_size(); ++i)
    identity = prompt.task_order(i) == i;
  if (identity) prompt.clear_task_order();
  return prompt;
}

absl::StatusOr<std::unique_ptr<Message>> Resolve(const v1::SweepFile& cell,
                                                 Stage stage) {
  std::unique_ptr<Message> inputs = NewStageInputs(stage);
  const Descriptor& type = *inputs->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    CopyField(cell, *v1::SweepFile::descriptor()->FindFieldByName(field.name()),
              inputs.get(), field);
  }
  if (stage == Stage::kTrain) {
    auto* train = static_cast<v1::TrainInputs*>(inputs.get());
    ASSIGN_OR_RETURN(*train->mutable_model(), ResolveModel(cell));
    ClearOtherFamilies(train->mutable_data());
  } else if (stage == Stage::kEvaluate) {
    auto* evaluate = static_cast<v1::EvaluateInputs*>(inputs.get());
    *evaluate->mutable_prompt() = ResolvePrompt(cell);
    FillEvaluate(cell, evaluate->prompt(), evaluate->mutable_evaluate());
  } else if (stage == Stage::kCompare) {
    auto* compare = static_cast<v1::CompareInputs*>(inputs.get());
    *compare->mutable_prompt() = ResolvePrompt(cell);
    FillCompare(compare->mutable_compare());
  } else if (stage == Stage::kTheory) {
    auto* theory = static_cast<v1::TheoryInputs*>(inputs.get());
    *theory->mutable_prompt() = ResolvePrompt(cell);
    FillTheory(cell, theory->mutable_theory());
  }
  ClearDefaults(inputs.get());
  return inputs;
}

bool StageReads(const SweepSpec& spec, Stage stage, absl::string_view path) {
  const absl::string_view section = path.substr(0, path.find('.'));
  if (HasSection(stage, section)) return true;
  const bool has_gamma = stage == Stage::kEvaluate || stage == Stage::kTheory;
  if (section == "data" && HasSection(stage, "prompt")) {
    const absl::string_view field = absl::StripPrefix(path, "data.");
    if (!PromptDataIsSet(spec, field)) return true;
    return has_gamma && field == "noise_std" &&
           !IsSetInBase(spec, StageName(stage), "pretraining_noise_std");
  }
  if (path == "train.points" && has_gamma) {
    const int64_t length = stage == Stage::kEvaluate
                               ? spec.base.evaluate().pretraining_length()
                               : spec.base.theory().pretraining_length();
    return length == 0;
  }
  return false;
}

bool IsCopiedVerbatim(const SweepSpec& spec, Stage stage,
                      absl::string_view path) {
  const absl::string_view section = path.substr(0, path.find('.'));
  if (IsOfOneFamily(path)) return false;
  if (!HasSection(stage, section)) {
    return section == "data" && HasSection(stage, "prompt") &&
           !PromptDataIsSet(spec, absl::StripPrefix(path, "data."));
  }
  // A written shape is copied, but under a preset size it has only one value
  // that is accepted.
  if (path == "model.size" || path == "model.positions" ||
      path == "compare.tune_tasks")
    return false;
  if (absl::EndsWith(path, ".pretraining_length") ||
      absl::EndsWith(path, ".ridge_lambda") ||
      absl::EndsWith(path, ".lasso_alpha"))
    return false;
  if (path == "prompt.angle_degrees") {
    return spec.FindAxis("prompt.geometry") == nullptr &&
           spec.base.prompt().geometry() == v1::GEOMETRY_ANGLE;
  }
  return true;
}

}  // namespace iclsweep
