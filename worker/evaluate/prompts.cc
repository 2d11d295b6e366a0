#include "worker/evaluate/prompts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/families.h"
#include "worker/evaluate/statistics.h"
#include "worker/tasks/baselines.h"
#include "worker/tasks/lasso.h"
#include "worker/tasks/linear_attention.h"
#include "worker/tasks/order.h"

namespace iclsweep {
namespace {

// What stays the same over the prompts of a job.
struct Setting {
  std::vector<int> order;
  std::vector<double> gamma;  // diagonal of Gamma
  double ridge_lambda = 0;
  double lasso_alpha = 0;  // 0: no rows of lasso
};

absl::StatusOr<Setting> SettingOf(const v1::EvaluateInputs& inputs) {
  const v1::EvaluateParams& evaluate = inputs.evaluate();
  RETURN_IF_ERROR(CheckPrompt(inputs.prompt()));
  if (evaluate.prompts() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluate.prompts = ", evaluate.prompts(), " must be at least 2"));
  }
  Setting setting;
  ASSIGN_OR_RETURN(setting.order, TaskOrder(inputs.prompt()));
  ASSIGN_OR_RETURN(const std::vector<double> eigenvalues,
                   Eigenvalues(inputs.prompt().data()));
  const double pretraining_noise = evaluate.pretraining_noise_std();
  setting.gamma = GammaDiagonal(eigenvalues, evaluate.pretraining_length(),
                                pretraining_noise * pretraining_noise);
  const double noise_std = inputs.prompt().data().noise_std();
  setting.ridge_lambda = evaluate.ridge_lambda() > 0 ? evaluate.ridge_lambda()
                                                     : noise_std * noise_std;
  setting.lasso_alpha = LassoAlpha(evaluate, inputs.prompt().data().family());
  return setting;
}

QueryPredictions PredictRidge(const OrderedPrompt& prompt, double lambda) {
  return PredictQueries(
      prompt, [lambda](const Examples& context, const double* queries,
                       int64_t count, double* out) {
        PredictLinear(RidgeWeights(context, lambda), queries, count, out);
      });
}

QueryPredictions PredictLasso(const OrderedPrompt& prompt, double alpha) {
  return PredictQueries(
      prompt, [alpha](const Examples& context, const double* queries,
                      int64_t count, double* out) {
        PredictLinear(LassoWeights(context, alpha), queries, count, out);
      });
}

void AnswerByAveraging(const Examples& context, const double* queries,
                       int64_t count, double* out) {
  PredictLinear(AveragingWeights(context), queries, count, out);
}

void AnswerByNearestThree(const Examples& context, const double* queries,
                          int64_t count, double* out) {
  for (int64_t q = 0; q < count; ++q)
    out[q] = NearestThree(context, queries + q * context.dims);
}

QueryPredictions Constant(double value, int tasks) {
  const std::vector<double> values(static_cast<size_t>(tasks), value);
  return {values, values, values};
}

// One table per predictor, in the order of prompts.h.
class Tables {
 public:
  Tables(int tasks, const Setting& setting) : tasks_(tasks) {
    using Rows = ErrorTable::Rows;
    for (const auto& [predictor, rows] : {std::pair{"model", Rows::kAll},
                                          {"zero", Rows::kErrorsOnly},
                                          {"least_squares", Rows::kAll},
                                          {"ridge", Rows::kAll},
                                          {"averaging", Rows::kErrorsOnly},
                                          {"nn3", Rows::kErrorsOnly},
                                          {"lasso", Rows::kAll},
                                          {"lsa", Rows::kAll},
                                          {"msa", Rows::kAll}}) {
      if (predictor == absl::string_view("lasso") && setting.lasso_alpha == 0)
        continue;
      tables_.emplace_back(predictor, tasks, rows);
    }
  }

  void Add(const OrderedPrompt& prompt, const Setting& setting,
           const QueryPredictions* model) {
    size_t next = 0;
    const auto add = [&](const QueryPredictions& predictions) {
      tables_[next++].Add(predictions, prompt.query_labels);
    };
    const QueryPredictions least_squares = PredictRidge(prompt, 0);
    add(model != nullptr
            ? *model
            : Constant(0,
                       tasks_));  // without a model its table is not reported
    add(Constant(0, tasks_));
    add(least_squares);
    add(setting.ridge_lambda == 0 ? least_squares
                                  : PredictRidge(prompt, setting.ridge_lambda));
    add(PredictQueries(prompt, AnswerByAveraging));
    add(PredictQueries(prompt, AnswerByNearestThree));
    if (setting.lasso_alpha > 0) add(PredictLasso(prompt, setting.lasso_alpha));
    add(PredictLsa(prompt, setting.gamma));
    add(PredictMsa(prompt, setting.gamma));
  }

  void AddEverywhere(double prediction) {
    for (ErrorTable& table : tables_)
      table.Add(Constant(prediction, tasks_),
                std::vector<double>(static_cast<size_t>(tasks_), 0.0));
  }

  std::vector<Measurement> Rows(const std::vector<int>& order,
                                bool with_model) const {
    std::vector<Measurement> rows;
    for (size_t i = with_model ? 0 : 1; i < tables_.size(); ++i)
      tables_[i].AppendTo(order, &rows);
    return rows;
  }

 private:
  int tasks_;
  std::vector<ErrorTable> tables_;
};

}  // namespace

absl::StatusOr<std::vector<Measurement>> EvaluatePrompts(
    const v1::EvaluateInputs& inputs, const ModelAnswers& model,
    const StageContext& context) {
  ASSIGN_OR_RETURN(const Setting setting, SettingOf(inputs));
  const int64_t prompts = inputs.evaluate().prompts();
  const int64_t chunks = (prompts + kChunkPrompts - 1) / kChunkPrompts;
  Tables tables(inputs.prompt().tasks(), setting);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    if (context.Stopped())
      return absl::CancelledError(absl::StrCat(
          "evaluate: told to stop after ", chunk, " of ", chunks, " chunks"));
    const int64_t first = chunk * kChunkPrompts;
    ASSIGN_OR_RETURN(
        const PromptBlock block,
        DrawPrompts(inputs.prompt(),
                    static_cast<uint64_t>(inputs.evaluate().seed()), first,
                    kChunkPrompts));
    std::vector<QueryPredictions> answers;
    if (model) {
      ASSIGN_OR_RETURN(answers, model(block, setting.order));
    }
    const int64_t counted = std::min(kChunkPrompts, prompts - first);
    for (int64_t row = 0; row < counted; ++row) {
      const OrderedPrompt prompt = InOrder(block, row, setting.order);
      tables.Add(prompt, setting,
                 model ? &answers[static_cast<size_t>(row)] : nullptr);
    }
    context.Progress(chunk + 1, chunk + 1, chunks);
  }
  return tables.Rows(setting.order, /*with_model=*/static_cast<bool>(model));
}

absl::StatusOr<std::vector<Measurement>> NonFiniteMeasurements(
    const v1::EvaluateInputs& inputs) {
  ASSIGN_OR_RETURN(const Setting setting, SettingOf(inputs));
  Tables tables(inputs.prompt().tasks(), setting);
  tables.AddEverywhere(std::numeric_limits<double>::quiet_NaN());
  std::vector<Measurement> rows =
      tables.Rows(setting.order, /*with_model=*/true);
  for (Measurement& row : rows) row.n = inputs.evaluate().prompts();
  return rows;
}

}  // namespace iclsweep
