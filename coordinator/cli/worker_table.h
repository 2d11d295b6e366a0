// Workers as people read them.
#pragma once

#include <cstdio>
#include <string>

#include "iclsweep/v1/sweep.pb.h"

namespace iclsweep {

// "train job 3, step 20/50, 4 more in its bundle", or why there is none.
std::string WhatItDoes(const v1::WorkerState& worker);

// One line per worker, under a heading.
void PrintWorkers(
    const google::protobuf::RepeatedPtrField<v1::WorkerState>& workers,
    std::FILE* out);

}  // namespace iclsweep
