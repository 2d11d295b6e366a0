#!/usr/bin/env python3
"""Training steps on one core: stage `train` beside Garg et al.'s model in PyTorch (Hugging Face's GPT2Model with eager
attention, torch.optim.Adam, prompts drawn on the CPU, loss.item() every step), in turn, each in a process of its own with the
same environment. With --slots: two processes of one thread each beside one process of two threads.
   deploy/bench/train_step.py [--setup] [--sizes tiny,small] [--rounds 5] [--slots]
--setup installs the peer (torch, transformers: 4.6 GB) into .deps/bench, once."""
import argparse
import json
import os
import statistics
import subprocess
import sys

from cluster import BUILD, busy_cores, machine

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PEER = os.path.join(ROOT, ".deps", "bench")
OURS = os.path.abspath(os.path.join(BUILD, "train_step_bench"))
PACKAGES = ["torch==2.11.0", "transformers==5.24.0", "numpy"]
SIZES = {"tiny": (3, 2, 64, 40), "small": (6, 4, 128, 10)}  # layers, heads, width, steps
BATCH, DIMS, POINTS = 64, 20, 41


def peer(layers, heads, width, steps):
    import time
    import torch
    from torch import nn
    from transformers import GPT2Config, GPT2Model
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    config = GPT2Config(n_positions=2 * POINTS, n_embd=width, n_layer=layers, n_head=heads, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, use_cache=False, attn_implementation="eager")
    read_in, backbone, read_out = nn.Linear(DIMS, width), GPT2Model(config), nn.Linear(width, 1)
    modules = nn.ModuleList([read_in, backbone, read_out]).train()
    adam = torch.optim.Adam(modules.parameters(), lr=1e-4)
    wall, cpu = [], []
    for _ in range(steps):
        wall.append(time.perf_counter())
        cpu.append(time.process_time())
        xs, w = torch.randn(BATCH, POINTS, DIMS), torch.randn(BATCH, DIMS, 1)
        ys = (xs @ w)[:, :, 0]
        wide = torch.cat([ys.unsqueeze(-1), torch.zeros(BATCH, POINTS, DIMS - 1)], dim=-1)
        tokens = torch.stack([xs, wide], dim=2).reshape(BATCH, 2 * POINTS, DIMS)
        adam.zero_grad()
        hidden = backbone(inputs_embeds=read_in(tokens)).last_hidden_state
        loss = ((read_out(hidden)[:, ::2, 0] - ys) ** 2).mean()
        loss.backward()
        adam.step()
        loss.item()

    def steps_of(times):
        return [1e3 * (b - a) for a, b in zip(times[2:], times[3:])]
    print(json.dumps({"wall": steps_of(wall), "cpu": steps_of(cpu)}))


def environment(threads):
    """As the node agent sets it, for the widest instructions of this machine."""
    with open("/proc/cpuinfo") as file:
        flags = next(line for line in file if line.startswith("flags")).split()
    capability = "avx512" if "avx512f" in flags else "avx2" if "avx2" in flags else "default"
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), ATEN_CPU_CAPABILITY=capability)
    if capability != "default":
        env["MKL_CBWR"] = capability.upper()
    if threads > 1:
        env["OMP_WAIT_POLICY"] = "PASSIVE"
    return env


def start(command, threads=1, **more):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(environment(threads), **more))


def times(process):
    out, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{process.args[0]} failed: {errors.strip()}")
    return json.loads(out.strip().splitlines()[-1])


def ours(size, threads=1):
    layers, heads, width, steps = SIZES[size]
    return start([OURS, *map(str, (layers, heads, width, DIMS, POINTS, BATCH, threads, steps))], threads)


def theirs(size):
    layers, heads, width, steps = SIZES[size]
    return start([sys.executable, __file__, "--peer", *map(str, (layers, heads, width, steps))], PYTHONPATH=PEER)


def compare(size, rounds):
    medians = {"wall": [], "cpu": []}
    for _ in range(rounds):
        pair = [times(theirs(size)), times(ours(size))]
        for clock, kept in medians.items():
            kept.append([statistics.median(one[clock]) for one in pair])
    for clock, kept in medians.items():
        ratios = sorted(a / b for a, b in kept)
        peer_ms, own_ms = (statistics.median(column) for column in zip(*kept))
        print(f"{size}, {clock}: peer {peer_ms:.1f} ms a step, ours {own_ms:.1f} ms; times as fast, min / median / max of {rounds} rounds: "
              f"{ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f}", flush=True)


def slots(size, rounds):
    ratios = []
    for _ in range(rounds):
        one = statistics.median(times(ours(size, threads=2))["wall"])
        pair = [ours(size), ours(size)]
        two = sum(1 / statistics.median(times(process)["wall"]) for process in pair)
        ratios.append(two * one)
    ratios.sort()
    print(f"{size}: two slots of one thread, steps a second beside one slot of two threads, min / median / max of {rounds} rounds: "
          f"{ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f}", flush=True)


def main():
    if sys.argv[1:2] == ["--peer"]:
        return peer(*map(int, sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--sizes", default="tiny,small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", action="store_true")
    arguments = parser.parse_args()
    if arguments.setup:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", PEER, "--upgrade", *PACKAGES], check=True)
    if not os.path.exists(OURS):
        sys.exit(f"{OURS} is not there: cmake --build {os.path.relpath(BUILD)} --target train_step_bench")
    if not arguments.slots and not os.path.isdir(os.path.join(PEER, "transformers")):
        sys.exit("the peer is not installed: deploy/bench/train_step.py --setup")
    print(f"{machine()}; {busy_cores():.1f} other cores busy")
    for size in arguments.sizes.split(","):
        (slots if arguments.slots else compare)(size, arguments.rounds)


if __name__ == "__main__":
    main()
