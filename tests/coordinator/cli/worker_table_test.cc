#include "coordinator/cli/worker_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/cli/captured.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;

v1::WorkerState Training() {
  v1::WorkerState worker;
  worker.set_worker_id(7);
  worker.set_name("host/gpu-0");
  worker.set_device_kind("NVIDIA H200");
  worker.set_state("running");
  worker.set_reason("works");
  worker.set_jobs_done(12);
  worker.set_job_id(3);
  worker.set_stage("train");
  worker.set_steps_done(20);
  worker.set_steps_total(50);
  return worker;
}

TEST(WorkerTableTest, SaysWhatAWorkerDoes) {
  v1::WorkerState worker = Training();
  EXPECT_EQ(WhatItDoes(worker), "train job 3, step 20/50");
  worker.set_waiting(4);
  EXPECT_EQ(WhatItDoes(worker),
            "train job 3, step 20/50, 4 more in its bundle");
  worker.set_state("silent");
  worker.set_silent_ms(45'678);
  EXPECT_EQ(WhatItDoes(worker),
            "train job 3, step 20/50, 4 more in its bundle; not heard of for "
            "45 s");
  v1::WorkerState given;
  given.set_waiting(2);
  EXPECT_EQ(WhatItDoes(given), "2 leased just now");
  v1::WorkerState idle;
  idle.set_reason("idle: why");
  EXPECT_EQ(WhatItDoes(idle), "idle: why");
}

TEST(WorkerTableTest, ColumnsAreAligned) {
  google::protobuf::RepeatedPtrField<v1::WorkerState> workers;
  *workers.Add() = Training();
  v1::WorkerState* idle = workers.Add();
  idle->set_worker_id(12);
  idle->set_name("h/cpu-0");
  idle->set_device_kind("cpu/avx2");
  idle->set_state("idle");
  idle->set_reason("idle: why");
  testing::Captured out;
  PrintWorkers(workers, out.file());
  EXPECT_THAT(
      out.Lines(),
      ElementsAre(
          "worker  name        device       state     jobs done  runs",
          "     7  host/gpu-0  NVIDIA H200  running          12  train job 3, "
          "step 20/50",
          "    12  h/cpu-0     cpu/avx2     idle              0  idle: why"));
}

}  // namespace
}  // namespace iclsweep
