#!/usr/bin/env python3
"""`iclsweep run` as its user meets it: killed and typed again, stopped by a signal, run when finished, overlapped."""
import os
import signal
import subprocess
import sys
import unittest

from cluster import ICLSWEEP, SWEEPS, Folder, canonical, cli, environment, rows, wait_until

SMOKE = os.path.join(SWEEPS, "smoke.yaml")
THEORY = """
name: {name}
grid: {{prompt.examples_per_task: {examples}, prompt.task_order: {{permutations: all}}}}
data: {{dims: 4}}
prompt: {{tasks: 3}}
theory: {{pretraining_length: 41}}
"""


class ResumeTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)

    def start(self, data):
        return subprocess.Popen([ICLSWEEP, "run", SMOKE, "--data", data, "--workers", "2", "--checkpoint-every", "50"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())

    def results(self, data):
        return rows(data, "SELECT count(*) FROM result")[0][0] if os.path.exists(data + "/iclsweep.db") else 0

    def training_has_checkpointed(self, data):
        for root, folders, _ in os.walk(data + "/partial"):
            if any(name.startswith("step-") for name in folders):
                return True
        return False

    def test_run_killed_twice_and_typed_again_gives_the_undisturbed_results(self):
        whole = self.folder / "whole"
        cli("run", SMOKE, "--data", whole, "--workers", "2")
        data = self.folder / "killed"
        first = self.start(data)
        wait_until(lambda: self.training_has_checkpointed(data), "a partial checkpoint")
        first.kill()
        first.communicate()
        second = self.start(data)
        wait_until(lambda: self.results(data) >= 8, "some results")
        second.kill()
        second.communicate()
        before = self.results(data)
        self.assertGreaterEqual(before, 8)
        cli("run", SMOKE, "--data", data, "--workers", "2", "--checkpoint-every", "50")
        self.assertEqual(canonical(data, "smoke"), canonical(whole, "smoke"))
        (steps,) = rows(data, "SELECT sum(steps_run) FROM attempt JOIN job USING (job_id) WHERE stage = 'train'")[0]
        self.assertLess(steps, 2 * 2 * 600, "training went on from its checkpoint, not from step 0")
        (twice,) = rows(data, "SELECT count(*) FROM (SELECT job_id FROM attempt WHERE outcome = 'done' GROUP BY 1 HAVING count(*) > 1)")[0]
        self.assertEqual(twice, 0)
        self.assertEqual(os.listdir(data + "/partial"), [], "partial checkpoints of finished trainings are removed")

    def test_interrupt_saves_and_exits_130(self):
        data = self.folder / "data"
        run = self.start(data)
        wait_until(lambda: self.training_has_checkpointed(data), "a partial checkpoint")
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130, errors)
        self.assertIn(b"run the same command again", errors)
        released = rows(data, "SELECT count(*) FROM attempt WHERE outcome = 'released' AND cause = 'preempted'")
        self.assertGreaterEqual(released[0][0], 1, "the lease was given back")
        self.assertEqual(rows(data, "SELECT count(*) FROM attempt WHERE outcome = 'running'"), [(0,)])

    def test_finished_sweep_runs_nothing_and_says_so(self):
        sweep = self.folder / "a.yaml"
        with open(sweep, "w") as file:
            file.write(THEORY.format(name="a", examples="[1, 2, 3]"))
        data = self.folder / "data"
        cli("run", sweep, "--data", data, "--workers", "1")
        attempts = rows(data, "SELECT count(*) FROM attempt")
        self.assertIn("nothing to run", cli("run", sweep, "--data", data, "--workers", "1"))
        self.assertEqual(rows(data, "SELECT count(*) FROM attempt"), attempts)

    def test_overlapping_sweep_reuses_what_exists_and_says_how_much(self):
        data = self.folder / "data"
        for name, examples in (("a", "[1, 2, 3]"), ("b", "[2, 3, 4, 5]")):
            with open(self.folder / (name + ".yaml"), "w") as file:
                file.write(THEORY.format(name=name, examples=examples))
        cli("run", self.folder / "a.yaml", "--data", data, "--workers", "1")
        self.assertIn("already done", cli("plan", self.folder / "b.yaml", "--data", data))
        output = cli("run", self.folder / "b.yaml", "--data", data, "--workers", "1")
        self.assertIn("24 cells, 24 jobs, 12 of them done already", output)
        self.assertEqual(rows(data, "SELECT count(*) FROM attempt"), [(18 + 12,)])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
