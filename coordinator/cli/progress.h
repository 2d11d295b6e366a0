// Shows how a sweep advances: one line redrawn on a terminal, plain lines
// elsewhere (when something changed, at most one every ten seconds). Pure text
// making is apart from the drawing, for tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "iclsweep/v1/sweep.pb.h"

namespace iclsweep {

// Finished jobs per second of each stage, where some were in the window.
using StageRates = std::map<std::string, double>;

// Jobs per second over the last half minute.
class RecentRate {
 public:
  // The rate now that `done` jobs are finished; 0 when none was in the window.
  // REQUIRES: `now_us` never goes back.
  double Add(int64_t now_us, uint64_t done);

 private:
  static constexpr int64_t kWindowUs = 30'000'000;
  // Time and count; the first is the last one before the window.
  std::deque<std::pair<int64_t, uint64_t>> counts_;
};

// "45s", "1m20s", "3h05m", "2d03h", rounded up.
std::string ShortTime(double seconds);

// Seconds until everything is done with `workers` workers; -1 when a stage's
// duration is not known yet.
double EstimateSeconds(const v1::SweepStatus& status, uint32_t workers);

// "train 1/2  evaluate 30/108 (3.1/s)  theory 54/54 | 42% of jobs | step 50/200
// | ETA 1m20s"
std::string ProgressLine(const v1::SweepStatus& status, const StageRates& rates,
                         double eta_seconds);

class ProgressPrinter {
 public:
  // `terminal`: redraw in place.
  ProgressPrinter(std::FILE* out, bool terminal)
      : out_(out), terminal_(terminal) {}
  void Show(const v1::SweepStatus& status, uint32_t workers, int64_t now_us);
  // A line of its own, above the one being redrawn.
  void Note(const std::string& line);
  // Ends the line being redrawn.
  void Finish();

 private:
  std::FILE* out_;
  bool terminal_;
  std::string last_;
  int64_t last_us_ = 0;
  std::map<std::string, RecentRate> rates_;  // by stage
};

}  // namespace iclsweep
