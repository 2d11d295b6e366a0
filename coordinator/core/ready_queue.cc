#include "coordinator/core/ready_queue.h"

#include <algorithm>
#include <functional>

#include "coordinator/core/events.h"

namespace iclsweep {

void ReadyQueue::Push(const Family& family, JobId job) {
  StageJobs* jobs = Of(family.stage);
  Heap& heap = jobs->by_parent[family.parent];
  const JobId before = heap.empty() ? JobId{} : heap.front();
  heap.push_back(job);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
  if (heap.front() == before) return;
  if (before) jobs->firsts.erase({before, family.parent});
  jobs->firsts.insert({heap.front(), family.parent});
}

void ReadyQueue::Drop(StageJobs* jobs, std::map<JobId, Heap>::iterator heap) {
  const JobId parent = heap->first;
  Heap& entries = heap->second;
  jobs->firsts.erase({entries.front(), parent});
  std::pop_heap(entries.begin(), entries.end(), std::greater<>());
  entries.pop_back();
  if (entries.empty()) {
    jobs->by_parent.erase(heap);
  } else {
    jobs->firsts.insert({entries.front(), parent});
  }
}

JobId ReadyQueue::FirstOf(StageJobs* jobs, JobId parent, IsReady is_ready) {
  for (auto heap = jobs->by_parent.find(parent); heap != jobs->by_parent.end();
       heap = jobs->by_parent.find(parent)) {
    const JobId first = heap->second.front();
    if (is_ready(first)) return first;
    Drop(jobs, heap);
  }
  return JobId{};
}

JobId ReadyQueue::FirstOfAny(StageJobs* jobs, IsReady is_ready, JobId* parent) {
  while (!jobs->firsts.empty()) {
    const auto [first, of] = *jobs->firsts.begin();
    *parent = of;
    if (is_ready(first)) return first;
    Drop(jobs, jobs->by_parent.find(of));
  }
  return JobId{};
}

std::optional<ReadyQueue::Family> ReadyQueue::First(uint32_t stages,
                                                    JobId preferred_parent,
                                                    IsReady is_ready) {
  std::optional<Family> best;
  JobId best_job;
  const auto offer = [&](Stage stage, JobId parent, JobId job) {
    if (!job || (best_job && best_job < job)) return;
    best = Family{stage, parent};
    best_job = job;
  };
  for (const Stage stage : kAllStages) {
    if (preferred_parent && (stages & StageBit(stage)) != 0)
      offer(stage, preferred_parent,
            FirstOf(Of(stage), preferred_parent, is_ready));
  }
  if (best.has_value()) return best;
  for (const Stage stage : kAllStages) {
    if ((stages & StageBit(stage)) == 0) continue;
    JobId parent;
    const JobId job = FirstOfAny(Of(stage), is_ready, &parent);
    offer(stage, parent, job);
  }
  return best;
}

JobId ReadyQueue::Pop(const Family& family, IsReady is_ready) {
  StageJobs* jobs = Of(family.stage);
  const JobId job = FirstOf(jobs, family.parent, is_ready);
  if (job) Drop(jobs, jobs->by_parent.find(family.parent));
  return job;
}

}  // namespace iclsweep
