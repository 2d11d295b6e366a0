// Continual prompts as numbers: contexts, queries and labels of T tasks with M
// labelled examples each, and the layout in which they are shown. Plain
// doubles; turning them into tensors is the model's business.
//
// Layout of one prompt (Li, Ding, Hu, arXiv 2605.28705, section 3): position s
// hosts task order[s] as M labelled pairs followed by the task's own query
// (x_q, 0); after the last block stands one final query (x_tau, 0), the query
// of some task repeated. That is T(M+1)+1 points. The label of a query is never
// shown, but errors are measured against it, its noise included.
//
// Inputs: x ~ N(0, diag(eigenvalues)); labels: worker/tasks/family.h.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"

namespace iclsweep {

// Several prompts, everything indexed by task *identity*.
struct PromptBlock {
  int64_t prompts = 0;
  int tasks = 0;
  int examples = 0;
  int dims = 0;
  std::vector<double> inputs;        // [prompts][tasks][examples][dims]
  std::vector<double> labels;        // [prompts][tasks][examples]
  std::vector<double> queries;       // [prompts][tasks][dims]
  std::vector<double> query_labels;  // [prompts][tasks]
};

// One prompt in the order it is shown; everything indexed by *position*.
struct OrderedPrompt {
  int tasks = 0;
  int examples = 0;
  int dims = 0;
  std::vector<double> inputs;        // [tasks][examples][dims]
  std::vector<double> labels;        // [tasks][examples]
  std::vector<double> queries;       // [tasks][dims]
  std::vector<double> query_labels;  // [tasks]
};

// What a predictor says at the queries of one prompt, by position.
struct QueryPredictions {
  std::vector<double> own;  // [tasks] at the task's own query, having seen its
                            // block and those before it
  std::vector<double>
      last;  // [tasks] at the same input in the final query, after all tasks
  std::vector<double> single;  // [tasks] having seen the task's own block only
};

// Points of one prompt with its final query: T(M+1)+1.
int64_t PromptPoints(const v1::PromptParams& prompt);

// What every reader of these parameters relies on: a family with its shape
// (CheckFamily), at least one task and example. Errors: InvalidArgument naming
// the field.
absl::Status CheckPrompt(const v1::PromptParams& prompt);

// Eigenvalues of the input covariance, [dims]; all 1 when none are given.
// Errors: InvalidArgument unless none or exactly `dims` positive values are
// given.
absl::StatusOr<std::vector<double>> Eigenvalues(const v1::DataParams& data);

// Prompts first .. first + count - 1. The draws of a prompt depend on nothing
// but (context_seed, its number, task identity, example, coordinate): examples
// nest in M, tasks in T, coordinates in dims, and all orders see the same ones.
// The task set is drawn from prompt.seed, once, or once per prompt when
// prompt.task_set is `fresh`. Errors: InvalidArgument (geometry, eigenvalues,
// family).
absl::StatusOr<PromptBlock> DrawPrompts(const v1::PromptParams& prompt,
                                        uint64_t context_seed, int64_t first,
                                        int64_t count);

// Row `row` of the block as shown under `order` (worker/tasks/order.h).
OrderedPrompt InOrder(const PromptBlock& block, int64_t row,
                      const std::vector<int>& order);

}  // namespace iclsweep
