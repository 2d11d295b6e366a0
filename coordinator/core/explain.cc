// What the scheduler's state means, for people.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"

namespace iclsweep {

std::string Core::Describe(JobId id) const {
  const Job* job = Find(id);
  if (job == nullptr) return "a job";
  return absl::StrCat(StageName(job->stage), " job ", id.value, " (",
                      JobStateName(job->state), ")");
}

std::string Core::ExplainReady(JobId id, const Job& job) const {
  if (!IsWanted(id, job)) return "every sweep that wants it is cancelled";
  uint32_t connected = 0;
  uint32_t able = 0;
  uint32_t staying = 0;
  for (const auto& [worker_id, worker] : workers_) {
    if (!worker.connected) continue;
    ++connected;
    if ((worker.stages & StageBit(job.stage)) == 0) continue;
    ++able;
    if (!worker.draining) ++staying;
  }
  if (connected == 0) return "ready, but no worker is connected";
  if (able == 0)
    return absl::StrCat(
        "ready, but no connected worker runs this version of "
        "stage ",
        StageName(job.stage));
  if (staying == 0)
    return "ready, but every worker that could run it is being drained";
  return absl::StrCat("ready, waits for a free worker (", staying,
                      staying == 1 ? " runs" : " run", " its stage)");
}

std::string Core::Explain(JobId id) const {
  const Job* job = Find(id);
  if (job == nullptr) return "not known to the scheduler";
  switch (job->state) {
    case JobState::kBlocked:
      return absl::StrCat(
          "waits for ", Describe(job->parent),
          job->missing > 1
              ? absl::StrCat(" and others, ", job->missing, " jobs in all")
              : "");
    case JobState::kReady:
      return ExplainReady(id, *job);
    case JobState::kLeased: {
      const Lease& lease = leases_.at(id);
      if (lease.waiting)
        return absl::StrCat(
            "leased to worker ", lease.holder.value,
            lease.confirmed
                ? ", waits for its turn in a bundle"
                : " just now: its next heartbeat tells how far it is");
      return absl::StrCat("runs on worker ", lease.holder.value, " (attempt ",
                          job->last_attempt, ", step ", lease.steps_done,
                          " of ", lease.steps_total, ")");
    }
    case JobState::kDone:
      return absl::StrCat("done by attempt ", job->last_attempt);
    case JobState::kFailed:
      return absl::StrCat("failed with attempt ", job->last_attempt);
    case JobState::kUpstreamFailed:
      return absl::StrCat("cannot run: ", Describe(job->parent),
                          " is what it needs");
  }
  return "";
}

std::string Core::ExplainWorker(WorkerId id) const {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return "not known to the scheduler";
  const Worker& worker = found->second;
  if (worker.restored)
    return "known from before the coordinator's restart; has not come back yet";
  if (!worker.connected)
    return "gone: said goodbye, or not heard of for a lease's time";
  if (worker.draining)
    return worker.held.empty()
               ? "is being drained: it will leave"
               : "is being drained: leaves when its job is done";
  if (!worker.held.empty()) return "works";
  if (worker.stages == 0)
    return "gets no jobs: its version computes every stage differently";
  uint64_t unable = 0;
  uint64_t open = 0;
  for (const auto& [sweep_id, sweep] : sweeps_) {
    if (!sweep.active) continue;
    for (const Stage stage : kAllStages) {
      const auto& counts = sweep.counts[static_cast<size_t>(stage)];
      const uint64_t ready = counts[static_cast<size_t>(JobState::kReady)];
      if ((worker.stages & StageBit(stage)) == 0) unable += ready;
      open += ready + counts[static_cast<size_t>(JobState::kBlocked)] +
              counts[static_cast<size_t>(JobState::kLeased)];
    }
  }
  if (unable > 0)
    return absl::StrCat("idle: ", unable,
                        " jobs are ready, of stages that its version computes "
                        "differently");
  if (open > 0)
    return "idle: every open job is leased or waits for one that is";
  return "idle: no active sweep has an open job";
}

std::vector<WorkerView> Core::Workers() const {
  std::vector<WorkerView> views;
  for (const auto& [id, worker] : workers_) {
    if (!worker.connected && worker.held.empty()) continue;
    WorkerView view;
    view.id = id;
    view.connected = worker.connected;
    view.draining = worker.draining;
    view.heard_us = worker.heard_us;
    view.stages = worker.stages;
    for (const JobId job : worker.held) {
      const Lease& lease = leases_.at(job);
      if (lease.waiting) {
        ++view.waiting;
        continue;
      }
      // Others are done and lie in its spool.
      if (view.running.has_value() && lease.steps_total == 0) continue;
      view.running = LeaseProgress{{job, Find(job)->last_attempt},
                                   lease.steps_run,
                                   lease.steps_done,
                                   lease.steps_total,
                                   lease.checkpointed};
    }
    views.push_back(view);
  }
  return views;
}

std::vector<JobGroup> Core::GroupsOf(SweepId sweep) const {
  std::map<std::pair<Stage, JobState>, JobGroup> groups;
  for (size_t i = 1; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    if (!job.known) continue;
    const JobId id{static_cast<int64_t>(i)};
    bool wanted = false;
    ForEachSweepOf(id, job, [&](SweepId other) { wanted |= other == sweep; });
    if (!wanted) continue;
    JobGroup& group = groups[{job.stage, job.state}];
    if (group.jobs++ == 0) group = {job.stage, job.state, 1, id};
  }
  std::vector<JobGroup> list;
  list.reserve(groups.size());
  for (const auto& [of, group] : groups) list.push_back(group);
  return list;
}

}  // namespace iclsweep
