"""Real processes for the benchmarks: a coordinator and its workers in a temporary folder, and what they cost."""
import os
import resource
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("ICLSWEEP_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build", "release"))
ICLSWEEP = os.path.abspath(os.path.join(BUILD, "iclsweep"))
WORKER = os.path.abspath(os.path.join(BUILD, "iclsweep-worker"))
TICKS = os.sysconf("SC_CLK_TCK")


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown CPU")
    return f"{model}, {os.cpu_count()} cores, Linux {os.uname().release}"


def busy_cores(seconds=0.5):
    """How many cores something else keeps busy now."""
    def used():
        with open("/proc/stat") as file:
            fields = [int(x) for x in file.readline().split()[1:]]
        return sum(fields) - fields[3] - fields[4]
    before, start = used(), time.monotonic()
    time.sleep(seconds)
    return (used() - before) / TICKS / (time.monotonic() - start)


def fdatasync_ms(folder, n=50):
    """Median time of a 4 KiB append and fdatasync, in ms."""
    path = os.path.join(folder, "fdatasync")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    times = []
    for _ in range(n):
        os.write(fd, b"x" * 4096)
        start = time.perf_counter()
        os.fdatasync(fd)
        times.append(1e3 * (time.perf_counter() - start))
    os.close(fd)
    os.remove(path)
    return statistics.median(times)


def cpu_seconds(pid):
    """User and system time of a process and its children that have ended."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return sum(int(x) for x in fields[11:13]) / TICKS


def peak_mb(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def now_mb(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


class Cluster:
    def __init__(self, folder=None):
        for program in (ICLSWEEP, WORKER):
            if not os.path.exists(program):
                sys.exit(f"{program} is not there; build it, or name its folder with ICLSWEEP_BUILD")
        self.folder = tempfile.mkdtemp(prefix="icls-bench-", dir=folder)
        self.data = os.path.join(self.folder, "data")
        self.address = "unix:" + os.path.join(self.folder, "socket")
        self.log = open(os.path.join(self.folder, "log"), "ab")
        self.coordinator = None
        self.node = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop_workers()
        self.stop_coordinator()
        self.log.close()
        shutil.rmtree(self.folder)

    def start_coordinator(self):
        self.coordinator = subprocess.Popen([ICLSWEEP, "serve", "--data", self.data, "--listen", self.address],
                                            stdout=subprocess.PIPE, stderr=self.log)
        if b"listening on" not in self.coordinator.stdout.readline():
            with open(self.log.name) as log:
                sys.exit("the coordinator did not start:\n" + log.read())

    def stop_coordinator(self, how=signal.SIGTERM):
        if self.coordinator is None:
            return
        self.coordinator.send_signal(how)
        self.coordinator.wait()
        self.coordinator.stdout.close()
        self.coordinator = None

    def start_workers(self, count, *more):
        self.node = subprocess.Popen([WORKER, "--coordinator", self.address, "--work-dir", os.path.join(self.folder, "slots"),
                                      "--device", "cpu", "--cpu-slots", str(count), *more], stdout=self.log, stderr=self.log)

    def stop_workers(self):
        if self.node is None:
            return
        self.node.send_signal(signal.SIGTERM)
        self.node.wait()
        self.node = None

    def worker_pids(self):
        out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.node.pid)], capture_output=True, text=True).stdout
        return [int(pid) for pid in out.split()]

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def cli(self, *arguments):
        """Runs iclsweep; its wall time in seconds and its standard output."""
        start = time.perf_counter()
        done = subprocess.run([ICLSWEEP, *arguments], capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            sys.exit(f"iclsweep {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")
        return seconds, done.stdout

    def submit(self, file):
        return self.cli("submit", file, "--coordinator", self.address)[0]

    def rows(self, sql):
        connection = sqlite3.connect(f"file:{self.data}/iclsweep.db?mode=ro", uri=True, timeout=30)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def wait_for(self, sql, value, pause=0.05):
        while self.rows(sql)[0][0] != value:
            if self.coordinator.poll() is not None:
                sys.exit("the coordinator ended")
            time.sleep(pause)


def children_peak_mb():
    """Peak memory of the largest child that has ended."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def spread(values, digits=1):
    return f"{min(values):,.{digits}f} / {statistics.median(values):,.{digits}f} / {max(values):,.{digits}f}"
