#include "worker/train/run.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "proto/base/sha256.h"
#include "proto/base/status_macros.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/model/checkpoint.h"
#include "worker/model/device.h"
#include "worker/model/gpt2.h"
#include "worker/model/torch_status.h"
#include "worker/train/adam.h"
#include "worker/train/check.h"
#include "worker/train/draws.h"
#include "worker/train/existing_model.h"
#include "worker/train/partial.h"
#include "worker/train/schedule.h"
#include "worker/train/validation.h"

namespace iclsweep {
namespace {

ModelConfig ConfigOf(const v1::TrainInputs& inputs) {
  const v1::ModelParams& model = inputs.model();
  return {.layers = model.layers(),
          .heads = model.heads(),
          .width = model.width(),
          .positions = model.positions() == 0 ? inputs.train().points()
                                              : model.positions(),
          .dims = inputs.data().dims(),
          .init_std = model.init_std()};
}

// Measures the finished model and publishes its checkpoint.
absl::StatusOr<StageResult> FinishModel(const Gpt2& model,
                                        const v1::TrainInputs& inputs,
                                        const StageContext& context,
                                        bool non_finite) {
  StageResult result;
  ASSIGN_OR_RETURN(result.measurements, Validate(model, inputs, context));
  const Gpt2 initial =
      Gpt2::Initialize(model.config(), static_cast<uint64_t>(inputs.seed()));
  const CheckpointContent content{&model,
                                  &initial,
                                  inputs.train().points(),
                                  inputs,
                                  context.artifact_name,
                                  non_finite};
  ASSIGN_OR_RETURN(
      result.artifact,
      PublishCheckpoint(content, context.artifact_dir, context.artifact_name));
  result.non_finite = non_finite;
  return result;
}

absl::StatusOr<StageResult> TakeModel(const v1::TrainInputs& inputs,
                                      const StageContext& context,
                                      at::Device device) {
  ASSIGN_OR_RETURN(const Gpt2 model,
                   LoadExistingModel(inputs, ConfigOf(inputs),
                                     context.artifact_dir, device));
  context.Log(absl::StrCat("took ", inputs.train().checkpoint()));
  ASSIGN_OR_RETURN(StageResult result, FinishModel(model, inputs, context,
                                                   /*non_finite=*/false));
  context.Progress(1, 1, 1);
  return result;
}

// One training run: its weights, optimiser and progress. Resumable between any
// two steps.
class Run {
 public:
  Run(const v1::TrainInputs& inputs, const StageContext& context,
      at::Device device)
      : inputs_(inputs),
        context_(context),
        model_(Gpt2::Initialize(ConfigOf(inputs),
                                static_cast<uint64_t>(inputs.seed()))
                   .Clone(at::kFloat, device)),
        adam_({inputs.train().beta1(), inputs.train().beta2(),
               inputs.train().epsilon()},
              model_.parameters()),
        store_(context.partial_dir, context.attempt,
               {Sha256Hex(inputs.SerializeAsString()), context.device_kind,
                NumericsVersion(Stage::kTrain)}) {
    model_.RequireGradients(true);
  }

  // Trains to the last step, or until the loss is no longer finite.
  absl::Status TrainToEnd() {
    RETURN_IF_ERROR(Resume());
    while (done_ < total()) {
      if (context_.Stopped()) return SaveAndStop();
      if (!Step()) break;
      ++done_;
      ++steps_run_;
      const int64_t every = context_.checkpoint_every_steps;
      const bool checkpoint = every > 0 && done_ % every == 0 &&
                              done_ < total() && store_.enabled();
      if (checkpoint) RETURN_IF_ERROR(store_.Save(State()));
      context_.Progress(steps_run_, done_, total(), checkpoint);
    }
    model_.RequireGradients(false);
    non_finite_ = non_finite_ || !WeightsAreFinite();
    return absl::OkStatus();
  }

  absl::StatusOr<StageResult> Finish() {
    absl::StatusOr<StageResult> result =
        FinishModel(model_, inputs_, context_, non_finite_);
    if (absl::IsCancelled(result.status()) && !non_finite_)
      return SaveAndStop();
    if (result.ok()) result->curve = std::move(curve_);
    return result;
  }

 private:
  int64_t total() const { return inputs_.train().steps(); }

