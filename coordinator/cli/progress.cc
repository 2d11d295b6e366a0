#include "coordinator/cli/progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace iclsweep {
namespace {

constexpr int64_t kPlainInterval = 10'000'000;

uint64_t Finished(const v1::StageProgress& stage) {
  return stage.done() + stage.failed() + stage.upstream_failed();
}

// Two digits, at least those before the point.
std::string Short(double rate) {
  return rate >= 10 ? absl::StrFormat("%.0f", rate)
                    : absl::StrFormat("%.2g", rate);
}

// The steps of a training that is over may be told for a while.
bool Trains(const v1::SweepStatus& status) {
  for (const v1::StageProgress& stage : status.stages()) {
    if (stage.stage() == "train" && stage.leased() > 0)
      return status.running_steps_total() > 0;
  }
  return false;
}

}  // namespace

std::string ShortTime(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 60) return absl::StrCat(whole, "s");
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  if (whole < int64_t{48} * 3600)
    return absl::StrFormat("%dh%02dm", whole / 3600, whole % 3600 / 60);
  return absl::StrFormat("%dd%02dh", whole / 86400, whole % 86400 / 3600);
}

double RecentRate::Add(int64_t now_us, uint64_t done) {
  counts_.emplace_back(now_us, done);
  while (counts_.size() > 2 && counts_[1].first <= now_us - kWindowUs)
    counts_.pop_front();
  const auto& [first_us, first_done] = counts_.front();
  const double seconds = static_cast<double>(now_us - first_us) / 1e6;
  return seconds > 1 && done > first_done
             ? static_cast<double>(done - first_done) / seconds
             : 0;
}

double EstimateSeconds(const v1::SweepStatus& status, uint32_t workers) {
  double micros = 0;
  for (const v1::StageProgress& stage : status.stages()) {
    const uint64_t jobs = stage.total() - Finished(stage);
    if (jobs == 0) continue;
    double open = static_cast<double>(jobs);
    if (stage.mean_job_us() <= 0) return -1;
    if (stage.stage() == "train" && Trains(status)) {
      const double part = static_cast<double>(status.running_steps_done()) /
                          static_cast<double>(status.running_steps_total());
      open -= std::min(part, 1.0) * static_cast<double>(stage.leased());
    }
    // One job is one worker's, however many there are.
    const uint64_t busy = std::clamp<uint64_t>(workers, 1, jobs);
    micros +=
        std::max(open, 0.0) * stage.mean_job_us() / static_cast<double>(busy);
  }
  return micros / 1e6;
}

std::string ProgressLine(const v1::SweepStatus& status, const StageRates& rates,
                         double eta_seconds) {
  std::string line;
  uint64_t done = 0;
  uint64_t total = 0;
  uint64_t failed = 0;
  for (const v1::StageProgress& stage : status.stages()) {
    absl::StrAppend(&line, line.empty() ? "" : "  ", stage.stage(), " ",
                    stage.done(), "/", stage.total());
    const auto rate = rates.find(stage.stage());
    if (rate != rates.end())
      absl::StrAppend(&line, absl::StrFormat(" (%s/s)", Short(rate->second)));
    done += Finished(stage);
    total += stage.total();
    failed += stage.failed() + stage.upstream_failed();
  }
  if (status.expanding()) absl::StrAppend(&line, " (expanding)");
  if (failed > 0) absl::StrAppend(&line, " | ", failed, " failed");
  if (total > 0)
    absl::StrAppend(&line,
                    absl::StrFormat(" | %d%% of jobs", 100 * done / total));
  if (Trains(status)) {
    absl::StrAppend(&line, " | step ", status.running_steps_done(), "/",
                    status.running_steps_total());
  }
  if (eta_seconds >= 0 && !status.finished())
    absl::StrAppend(&line, " | ETA ", ShortTime(eta_seconds));
  return line;
}

void ProgressPrinter::Show(const v1::SweepStatus& status, uint32_t workers,
                           int64_t now_us) {
  StageRates rates;
  for (const v1::StageProgress& stage : status.stages()) {
    const double rate = rates_[stage.stage()].Add(now_us, Finished(stage));
    if (rate > 0 && Finished(stage) < stage.total())
      rates[stage.stage()] = rate;
  }
  const std::string line =
      ProgressLine(status, rates, EstimateSeconds(status, workers));
  if (terminal_) {
    absl::FPrintF(out_, "\r\033[K%s", line);
    std::fflush(out_);
    last_ = line;
  } else if (line != last_ && (last_.empty() || status.finished() ||
                               now_us - last_us_ >= kPlainInterval)) {
    absl::FPrintF(out_, "%s\n", line);
    std::fflush(out_);
    last_ = line;
    last_us_ = now_us;
  }
}

void ProgressPrinter::Note(const std::string& line) {
  if (terminal_) {
    absl::FPrintF(out_, "\r\033[K%s\n%s", line, last_);
  } else {
    absl::FPrintF(out_, "%s\n", line);
  }
  std::fflush(out_);
}

void ProgressPrinter::Finish() {
  if (terminal_) absl::FPrintF(out_, "\n");
  std::fflush(out_);
}

}  // namespace iclsweep
