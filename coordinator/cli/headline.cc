#include "coordinator/cli/headline.h"

#include <cstdio>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "coordinator/cli/table.h"
#include "proto/base/status_macros.h"
#include "storage/sqlite/views.h"

namespace iclsweep {
namespace {

// Axes that are averaged over.
bool IsReplicate(const std::string& path) {
  return path == "prompt.task_order" || path == "seed" ||
         absl::EndsWith(path, ".seed");
}

std::string Quote(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
}

std::string Average(const std::string& condition, const std::string& column,
                    const std::string& label) {
  return absl::StrCat(",\n  avg(CASE WHEN ", condition, " THEN ", column,
                      " END) AS ", label);
}

struct Shape {
  std::string name;
  std::string stage;
  std::string title;
  std::string columns;
  std::string filter;  // $sweep stands for the sweep's quoted name
};

std::string MeanColumns(
    const std::vector<std::pair<std::string, std::string>>& predictors_names) {
  std::string columns;
  for (const auto& [predictor, name] : predictors_names) {
    absl::StrAppend(&columns,
                    Average(absl::StrCat("predictor = '", predictor,
                                         "' AND name = '", name, "'"),
                            "value", absl::StrCat(predictor, "_", name)));
  }
  return columns;
}

struct Compared {
  const char* predictor;
  const char* name;
  const char* label;
};

// A mean, and the mean of the standard errors beside it. The averaged cells
// share task sets, so their errors are not independent and do not shrink with
// the number of cells; whatever they share, the mean's is at most their mean.
std::string MeansWithErrors(const std::vector<Compared>& compared) {
  std::string columns;
  for (const auto& [predictor, name, label] : compared) {
    const std::string condition =
        absl::StrCat("predictor = '", predictor, "' AND name = '", name, "'");
    absl::StrAppend(
        &columns, Average(condition, "value", label),
        Average(condition, "standard_error", absl::StrCat(label, "_err")));
  }
  return columns;
}

Shape TrainShape() {
  return {"train", "train",
          "train: squared error at the last point, on held-out prompts",
          absl::StrCat(Average("predictor = 'model'", "value", "model_error"),
                       Average("predictor = 'zero'", "value", "zero_error"),
                       ",\n  avg(CASE WHEN predictor = 'model' THEN value END) "
                       "/ avg(CASE WHEN predictor = 'zero' THEN value END) "
                       "AS normalised"),
          "name = 'error' AND (cell, position) IN (SELECT cell, max(position) "
          "FROM results WHERE sweep = $sweep AND stage = 'train' AND "
          "name = 'error' GROUP BY cell)"};
}

// Ridge where its penalty is above 0. Without a penalty its rows are those of
// least squares, whose means are heavy-tailed (worker/README.md): no number.
constexpr absl::string_view kRidgeColumn =
    ",\n  nullif(avg(CASE WHEN predictor = 'ridge' AND name = 'G' THEN value "
    "END), avg(CASE WHEN predictor = 'least_squares' AND name = 'G' THEN value "
    "END)) AS ridge_G";

Shape EvaluateShape(bool ridge) {
  return {
      "evaluate", "evaluate",
      "evaluate: squared error at a task's own query (G), after all tasks "
      "(E_final), their difference (delta_E), and\nthe drift (F); means over "
      "tasks and cells; msa = masked linear attention, theory = its closed "
      "form",
      absl::StrCat(MeanColumns({{"zero", "G"},
                                {"model", "G"},
                                {"model", "E_final"},
                                {"model", "F"},
                                {"model", "delta_E"}}),
                   ridge ? kRidgeColumn : "", MeanColumns({{"msa", "G"}}),
                   Average("predictor = 'msa' AND name = 'G'", "theory_value",
                           "theory_G")),
      "task = -1 AND position = -1"};
}

Shape PredictionsShape() {
  return {
      "compare", "compare",
      "compare: function_update_cosine of finetuning and ICL, mean over cells; "
      "model = finetuned on the prompt's pairs,\nwrong = on another task's "
      "labels, untrained = initial weights; _err = mean of the cells' standard "
      "errors: at least the\nmean's own, as cells share task sets; between "
      "trainings not included; at_edge = cells whose tuned learning rate is\n"
      "the lowest or highest candidate",
      absl::StrCat(
          ",\n  count(CASE WHEN name = 'learning_rate' THEN 1 END) AS cells",
          ",\n  count(CASE WHEN name = 'learning_rate_at_edge' AND value = 1 "
          "THEN 1 END) AS at_edge",
          MeansWithErrors(
              {{"model", "function_update_cosine", "model"},
               {"wrong_task", "function_update_cosine", "wrong"},
               {"untrained", "function_update_cosine", "untrained"}})),
      "layer = -1 AND position = -1"};
}

Shape AgreementShape() {
  return {"compare_further", "compare",
          "compare, further: signed_agreement of model and wrong; the model's "
          "simaou_raw and simam_after, mean over layers;\n_err as above",
          MeansWithErrors({{"model", "signed_agreement", "model"},
                           {"wrong_task", "signed_agreement", "wrong"},
                           {"model", "simaou_raw", "simaou"},
                           {"model", "simam_after", "simam"}}),
          "layer = -1 AND position = -1"};
}

Shape TheoryShape() {
  return {
      "theory", "theory",
      "theory: closed form of linear attention, masked (msa) and not (lsa), "
      "mean over tasks",
      MeanColumns(
          {{"msa", "G"}, {"msa", "E_final"}, {"msa", "F"}, {"lsa", "G"}}),
      "task = -1 AND position = -1"};
}

// Sections that no training reads: their axes only repeat its rows.
bool ReadByTrain(const std::string& path) {
  for (const char* section : {"prompt.", "evaluate.", "compare.", "theory."}) {
    if (absl::StartsWith(path, section)) return false;
  }
  return true;
}

// The columns to group by, separated by commas.
std::string AxisColumnsOf(const std::string& stage,
                          const std::vector<std::string>& own,
                          const std::vector<std::string>& all) {
  std::string axes;
  const std::vector<AxisColumn> columns = AxisColumns(all);
  for (const std::string& path : own) {
    if (IsReplicate(path) || (stage == "train" && !ReadByTrain(path))) continue;
    for (const AxisColumn& column : columns) {
      if (column.path != path) continue;
      absl::StrAppend(&axes, axes.empty() ? "" : ", ", column.column);
    }
  }
  return axes;
}

absl::StatusOr<std::vector<std::string>> ListText(
    Database* database, const std::string& sql, const std::string& parameter) {
  Statement query = database->Prepare(sql);
  query.Bind(parameter);
  std::vector<std::string> values;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return values;
    values.push_back(query.Text(0));
  }
}

// How many cells of a stage have prompts longer than the model was trained on.
absl::StatusOr<std::string> ExtrapolatedNote(Database* database,
                                             const std::string& sweep,
                                             const std::string& stage) {
  Statement query = database->Prepare(
      "SELECT count(DISTINCT cell_key), "
      "count(DISTINCT CASE WHEN extrapolated = 1 THEN cell_key END) "
      "FROM sweep JOIN cell_job USING (sweep_id) JOIN job USING (job_id) "
      "JOIN result USING (job_id) WHERE sweep.name = ? AND job.stage = ?");
  query.Bind(sweep).Bind(stage);
  RETURN_IF_ERROR(query.Step().status());
  if (query.Integer(1) == 0) return std::string();
  return absl::StrCat("extrapolated: ", query.Integer(1), " of ",
                      query.Integer(0),
                      " cells have prompts longer than what was trained "
                      "(extrapolated = 1 in results)");
}

// Ridge had a penalty in some cell: its mean is not that of least squares.
absl::StatusOr<bool> HasRidgePenalty(Database* database,
                                     const std::string& sweep) {
  Statement query = database->Prepare(
      "SELECT EXISTS (SELECT 1 FROM sweep JOIN cell_job USING (sweep_id) "
      "JOIN job USING (job_id) "
      "JOIN measurement AS r ON r.job_id = job.job_id AND r.predictor = "
      "'ridge' AND r.name = 'G' AND r.task = -1 AND r.position = -1 "
      "JOIN measurement AS l ON l.job_id = job.job_id AND l.predictor = "
      "'least_squares' AND l.name = 'G' AND l.task = -1 AND l.position = -1 "
      "WHERE sweep.name = ? AND job.stage = 'evaluate' AND r.value <> "
      "l.value)");
  query.Bind(sweep);
  RETURN_IF_ERROR(query.Step().status());
  return query.Integer(0) != 0;
}

}  // namespace

