#include "coordinator/spec/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/spec/resolve.h"
#include "proto/canonical.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

SweepSpec Parse(const std::string& text) {
  auto spec = ParseSweep("name: t\n" + text, "s.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *std::move(spec);
}

std::map<Stage, uint64_t> Jobs(const SweepSpec& spec) {
  std::map<Stage, uint64_t> jobs;
  const auto plans = PlanStages(spec);
  EXPECT_TRUE(plans.ok()) << plans.status();
  for (const StagePlan& plan : *plans) jobs[plan.stage] = plan.jobs;
  return jobs;
}

using Counts = std::map<Stage, uint64_t>;

TEST(PlanTest, FifteenThousandEvaluationsShareTwoTrainings) {
  const SweepSpec spec = Parse(R"(
grid:
  model.size: [tiny, standard]
  prompt.task_order: {permutations: all}
  prompt.angle_degrees: [0, 15, 30, 45, 60, 90]
  prompt.examples_per_task: [1, 2, 3, 5, 7, 9, 11, 13, 15, 17, 19]
train: {points: 101}
prompt: {tasks: 5, geometry: angle}
evaluate: {}
theory: {}
)");
  EXPECT_EQ(CellCount(spec), 15840u);
  EXPECT_EQ(Jobs(spec), (Counts{{Stage::kTrain, 2},
                                {Stage::kEvaluate, 15840},
                                {Stage::kTheory, 7920}}));
  Counts visited;
  std::set<JobKey> keys;
  std::set<JobKey> trained;
  for (const Stage stage : spec.stages)
    ASSERT_OK(ForEachDistinctJob(
        spec, stage,
        [&](const PlannedJob& job, absl::Span<const JobKey> dependencies) {
          ++visited[job.stage];
          keys.insert(job.key);
          if (job.stage == Stage::kTrain) trained.insert(job.key);
          for (const JobKey& key : dependencies)
            EXPECT_EQ(trained.count(key), 1u);
          EXPECT_EQ(dependencies.size(),
                    job.stage == Stage::kEvaluate ? 1u : 0u);
          return absl::OkStatus();
        }));
  EXPECT_EQ(visited, Jobs(spec));
  EXPECT_EQ(keys.size(), 2u + 15840 + 7920);
}

TEST(PlanTest, EveryCellNeedsEveryStage) {
  const auto plans =
      PlanStages(Parse("train:\ntheory:\ngrid: {seed: [0, 1, 2]}"));
  ASSERT_OK(plans);
  ASSERT_EQ(plans->size(), 2u);
  EXPECT_EQ((*plans)[1].stage, Stage::kTheory);
  EXPECT_EQ((*plans)[1].cells, 3u);
  EXPECT_EQ((*plans)[1].jobs, 1u);
}

TEST(PlanTest, ValuesThatMeanTheSameShareAJob) {
  EXPECT_EQ(Jobs(Parse("train:\ngrid: {model.size: [custom, standard, tiny]}")),
            (Counts{{Stage::kTrain, 2}}));
  EXPECT_EQ(
      Jobs(Parse(
          "theory:\ngrid: {prompt.geometry: [independent, angle, clustered], "
          "prompt.angle_degrees: [0, 30, 60]}")),
      (Counts{{Stage::kTheory, 5}}));
  EXPECT_EQ(Jobs(Parse("train:\nevaluate:\ngrid: {evaluate.pretraining_length: "
                       "[0, 41, 101]}")),
            (Counts{{Stage::kTrain, 1}, {Stage::kEvaluate, 2}}));
  EXPECT_EQ(Jobs(Parse("train:\ngrid: {data.family: [linear, sparse_linear], "
                       "data.sparsity: [2, 3, 4]}")),
            (Counts{{Stage::kTrain, 4}}));
  EXPECT_EQ(Jobs(Parse("train:\nevaluate:\ndata: {family: sparse_linear}\n"
                       "grid: {evaluate.lasso_alpha: [0, 0.01, 0.1]}")),
            (Counts{{Stage::kTrain, 1}, {Stage::kEvaluate, 2}}));
}

TEST(PlanTest, AMillionOrdersAreCountedWithoutVisitingThem) {
  const SweepSpec spec = Parse(
      "train: {points: 101}\nevaluate:\ntheory:\nprompt: {tasks: 10, "
      "examples_per_task: 2}\n"
      "grid: {prompt.task_order: {permutations: all}, seed: [0, 1]}");
  EXPECT_EQ(Jobs(spec), (Counts{{Stage::kTrain, 2},
                                {Stage::kEvaluate, 7257600},
                                {Stage::kTheory, 3628800}}));
}

TEST(PlanTest, TheVisitorEndsTheWalk) {
  const SweepSpec spec = Parse("noop:\ngrid: {noop.index: {range: [0, 10]}}");
  int visits = 0;
  const absl::Status status = ForEachDistinctJob(
      spec, Stage::kNoop, [&](const PlannedJob&, absl::Span<const JobKey>) {
        return ++visits == 3 ? absl::CancelledError("enough")
                             : absl::OkStatus();
      });
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(visits, 3);
}

// The points of the grid by plain counting: one digit per axis, those of axes
// that advance together the same; excluded ones left out.
std::vector<std::vector<uint64_t>> CellsByCounting(const SweepSpec& spec) {
  std::vector<std::vector<uint64_t>> cells = {{}};
  for (const Axis& axis : spec.axes) {
    std::vector<std::vector<uint64_t>> longer;
    for (const std::vector<uint64_t>& cell : cells) {
      const size_t before = cell.size();
      const bool follows =
          axis.zip >= 0 && before > 0 && spec.axes[before - 1].zip == axis.zip;
      for (uint64_t digit = 0; digit < axis.size(); ++digit) {
        if (follows && digit != cell.back()) continue;
        longer.push_back(cell);
        longer.back().push_back(digit);
      }
    }
    cells = std::move(longer);
  }
  std::erase_if(cells, [&](const std::vector<uint64_t>& cell) {
    for (const Exclusion& exclusion : spec.exclusions) {
      bool all = true;
      for (const auto& [axis, digits] : exclusion.axes)
        all = all && std::count(digits.begin(), digits.end(), cell[axis]) > 0;
      if (all) return true;
    }
    return false;
  });
  return cells;
}

// Keys of every cell without projections or memories: the sections of the cell,
// resolved and hashed.
std::vector<std::map<Stage, JobKey>> KeysByBruteForce(const SweepSpec& spec) {
  std::vector<std::map<Stage, JobKey>> cells;
  for (const std::vector<uint64_t>& digits : CellsByCounting(spec)) {
    v1::SweepFile sections = spec.base;
    for (size_t i = 0; i < digits.size(); ++i)
      spec.axes[i].Apply(digits[i], &sections);
    std::map<Stage, JobKey>& keys = cells.emplace_back();
    for (const Stage stage : spec.stages) {
      std::vector<JobKey> dependencies;
      if (stage == Stage::kEvaluate || stage == Stage::kCompare)
        dependencies = {keys[Stage::kTrain]};
      keys[stage] =
          ComputeJobKey(stage, **Resolve(sections, stage), dependencies)
              .value();
    }
  }
  return cells;
}

constexpr const char* kAxes[] = {"model.size: [tiny, custom, standard]",
                                 "model.positions: [0, 41, 60]",
                                 "model.init_std: [0.02, 0.07]",
                                 "data.dims: [3, 20]",
                                 "data.noise_std: [0, 0.5]",
                                 "data.family: [linear, sparse_linear]",
                                 "data.sparsity: [2, 3]",
                                 "train.points: [41, 50]",
                                 "train.steps: [1, 2]",
                                 "seed: {range: [0, 3]}",
                                 "prompt.examples_per_task: [1, 2]",
                                 "prompt.geometry: [independent, angle]",
                                 "prompt.angle_degrees: [0, 30]",
                                 "prompt.task_set: [fixed, fresh]",
                                 "prompt.seed: [0, 1]",
                                 "prompt.data.dims: [3, 20]",
                                 "prompt.data.noise_std: [0, 0.5]",
                                 "prompt.data.family: [linear, sparse_linear]",
                                 "prompt.data.sparsity: [2, 3]",
                                 "prompt.task_order: [0-1-2, 2-1-0]",
                                 "evaluate.pretraining_length: [0, 41]",
                                 "evaluate.ridge_lambda: [0, 0.25]",
                                 "evaluate.lasso_alpha: [0, 0.01]",
                                 "evaluate.pretraining_noise_std: [0, 0.5]",
                                 "theory.pretraining_length: [0, 41, 50]",
                                 "theory.pretraining_noise_std: [0, 0.5]",
                                 "compare.tune_tasks: [0, 192]",
                                 "compare.tasks: [10, 192]",
                                 "compare.anchors: [1, 2]"};
constexpr char kNoisySections[] =
    "train: {}\nevaluate: {pretraining_noise_std: 0.5}\ncompare: {}\n"
    "theory: {}\n";
constexpr const char* kSections[] = {
    "train: {}\n",
    "train: {batch: 8}\nevaluate: {}\n",
    "train: {}\nevaluate: {pretraining_length: 41}\ntheory: {}\n",
    kNoisySections,
    "theory: {}\n",
    "theory: {pretraining_length: 41, pretraining_noise_std: 0}\n"};
constexpr const char* kPrompts[] = {
    "prompt: {tasks: 3}\n", "prompt: {tasks: 3, geometry: angle}\n",
    "prompt: {tasks: 3, data: {dims: 3}}\n",
    "prompt: {tasks: 3, data: {noise_std: 0}}\n",
    "prompt: {tasks: 3}\ndata: {family: sparse_linear}\n"};

// "seed: 0" of "seed: [0, 1]" or "seed: {range: [0, 3]}".
std::string FirstValueOf(const std::string& axis) {
  const size_t open = axis.find('[');
  return absl::StrCat(
      axis.substr(0, axis.find(':')), ": ",
      axis.substr(open + 1, axis.find_first_of(",]", open) - open - 1));
}

TEST(PlanTest, RandomSweepsAgreeWithBruteForce) {
  std::mt19937 random(20240607);
  const auto pick = [&](const auto& from) {
    return from[random() % std::size(from)];
  };
  int compared = 0;
  int with_zip = 0;
  int with_exclude = 0;
  for (int trial = 0; trial < 8000 && compared < 250; ++trial) {
    std::set<std::string> axes;
    while (axes.size() < 4) axes.insert(pick(kAxes));
    std::string text = absl::StrCat(pick(kSections), pick(kPrompts));
    std::vector<std::string> grid(axes.begin(), axes.end());
    std::shuffle(grid.begin(), grid.end(), random);
    const bool zipped = random() % 2 == 0;
    if (zipped) {
      absl::StrAppend(&text, "zip: [{", grid[2], ", ", grid[3], "}]\n");
      grid.resize(2);
    }
    absl::StrAppend(&text, "grid:\n  ", absl::StrJoin(grid, "\n  "));
    if (random() % 2 == 0)
      absl::StrAppend(&text, "\nexclude: [{", FirstValueOf(grid[0]), ", ",
                      FirstValueOf(grid[1]), "}]");
    const auto spec = ParseSweep("name: t\n" + text, "s.yaml");
    // An axis without effect, set twice, lists of different lengths.
    if (!spec.ok()) continue;
    ++compared;
    with_zip += zipped ? 1 : 0;
    with_exclude += spec->cells == nullptr ? 0 : 1;
    SCOPED_TRACE(text);
    const auto cells = KeysByBruteForce(*spec);
    std::map<Stage, std::set<JobKey>> expected;
    CellExpander expander(*spec);
    ASSERT_EQ(CellCount(*spec), cells.size());
    for (uint64_t i = 0; i < cells.size(); ++i) {
      const Cell cell = expander.Expand(i).value();
      for (const PlannedJob& job : cell.jobs) {
        ASSERT_EQ(job.key, cells[i].at(job.stage))
            << StageName(job.stage) << " of " << cell.axes_json;
        expected[job.stage].insert(job.key);
      }
    }
    std::map<Stage, std::set<JobKey>> visited;
    for (const Stage stage : spec->stages)
      ASSERT_OK(ForEachDistinctJob(
          *spec, stage, [&](const PlannedJob& job, absl::Span<const JobKey>) {
            EXPECT_TRUE(visited[job.stage].insert(job.key).second);
            return absl::OkStatus();
          }));
    ASSERT_EQ(visited, expected);
    for (const auto& [stage, jobs] : Jobs(*spec))
      ASSERT_EQ(jobs, expected[stage].size()) << StageName(stage);
  }
  EXPECT_EQ(compared, 250);
  EXPECT_GT(with_zip, 40);
  EXPECT_GT(with_exclude, 80);
}

}  // namespace
}  // namespace iclsweep
