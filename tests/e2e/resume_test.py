#!/usr/bin/env python3
"""`iclsweep run` as its user meets it: killed and typed again, stopped by a signal, run when finished, overlapped."""
import glob
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest

from cluster import ICLSWEEP, SWEEPS, Cluster, Folder, canonical, cli, environment, rows, wait_until

SMOKE = os.path.join(SWEEPS, "smoke.yaml")
THEORY = """
name: {name}
grid: {{prompt.examples_per_task: {examples}, prompt.task_order: {{permutations: all}}}}
data: {{dims: 4}}
prompt: {{tasks: 3}}
theory: {{pretraining_length: 41}}
"""
TRAINED = """
name: {name}
grid: {{prompt.examples_per_task: {examples}, prompt.task_order: {{permutations: all}}}}
model: {{layers: 1, heads: 1, width: 8}}
data: {{dims: 2}}
train: {{points: 16, steps: 5, validation_prompts: 64}}
prompt: {{tasks: 2}}
evaluate: {{prompts: 64}}
"""


class ResumeTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)

    def start(self, data):
        return subprocess.Popen([ICLSWEEP, "run", SMOKE, "--data", data, "--workers", "2", "--checkpoint-every", "50"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())

    def write(self, name, examples, text=THEORY):
        path = self.folder / (name + ".yaml")
        with open(path, "w") as file:
            file.write(text.format(name=name, examples=examples))
        return path

    def tell(self, code, *arguments):
        """A command that ends with that code: its standard output and its diagnostics."""
        done = subprocess.run([ICLSWEEP, *arguments], capture_output=True, text=True, env=environment())
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout, done.stderr

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

    def test_failed_jobs_are_counted_and_listed_and_a_removed_checkpoint_is_named(self):
        data = self.folder / "data"
        cli("run", self.write("a", "[1]", TRAINED), "--data", data, "--workers", "1")
        for artifact in glob.glob(data + "/artifacts/*"):
            shutil.rmtree(artifact)
        sweep = self.write("b", "[2, 3]", TRAINED)
        for again in (False, True):
            output, errors = self.tell(1, "run", sweep, "--data", data, "--workers", "1")
            lines = errors.strip().splitlines()[-3:]
            self.assertIn("failed: cell 0, evaluate: ", lines[0])
            self.assertIn(f"checkpoint: {data}/artifacts/", lines[0])
            self.assertIn("was removed; jobs that needed it stay failed: start in a fresh --data directory", lines[0])
            self.assertEqual(lines[1], "and 3 more")
            self.assertIn("4 jobs failed: iclsweep query", lines[2])
            self.assertEqual("nothing to run: 4 jobs failed; every other job of this sweep is finished" in output, again, output)
            self.assertNotIn("every job of this sweep is finished", output)
        query = lines[2].split('"')[1]
        self.assertEqual(len(cli("query", query, "--data", data).splitlines()), 1 + 4)
        status = self.tell(0, "status", "b", "--data", data)[0]
        self.assertIn(" cells, finished, 4 jobs failed\n", status)
        self.assertIn("and 3 more", status)

    def test_results_before_there_are_any_say_so_and_unknown_words_are_named(self):
        cluster = Cluster(self.folder)
        self.addCleanup(cluster.stop)
        cluster.start_coordinator()
        cluster.submit(self.write("a", "[1, 2]"))
        for arguments in ((), ("--predictor", "msa"), ("--stage", "theory")):
            self.assertIn("is stored yet", self.tell(0, "results", *arguments, "--data", cluster.data)[0])
            self.assertEqual(self.tell(0, "results", "--json", *arguments, "--data", cluster.data), ("", ""))
        cluster.start_workers()
        cli("wait", "--coordinator", cluster.address)
        for option, word, hint in (("--stage", "theroy", "did you mean 'theory'? (known: theory)"), ("--stage", "train", "(known: theory)"),
                                   ("--predictor", "mas", "did you mean"), ("--name", "xyzzy", "(known: ")):
            output, errors = self.tell(2, "results", option, word, "--data", cluster.data)
            self.assertEqual(output, "")
            self.assertIn(f"iclsweep: {option} '{word}' is not in sweep 'a'", errors)
            self.assertIn(hint, errors)

    def test_rows_come_by_cell_and_by_stage_as_they_run(self):
        data = self.folder / "data"
        cli("run", self.write("a", "[3, 1, 2]", TRAINED + "theory: {{}}\n"), "--data", data, "--workers", "2")
        order = {"train": 0, "evaluate": 1, "theory": 2}
        for arguments in (("export", "--format", "jsonl"), ("results", "--json", "--name", "G"), ("results", "--json", "--predictor", "model")):
            found = [json.loads(line) for line in cli(*arguments, "--data", data).splitlines()]
            places = [(row["cell"], order[row["stage"]], row["predictor"], row["name"], row["task"], row["position"], row["layer"], row["head"])
                      for row in found]
            self.assertEqual(places, sorted(places))
            self.assertEqual({place[0] for place in places}, set(range(6)))

    def test_export_writes_the_rows_that_are_asked_for(self):
        data = self.folder / "data"
        cli("run", self.write("a", "[1, 2]"), "--data", data)
        whole = cli("export", "--data", data).splitlines()
        column = whole[0].split(",").index
        rows = [line.split(",") for line in whole[1:]]
        wanted = [row for row in rows if row[column("predictor")] == "msa" and row[column("name")] == "G"]
        asked = ("export", "--stage", "theory", "--predictor", "msa", "--name", "G", "--data", data)
        self.assertEqual([line.split(",") for line in cli(*asked).splitlines()[1:]], wanted)
        self.assertEqual([line.split(",") for line in cli(*asked, "--limit", "2").splitlines()[1:]], wanted[:2])
        self.assertEqual(len(cli("results", "--json", *asked[1:]).splitlines()), len(wanted))
        self.assertIn("--predictor 'mas' is not in", self.tell(2, "export", "--predictor", "mas", "--data", data)[1])
        self.assertIn("--canonical compares whole sweeps", self.tell(2, "export", "--canonical", "--name", "G", "--data", data)[1])

    def test_json_has_the_same_names_and_types_in_every_command(self):
        cluster = Cluster(self.folder)
        self.addCleanup(cluster.stop)
        cluster.start_coordinator()
        cluster.start_workers()
        sweep = self.write("a", "[1, 2]")
        told = lambda *arguments: json.loads(cli(*arguments, "--json"))
        submitted = told("submit", sweep, "--coordinator", cluster.address)
        waited = told("wait", "--coordinator", cluster.address)
        live = told("status", "--coordinator", cluster.address)
        stored = told("status", "--data", cluster.data)
        planned = told("plan", sweep, "--data", cluster.data)
        progress = told("query", "SELECT sweep, jobs, done, failed, leased, ready, blocked, upstream_failed FROM progress", "--data", cluster.data)
        self.assertEqual(type(live["workers"]), int)
        self.assertEqual(type(live["epoch"]), int)
        self.assertEqual(submitted, {"sweep": "a", "resumed": False, "cells": 12, "jobs": 12, "done": 0})
        for document in (waited, live["sweeps"][0], stored["sweeps"][0], planned):
            self.assertEqual([document[name] for name in ("sweep", "cells", "jobs", "done")], ["a", 12, 12, 12], document)
            self.assertEqual([document["stages"][0][name] for name in ("stage", "jobs", "done")], ["theory", 12, 12], document)
        for document in (waited, live["sweeps"][0], stored["sweeps"][0]):
            self.assertEqual({name: document[name] for name in progress}, progress)
            self.assertEqual((document["finished"], document["expanding"]), (True, False))
        self.assertEqual(type(told("version")["schema"]), int)

    def test_workers_killed_from_outside_leave_advice(self):
        data = self.folder / "data"
        run = self.start(data)
        wait_until(lambda: self.training_has_checkpointed(data), "a partial checkpoint")
        with open(f"/proc/{run.pid}/task/{run.pid}/children") as file:
            (node,) = map(int, file.read().split())
        os.kill(node, signal.SIGKILL)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 3, errors)
        self.assertIn(b"were killed by signal 9", errors)
        self.assertIn(b"type the same command again, and only the missing work runs", errors)

    def test_socket_folder_of_a_killed_run_is_removed_by_the_next(self):
        runtime = self.folder / "run"
        os.makedirs(runtime)
        start = lambda data: subprocess.Popen([ICLSWEEP, "run", SMOKE, "--data", self.folder / data, "--workers", "1"],
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(XDG_RUNTIME_DIR=runtime))
        sockets = lambda: {path for path in glob.glob(runtime + "/iclsweep-*/coordinator") if stat.S_ISSOCK(os.stat(path).st_mode)}
        killed = start("killed")
        (stale,) = wait_until(sockets, "a socket")
        killed.kill()
        killed.wait()
        live = start("live")
        self.addCleanup(live.wait)
        self.addCleanup(live.terminate)
        (used,) = wait_until(lambda: sockets() - {stale}, "another socket")
        wait_until(lambda: time.time() - os.stat(stale).st_mtime > 3 if os.path.exists(stale) else True, "the socket to be old enough")
        cli("run", self.write("a", "[1]"), "--data", self.folder / "data", "--workers", "1", XDG_RUNTIME_DIR=runtime)
        self.assertEqual(glob.glob(runtime + "/iclsweep-*"), [os.path.dirname(used)])

    def test_serve_and_workers_end_with_0_when_told_to_stop(self):
        for seen, number in ((2, signal.SIGINT), (4, signal.SIGTERM)):
            cluster = Cluster(self.folder)
            self.addCleanup(cluster.stop)
            cluster.start_coordinator()
            cluster.start_workers()
            wait_until(lambda: rows(cluster.data, "SELECT count(*) FROM worker")[0][0] >= seen, "two workers")
            for process in (cluster.node, cluster.coordinator):
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=60), 0, process.args)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
