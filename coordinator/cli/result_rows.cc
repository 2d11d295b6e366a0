#include "coordinator/cli/result_rows.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "coordinator/cli/command.h"
#include "coordinator/spec/errors.h"
#include "proto/base/domain.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

std::string Equals(const std::string& column, const std::string& value) {
  if (value.empty()) return "";
  return absl::StrCat(" AND ", column, " = '",
                      absl::StrReplaceAll(value, {{"'", "''"}}), "'");
}

std::string Where(const std::string& sweep, const ResultFilter& filter) {
  return absl::StrCat(" FROM results WHERE 1", Equals("sweep", sweep),
                      Equals("stage", filter.stage),
                      Equals("predictor", filter.predictor),
                      Equals("name", filter.name));
}

absl::StatusOr<std::vector<std::string>> List(Database* database,
                                              const std::string& sql) {
  ASSIGN_OR_RETURN(Statement query, database->PrepareQuery(sql));
  std::vector<std::string> values;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return values;
    values.push_back(query.Text(0));
  }
}

bool Contains(const std::vector<std::string>& values,
              const std::string& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

absl::Status NotThere(const std::string& flag, const std::string& value,
                      const std::string& where,
                      const std::vector<std::string>& known) {
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " ", Quoted(value), " is not in ", where, DidYouMean(value, known),
      " (known: ", absl::StrJoin(known, ", "), ")"));
}

}  // namespace

void AddResultFilter(Command* command, ResultFilter* filter) {
  command->Text("--stage", &filter->stage,
                "rows of one stage: train, evaluate, compare, theory");
  command->Text("--predictor", &filter->predictor,
                "rows of one predictor: model, zero, least_squares, msa, ...");
  command->Text("--name", &filter->name,
                "rows of one measurement: G, E_final, F, simaou_raw, ...");
  command->Count("--limit", &filter->limit, 1, kMostCells,
                 "the first rows only, in the order of the cells");
}

std::string ResultRowsSql(const std::string& sweep,
                          const ResultFilter& filter) {
  std::string running_order = "CASE stage";
  for (const Stage stage : kAllStages) {
    absl::StrAppend(&running_order, " WHEN '", StageName(stage), "' THEN ",
                    static_cast<int>(stage));
  }
  return absl::StrCat(
      "SELECT *", Where(sweep, filter), " ORDER BY cell, ", running_order,
      " END, predictor, name, task, position, layer, head",
      filter.limit.has_value() ? absl::StrCat(" LIMIT ", *filter.limit)
                               : std::string());
}

absl::StatusOr<bool> HasResultRows(Database* database, const std::string& sweep,
                                   const ResultFilter& filter) {
  const auto any = [&](const ResultFilter& some) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const std::vector<std::string> one,
                     List(database, absl::StrCat("SELECT 1", Where(sweep, some),
                                                 " LIMIT 1")));
    return !one.empty();
  };
  ASSIGN_OR_RETURN(const bool there, any(filter));
  if (there) return true;
  std::string where = absl::StrCat("sweep ", Quoted(sweep));
  if (!filter.stage.empty()) {
    ASSIGN_OR_RETURN(
        std::vector<std::string> stages,
        List(database, absl::StrCat("SELECT DISTINCT stage FROM progress WHERE "
                                    "1",
                                    Equals("sweep", sweep))));
    std::sort(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
      return StageFromName(a) < StageFromName(b);
    });
    if (!Contains(stages, filter.stage))
      return NotThere("--stage", filter.stage, where, stages);
    where = absl::StrCat("the results of stage ", filter.stage, " of ", where);
  }
  ResultFilter narrowed;
  narrowed.stage = filter.stage;
  ASSIGN_OR_RETURN(const bool begun, any(narrowed));
  if (!begun) return false;
  if (!filter.predictor.empty()) {
    ASSIGN_OR_RETURN(
        const std::vector<std::string> known,
        List(database, absl::StrCat("SELECT DISTINCT predictor",
                                    Where(sweep, narrowed), " ORDER BY 1")));
    if (!Contains(known, filter.predictor))
      return NotThere("--predictor", filter.predictor, where, known);
    narrowed.predictor = filter.predictor;
    where =
        absl::StrCat("the rows of predictor ", filter.predictor, " in ", where);
  }
  ASSIGN_OR_RETURN(
      const std::vector<std::string> known,
      List(database, absl::StrCat("SELECT DISTINCT name",
                                  Where(sweep, narrowed), " ORDER BY 1")));
  return NotThere("--name", filter.name, where, known);
}

}  // namespace iclsweep
