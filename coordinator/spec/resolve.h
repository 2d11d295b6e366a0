// From the sections of one cell to the message a stage receives: sections are
// copied by name, then inherited values, presets and "0 = as many as ..."
// defaults are filled in, so that the message (and its key) says what will be
// computed:
//   model.size        -> layers, heads, width; then custom. Written shapes that
//                     differ from the preset are an error
//   model.positions   0 -> train.points
//   data, prompt.data fields of another family (only_for) cleared
//   prompt.data       <- data, field by field, unless set
//   prompt            angle_degrees cleared unless geometry is angle; the order
//                     0, 1, 2, ... cleared
//   evaluate, theory  pretraining_length 0 -> train.points;
//                     pretraining_noise_std <- data.noise_std unless set
//   evaluate          ridge_lambda 0 -> prompt.data.noise_std squared (the
//                     Bayes estimator for w ~ N(0, I)); lasso_alpha 0 -> 0.01
//                     for sparse_linear prompts
//   compare           tune_tasks 0 -> tasks; no learning_rates -> 0.0005,
//                     0.001, 0.002, 0.004, 0.008
// Changing a rule changes the keys of jobs that use it, so it changes what
// stored results are found.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/spec/sweep_spec.h"
#include "google/protobuf/message.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"

namespace iclsweep {

// TrainInputs for kTrain, and so on.
std::unique_ptr<google::protobuf::Message> NewStageInputs(Stage stage);

// Fields equal to their default are unset in the result, so equal keys mean
// equal bytes. Errors: InvalidArgument when a preset model size contradicts a
// written shape.
absl::StatusOr<std::unique_ptr<google::protobuf::Message>> Resolve(
    const v1::SweepFile& cell, Stage stage);

// The parts that checks need.
absl::StatusOr<v1::ModelParams> ResolveModel(const v1::SweepFile& cell);
v1::PromptParams ResolvePrompt(const v1::SweepFile& cell);
// The family that alone gives a field of DataParams a meaning, if there is one.
std::optional<v1::Family> OnlyFamily(
    const google::protobuf::FieldDescriptor& field);

// Whether the stage's own message (not its dependencies') can depend on the
// parameter or section `path`. May say yes where an inherited value is
// overridden by an axis; never no where it matters.
bool StageReads(const SweepSpec& spec, Stage stage, absl::string_view path);
// Whether different values of `path` always give the stage different messages.
bool IsCopiedVerbatim(const SweepSpec& spec, Stage stage,
                      absl::string_view path);
// The stage whose result `stage` reads.
bool DependsOnTrain(Stage stage);

}  // namespace iclsweep
