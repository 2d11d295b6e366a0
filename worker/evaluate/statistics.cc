#include "worker/evaluate/statistics.h"

#include <cmath>
#include <utility>

namespace iclsweep {
namespace {

double Square(double x) { return x * x; }

}  // namespace

void RunningMean::Add(double value) {
  ++count_;
  const double before = value - mean_;
  mean_ += before / static_cast<double>(count_);
  squares_ += before * (value - mean_);
}

double RunningMean::StandardError() const {
  if (count_ < 2) return kNoStandardError;
  const auto n = static_cast<double>(count_);
  return std::sqrt(squares_ / (n - 1) / n);
}

ErrorTable::ErrorTable(absl::string_view predictor, int tasks, Rows rows)
    : predictor_(predictor),
      rows_(rows),
      positions_(static_cast<size_t>(tasks)) {}

void ErrorTable::Add(const QueryPredictions& predictions,
                     const std::vector<double>& query_labels) {
  double sum_own = 0;
  double sum_last = 0;
  double sum_excess = 0;
  double sum_drift = 0;
  for (size_t s = 0; s < positions_.size(); ++s) {
    const double own = Square(predictions.own[s] - query_labels[s]);
    const double last = Square(predictions.last[s] - query_labels[s]);
    const double single = Square(predictions.single[s] - query_labels[s]);
    const double drift = Square(predictions.last[s] - predictions.own[s]);
    Cell& cell = positions_[s];
    cell.own.Add(own);
    cell.single.Add(single);
    cell.transfer.Add(own - single);
    cell.last.Add(last);
    cell.excess.Add(last - own);
    cell.drift.Add(drift);
    sum_own += own;
    sum_last += last;
    sum_excess += last - own;
    sum_drift += drift;
  }
  const auto tasks = static_cast<double>(positions_.size());
  average_.own.Add(sum_own / tasks);
  average_.last.Add(sum_last / tasks);
  average_.excess.Add(sum_excess / tasks);
  average_.drift.Add(sum_drift / tasks);
}

void ErrorTable::AppendTo(const std::vector<int>& order,
                          std::vector<Measurement>* out) const {
  int task = kNotApplicable;
  int position = kNotApplicable;
  const auto append = [&](const char* name, const RunningMean& mean) {
    Measurement row;
    row.predictor = predictor_;
    row.name = name;
    row.task = task;
    row.position = position;
    row.value = mean.Mean();
    row.standard_error = mean.StandardError();
    row.n = mean.Count();
    out->push_back(std::move(row));
  };
  const bool all = rows_ == Rows::kAll;
  for (size_t s = 0; s < positions_.size(); ++s) {
    const Cell& cell = positions_[s];
    task = order[s];
    position = static_cast<int>(s);
    append("G", cell.own);
    append("E_final", cell.last);
    if (!all) continue;
    append("G_single", cell.single);
    append("NT", cell.transfer);
    append("delta_E", cell.excess);
    append("F", cell.drift);
  }
  task = position = kNotApplicable;
  append("G", average_.own);
  append("E_final", average_.last);
  if (!all) return;
  append("delta_E", average_.excess);
  append("F", average_.drift);
}

}  // namespace iclsweep
