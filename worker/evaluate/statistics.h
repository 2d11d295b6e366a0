// Turns predictions on many prompts into measurements: means over prompts with
// their standard errors. Sums run in the order prompts are added and in double,
// so the numbers do not depend on chunks. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/domain.h"
#include "worker/tasks/prompt.h"

namespace iclsweep {

// Mean and spread of a stream of numbers (Welford 1962). Not thread-safe.
class RunningMean {
 public:
  void Add(double value);
  int64_t Count() const { return count_; }
  double Mean() const { return mean_; }
  // Sample standard deviation / sqrt(n); NaN below two values.
  double StandardError() const;

 private:
  int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared differences from the mean
};

// The measurements of one predictor (worker/evaluate/run.h says which). Not
// thread-safe.
class ErrorTable {
 public:
  enum class Rows { kAll, kErrorsOnly };  // kErrorsOnly: G and E_final
  ErrorTable(absl::string_view predictor, int tasks, Rows rows);

  // Predictions and labels at the queries of one prompt, by position. REQUIRES:
  // all of size `tasks`.
  void Add(const QueryPredictions& predictions,
           const std::vector<double>& query_labels);

  // order[s] is the task at position s.
  void AppendTo(const std::vector<int>& order,
                std::vector<Measurement>* out) const;
  const std::string& Predictor() const { return predictor_; }

 private:
  struct Cell {
    RunningMean own, single, transfer, last, excess, drift;
  };

  std::string predictor_;
  Rows rows_;
  std::vector<Cell> positions_;
  Cell average_;  // over the tasks of a prompt; `single` and `transfer` stay
                  // empty
};

}  // namespace iclsweep
