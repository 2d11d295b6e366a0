#!/usr/bin/env python3
"""Bad input: the exit code, one clear line with the place, and nothing created."""
import glob
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import unittest

from cluster import ICLSWEEP, Cluster, Folder, cli, environment, rows

GOOD = "name: good\ngrid: {prompt.examples_per_task: [1, 2]}\ndata: {dims: 3}\nprompt: {tasks: 2}\ntheory: {pretraining_length: 9}\n"
BASE = "name: x\ndata: {dims: 3}\ntrain: {points: 16}\nprompt: {tasks: 3}\nevaluate: {}\n"

# name, text of the sweep file, what the message must contain
BAD_FILES = [
    ("yaml_syntax", "name: [x\n", "bad.yaml:"),
    ("unknown_key", BASE.replace("points: 16", "point: 16"), "did you mean 'points'"),
    ("unknown_section", BASE + "trian: {}\n", "did you mean 'train'"),
    ("unknown_axis", BASE + "grid: {train.step: [1, 2]}\n", "did you mean 'train.steps'"),
    ("wrong_type", BASE.replace("points: 16", "points: many"), "bad.yaml:3:"),
    ("fraction_for_integer", BASE.replace("points: 16", "points: 1.5"), "bad.yaml:3:"),
    ("out_of_range", BASE.replace("dims: 3", "dims: 0"), "bad.yaml:2:"),
    ("empty_axis", BASE + "grid: {seed: []}\n", "seed"),
    ("nan_axis", BASE + "grid: {train.learning_rate: [.nan]}\n", "bad.yaml:6:"),
    ("order_not_a_permutation", BASE + "grid: {prompt.task_order: [[0, 1, 1]]}\n", "permutation"),
    ("prompt_longer_than_trained", BASE.replace("tasks: 3", "tasks: 3, examples_per_task: 5"), "3*6+1 = 19"),
    ("prompt_longer_than_positions",
     BASE.replace("points: 16", "points: 16").replace("tasks: 3", "tasks: 3, examples_per_task: 5, allow_extrapolation: true"), "19"),
    ("too_many_cells", BASE + "grid: {seed: {range: [0, 1000000]}, prompt.seed: {range: [0, 1000]}}\n", "1000000000"),
    ("empty_file", "", "bad.yaml"),
]


class BadInputTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)
        self.data = self.folder / "data"
        with open(self.folder / "good.yaml", "w") as file:
            file.write(GOOD)

    def fails(self, code, *arguments):
        """Runs a command that must fail with that code; its single line of diagnostics."""
        done = subprocess.run([ICLSWEEP, *arguments], capture_output=True, text=True, env=environment(), cwd=self.folder.path)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        self.assertTrue(done.stderr.startswith("iclsweep: "), done.stderr)
        return done.stderr

    def write(self, text, name="bad.yaml"):
        mode = "wb" if isinstance(text, bytes) else "w"
        with open(self.folder / name, mode) as file:
            file.write(text)

    def test_bad_sweep_files_exit_2_with_the_place_and_create_nothing(self):
        for name, text, expected in BAD_FILES:
            with self.subTest(name):
                self.write(text)
                for command in ("run", "plan"):
                    line = self.fails(2, command, "bad.yaml", "--data", self.data)
                    self.assertIn(expected, line)
                    self.assertEqual(len(line.strip().splitlines()), 1, line)
                self.assertFalse(os.path.exists(self.data))

    def test_binary_junk_directory_and_missing_file_exit_2(self):
        self.write(bytes(range(256)) * 8)
        self.fails(2, "run", "bad.yaml", "--data", self.data)
        self.assertIn("directory", self.fails(2, "run", ".", "--data", self.data))
        self.assertIn("nowhere.yaml", self.fails(2, "run", "nowhere.yaml", "--data", self.data))
        self.assertFalse(os.path.exists(self.data))

    def test_grid_over_max_cells_is_refused(self):
        self.assertIn("more than the limit of 1", self.fails(2, "plan", "good.yaml", "--max-cells", "1"))

    def test_corrupt_database_exits_3_and_is_left_alone(self):
        os.makedirs(self.data)
        junk = b"this is not a database" * 1000
        with open(self.data + "/iclsweep.db", "wb") as file:
            file.write(junk)
        for arguments in (("run", "good.yaml"), ("query", "SELECT 1"), ("export",), ("status",)):
            self.fails(3, *arguments, "--data", self.data)
        with open(self.data + "/iclsweep.db", "rb") as file:
            self.assertEqual(file.read(), junk)

    def test_missing_database_exits_3(self):
        self.assertIn("no such database", self.fails(3, "query", "SELECT 1", "--data", self.data))
        self.assertFalse(os.path.exists(self.data))

    def test_unreachable_coordinator_exits_3(self):
        for arguments in (("submit", "good.yaml"), ("wait",), ("status",)):
            self.assertIn("cannot reach", self.fails(3, *arguments, "--coordinator", "unix:" + (self.folder / "nobody")))

    def test_bad_options_exit_2_and_create_nothing(self):
        for arguments, expected in [
            (("serve", "--listen", "nonsense"), "host:port"),
            (("serve", "--listen", "127.0.0.1:99999"), "65535"),
            (("serve", "--listen", "0.0.0.0:0"), "--insecure"),
            (("serve", "--lease", "3s", "--heartbeat", "2s"), "--lease"),
            (("run", "good.yaml", "--lease", "3s", "--heartbeat", "2s"), "--lease"),
            (("submit", "good.yaml", "--coordinator", "nonsense"), "host:port"),
        ]:
            with self.subTest(arguments):
                self.assertIn(expected, self.fails(2, *arguments, *(() if "submit" in arguments else ("--data", self.data))))
                self.assertFalse(os.path.exists(self.data))
        for command in (("run", "good.yaml"), ("serve",), ("query", "SELECT 1")):
            self.assertIn("--data", self.fails(2, *command, "--data", ""))

    def test_address_in_use_exits_3_and_creates_nothing(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.assertIn("in use", self.fails(3, "serve", "--listen", address, "--data", self.data))
        self.assertFalse(os.path.exists(self.data))

    @unittest.skipIf(glob.glob("/dev/nvidia[0-9]*"), "this machine has an NVIDIA device")
    def test_asking_for_a_gpu_that_is_not_there_creates_nothing(self):
        self.assertIn("no NVIDIA device", self.fails(4, "run", "good.yaml", "--device", "cuda", "--data", self.data))
        self.assertFalse(os.path.exists(self.data))

    def test_export_replaces_a_link_s_target_and_writes_into_a_pipe(self):
        cli("run", self.folder / "good.yaml", "--data", self.data, "--workers", "1")
        whole = cli("export", "--data", self.data)
        with open(self.folder / "kept.csv", "w") as file:
            file.write("old")
        os.symlink("kept.csv", self.folder / "link.csv")
        cli("export", "--data", self.data, "-o", self.folder / "link.csv")
        self.assertTrue(os.path.islink(self.folder / "link.csv"))
        with open(self.folder / "kept.csv") as file:
            self.assertEqual(file.read(), whole)
        os.mkfifo(self.folder / "pipe")
        export = subprocess.Popen([ICLSWEEP, "export", "--data", self.data, "-o", self.folder / "pipe"], env=environment())
        with open(self.folder / "pipe") as file:
            self.assertEqual(file.read(), whole)
        self.assertEqual(export.wait(), 0)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.folder / "pipe").st_mode))
        self.fails(3, "export", "--data", self.data, "-o", self.folder / "no/such/folder.csv")
        self.assertEqual(sorted(os.listdir(self.folder.path)), ["data", "good.yaml", "kept.csv", "link.csv", "pipe"])

    def test_unwritable_data_directory_exits_3(self):
        self.write("a file\n", "file")
        self.fails(3, "run", "good.yaml", "--data", self.folder / "file/data")

    def test_newer_schema_exits_4_and_names_both_versions(self):
        cli("run", self.folder / "good.yaml", "--data", self.data, "--workers", "1")
        connection = sqlite3.connect(self.data + "/iclsweep.db")
        connection.execute("PRAGMA user_version = 99")
        connection.close()
        self.assertIn("99", self.fails(4, "run", "good.yaml", "--data", self.data))
        self.assertIn("99", self.fails(4, "query", "SELECT 1", "--data", self.data))

    def test_data_directory_of_a_live_coordinator_exits_4_and_names_it(self):
        cluster = Cluster(self.folder)
        self.addCleanup(cluster.stop)
        cluster.start_coordinator()
        line = self.fails(4, "run", "good.yaml", "--data", cluster.data)
        self.assertIn(f"pid {cluster.coordinator.pid}", line)

    def test_same_name_with_another_specification_exits_4_with_the_difference(self):
        cli("run", self.folder / "good.yaml", "--data", self.data, "--workers", "1")
        before = rows(self.data, "SELECT count(*) FROM cell")
        self.write(GOOD.replace("dims: 3", "dims: 4"))
        self.assertIn("data.dims: 3 -> 4", self.fails(4, "run", "bad.yaml", "--data", self.data))
        self.assertEqual(rows(self.data, "SELECT count(*) FROM cell"), before)
        # Comments and layout are not the specification.
        self.write("# a comment\n" + GOOD)
        cli("run", self.folder / "bad.yaml", "--data", self.data, "--workers", "1")

    def test_query_only_reads(self):
        cli("run", self.folder / "good.yaml", "--data", self.data, "--workers", "1")
        for sql in ("DELETE FROM cell", "INSERT INTO meta VALUES ('a', 'b')", f"ATTACH '{self.data}/x' AS y", "BEGIN", "VACUUM",
                    "PRAGMA user_version = 1", "SELECT 1; SELECT 2", "SELEC 1", "SELECT nothing FROM cell", "SELECT json('{')", ""):
            line = self.fails(2, "query", sql, "--data", self.data)
            self.assertEqual(len(line.strip().splitlines()), 1, line)
        self.assertFalse(os.path.exists(self.data + "/x"))
        self.assertIn("there is no sweep 'other'", self.fails(2, "results", "other", "--data", self.data))

    def test_unknown_command_is_named_with_the_closest_one(self):
        self.assertEqual(self.fails(2, "rnu"), "iclsweep: there is no command 'rnu'; did you mean 'run'? (see --help)\n")
        self.assertIn("no option '--bogus'", self.fails(2, "--bogus"))
        self.assertIn("run, plan,", self.fails(2))

    def test_full_standard_output_exits_3_with_one_line(self):
        cli("run", self.folder / "good.yaml", "--data", self.data, "--workers", "1")
        for arguments in (("--help",), ("--version",), ("version",), ("version", "--json"), ("run", "--help"), ("plan", "good.yaml"), ("status",),
                          ("status", "--json"), ("results",), ("results", "--stage", "theory"), ("query", "SELECT 1"), ("export",),
                          ("export", "--canonical"), ("run", "good.yaml")):
            data = () if arguments[0] in ("--help", "--version", "version") else ("--data", self.data)
            with self.subTest(arguments), open("/dev/full", "w") as full:
                done = subprocess.run([ICLSWEEP, *arguments, *data], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(),
                                      cwd=self.folder.path)
                self.assertEqual((done.returncode, done.stderr),
                                 (3, "iclsweep: cannot write to standard output: No space left on device\n"))

    def test_reader_that_goes_away_ends_a_command_quietly(self):
        cli("run", self.folder / "good.yaml", "--data", self.data, "--workers", "1")
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        for restore in (True, False):  # with SIGPIPE as usual, and ignored
            process = subprocess.Popen([ICLSWEEP, "query", endless, "--data", self.data], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=environment(), restore_signals=restore)
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"")
            process.stderr.close()
            self.assertEqual(process.wait(timeout=60), -signal.SIGPIPE)

    def test_usage_errors_exit_2(self):
        for arguments in ((), ("rnu",), ("run",), ("run", "good.yaml", "--workers", "-1"), ("run", "good.yaml", "--device", "tpu")):
            done = subprocess.run([ICLSWEEP, *arguments], capture_output=True, text=True, env=environment(), cwd=self.folder.path)
            self.assertEqual(done.returncode, 2, arguments)
        self.assertIn("twice", self.fails(2, "run", "good.yaml", "--data", self.data, "--lease", "1s", "--heartbeat", "1s"))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
