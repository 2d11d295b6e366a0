#!/usr/bin/env python3
"""Durable jobs per second: the hidden stage `noop` through a coordinator and two workers, real processes, real sockets,
SQLite with synchronous=FULL. A job counts once its result is on disk.
   deploy/bench/noop.py [--jobs 100000] [--workers 2] [--repeats 3] [--bundle 256]"""
import argparse

from cluster import Cluster, busy_cores, cpu_seconds, fdatasync_ms, machine, peak_mb, spread

SWEEP = "name: bench\ngrid: {{noop.index: {{range: [0, {jobs}]}}}}\nnoop: {{}}\n"
RATE = """SELECT count(*), min(committed_us), max(committed_us) FROM result WHERE job_id > {first} AND job_id <= {last}"""


def run(arguments):
    with Cluster() as cluster:
        sync = fdatasync_ms(cluster.folder)
        busy = busy_cores()
        cluster.start_coordinator()
        cluster.submit(cluster.file("sweep.yaml", SWEEP.format(jobs=arguments.jobs)))
        cluster.wait_for("SELECT cells_expanded FROM sweep_revision", arguments.jobs)
        cpu = cpu_seconds(cluster.coordinator.pid)
        cluster.start_workers(arguments.workers, "--bundle", str(arguments.bundle))
        cluster.wait_for("SELECT coalesce(sum(done), 0) FROM progress", arguments.jobs)
        cpu = cpu_seconds(cluster.coordinator.pid) - cpu
        workers = sum(cpu_seconds(pid) for pid in cluster.worker_pids())
        done, first, last = cluster.rows("SELECT count(*), min(started_us), max(ended_us) FROM attempt WHERE outcome = 'done'")[0]
        rate = done / ((last - first) / 1e6)
        part = arguments.jobs // 10
        times = [cluster.rows(f"SELECT max(ended_us) - min(started_us) FROM attempt WHERE job_id > {a} AND job_id <= {a + part}")[0][0]
                 for a in (part, arguments.jobs - part)]
        print(f"{done:,} jobs: {rate:,.0f} durable jobs/s = {1e3 / rate:.4f} ms a job; CPU ms a job: coordinator {1e3 * cpu / done:.4f}, "
              f"workers {1e3 * workers / done:.4f}; last tenth / second tenth {times[1] / times[0]:.2f}; "
              f"coordinator peak {peak_mb(cluster.coordinator.pid):.0f} MB; fdatasync {sync:.2f} ms; {busy:.1f} other cores busy", flush=True)
        return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bundle", type=int, default=256)
    arguments = parser.parse_args()
    print(machine())
    rates = [run(arguments) for _ in range(arguments.repeats)]
    print(f"durable jobs/s, min / median / max: {spread(rates, 0)}")


if __name__ == "__main__":
    main()
