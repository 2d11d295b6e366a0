// Sweeps as JSON, for `--json`: every quantity has the name and the type that
// it has in the views, whichever command prints it.
#pragma once

#include <string>

#include "iclsweep/v1/sweep.pb.h"

namespace iclsweep {

// Where one sweep stands: its jobs by state, in all and by stage.
std::string SweepJson(const v1::SweepStatus& status);
// All sweeps of the answer; with how many workers the coordinator has and its
// epoch when one answered.
std::string StatusJson(const v1::StatusResponse& response,
                       bool from_coordinator);
// The answer to a submit.
std::string SubmittedJson(const v1::SubmitResponse& response);
// The answers to a cancel and to a retry of that sweep.
std::string CancelledJson(const std::string& sweep,
                          const v1::CancelResponse& response);
std::string RetriedJson(const std::string& sweep,
                        const v1::RetryResponse& response);

// One worker, one event, and a sweep's progress as a line among its events
// (kind "progress").
std::string WorkerJson(const v1::WorkerState& worker);
std::string EventJson(const v1::Event& event);
std::string ProgressJson(const v1::WatchResponse& response);
// Why things are where they are.
std::string ExplainedJson(const v1::ExplainResponse& response);

}  // namespace iclsweep
