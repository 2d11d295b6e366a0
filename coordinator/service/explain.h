// The jobs that a question is about, as the database has them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "iclsweep/v1/sweep.pb.h"
#include "proto/base/domain.h"
#include "storage/sqlite/database.h"

namespace iclsweep {

// The name of the sweep, the newest one's for "". NotFound.
absl::StatusOr<std::string> SweepNamed(Database* database,
                                       const std::string& name);

// The job with that id, or with a key (hexadecimal) that begins so, eight
// digits at least. NotFound, or InvalidArgument when several keys do.
absl::StatusOr<JobId> FindJob(Database* database, const std::string& job);

// Fills in the sweep's name, and the jobs of the cell or the one job asked for,
// their reason being how the last attempt failed. A worker is the loop's to
// find. NotFound names what there is not.
absl::Status FindExplained(const std::string& database_file,
                           const v1::ExplainRequest& request,
                           v1::ExplainResponse* response);

}  // namespace iclsweep
