#!/usr/bin/env python3
"""What a large sweep costs its coordinator: memory of the known cells, `status`, `cancel` of queued jobs, and a restart after
kill -9 (from the program's start until it listens, its jobs restored). Wall times of whole commands, beside that of
`iclsweep version`, which does nothing. Then, with 10,000 other jobs of 20 ms and two workers that wait: from a restart after kill
-9 to the first job leased to one of them.
   deploy/bench/operations.py [--cells 100000] [--repeats 5]"""
import argparse
import signal
import time

from cluster import Cluster, busy_cores, fdatasync_ms, machine, now_mb, peak_mb, spread

SWEEP = "name: {name}\ngrid: {{noop.index: {{range: [{first}, {last}]}}}}\nnoop: {{}}\n"


def to_first_lease(cluster, sweep):
    """Seconds from the restart of a killed coordinator until it leases a job to a worker that stayed and waited: the sweep is cancelled,
    so that no worker is busy with what it was leased before, and submitted again as soon as the coordinator listens."""
    cluster.cli("cancel", "bench", "--coordinator", cluster.address)
    time.sleep(7)  # what was leased ends, or is given up at the next heartbeat
    cluster.stop_coordinator(signal.SIGKILL)
    before = time.time()
    cluster.start_coordinator()
    cluster.submit(sweep)
    while True:
        started = cluster.rows(f"SELECT min(started_us) FROM attempt WHERE started_us > {int(before * 1e6)}")[0][0]
        if started is not None:
            return started / 1e6 - before
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(machine())
    with Cluster() as cluster:
        print(f"fdatasync {fdatasync_ms(cluster.folder):.2f} ms; {busy_cores():.1f} other cores busy")
        cluster.start_coordinator()
        empty = now_mb(cluster.coordinator.pid)
        sweep = cluster.file("bench.yaml", SWEEP.format(name="bench", first=0, last=arguments.cells))
        start = time.perf_counter()
        submit = cluster.submit(sweep)
        cluster.wait_for("SELECT cells_expanded FROM sweep_revision", arguments.cells)
        print(f"{arguments.cells:,} cells: submit returned after {submit:.2f} s, all expanded after {time.perf_counter() - start:.2f} s; "
              f"coordinator {now_mb(cluster.coordinator.pid):.0f} MB, peak {peak_mb(cluster.coordinator.pid):.0f} MB, {empty:.0f} MB when empty")
        at = ("--coordinator", cluster.address)
        floor = [1e3 * cluster.cli("version")[0] for _ in range(arguments.repeats)]
        status = [1e3 * cluster.cli("status", "bench", *at)[0] for _ in range(arguments.repeats)]
        cancel = []
        for _ in range(arguments.repeats):
            cancel.append(1e3 * cluster.cli("cancel", "bench", *at)[0])
            cluster.submit(sweep)  # it may run again
        print(f"ms, min / median / max: version {spread(floor)}; status {spread(status)}; cancel {spread(cancel)}")
        restart = []
        for _ in range(arguments.repeats):
            cluster.stop_coordinator(signal.SIGKILL)
            start = time.perf_counter()
            cluster.start_coordinator()
            restart.append(1e3 * (time.perf_counter() - start))
        print(f"ms from a restart until it listens, {arguments.cells:,} jobs known: {spread(restart)}")
    with Cluster() as cluster:
        cluster.start_coordinator()
        sweep = cluster.file("bench.yaml", SWEEP.format(name="bench", first=0, last=10_000).replace("{}", "{microseconds: 20000}"))
        cluster.submit(sweep)
        cluster.start_workers(2)
        cluster.wait_for("SELECT count(*) > 10 FROM result", 1)
        print(f"s from a restart to the first lease, 10,000 jobs known, 2 workers: {spread([to_first_lease(cluster, sweep) for _ in range(arguments.repeats)], 2)}")


if __name__ == "__main__":
    main()
