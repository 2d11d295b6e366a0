// Random draws without state: a draw is a pure function of what it is for, so
// every order, M, angle, chunk, worker and resumed run sees the same numbers.
// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3") on (seed, purpose, prompt, task, example, coordinate); normals by
// Wichura's AS 241 on the CPU with own arithmetic (no libm), so they are the
// same on every x86-64 machine.
//
// Changing a purpose's number or the counter layout changes results: raise the
// numerics version of every stage using it.
#pragma once

#include <array>
#include <cstdint>

namespace iclsweep {

enum class Purpose : uint8_t {
  kInitialWeights = 1,  // (seed; prompt = tensor index; coordinate = element)
  kTrainInput = 2,  // x of (prompt = step * batch + row, example, coordinate)
  kTrainTask = 3,   // w
  kTrainNoise = 4,  // label noise
  kValidationInput = 5,  // as train, for the held-out prompts
  kValidationTask = 6,
  kValidationNoise = 7,
  kTaskSet = 8,     // task vectors of the prompts (task = identity; prompt = 0
                    // unless `fresh`)
  kTaskOffset = 9,  // the directions that turn one base task into similar ones
  kContextInput = 10,  // x of (prompt, task identity, example)
  kContextNoise = 11,
  kQueryInput = 12,  // x of a task's own query (prompt, task identity)
  kQueryNoise = 13,
  kTuneTaskSet = 14,  // compare: task sets for choosing the learning rate, and
                      // their inputs
  kTuneTaskOffset = 15,
  kTuneInput = 16,
  kTuneNoise = 17,
  kCompareTaskSet = 18,  // compare: task sets measured on
  kCompareTaskOffset = 19,
  kCompareInput = 20,
  kCompareNoise = 21,
  kWrongTaskSet = 22,  // compare: labels of the wrong-task control
  kWrongTaskOffset = 23,
  kWrongNoise = 24,
  // What a task of its stream has beside its weights (worker/tasks/family.h).
  kTrainStructure = 25,
  kValidationStructure = 26,
  kTaskSetStructure = 27,
  kTuneStructure = 28,
  kCompareStructure = 29,
  kWrongStructure = 30,
  kCellOrder = 31,  // the order of a shuffled sweep's cells (prompt = round,
                    // coordinate = the half that is hashed)
};

// Addresses one draw. All parts count from 0.
struct DrawAddress {
  uint64_t seed = 0;
  Purpose purpose = Purpose::kInitialWeights;
  uint64_t prompt = 0;  // < 2^44
  uint32_t task = 0;    // < 2^12, identity of the task, never its position
  uint32_t example = 0;
  uint32_t coordinate = 0;
};

// One Philox4x32-10 block.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

// Uniform on (0, 1): odd multiples of 2^-53, never 0 or 1.
double Uniform(const DrawAddress& address);
// Standard normal.
double Normal(const DrawAddress& address);
// out[i] = Normal of the address with coordinate + i; about twice as fast as
// single draws.
void FillNormal(DrawAddress address, int64_t count, double* out);

// Quantile of the standard normal (AS 241, relative error about 1e-16).
// REQUIRES: 0 < p < 1.
double NormalQuantile(double p);

}  // namespace iclsweep
