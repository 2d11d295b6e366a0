#!/usr/bin/env python3
"""The kill test: worker and coordinator processes are killed with SIGKILL in the middle of the smoke sweep, each at a moment
held on purpose, and nothing may be lost, done twice or come out differently.

A kill counts only while its job is leased and after progress since the kill before."""
import collections
import os
import signal
import sys
import unittest

from cluster import Cluster, Folder, Mark, SWEEPS, canonical, cli, finish, rows, wait_until

CHECKPOINT_EVERY = 50
SMOKE = os.path.join(SWEEPS, "smoke.yaml")


class Killer:
    """Kills at held moments, and keeps the books: which kills counted, what must not be attempted again."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.kills = {}
        self.progress = set()
        self.crashes = collections.Counter()  # by job; three without a checkpoint between them would fail it
        self.finished_before_restart = set()
        self.last_restart_us = 0

    def count(self, kind):
        self.kills[kind] = self.kills.get(kind, 0) + 1

    def held_lease(self, point):
        """(pid, job, attempt, steps) of a process that waits at the point with an open lease, or None."""
        for pid in self.cluster.held(point):
            slot = self.cluster.slot_of(pid)
            if slot is None:
                continue
            if point == "after_spool":
                spooled = self.cluster.spooled_in(slot)
                lease = spooled[0] if spooled else None
                steps = 0
            else:
                mark = Mark(slot)
                lease, steps = (mark.job, mark.attempt), mark.steps_done
            if lease and self.crashes[lease[0]] == 2:
                continue
            if lease and lease in self.cluster.open_attempts() and (lease, steps) not in self.progress:
                return pid, lease, steps
        return None

    def kill_worker_at(self, point, kind):
        self.cluster.hold(point)
        pid, lease, steps = wait_until(lambda: self.held_lease(point), f"a worker at {point}")
        self.progress.add((lease, steps))
        self.cluster.hold("after_lease")  # the other worker does not finish the sweep meanwhile
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), f"the end of process {pid}")
        self.cluster.release(point)
        if point != "after_spool":
            self.crashes[lease[0]] += 1
        else:
            wait_until(lambda: lease[0] in self.cluster.done_jobs(), "the delivery of the spooled result")
        self.cluster.release("after_lease")
        self.count(kind)

    def kill_trainer(self):
        """In mid-training: after a checkpoint was published, and some steps later."""
        self.cluster.hold("checkpointed")
        wait_until(lambda: self.held_lease("checkpointed"), "a checkpoint")
        self.cluster.hold("progress.train")
        self.cluster.release("checkpointed")
        wait_until(lambda: any(self.after_checkpoint(pid) for pid in self.cluster.held("progress.train")), "a step after it")
        pid = next(pid for pid in self.cluster.held("progress.train") if self.after_checkpoint(pid))
        mark = Mark(self.cluster.slot_of(pid))
        lease = (mark.job, mark.attempt)
        assert lease in self.cluster.open_attempts(), f"{lease} is not leased"
        assert (lease, mark.steps_done) not in self.progress, "no progress since the last kill"
        self.progress.add((lease, mark.steps_done))
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), f"the end of process {pid}")
        self.cluster.release("progress.train")
        self.count("train")

    def after_checkpoint(self, pid):
        slot = self.cluster.slot_of(pid)
        if slot is None:
            return False
        mark = Mark(slot)
        return mark.checkpointed and mark.steps_done % CHECKPOINT_EVERY != 0

    def kill_coordinator(self, point):
        """While a worker is held at the point, so that a job is surely leased; the worker goes on by itself."""
        self.cluster.hold(point)
        pid, lease, steps = wait_until(lambda: self.held_lease(point), f"a worker at {point}")
        self.progress.add((lease, steps))
        self.cluster.kill_coordinator()
        self.cluster.release(point)
        self.remember_and_restart()
        self.count("coordinator")

    def remember_and_restart(self):
        self.finished_before_restart = self.cluster.done_jobs() | {job for job, _ in self.cluster.spooled()}
        self.cluster.start_coordinator()
        (self.last_restart_us,) = rows(self.cluster.data, "SELECT max(started_us) FROM coordinator")[0]

    def kill_both_after_spool(self):
        """The result is in the spool, nobody has acknowledged it, and both its worker and the coordinator die. The slot's next
        process is held between its Register and the delivery, until the other worker has done everything else and asked for
        more: it must not be given the job whose result lies in the spool."""
        self.cluster.hold("after_spool")
        pid, lease, steps = wait_until(lambda: self.held_lease("after_spool"), "a spooled result")
        self.progress.add((lease, steps))
        self.cluster.hold("spool_found")
        self.cluster.kill_coordinator()
        os.kill(pid, signal.SIGKILL)
        self.cluster.release("after_spool")
        assert lease in self.cluster.spooled()
        self.remember_and_restart()
        wait_until(lambda: self.cluster.held("spool_found"), "the successor of the killed worker")
        (jobs,) = rows(self.cluster.data, "SELECT count(*) FROM job")[0]
        held = len(self.cluster.spooled())
        wait_until(lambda: len(self.cluster.done_jobs()) >= jobs - held, "every other job")
        finish(self.cluster, self.cluster.submit(self.errand()))  # the other worker asks, and is given this
        assert lease in self.cluster.spooled() and lease[0] not in self.cluster.done_jobs()
        self.cluster.release("spool_found")
        self.count("coordinator")
        self.count("spool")

    def errand(self):
        """A sweep of one small job, to see that a worker has asked for work."""
        path = os.path.join(os.path.dirname(self.cluster.data), "errand.yaml")
        with open(path, "w") as file:
            file.write("name: errand\ngrid: {prompt.examples_per_task: [3]}\ndata: {dims: 2}\nprompt: {tasks: 2}\ntheory: {}\n")
        return path


class KillTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)

    def undisturbed(self):
        data = self.folder / "undisturbed"
        cli("run", SMOKE, "--data", data, "--workers", "2", "--checkpoint-every", "1000000")
        return canonical(data, "smoke")

    def test_killed_sweep_ends_as_if_nothing_had_happened(self):
        expected = self.undisturbed()
        cluster = Cluster(self.folder, workers=2, checkpoint_every=CHECKPOINT_EVERY)
        self.addCleanup(cluster.stop)
        cluster.start_coordinator()
        cluster.start_workers()
        sweep = cluster.submit(SMOKE)
        killer = Killer(cluster)
        for _ in range(2):
            killer.kill_trainer()
        killer.kill_coordinator("progress.train")
        for _ in range(2):
            killer.kill_trainer()
        for _ in range(2):
            killer.kill_worker_at("progress.evaluate", "evaluate")
        killer.kill_worker_at("after_spool", "spool")
        killer.kill_coordinator("progress.compare")
        killer.kill_worker_at("progress.evaluate", "evaluate")
        killer.kill_worker_at("after_spool", "spool")
        killer.kill_both_after_spool()
        finish(cluster, sweep)

        self.assertGreaterEqual(killer.kills["train"], 3)
        self.assertGreaterEqual(killer.kills["evaluate"], 3)
        self.assertGreaterEqual(killer.kills["spool"], 2)
        self.assertGreaterEqual(sum(killer.kills.values()), 10)
        self.check_books(cluster, killer)
        actual = canonical(cluster.data, "smoke")
        self.assertEqual(len(actual.splitlines()), len(expected.splitlines()))
        self.assertGreater(len(actual.splitlines()), 500)
        self.assertEqual(actual, expected)
        print("kills:", killer.kills, "- export lines:", len(actual.splitlines()))

    def check_books(self, cluster, killer):
        jobs = {stage: count for stage, count in rows(cluster.data, "SELECT stage, count(*) FROM job GROUP BY stage")}
        self.assertEqual(jobs, {"train": 2, "evaluate": 16, "compare": 16, "theory": 8 + 1})  # and the errand
        (results,) = rows(cluster.data, "SELECT count(*) FROM result")[0]
        self.assertEqual(results, sum(jobs.values()))
        twice = rows(cluster.data, "SELECT job_id FROM attempt WHERE outcome = 'done' GROUP BY job_id HAVING count(*) > 1")
        self.assertEqual(twice, [], "jobs with two results")
        (steps,) = rows(cluster.data, "SELECT sum(steps_run) FROM attempt JOIN job USING (job_id) WHERE stage = 'train'")[0]
        planned = 2 * 600
        kills = sum(killer.kills.values())
        self.assertGreaterEqual(steps, planned)
        self.assertLessEqual(steps, planned + kills * CHECKPOINT_EVERY)
        again = rows(cluster.data, "SELECT job_id FROM attempt WHERE started_us > ?", killer.last_restart_us)
        repeated = {job for (job,) in again} & killer.finished_before_restart
        self.assertEqual(repeated, set(), "jobs attempted again although they were finished before the last restart")
        self.assertGreater(len(killer.finished_before_restart), 5)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
