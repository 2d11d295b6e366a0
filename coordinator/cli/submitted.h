// How the answer to a submit reads.
#pragma once

#include <cstdio>

#include "iclsweep/v1/sweep.pb.h"

namespace iclsweep {

void PrintSubmitted(const v1::SubmitResponse& response, std::FILE* out);

}  // namespace iclsweep
