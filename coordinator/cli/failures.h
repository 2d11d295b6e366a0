// How failed jobs read at the end of a sweep.
#pragma once

#include <cstdio>
#include <string>

#include "iclsweep/v1/sweep.pb.h"

namespace iclsweep {

// "2 jobs failed, 54 could not run because of them"; "" when none failed.
std::string FailureSummary(const v1::SweepStatus& status);

// The first failures, one line each, how many more there are, and the query
// that shows them all; nothing when none failed. `data` is the data directory
// as its reader would name it.
void PrintFailures(const v1::SweepStatus& status, const std::string& data,
                   std::FILE* out);

}  // namespace iclsweep
