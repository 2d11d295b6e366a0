#include "proto/base/domain.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace iclsweep {
namespace {

template <typename Enum>
struct Named {
  Enum value;
  absl::string_view name;
};

constexpr Named<Stage> kStages[] = {{Stage::kTrain, "train"},
                                    {Stage::kEvaluate, "evaluate"},
                                    {Stage::kCompare, "compare"},
                                    {Stage::kTheory, "theory"},
                                    {Stage::kNoop, "noop"}};
constexpr Named<JobState> kStates[] = {
    {JobState::kBlocked, "blocked"},
    {JobState::kReady, "ready"},
    {JobState::kLeased, "leased"},
    {JobState::kDone, "done"},
    {JobState::kFailed, "failed"},
    {JobState::kUpstreamFailed, "upstream_failed"}};
constexpr Named<Cause> kCauses[] = {{Cause::kNone, ""},
                                    {Cause::kInvalid, "invalid"},
                                    {Cause::kFailed, "failed"},
                                    {Cause::kCrashed, "crashed"},
                                    {Cause::kLost, "lost"},
                                    {Cause::kUndelivered, "undelivered"},
                                    {Cause::kPreempted, "preempted"},
                                    {Cause::kDrained, "drained"},
                                    {Cause::kTimeout, "timeout"},
                                    {Cause::kOutOfMemory, "out_of_memory"},
                                    {Cause::kDeviceError, "device_error"}};
constexpr Named<AttemptOutcome> kOutcomes[] = {
    {AttemptOutcome::kRunning, "running"},
    {AttemptOutcome::kDone, "done"},
    {AttemptOutcome::kFailed, "failed"},
    {AttemptOutcome::kReleased, "released"}};

template <typename Enum, size_t N>
absl::string_view NameOf(const Named<Enum> (&table)[N], Enum value) {
  for (const auto& entry : table) {
    if (entry.value == value) return entry.name;
  }
  return "unknown";
}

template <typename Enum, size_t N>
std::optional<Enum> ValueOf(const Named<Enum> (&table)[N],
                            absl::string_view name) {
  for (const auto& entry : table) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

}  // namespace

std::string ToHex(const JobKey& key) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()));
}

std::string AttemptLogFile(absl::string_view log_dir, const JobKey& key,
                           uint32_t attempt) {
  return absl::StrCat(log_dir, "/", ToHex(key), "/", attempt, ".log");
}

std::optional<JobKey> JobKeyFromBytes(absl::string_view bytes) {
  JobKey key;
  if (bytes.size() != key.bytes.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
  return key;
}

std::optional<JobKey> JobKeyFromHex(absl::string_view hex) {
  const bool all_hex = std::all_of(
      hex.begin(), hex.end(), [](char c) { return absl::ascii_isxdigit(c); });
  if (hex.size() != 64 || !all_hex) return std::nullopt;
  return JobKeyFromBytes(absl::HexStringToBytes(hex));
}

absl::string_view StageName(Stage stage) { return NameOf(kStages, stage); }
std::optional<Stage> StageFromName(absl::string_view name) {
  return ValueOf(kStages, name);
}

uint32_t NumericsVersion(Stage stage) {
  switch (stage) {
    case Stage::kTrain:
    case Stage::kEvaluate:
    case Stage::kCompare:
    case Stage::kTheory:
    case Stage::kNoop:
      return 1;
  }
  return 0;
}

absl::string_view JobStateName(JobState state) {
  return NameOf(kStates, state);
}
absl::string_view CauseName(Cause cause) { return NameOf(kCauses, cause); }
std::optional<Cause> CauseFromName(absl::string_view name) {
  return ValueOf(kCauses, name);
}
absl::string_view AttemptOutcomeName(AttemptOutcome outcome) {
  return NameOf(kOutcomes, outcome);
}

}  // namespace iclsweep
