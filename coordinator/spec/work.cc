#include "coordinator/spec/work.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

// Of the worker (worker/README.md): prompts that one pass takes.
constexpr double kChunk = 256;
constexpr double kReplicates = 32;  // of compare
constexpr double kBackwards = 3;    // forwards and backwards against forwards
// An operation of plain loops in double takes about as long as so many of a
// matrix product.
constexpr double kPlain = 8;

// One pass of `prompts` prompts of `points` points.
Work Forward(const v1::TrainInputs& train, double prompts, double points) {
  const double layers = train.model().layers();
  const double width = train.model().width();
  const double tokens = 2 * points;
  const double block = 24 * width * width + 4 * tokens * width;
  const double ends = 2.0 * width * (train.data().dims() + 1);
  return {layers, prompts * tokens * (layers * block + ends)};
}

Work Times(double factor, const Work& work) {
  return {factor * work.passes, factor * work.flops};
}

Work Sum(const Work& a, const Work& b) {
  return {a.passes + b.passes, a.flops + b.flops};
}

// Prompts in chunks.
Work Chunked(const v1::TrainInputs& train, double prompts, double points) {
  const double chunks = std::max(1.0, prompts / kChunk);
  return Times(chunks, Forward(train, prompts / chunks, points));
}

// All steps, of prompts as long as the curriculum has them.
Work Steps(const v1::TrainInputs& inputs) {
  const v1::TrainParams& train = inputs.train();
  const v1::Curriculum& c = train.curriculum();
  const auto steps = static_cast<double>(train.steps());
  double points = c.points_start() == 0 ? train.points() : c.points_start();
  double done = 0;
  Work work;
  while (done < steps) {
    const bool grown = points >= train.points();
    const double here =
        grown ? steps - done
              : std::min<double>(c.points_interval(), steps - done);
    work = Sum(work, Times(kBackwards * here,
                           Forward(inputs, train.batch(),
                                   std::min<double>(points, train.points()))));
    done += here;
    points += c.points_increment();
  }
  return work;
}

Work WorkOf(const v1::TrainInputs& inputs) {
  const v1::TrainParams& train = inputs.train();
  const Work measured =
      Chunked(inputs, train.validation_prompts(), train.points());
  if (!train.checkpoint().empty()) return measured;
  return Sum(Steps(inputs), measured);
}

// Solving n points in d dimensions, for every query of every prompt.
double BaselineFlops(const v1::EvaluateInputs& inputs) {
  const v1::PromptParams& prompt = inputs.prompt();
  const double dims = prompt.data().dims();
  const double tasks = prompt.tasks();
  const double points = tasks * prompt.examples_per_task();
  const double solve = points * dims * dims + dims * dims * dims;
  const double lasso =
      inputs.evaluate().lasso_alpha() > 0 ? 50 * points * dims : 0;
  return static_cast<double>(inputs.evaluate().prompts()) * 3 * tasks *
         (2 * solve + lasso);
}

Work WorkOf(const v1::EvaluateInputs& inputs, const v1::TrainInputs& train) {
  const v1::PromptParams& prompt = inputs.prompt();
  const double tasks = prompt.tasks();
  const double block = prompt.examples_per_task() + 1;
  const auto prompts = static_cast<double>(inputs.evaluate().prompts());
  Work work = Sum(Chunked(train, prompts, tasks * block + 1),
                  Times(tasks, Chunked(train, prompts, block)));
  work.flops += kPlain * BaselineFlops(inputs);
  return work;
}

// A pass of one chunk of replicates, which is always full.
Work Replicates(const v1::TrainInputs& train, double points) {
  return Forward(train, kReplicates, points);
}

Work WorkOf(const v1::CompareInputs& inputs, const v1::TrainInputs& train) {
  const v1::PromptParams& prompt = inputs.prompt();
  const v1::CompareParams& compare = inputs.compare();
  const double demonstrations =
      static_cast<double>(prompt.tasks()) * prompt.examples_per_task();
  const double anchors = compare.anchors();
  const double chunks = std::ceil(compare.tasks() / kReplicates);
  // Every candidate of the tuning; the model and two controls.
  const double finetunings = compare.learning_rates_size() *
                                 std::ceil(compare.tune_tasks() / kReplicates) +
                             3 * chunks;
  // Every replicate has keys and values of its own, changed at every step.
  const double width = train.model().width();
  Work step = Times(kBackwards, Replicates(train, anchors + 1));
  step.flops +=
      kPlain * kReplicates * train.model().layers() * 2 * width * width;
  const double queries = anchors + compare.queries() / 2.0;
  return Sum(Times(finetunings, Sum(Times(demonstrations, step),
                                    Replicates(train, queries))),
             Times(2 * chunks, Replicates(train, demonstrations + queries)));
}

Work WorkOf(const v1::TheoryInputs& inputs) {
  const double tasks = inputs.prompt().tasks();
  const double dims = inputs.prompt().data().dims();
  return {0, kPlain * (tasks * tasks * dims * dims + dims * dims * dims)};
}

template <typename Inputs>
absl::StatusOr<Inputs> Parse(Stage stage, const std::string& bytes) {
  Inputs inputs;
  if (inputs.ParseFromString(bytes)) return inputs;
  return absl::InternalError(
      absl::StrCat("the inputs of a ", StageName(stage), " job do not parse"));
}

}  // namespace

absl::StatusOr<Work> WorkOf(Stage stage, const std::string& inputs,
                            const std::string* train) {
  v1::TrainInputs model;
  if (train != nullptr) {
    ASSIGN_OR_RETURN(model, Parse<v1::TrainInputs>(Stage::kTrain, *train));
  }
  switch (stage) {
    case Stage::kTrain: {
      ASSIGN_OR_RETURN(const auto own, Parse<v1::TrainInputs>(stage, inputs));
      return WorkOf(own);
    }
    case Stage::kEvaluate: {
      ASSIGN_OR_RETURN(const auto own,
                       Parse<v1::EvaluateInputs>(stage, inputs));
      return WorkOf(own, model);
    }
    case Stage::kCompare: {
      ASSIGN_OR_RETURN(const auto own, Parse<v1::CompareInputs>(stage, inputs));
      return WorkOf(own, model);
    }
    case Stage::kTheory: {
      ASSIGN_OR_RETURN(const auto own, Parse<v1::TheoryInputs>(stage, inputs));
      return WorkOf(own);
    }
    case Stage::kNoop: {
      ASSIGN_OR_RETURN(const auto own, Parse<v1::NoopInputs>(stage, inputs));
      return Work{0, static_cast<double>(own.noop().microseconds())};
    }
  }
  return absl::InternalError("no such stage");
}

int64_t ParameterCount(const v1::TrainInputs& inputs) {
  const int64_t width = inputs.model().width();
  const int64_t positions = inputs.model().positions() == 0
                                ? inputs.train().points()
                                : inputs.model().positions();
  const int64_t block = 12 * width * width + 13 * width;
  const int64_t ends = width * (inputs.data().dims() + 1) + width + 1;
  return ends + 2 * positions * width + inputs.model().layers() * block +
         2 * width;
}

int64_t CheckpointBytes(const v1::TrainInputs& inputs) {
  constexpr int64_t bytes = 8;  // two times four
  return bytes * ParameterCount(inputs) + 8'000;
}

}  // namespace iclsweep
