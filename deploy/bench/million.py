#!/usr/bin/env python3
"""A grid of a million cells (stage `theory`, closed forms): planned, submitted, run for a minute, killed with everything it
started, resumed, killed again, read and exported; at the end nothing may have run twice. While the cells are made, `iclsweep
workers` is asked all the time: it waits in the same queue as a worker's Sync.
   deploy/bench/million.py [--cells 1000000] [--seconds 60] [--workers 2]"""
import argparse
import os
import resource
import signal
import subprocess
import sys
import time

from cluster import ICLSWEEP, Cluster, busy_cores, fdatasync_ms, machine, now_mb, peak_mb, spread

SWEEP = """name: million
grid:
  prompt.seed: {{range: [0, {seeds}]}}
  prompt.angle_degrees: {{linspace: [0, 90, 10]}}
  prompt.examples_per_task: {{range: [1, 11]}}
data: {{dims: 2}}
prompt: {{tasks: 2, geometry: angle}}
theory: {{pretraining_length: 41}}
"""


def measured(cluster, *arguments, output=None):
    """Wall time in seconds and peak memory in MB of a command whose output goes to a file."""
    start = time.perf_counter()
    with open(output or os.devnull, "wb") as out:
        process = subprocess.Popen([ICLSWEEP, *arguments], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"iclsweep {' '.join(arguments)} failed")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def expand(cluster, cells, expected):
    """Submits, and asks the loop until every cell is there: the times of asking, in ms."""
    start = time.perf_counter()
    submit = cluster.submit(cluster.file("million.yaml", expected))
    asked = []
    while cluster.rows("SELECT cells_expanded FROM sweep_revision")[0][0] < cells:
        asked.append(1e3 * cluster.cli("workers", "--coordinator", cluster.address)[0])
    idle = [1e3 * cluster.cli("workers", "--coordinator", cluster.address)[0] for _ in range(20)]
    print(f"submit returned after {submit:.2f} s, all expanded after {time.perf_counter() - start:.0f} s; coordinator "
          f"{now_mb(cluster.coordinator.pid):.0f} MB, peak {peak_mb(cluster.coordinator.pid):.0f} MB")
    print(f"ms to ask the loop, min / median / max: meanwhile {spread(asked)} ({len(asked)} times), afterwards {spread(idle)}", flush=True)


def run_and_kill(cluster, seconds, workers):
    """The jobs done after so many seconds, when everything was killed at once."""
    cluster.start_workers(workers)
    time.sleep(seconds)
    for pid in [*cluster.worker_pids(), cluster.node.pid]:
        os.kill(pid, signal.SIGKILL)
    cluster.stop_coordinator(signal.SIGKILL)
    cluster.node.wait()
    cluster.node = None
    return cluster.rows("SELECT count(*) FROM result")[0][0]


def restart(cluster):
    start = time.perf_counter()
    cluster.start_coordinator()
    return time.perf_counter() - start


def read(cluster, at):
    floor = [1e3 * cluster.cli("version")[0] for _ in range(5)]
    status = [1e3 * cluster.cli("status", "million", *at)[0] for _ in range(5)]
    page = [measured(cluster, "query", "SELECT * FROM results LIMIT 50", "--data", cluster.data)[0] for _ in range(3)]
    rows = [measured(cluster, "results", "million", "--stage", "theory", "--limit", "50", "--data", cluster.data)[0] for _ in range(3)]
    headline, _ = measured(cluster, "results", "million", "--data", cluster.data)
    print(f"ms, min / median / max: version {spread(floor)}; status {spread(status)}; 50 rows of view results "
          f"{spread([1e3 * t for t in page])}; results --stage theory --limit 50 {spread([1e3 * t for t in rows])}; "
          f"headline tables over every cell {headline:.1f} s")
    plan = measured(cluster, "plan", os.path.join(cluster.folder, "million.yaml"), "--data", cluster.data)
    print(f"plan with this database: {plan[0]:.1f} s, {plan[1]:.0f} MB")
    rows = cluster.rows("SELECT count(*) FROM measurement")[0][0]
    for form in (("--format", "csv"), ("--format", "jsonl"), ("--canonical",)):
        seconds, memory = measured(cluster, "export", "million", *form, "--data", cluster.data)
        print(f"export {' '.join(form)}: {rows:,} rows in {seconds:.1f} s = {1e6 * seconds / rows:.1f} s a million, peak {memory:.0f} MB",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    cells = arguments.cells // 100 * 100
    text = SWEEP.format(seeds=cells // 100)
    print(machine())
    with Cluster() as cluster:
        at = ("--coordinator", cluster.address)
        print(f"fdatasync {fdatasync_ms(cluster.folder):.2f} ms; {busy_cores():.1f} other cores busy")
        plan = measured(cluster, "plan", cluster.file("million.yaml", text), "--data", cluster.data)
        print(f"{cells:,} cells; plan without a database: {plan[0]:.2f} s, {plan[1]:.0f} MB")
        cluster.start_coordinator()
        expand(cluster, cells, text)
        all_jobs = cluster.rows("SELECT count(*) FROM job")[0][0]
        first = run_and_kill(cluster, arguments.seconds, arguments.workers)
        again = restart(cluster)
        start = time.perf_counter()
        cluster.start_workers(arguments.workers)
        if first == all_jobs:
            sys.exit("every job is done: fewer seconds or more cells leave something to resume")
        while not cluster.rows(f"SELECT 1 FROM attempt WHERE worker_id > {arguments.workers} LIMIT 1"):
            time.sleep(0.05)
        lease = time.perf_counter() - start
        cluster.stop_workers()
        second = run_and_kill(cluster, max(arguments.seconds // 6, 1), arguments.workers)
        print(f"{first:,} jobs in {arguments.seconds} s = {first / arguments.seconds:,.0f} a second; killed; restart until it listens "
              f"{again:.2f} s, workers started until their first lease {lease:.2f} s; {second - first:,} more jobs; killed")
        restart(cluster)
        twice = cluster.rows("SELECT count(*) FROM (SELECT 1 FROM attempt WHERE outcome = 'done' GROUP BY job_id HAVING count(*) > 1)")[0][0]
        extra = cluster.rows("SELECT count(*) FROM attempt JOIN result USING (job_id) WHERE number > attempt_number")[0][0]
        print(f"jobs done twice: {twice}; attempts after a job's result: {extra}", flush=True)
        read(cluster, at)
        if twice or extra:
            sys.exit("something ran again")


if __name__ == "__main__":
    main()