absl::StatusOr<std::string> ResolveSweepName(Database* database,
                                             const std::string& sweep) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListText(database,
                            "SELECT name FROM sweep WHERE ?1 = '' OR name = ?1 "
                            "ORDER BY sweep_id DESC LIMIT 1",
                            sweep));
  if (!names.empty()) return names.front();
  return absl::NotFoundError(
      sweep.empty()
          ? std::string("there is no sweep in this database")
          : absl::StrCat("there is no sweep '", sweep, "' in this database"));
}

absl::StatusOr<std::vector<Headline>> Headlines(Database* database,
                                                const std::string& sweep) {
  RETURN_IF_ERROR(ResolveSweepName(database, sweep).status());
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   ListText(database,
                            "SELECT DISTINCT a.value FROM sweep_revision, "
                            "json_each(sweep_revision.axes) AS a WHERE ?1 = ?1",
                            ""));
  ASSIGN_OR_RETURN(const std::vector<std::string> own,
                   ListText(database,
                            "SELECT a.value FROM sweep JOIN sweep_revision "
                            "USING (sweep_id, revision), "
                            "json_each(sweep_revision.axes) AS a WHERE "
                            "sweep.name = ? ORDER BY a.key",
                            sweep));
  ASSIGN_OR_RETURN(
      const std::vector<std::string> stages,
      ListText(
          database,
          "SELECT DISTINCT stage FROM progress WHERE sweep = ? AND done > 0",
          sweep));
  const std::set<std::string> present(stages.begin(), stages.end());
  std::vector<Headline> headlines;
  ASSIGN_OR_RETURN(const bool ridge, HasRidgePenalty(database, sweep));
  for (const Shape& shape :
       {TrainShape(), EvaluateShape(ridge), PredictionsShape(),
        AgreementShape(), TheoryShape()}) {
    if (!present.contains(shape.stage) ||
        (shape.stage == "theory" && present.contains("evaluate")))
      continue;
    const std::string axes = AxisColumnsOf(shape.stage, own, all);
    std::string sql = absl::StrCat(
        "SELECT ", axes.empty() ? "sweep" : axes, shape.columns,
        "\nFROM results WHERE sweep = ", Quote(sweep), " AND stage = '",
        shape.stage, "' AND ",
        absl::StrReplaceAll(shape.filter, {{"$sweep", Quote(sweep)}}));
    if (!axes.empty())
      absl::StrAppend(&sql, "\nGROUP BY ", axes, " ORDER BY ", axes);
    ASSIGN_OR_RETURN(std::string note,
                     ExtrapolatedNote(database, sweep, shape.stage));
    headlines.push_back(
        {shape.name, shape.title, std::move(note), std::move(sql)});
  }
  return headlines;
}

absl::Status PrintHeadlines(Database* database, const std::string& sweep,
                            bool json) {
  ASSIGN_OR_RETURN(const std::vector<Headline> headlines,
                   Headlines(database, sweep));
  for (const Headline& headline : headlines) {
    if (!json)
      absl::PrintF("\n%s\n%s%s\n", headline.title, headline.note,
                   headline.note.empty() ? "" : "\n");
    ASSIGN_OR_RETURN(
        Statement query,
        database->PrepareQuery(
            json ? absl::StrCat("SELECT ", Quote(headline.name),
                                " AS \"table\", ",
                                absl::StripPrefix(headline.sql, "SELECT "))
                 : headline.sql));
    PrintOptions options;
    options.format = json ? RowFormat::kJsonLines : RowFormat::kAligned;
    options.limit = json ? 0 : 40;
    RETURN_IF_ERROR(PrintRows(&query, options, stdout).status());
    if (!json)
      absl::PrintF("\n  iclsweep query \"%s\"\n",
                   absl::StrReplaceAll(headline.sql,
                                       {{"\"", "\\\""}, {"\n", "\n    "}}));
  }
  return absl::OkStatus();
}

}  // namespace iclsweep
