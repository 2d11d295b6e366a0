// The words every part of iclsweep shares: identifiers, stages, causes,
// measurements, and what a stage returns. Plain values without behaviour; sole
// owner of these definitions. No protobuf, no gRPC, no SQLite, no LibTorch.
//
// The numbers and names of Stage, Cause and AttemptOutcome are stored and sent:
// changing one needs a schema version.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace iclsweep {

// Strong integer ids: a JobId cannot be passed where a SweepId is meant. 0 =
// none.
template <typename Tag>
struct Id {
  int64_t value = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads <=>
  friend auto operator<=>(const Id&, const Id&) = default;
  explicit operator bool() const { return value != 0; }
  template <typename H>
  friend H AbslHashValue(H h, const Id& id) {
    return H::combine(std::move(h), id.value);
  }
};
using SweepId = Id<struct SweepTag>;
using JobId = Id<struct JobTag>;
using WorkerId = Id<struct WorkerTag>;

// SHA-256 of what a job computes (proto/canonical.h).
struct JobKey {
  std::array<uint8_t, 32> bytes{};
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads <=>
  friend auto operator<=>(const JobKey&, const JobKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const JobKey& key) {
    return H::combine(std::move(h), key.bytes);
  }
};

// 64 lower-case hexadecimal digits.
std::string ToHex(const JobKey& key);
std::optional<JobKey> JobKeyFromBytes(
    absl::string_view bytes);  // exactly 32 bytes
std::optional<JobKey> JobKeyFromHex(absl::string_view hex);

// The log of one attempt, under the data directory's logs/.
std::string AttemptLogFile(absl::string_view log_dir, const JobKey& key,
                           uint32_t attempt);

enum class Stage : uint8_t {
  kTrain = 1,
  kEvaluate = 2,
  kCompare = 3,
  kTheory = 4,
  kNoop = 5
};
inline constexpr std::array kAllStages = {Stage::kTrain, Stage::kEvaluate,
                                          Stage::kCompare, Stage::kTheory,
                                          Stage::kNoop};
// For arrays indexed by a stage's number.
inline constexpr size_t kStageNumbers = 6;
absl::string_view StageName(Stage stage);
std::optional<Stage> StageFromName(absl::string_view name);

// Raised by one when the numbers a stage computes change; part of every key of
// that stage.
uint32_t NumericsVersion(Stage stage);
// Version of the canonical form and key layout itself.
inline constexpr uint32_t kKeyFormatVersion = 1;

enum class JobState : uint8_t {
  kBlocked = 0,
  kReady = 1,
  kLeased = 2,
  kDone = 3,
  kFailed = 4,
  kUpstreamFailed = 5
};
inline constexpr size_t kJobStates = 6;
absl::string_view JobStateName(JobState state);
inline bool IsTerminal(JobState state) {
  return state == JobState::kDone || state == JobState::kFailed ||
         state == JobState::kUpstreamFailed;
}

// Why an attempt ended without a result. Each has its own budget
// (coordinator/core/retry.h).
enum class Cause : uint8_t {
  kNone = 0,
  kInvalid = 1,      // the stage refuses its inputs; never retried
  kFailed = 2,       // program error
  kCrashed = 3,      // the worker process died while running it
  kLost = 4,         // the lease ran out
  kUndelivered = 5,  // no Sync ever confirmed the lease
  kPreempted = 6,    // the worker was told to stop by its system
  kDrained = 7,  // the worker was told to stop by the coordinator, or gave the
                 // lease back
  kTimeout = 8,
  kOutOfMemory = 9,
  kDeviceError = 10,
};
absl::string_view CauseName(Cause cause);
std::optional<Cause> CauseFromName(absl::string_view name);

enum class AttemptOutcome : uint8_t {
  kRunning = 0,
  kDone = 1,
  kFailed = 2,
  kReleased = 3
};
absl::string_view AttemptOutcomeName(AttemptOutcome outcome);

inline constexpr double kNoStandardError =
    std::numeric_limits<double>::quiet_NaN();
inline constexpr int kNotApplicable = -1;

// One number a job produced. `value` may be non-finite; storage keeps which
// kind.
struct Measurement {
  std::string predictor;
  std::string name;
  int task =
      kNotApplicable;  // identity of the task in its task set, not its place
  int position = kNotApplicable;  // its place in the order (evaluate, theory),
                                  // or the point index (train)
  int layer = kNotApplicable;
  int head = kNotApplicable;
  double value = 0;
  double standard_error =
      kNoStandardError;  // NaN = none (closed form, or undefined)
  int64_t n = 0;         // samples behind the value; 0 = closed form
};

struct CurvePoint {
  std::string name;
  int64_t step = 0;
  double value = 0;
};

// An immutable file set (a checkpoint folder) under the artifact directory.
struct Artifact {
  std::string path;    // relative to the artifact directory
  std::string sha256;  // of model.safetensors, lower-case hexadecimal
  int64_t bytes = 0;
};

// What a stage hands back when it ran to its end.
struct StageResult {
  std::vector<Measurement> measurements;
  std::vector<CurvePoint> curve;
  std::optional<Artifact> artifact;
  bool non_finite = false;  // training diverged, or the checkpoint it read had
  bool extrapolated = false;  // prompts longer than the model was trained on
};

// Where a result was computed; never part of identity.
struct Provenance {
  std::string build;
  std::string torch_version;
  std::string device_kind;
  uint32_t threads = 0;
  std::string host;
};

// One execution of a job: the pair is the fencing token.
struct LeaseRef {
  JobId job;
  uint32_t attempt = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads <=>
  friend auto operator<=>(const LeaseRef&, const LeaseRef&) = default;
};

// How far a running attempt has come.
struct LeaseProgress {
  LeaseRef lease;
  uint64_t steps_run = 0;   // executed by this attempt
  uint64_t steps_done = 0;  // position in the job, resumed steps included
  uint64_t steps_total = 0;
  bool checkpointed = false;  // it has published a partial checkpoint
  // Leased in a bundle and not begun: whatever happens is not its doing.
  bool waiting = false;
};

// The end of an attempt as its worker tells it.
struct Completion {
  LeaseRef lease;
  JobKey key;
  std::string database_uuid;
  AttemptOutcome outcome = AttemptOutcome::kDone;  // kDone or kFailed
  Cause cause = Cause::kNone;                      // for kFailed
  std::string message;                             // for kFailed
  uint64_t steps_run = 0;
  int64_t duration_us = 0;
  StageResult result;  // for kDone
  Provenance provenance;
};

}  // namespace iclsweep
