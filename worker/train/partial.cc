#include "worker/train/partial.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "proto/base/status_macros.h"
#include "worker/model/files.h"

namespace iclsweep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kKept = 2;
constexpr int kFormat = 1;

struct StepFolder {
  int64_t step = 0;
  std::string path;
};

// Every step-<n> folder of one attempt, in no order. An attempt folder that
// cannot be listed has none.
std::vector<StepFolder> ListSteps(const fs::path& attempt_dir) {
  std::vector<StepFolder> found;
  std::error_code error;
  for (fs::directory_iterator it(attempt_dir, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view number = name;
    StepFolder folder{0, it->path().string()};
    if (absl::ConsumePrefix(&number, "step-") &&
        absl::SimpleAtoi(number, &folder.step))
      found.push_back(std::move(folder));
  }
  return found;
}

void SortNewestFirst(std::vector<StepFolder>* folders) {
  std::sort(folders->begin(), folders->end(),
            [](const StepFolder& a, const StepFolder& b) {
              return a.step != b.step ? a.step > b.step : a.path > b.path;
            });
}

}  // namespace

PartialStore::PartialStore(std::string partial_dir, uint32_t attempt,
                           RunIdentity identity)
    : partial_dir_(std::move(partial_dir)),
      attempt_(attempt),
      identity_(std::move(identity)) {}

std::string PartialStore::OwnDirectory() const {
  return (fs::path(partial_dir_) / std::to_string(attempt_)).string();
}

absl::Status PartialStore::Save(const PartialState& state) const {
  if (!enabled()) return absl::OkStatus();
  json description = {{"format", kFormat},
                      {"step", state.step},
                      {"inputs_sha256", identity_.inputs_sha256},
                      {"device_kind", identity_.device_kind},
                      {"numerics_version", identity_.numerics_version},
                      {"curve", json::array()}};
  for (const CurvePoint& point : state.curve)
    description["curve"].push_back({point.name, point.step, point.value});
  const std::string target =
      (fs::path(OwnDirectory()) / absl::StrCat("step-", state.step)).string();
  absl::Status published = PublishDirectory(
      target, [&](const std::string& temporary) -> absl::Status {
        RETURN_IF_ERROR(WriteSafetensors(
            (fs::path(temporary) / "state.safetensors").string(),
            state.tensors));
        return WriteFileDurably((fs::path(temporary) / "state.json").string(),
                                description.dump() + "\n");
      });
  // The same step of the same run holds the same bytes.
  if (!published.ok() && published.code() != absl::StatusCode::kAlreadyExists)
    return published;
  std::vector<StepFolder> own = ListSteps(OwnDirectory());
  SortNewestFirst(&own);
  for (size_t i = kKept; i < own.size(); ++i)
    RETURN_IF_ERROR(RemoveTree(own[i].path));
  return absl::OkStatus();
}

absl::StatusOr<PartialState> PartialStore::Load(
    const std::string& directory) const {
  RETURN_IF_ERROR(CheckManifest(directory));
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile((fs::path(directory) / "state.json").string()));
  const json description =
      json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json expected = {{"format", kFormat},
                         {"inputs_sha256", identity_.inputs_sha256},
                         {"device_kind", identity_.device_kind},
                         {"numerics_version", identity_.numerics_version}};
  if (!description.is_object())
    return absl::DataLossError(
        absl::StrCat(directory, ": state.json is no object"));
  for (const auto& [name, value] : expected.items()) {
    if (description.value(name, json()) != value) {
      return absl::FailedPreconditionError(
          absl::StrCat(directory, " has another ", name));
    }
  }
  PartialState state;
  const json step = description.value("step", json());
  if (!step.is_number_integer())
    return absl::DataLossError(absl::StrCat(directory, ": no step"));
  state.step = step.get<int64_t>();
  for (const json& point : description.value("curve", json::array())) {
    if (!point.is_array() || point.size() != 3 || !point[0].is_string() ||
        !point[1].is_number_integer() || !point[2].is_number()) {
      return absl::DataLossError(
          absl::StrCat(directory, ": a malformed curve"));
    }
    state.curve.push_back({point[0].get<std::string>(), point[1].get<int64_t>(),
                           point[2].get<double>()});
  }
  ASSIGN_OR_RETURN(
      state.tensors,
      ReadSafetensors((fs::path(directory) / "state.safetensors").string()));
  return state;
}

std::optional<PartialState> PartialStore::LoadNewest() const {
  if (!enabled()) return std::nullopt;
  std::vector<StepFolder> candidates;
  std::error_code error;
  for (fs::directory_iterator it(partial_dir_, error), end; !error && it != end;
       it.increment(error)) {
    for (StepFolder& folder : ListSteps(it->path()))
      candidates.push_back(std::move(folder));
  }
  SortNewestFirst(&candidates);
  for (const StepFolder& folder : candidates) {
    absl::StatusOr<PartialState> state = Load(folder.path);
    if (state.ok()) return *std::move(state);
  }
  return std::nullopt;
}

}  // namespace iclsweep
