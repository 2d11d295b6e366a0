#!/usr/bin/env python3
"""A coordinator with two node agents gives the same results, byte for byte, as `run` with one worker."""
import fcntl
import os
import subprocess
import sys
import unittest

from cluster import SWEEPS, WORKER, Cluster, Folder, canonical, cli, environment, finish, rows

# Jobs of a few milliseconds: one training, and the closed forms and evaluations of its 96 cells.
SMALL_JOBS = """
name: small
grid:
  prompt.task_order: {permutations: all}
  prompt.angle_degrees: [0, 45, 60, 90]
  prompt.examples_per_task: [1, 2, 3, 4]
model: {layers: 1, heads: 1, width: 8}
data: {dims: 3}
train: {points: 16, steps: 20, validation_prompts: 16}
prompt: {tasks: 3, geometry: angle}
evaluate: {prompts: 16}
theory: {}
"""
SMOKE = os.path.join(SWEEPS, "smoke.yaml")


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)

    def test_two_node_agents_and_one_local_worker_agree_byte_for_byte(self):
        alone = self.folder / "alone"
        cli("run", SMOKE, "--data", alone, "--workers", "1")
        cluster = Cluster(self.folder, workers=1)
        self.addCleanup(cluster.stop)
        cluster.start_coordinator()
        cluster.start_workers()
        second = subprocess.Popen(
            [WORKER, "--coordinator", cluster.address, "--work-dir", self.folder / "slots2", "--device", "cpu", "--cpu-slots", "1"],
            stdout=cluster.log, stderr=cluster.log, env=environment())
        sweep = cluster.submit(SMOKE)
        finish(cluster, sweep)
        second.terminate()
        self.assertEqual(second.wait(timeout=60), 0, "a node agent exits 0 after SIGTERM")
        self.assertEqual(canonical(cluster.data, sweep), canonical(alone, "smoke"))
        (hosts,) = rows(cluster.data, "SELECT count(DISTINCT slot_uuid) FROM worker JOIN attempt USING (worker_id)")[0]
        self.assertEqual(hosts, 2, "both workers took part")
        self.assertEqual(self.unfinished(cluster.data), [])

    def test_worker_whose_slot_is_in_use_says_so_and_ends_when_told(self):
        slot = self.folder / "slots/cpu-0"
        os.makedirs(slot)
        with open(os.path.join(slot, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            worker = subprocess.Popen(
                [WORKER, "--coordinator", "unix:/nowhere", "--work-dir", self.folder / "slots", "--device", "cpu", "--cpu-slots", "1"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
            self.assertTrue(any("is in use by another worker process; waiting for it" in line for line in worker.stdout))
            worker.terminate()
            rest, _ = worker.communicate(timeout=300)
        self.assertEqual(worker.returncode, 0, rest)

    def test_bundles_and_workers_change_no_byte(self):
        outputs = {}
        for bundle, workers in ((1, 1), (64, 1), (1, 4), (64, 4)):
            folder = Folder()
            self.addCleanup(folder.close)
            cluster = Cluster(folder, workers=workers, bundle=bundle)
            self.addCleanup(cluster.stop)
            cluster.start_coordinator()
            sweep = folder / "small.yaml"
            with open(sweep, "w") as file:
                file.write(SMALL_JOBS)
            cluster.submit(sweep)
            cluster.start_workers()
            finish(cluster, "small")
            self.assertEqual(self.unfinished(cluster.data), [])
            (largest,) = rows(cluster.data, "SELECT max(jobs) FROM (SELECT count(*) AS jobs FROM attempt GROUP BY worker_id, started_us)")[0]
            if bundle == 1:
                self.assertEqual(largest, 1)
            else:
                self.assertGreater(largest, 8, "small jobs are leased together")
            outputs[bundle, workers] = canonical(cluster.data, "small")
        first = outputs.pop((1, 1))
        self.assertGreater(len(first), 100_000)
        for how, output in outputs.items():
            self.assertEqual(output, first, how)

    def unfinished(self, data):
        """Attempts that did not end with a result; where nobody killed anything there are none."""
        return rows(data, "SELECT job_id, outcome, cause, message FROM attempt WHERE outcome <> 'done'")

    def test_checkpoint_interval_changes_no_result(self):
        outputs = []
        for every in ("1", "37"):
            data = self.folder / ("every-" + every)
            # Two trainings, so that the third worker waits when the first of them ends.
            cli("run", SMOKE, "--data", data, "--workers", "3", "--checkpoint-every", every)
            self.assertEqual(self.unfinished(data), [])
            outputs.append(canonical(data, "smoke"))
        self.assertEqual(outputs[0], outputs[1])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