  // One update; false when the loss is not finite (then nothing is updated).
  bool Step() {
    const v1::TrainParams& train = inputs_.train();
    const Extent extent = CurriculumAt(train, inputs_.data(), done_);
    const auto first =
        static_cast<uint64_t>(done_) * static_cast<uint64_t>(train.batch());
    const Batch batch = DrawTrainingPrompts(
        inputs_.data(), {static_cast<uint64_t>(inputs_.seed())}, first,
        train.batch(), extent);
    const at::TensorOptions options =
        model_.parameters().front().options().requires_grad(false);
    const at::Tensor ys = batch.ys.to(options);
    const at::Tensor loss =
        at::mse_loss(model_.Forward(batch.xs.to(options), ys), ys);
    const double value = loss.item<double>();
    const bool finite = std::isfinite(value);
    if (done_ % train.curve_interval() == 0 || done_ + 1 == total() ||
        !finite) {
      curve_.push_back({"loss", done_, value});
      context_.Log(absl::StrCat("step ", done_, ": loss ", value));
    }
    if (!finite) {
      non_finite_ = true;
      return false;
    }
    adam_.Step(torch::autograd::grad({loss}, model_.parameters()),
               LearningRate(train, done_));
    return true;
  }

  bool WeightsAreFinite() const {
    for (const at::Tensor& parameter : model_.parameters()) {
      if (!at::isfinite(parameter).all().item<bool>()) return false;
    }
    return true;
  }

  PartialState State() const {
    PartialState state{done_, curve_, {}};
    for (size_t i = 0; i < model_.names().size(); ++i) {
      state.tensors.tensors[model_.names()[i]] = model_.parameters()[i];
      state.tensors.tensors[absl::StrCat("adam.m.", model_.names()[i])] =
          adam_.first_moments()[i];
      state.tensors.tensors[absl::StrCat("adam.v.", model_.names()[i])] =
          adam_.second_moments()[i];
    }
    return state;
  }

  absl::Status Resume() {
    std::optional<PartialState> state = store_.LoadNewest();
    if (!state) return absl::OkStatus();
    std::map<std::string, at::Tensor>& stored = state->tensors.tensors;
    for (size_t i = 0; i < model_.names().size(); ++i) {
      for (const auto& [prefix, tensor] :
           {std::pair{"adam.m.", adam_.first_moments()[i]},
            {"adam.v.", adam_.second_moments()[i]}}) {
        const auto found = stored.find(absl::StrCat(prefix, model_.names()[i]));
        if (found == stored.end())
          return absl::InternalError(absl::StrCat("partial checkpoint without ",
                                                  prefix, model_.names()[i]));
        tensor.copy_(found->second);
        stored.erase(found);
      }
    }
    RETURN_IF_ERROR(model_.SetParameters(stored));
    adam_.SetSteps(state->step);
    done_ = state->step;
    curve_ = std::move(state->curve);
    context_.Log(absl::StrCat("resumed after step ", done_, " of ", total()));
    return absl::OkStatus();
  }

  absl::Status SaveAndStop() {
    RETURN_IF_ERROR(store_.Save(State()));
    context_.Progress(steps_run_, done_, total(), store_.enabled());
    return absl::CancelledError(
        absl::StrCat("train: stopped after step ", done_, " of ", total()));
  }

  const v1::TrainInputs& inputs_;
  const StageContext& context_;
  Gpt2 model_;
  Adam adam_;
  PartialStore store_;
  int64_t done_ = 0;       // updates in the weights
  int64_t steps_run_ = 0;  // of them, made by this attempt
  std::vector<CurvePoint> curve_;
  bool non_finite_ = false;
};

}  // namespace

absl::StatusOr<StageResult> Train(const v1::TrainInputs& inputs,
                                  const StageContext& context) {
  RETURN_IF_ERROR(CheckTrainInputs(inputs));
  RETURN_IF_ERROR(CheckModelConfig(ConfigOf(inputs)));
  ASSIGN_OR_RETURN(const at::Device device, DeviceFromName(context.device));
  if (context.artifact_dir.empty() || context.artifact_name.empty())
    return absl::InternalError("train: no place for the artifact");
  UseDeterministicKernels();
  return CatchTorch("train", [&]() -> absl::StatusOr<StageResult> {
    if (!inputs.train().checkpoint().empty())
      return TakeModel(inputs, context, device);
    Run run(inputs, context, device);
    RETURN_IF_ERROR(run.TrainToEnd());
    return run.Finish();
  });
}

}  // namespace iclsweep
