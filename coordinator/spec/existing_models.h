// Models trained elsewhere: `train.checkpoint` names a folder, in its section
// or as an axis. What a sweep means must not depend on what lies in a folder
// later, so the folder is replaced by the SHA-256 of its weights before
// anything else reads the file; sizes that the file does not write are the
// model's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/spec/place.h"
#include "coordinator/spec/sweep_spec.h"
#include "coordinator/spec/yaml_tree.h"

namespace iclsweep {

inline constexpr char kCheckpointPath[] = "train.checkpoint";

// Puts sha256:<hex> where a folder stands, in the train section, grid, zip and
// exclude. Returns what is known of every model, by its sum so written. Errors:
// InvalidArgument with the place: a folder that holds no such model, a sum that
// is none, an empty value of an axis.
absl::StatusOr<std::map<std::string, ModelFacts>> PinModels(
    absl::string_view file_name, const ParseOptions& options, YamlNode* root);

// Sets layers, heads, width, positions, dims and train.points where they are
// not written, no axis, and the same for all models. Errors: InvalidArgument
// for a parameter of train that is written beside a checkpoint and not read.
absl::Status TakeModelSizes(const Places& places, SweepSpec* spec);

// That a cell's model is of the sizes the cell says. `ModelSizePaths`: what
// that depends on.
std::vector<std::string> ModelSizePaths();
absl::Status CheckModelSizes(const std::map<std::string, ModelFacts>& models,
                             const v1::SweepFile& cell, const Places& places);

}  // namespace iclsweep
