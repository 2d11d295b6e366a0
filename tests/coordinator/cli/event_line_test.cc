#include "coordinator/cli/event_line.h"

#include <gtest/gtest.h>

namespace iclsweep {
namespace {

TEST(EventLineTest, SaysWhatHappenedToWhat) {
  v1::Event event;
  event.set_at_us(1'800'000'000'123'456);
  event.set_kind("attempt_failed");
  event.set_job_id(3);
  event.set_stage("train");
  event.set_attempt(2);
  event.set_worker_id(4);
  event.set_text("crashed: killed\nby a signal");
  EXPECT_EQ(EventLine(event),
            "2027-01-15T08:00:00Z attempt_failed: train job 3, attempt 2: "
            "worker 4: crashed: killed by a signal");
}

TEST(EventLineTest, PartsThatDoNotApplyAreLeftOut) {
  v1::Event event;
  event.set_kind("coordinator_started");
  EXPECT_EQ(EventLine(event), "1970-01-01T00:00:00Z coordinator_started");
  event.set_kind("sweep_submitted");
  event.set_sweep("s");
  event.set_text("4 cells");
  EXPECT_EQ(EventLine(event),
            "1970-01-01T00:00:00Z sweep_submitted: sweep s: 4 cells");
}

}  // namespace
}  // namespace iclsweep
