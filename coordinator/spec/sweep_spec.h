// A sweep file, read and checked: the sections as written, the stages they ask
// for, and the axes of the grid. Every cell of a SweepSpec resolves: what is
// wrong with a file is found here, with its place, not when a job runs. It does
// not plan (plan.h), expand (cells.h) or compare (freeze.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/spec/axis.h"
#include "coordinator/spec/cell_map.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"

namespace iclsweep {

// What is known of an existing model that `train.checkpoint` names; 0 = not
// known.
struct ModelFacts {
  std::string sha256;  // of its weights, 64 hexadecimal digits
  int layers = 0;
  int heads = 0;
  int width = 0;
  int positions = 0;  // points the position table has room for
  int dims = 0;
  int trained_points = 0;
};

struct SweepSpec {
  std::string name;
  v1::SweepFile
      base;  // the sections as written, presence kept; axes are not in it
  std::vector<Stage>
      stages;  // those whose section is present, in the order of kAllStages
  std::vector<Axis> axes;  // in file order, zipped ones last; the first varies
                           // slowest
  std::vector<Exclusion> exclusions;
  std::shared_ptr<const CellMap> cells;  // null: every point of the grid is one
  std::map<std::string, ModelFacts> models;  // by value of train.checkpoint
  std::vector<std::string> warnings;  // one line each, with file:line:column
  std::string hash_hex;  // of the content: layout, comments and written-out
                         // defaults do not change it

  bool Has(Stage stage) const;
  // The axis with this path, or nullptr.
  const Axis* FindAxis(absl::string_view path) const;
  // Whether train takes existing models (train.checkpoint) in every cell.
  bool TakesModels() const;
};

struct ParseOptions {
  uint64_t max_cells = 10'000'000;
  // Facts of the model in a folder, or of sha256:<hex>. Without it a folder is
  // refused, and nothing is known of a sum.
  std::function<absl::StatusOr<ModelFacts>(const std::string& checkpoint)>
      read_model = nullptr;
};

// Errors: InvalidArgument, one line, the first problem found. See the folder's
// README for what is refused.
absl::StatusOr<SweepSpec> ParseSweep(
    absl::string_view yaml, absl::string_view file_name,
    const ParseOptions& options = ParseOptions());
// A sweep that was accepted before: of any size, its models named by their
// sums.
absl::StatusOr<SweepSpec> ParseStoredSweep(absl::string_view yaml,
                                           absl::string_view name);

}  // namespace iclsweep
