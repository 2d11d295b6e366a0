"""A coordinator and its workers as real processes, for the end-to-end tests: start, stop, kill, hold at a moment, look at
the database. Only the standard library. Everything lives in one temporary folder."""
import glob
import os
import signal
import sqlite3
import subprocess
import tempfile
import time

BUILD = os.environ.get("ICLSWEEP_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build", "dev"))
ICLSWEEP = os.path.abspath(os.path.join(BUILD, "iclsweep"))
WORKER = os.path.abspath(os.path.join(BUILD, "iclsweep-worker"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SWEEPS = os.path.join(ROOT, "deploy", "sweeps")
PATIENCE = 240  # seconds until a condition that must come true is given up


def environment(**extra):
    env = {k: v for k, v in os.environ.items() if not k.startswith("ICLSWEEP_")}
    env.update(extra)
    return env


def cli(*arguments, expect=0, **extra):
    """Runs iclsweep to its end; its standard output. Fails when the exit code is not the expected one."""
    done = subprocess.run([ICLSWEEP, *arguments], capture_output=True, text=True, env=environment(**extra))
    if done.returncode != expect:
        raise AssertionError(f"iclsweep {' '.join(arguments)}: exit {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def wait_until(condition, what):
    """The first true value of condition()."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"waited {PATIENCE} s for: {what}")


class Folder:
    """A short temporary path (unix sockets hold 107 characters), removed at the end."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="icls-", dir="/tmp")
        self.path = self._folder.name

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def close(self):
        self._folder.cleanup()


def rows(data, sql, *parameters):
    """Rows of a query on the data directory's database, opened for reading only."""
    connection = sqlite3.connect(f"file:{data}/iclsweep.db?mode=ro", uri=True, timeout=30)
    try:
        return connection.execute(sql, parameters).fetchall()
    finally:
        connection.close()


class Mark:
    """The running mark of a slot: which lease its process runs, and how far it is."""

    def __init__(self, slot):
        self.slot = slot
        with open(os.path.join(slot, "running")) as file:
            fields = file.read().split()
        self.job, self.attempt, self.steps_run, self.steps_done, self.steps_total, saved = map(int, fields)
        self.checkpointed = saved == 1


class Cluster:
    """`iclsweep serve` and one node agent, with short intervals and fault points."""

    def __init__(self, folder, workers=2, checkpoint_every=50, lease="10s", heartbeat="300ms", bundle=256):
        self.data = folder / "data"
        self.slots = folder / "slots"
        self.faults = folder / "faults"
        self.address = "unix:" + (folder / "socket")
        self.log = open(folder / "log", "ab")
        self.options = ["--lease", lease, "--heartbeat", heartbeat, "--checkpoint-every", str(checkpoint_every)]
        self.workers = workers
        self.bundle = bundle
        self.coordinator = None
        self.node = None
        os.makedirs(self.faults, exist_ok=True)

    def start_coordinator(self):
        self.coordinator = subprocess.Popen(
            [ICLSWEEP, "serve", "--data", self.data, "--listen", self.address, *self.options],
            stdout=subprocess.PIPE, stderr=self.log, env=environment())
        line = self.coordinator.stdout.readline().decode()
        assert "listening on" in line, f"the coordinator did not start: {line!r}, see {self.log.name}"

    def start_workers(self):
        self.node = subprocess.Popen(
            [WORKER, "--coordinator", self.address, "--work-dir", self.slots, "--device", "cpu", "--cpu-slots", str(self.workers),
             "--bundle", str(self.bundle)],
            stdout=self.log, stderr=self.log, env=environment(ICLSWEEP_FAULT_DIR=self.faults))

    def kill_coordinator(self):
        self.coordinator.send_signal(signal.SIGKILL)
        self.coordinator.wait()
        self.coordinator.stdout.close()

    def submit(self, sweep):
        return cli("submit", sweep, "--coordinator", self.address).strip().splitlines()[-1]

    def stop(self):
        for hold in glob.glob(os.path.join(self.faults, "hold.*")):
            os.remove(hold)  # a held process would not hear the signal
        for process in (self.node, self.coordinator):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=PATIENCE)
        if self.coordinator is not None and self.coordinator.stdout:
            self.coordinator.stdout.close()
        self.log.close()

    # ---- fault points ----

    def hold(self, point):
        open(os.path.join(self.faults, "hold." + point), "w").close()

    def release(self, point):
        path = os.path.join(self.faults, "hold." + point)
        if os.path.exists(path):
            os.remove(path)

    def held(self, point):
        """Process ids waiting at the point (and still alive)."""
        pids = []
        for path in glob.glob(os.path.join(self.faults, f"held.{point}.*")):
            pid = int(path.rsplit(".", 1)[1])
            if os.path.exists(f"/proc/{pid}"):
                pids.append(pid)
            else:
                os.remove(path)
        return pids

    def slot_of(self, pid):
        """The slot directory of a worker process."""
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                arguments = file.read().split("\0")
            return arguments[arguments.index("--slot-dir") + 1]
        except (FileNotFoundError, ValueError):
            return None

    def spooled_in(self, slot):
        """(job, attempt) of every result lying in the spool of a slot directory."""
        found = []
        with open(os.path.join(slot, "spool"), "rb") as spool:
            while header := spool.readline():
                job, attempt, size, _ = header.split()
                found.append((int(job), int(attempt)))
                spool.seek(int(size) + 1, os.SEEK_CUR)
        return found

    def spooled(self):
        """The same for every slot."""
        return {entry for spool in glob.glob(os.path.join(self.slots, "*", "spool")) for entry in self.spooled_in(os.path.dirname(spool))}

    def open_attempts(self):
        return set(rows(self.data, "SELECT job_id, number FROM attempt WHERE outcome = 'running'"))

    def done_jobs(self):
        return {job for (job,) in rows(self.data, "SELECT job_id FROM result")}


def finish(cluster, sweep):
    """Waits for the sweep's end through `iclsweep wait`."""
    cli("wait", sweep, "--coordinator", cluster.address)


def canonical(data, sweep):
    return cli("export", sweep, "--canonical", "--data", data)
