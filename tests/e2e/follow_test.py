#!/usr/bin/env python3
"""Following a sweep and its workers: watch, workers, explain, drain, through real processes."""
import json
import os
import signal
import subprocess
import sys
import unittest

from cluster import ICLSWEEP, PATIENCE, Cluster, Folder, cli, environment, finish, rows, wait_until

TRAININGS = """
name: two
grid: {seed: [0, 1]}
model: {layers: 1, heads: 1, width: 8}
data: {dims: 2}
train: {points: 16, steps: 400, validation_prompts: 16}
prompt: {tasks: 2}
evaluate: {prompts: 8}
"""


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


class FollowTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)
        self.cluster = Cluster(self.folder, workers=1, checkpoint_every=20)
        self.addCleanup(self.cluster.stop)
        self.cluster.start_coordinator()
        self.sweep = self.folder / "two.yaml"
        with open(self.sweep, "w") as file:
            file.write(TRAININGS)

    def ask(self, *arguments, **more):
        return cli(*arguments, "--coordinator", self.cluster.address, **more)

    def test_watch_goes_on_after_the_coordinator_was_killed(self):
        cluster = self.cluster
        cluster.hold("progress.train")
        cluster.submit(self.sweep)
        cluster.start_workers()
        watch = subprocess.Popen([ICLSWEEP, "watch", "two", "--json", "--coordinator", cluster.address],
                                 stdout=subprocess.PIPE, text=True, env=environment())
        first = json.loads(watch.stdout.readline())
        self.assertEqual(first["kind"], "sweep_submitted")
        wait_until(lambda: cluster.held("progress.train"), "a training under way")
        cluster.kill_coordinator()
        cluster.start_coordinator()
        cluster.release("progress.train")
        output, _ = watch.communicate(timeout=PATIENCE)
        self.assertEqual(watch.returncode, 0, output)
        told = [first, *lines(output)]
        numbers = [line["sequence"] for line in told if line["kind"] != "progress"]
        self.assertEqual(numbers, sorted(set(numbers)), "every event once, in order")
        kinds = [line["kind"] for line in told]
        self.assertEqual(kinds.count("job_done"), 2)
        self.assertEqual(kinds.count("coordinator_started"), 1)
        self.assertEqual(kinds.count("sweep_finished"), 1)
        last = told[-1]
        self.assertEqual((last["kind"], last["finished"], last["done"], last["jobs"]), ("progress", True, 4, 4))

    def test_interrupting_watch_only_detaches(self):
        self.cluster.submit(self.sweep)
        watch = subprocess.Popen([ICLSWEEP, "watch", "--data", self.cluster.data], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, env=environment())
        watch.stdout.readline()
        watch.send_signal(signal.SIGINT)
        _, errors = watch.communicate(timeout=PATIENCE)
        self.assertEqual(watch.returncode, 130)
        self.assertIn("detached; the sweep goes on", errors)
        self.cluster.start_workers()
        finish(self.cluster, "two")

    def test_drained_node_saves_its_training_and_another_goes_on(self):
        cluster = self.cluster
        cluster.submit(self.sweep)
        self.assertIn("no worker is connected", self.ask("explain", "two"))
        self.assertEqual(self.ask("workers"), "no worker is connected\n")
        cluster.hold("checkpointed")
        cluster.start_workers()
        wait_until(lambda: cluster.held("checkpointed"), "a checkpoint")
        (worker,) = lines(self.ask("workers", "--json"))
        self.assertTrue(worker["name"].endswith("/cpu-0"))
        (drained,) = lines(self.ask("drain", worker["name"], "--now", "--json"))
        self.assertEqual((drained["worker_id"], drained["state"]), (worker["worker_id"], "draining"))
        cluster.release("checkpointed")
        self.assertEqual(cluster.node.wait(timeout=PATIENCE), 0, "the node agent leaves when its worker was drained")
        attempts = rows(cluster.data, "SELECT number, outcome, cause FROM attempt ORDER BY job_id, number")
        self.assertEqual(attempts[0], (1, "released", "drained"))
        cluster.start_workers()
        finish(cluster, "two")
        steps = rows(cluster.data, "SELECT steps_run FROM attempt JOIN job USING (job_id) WHERE stage = 'train' AND job_id = 1")
        self.assertEqual(sum(run for (run,) in steps), 400, "no step was run twice")
        self.assertIn("done by attempt 2", self.ask("explain", "--job", "1"))

    def test_drain_lets_the_running_job_end(self):
        cluster = self.cluster
        cluster.submit(self.sweep)
        cluster.hold("progress.train")
        cluster.start_workers()
        wait_until(lambda: cluster.held("progress.train"), "a training under way")
        self.ask("drain", "--all")
        cluster.release("progress.train")
        self.assertEqual(cluster.node.wait(timeout=PATIENCE), 0)
        self.assertEqual(rows(cluster.data, "SELECT job_id, number, outcome FROM attempt"), [(1, 1, "done")])

    def test_logs_follow_a_job_over_the_kill_of_its_worker(self):
        cluster = self.cluster
        cluster.submit(self.sweep)
        cluster.hold("checkpointed")
        cluster.start_workers()
        (pid,) = wait_until(lambda: cluster.held("checkpointed"), "a checkpoint")
        logs = subprocess.Popen([ICLSWEEP, "logs", "1", "--follow", "--json", "--data", cluster.data], stdout=subprocess.PIPE, text=True,
                                env=environment())
        self.assertIn("attempt 1 of train job 1", json.loads(logs.stdout.readline())["text"])
        self.assertIn("step 0: loss", json.loads(logs.stdout.readline())["text"])
        os.kill(pid, signal.SIGKILL)
        cluster.release("checkpointed")
        output, _ = logs.communicate(timeout=PATIENCE)
        self.assertEqual(logs.returncode, 0, output)
        told = lines(output)
        crash = next(line for line in told if line["kind"] == "end")
        self.assertEqual((crash["attempt"], crash["outcome"], crash["cause"]), (1, "failed", "crashed"))
        second = [line["text"] for line in told if line["attempt"] == 2 and line["kind"] == "line"]
        self.assertIn("resumed after step 20 of 400", second[1])
        self.assertIn("done after", second[-1])
        self.assertEqual((told[-1]["kind"], told[-1]["outcome"]), ("end", "done"))
        self.assertIn("resumed after step 20", cli("logs", "1", "--attempt", "2", "--data", cluster.data))
        finish(cluster, "two")

    def test_what_cannot_be_found_is_named(self):
        for arguments, expect in ((("drain", "nobody"), 2), (("explain", "--worker", "x"), 2), (("explain", "--job", "99"), 2),
                                  (("drain",), 2), (("explain", "--cell", "1", "--job", "1"), 2), (("watch", "none"), 2)):
            with self.subTest(arguments):
                self.ask(*arguments, expect=expect)
        cli("watch", "--data", self.folder / "nowhere", expect=2)
        cli("logs", "99", "--data", self.cluster.data, expect=2)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
