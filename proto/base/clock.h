// Time as an argument: what needs "now" takes a Clock, tests hand in a
// SimulatedClock.
#pragma once

#include <atomic>
#include <cstdint>

namespace iclsweep {

class Clock {
 public:
  virtual ~Clock() = default;
  // Microseconds since the Unix epoch (UTC). For records only, never for
  // deadlines.
  virtual int64_t WallMicros() const = 0;
  // Microseconds of a clock that never goes back. Thread-safe.
  virtual int64_t MonotonicMicros() const = 0;
  // Blocks the calling thread.
  virtual void SleepMicros(int64_t micros) = 0;
};

// The machine's clocks; lives for ever.
Clock* RealClock();

// Moves only when told to; SleepMicros advances it. Thread-safe.
class SimulatedClock final : public Clock {
 public:
  int64_t WallMicros() const override { return kStartWall + now_.load(); }
  int64_t MonotonicMicros() const override { return now_.load(); }
  void SleepMicros(int64_t micros) override { now_ += micros; }
  void Advance(int64_t micros) { now_ += micros; }

 private:
  static constexpr int64_t kStartWall = 1'800'000'000'000'000;
  std::atomic<int64_t> now_ = 1'000'000;
};

}  // namespace iclsweep
