"""Writes keys.json: parameter sets in protobuf text format with their canonical form and job key.

    python3 make.py keys.json

Python's standard library only. The encoding is written again from its description in proto/canonical.h, and the fields,
numbers and defaults below are copied by hand from proto/iclsweep/v1/params.proto, so this shares no code with the C++.
"""
import hashlib
import json
import struct
import sys

FORMAT_VERSION = 1
NUMERICS_VERSION = {"train": 1, "evaluate": 1, "compare": 1, "theory": 1, "noop": 1}

ENUMS = {
    "FAMILY_LINEAR": 1, "FAMILY_SPARSE_LINEAR": 2, "FAMILY_NOISY_LINEAR": 3, "FAMILY_RELU_2NN": 4, "FAMILY_QUADRATIC": 5,
    "FAMILY_DECISION_TREE": 6,
    "MODEL_SIZE_CUSTOM": 1, "MODEL_SIZE_TINY": 2, "MODEL_SIZE_SMALL": 3, "MODEL_SIZE_STANDARD": 4,
    "SCHEDULE_CONSTANT": 1, "SCHEDULE_COSINE": 2,
    "GEOMETRY_INDEPENDENT": 1, "GEOMETRY_ANGLE": 2, "GEOMETRY_CLUSTERED": 3,
    "TASK_SET_FIXED": 1, "TASK_SET_FRESH": 2,
    "COMPARE_PROTOCOL_ANCHORED": 1,
}

# field: (number, kind, default) for a scalar, (number, kind) for a list, (number, "m", fields) for a message.
MODEL = {"size": (1, "e", "MODEL_SIZE_CUSTOM"), "layers": (2, "i", 12), "heads": (3, "i", 8), "width": (4, "i", 256),
         "positions": (5, "i", 0), "init_std": (6, "d", 0.02)}
DATA = {"family": (1, "e", "FAMILY_LINEAR"), "dims": (2, "i", 20), "noise_std": (3, "d", 0.0), "eigenvalues": (4, "D"),
        "sparsity": (5, "i", 3), "hidden": (6, "i", 100), "depth": (7, "i", 4)}
CURRICULUM = {"dims_start": (1, "i", 0), "dims_increment": (2, "i", 1), "dims_interval": (3, "i", 2000),
              "points_start": (4, "i", 0), "points_increment": (5, "i", 2), "points_interval": (6, "i", 2000)}
TRAIN = {"points": (1, "i", 41), "steps": (2, "i", 500000), "batch": (3, "i", 64), "learning_rate": (4, "d", 1e-4),
         "warmup_steps": (5, "i", 0), "schedule": (6, "e", "SCHEDULE_CONSTANT"), "beta1": (7, "d", 0.9),
         "beta2": (8, "d", 0.999), "epsilon": (9, "d", 1e-8), "curriculum": (10, "m", CURRICULUM),
         "curve_interval": (11, "i", 100), "validation_prompts": (12, "i", 2048)}
PROMPT = {"tasks": (1, "i", 5), "examples_per_task": (2, "i", 5), "geometry": (3, "e", "GEOMETRY_INDEPENDENT"),
          "angle_degrees": (4, "d", 0.0), "task_order": (5, "I"), "task_set": (6, "e", "TASK_SET_FIXED"),
          "seed": (7, "i", 0), "data": (8, "m", DATA), "allow_extrapolation": (9, "b", False)}
EVALUATE = {"prompts": (1, "i", 3200), "seed": (2, "i", 0), "pretraining_length": (3, "i", 0),
            "pretraining_noise_std": (4, "d", 0.0), "ridge_lambda": (5, "d", 0.0),
            "lasso_alpha": (6, "d", 0.0)}
THEORY = {"pretraining_length": (1, "i", 0), "pretraining_noise_std": (2, "d", 0.0)}
COMPARE = {"protocol": (1, "e", "COMPARE_PROTOCOL_ANCHORED"), "anchors": (2, "i", 3), "tasks": (3, "i", 192),
           "queries": (4, "i", 8), "learning_rates": (5, "D"), "tune_tasks": (6, "i", 0), "seed": (7, "i", 0),
           "improvement": (8, "d", 0.5)}
NOOP = {"index": (1, "i", 0), "microseconds": (2, "i", 0)}
STAGES = {
    "train": {"model": (1, "m", MODEL), "data": (2, "m", DATA), "train": (3, "m", TRAIN), "seed": (4, "i", 0)},
    "evaluate": {"prompt": (1, "m", PROMPT), "evaluate": (2, "m", EVALUATE)},
    "compare": {"prompt": (1, "m", PROMPT), "compare": (2, "m", COMPARE)},
    "theory": {"prompt": (1, "m", PROMPT), "theory": (2, "m", THEORY)},
    "noop": {"noop": (1, "m", NOOP)},
}


def scalar(kind, value):
    if kind == "i":
        return struct.pack(">q", value)
    if kind == "e":
        return struct.pack(">q", ENUMS[value])
    if kind == "b":
        return b"\1" if value else b"\0"
    if kind == "d":
        return struct.pack(">d", 0.0 if value == 0 else value)
    raise ValueError(kind)


def form(fields, values):
    records = []
    for name, value in values.items():
        number, kind, *rest = fields[name]
        if kind == "m":
            payload = form(rest[0], value)
            keep = payload != b""
        elif kind.isupper():
            payload = b"".join(struct.pack(">Q", len(e)) + e for e in (scalar(kind.lower(), v) for v in value))
            keep = len(value) > 0
        else:
            payload = scalar(kind, value)
            keep = payload != scalar(kind, rest[0])
        if keep:
            records.append((number, struct.pack(">I", number) + kind.encode() + struct.pack(">Q", len(payload)) + payload))
    return b"".join(record for _, record in sorted(records))


def job_key(stage, canonical, dependencies, fast):
    parts = [struct.pack(">I", FORMAT_VERSION), stage.encode(), struct.pack(">I", NUMERICS_VERSION[stage]),
             b"fast" if fast else b"strict", canonical, *dependencies]
    return hashlib.sha256(b"".join(struct.pack(">Q", len(p)) + p for p in parts)).digest()


def text(fields, values, indent=""):
    lines = []
    for name, value in values.items():
        kind = fields[name][1]
        if kind == "m":
            lines += [f"{indent}{name} {{", *text(fields[name][2], value, indent + "  "), f"{indent}}}"]
            continue
        for element in value if kind.isupper() else [value]:
            shown = repr(element) if kind in "dD" else str(element).lower() if kind == "b" else str(element)
            lines.append(f"{indent}{name}: {shown}")
    return lines


TINY = {"layers": 3, "heads": 2, "width": 64}
QUICK = {"model": TINY, "data": {"dims": 3}, "train": {"points": 16, "steps": 1500, "learning_rate": 1e-3}, "seed": 2}
PAPER_PROMPT = {"tasks": 5, "examples_per_task": 19, "geometry": "GEOMETRY_ANGLE", "angle_degrees": 45.0,
                "task_order": [4, 3, 2, 1, 0]}

# (name, stage, values, names of the sets it depends on, fast)
SETS = [
    ("train, nothing set", "train", {}, [], False),
    ("train, every default written", "train",
     {"seed": 0, "train": {"points": 41, "steps": 500000, "batch": 64, "learning_rate": 1e-4, "warmup_steps": 0,
                           "schedule": "SCHEDULE_CONSTANT", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
                           "curriculum": {"dims_start": 0, "points_increment": 2}, "curve_interval": 100,
                           "validation_prompts": 2048},
      "data": {"family": "FAMILY_LINEAR", "dims": 20, "noise_std": 0.0, "eigenvalues": []},
      "model": {"size": "MODEL_SIZE_CUSTOM", "layers": 12, "heads": 8, "width": 256, "positions": 0, "init_std": 0.02}},
     [], False),
    ("train, seed 1", "train", {"seed": 1}, [], False),
    ("train, largest seed", "train", {"seed": 2**63 - 1}, [], False),
    ("train, negative seed", "train", {"seed": -1}, [], False),
    ("train, tiny", "train", {"model": dict(TINY, positions=41)}, [], False),
    ("train, tiny, fast", "train", {"model": dict(TINY, positions=41)}, [], True),
    ("train, quick", "train", QUICK, [], False),
    ("train, quick, sections in another order", "train", dict(reversed(list(QUICK.items()))), [], False),
    ("train, Garg's curriculum", "train",
     {"train": {"points": 41, "curriculum": {"dims_start": 5, "points_start": 11}}}, [], False),
    ("train, cosine", "train",
     {"train": {"schedule": "SCHEDULE_COSINE", "warmup_steps": 100, "beta2": 0.99, "epsilon": 5e-324}}, [], False),
    ("train, negative zero noise", "train", {"data": {"noise_std": -0.0}}, [], False),
    ("train, infinite noise", "train", {"data": {"noise_std": float("inf")}}, [], False),
    ("train, eigenvalues", "train", {"data": {"dims": 4, "eigenvalues": [0.5, 1.0, 2.0, -0.0]}}, [], False),
    ("evaluate, nothing set", "evaluate", {}, ["train, nothing set"], False),
    ("evaluate, nothing set, no dependency", "evaluate", {}, [], False),
    ("evaluate, two dependencies", "evaluate", {}, ["train, quick", "train, nothing set"], False),
    ("evaluate, two dependencies swapped", "evaluate", {}, ["train, nothing set", "train, quick"], False),
    ("evaluate, paper", "evaluate", {"prompt": PAPER_PROMPT, "evaluate": {"pretraining_length": 101}},
     ["train, tiny"], False),
    ("evaluate, paper, fast", "evaluate", {"prompt": PAPER_PROMPT, "evaluate": {"pretraining_length": 101}},
     ["train, tiny, fast"], True),
    ("evaluate, identity order written", "evaluate", {"prompt": {"task_order": [0, 1, 2, 3, 4]}}, ["train, tiny"], False),
    ("evaluate, own data", "evaluate",
     {"prompt": {"data": {"dims": 7, "noise_std": 0.1}, "allow_extrapolation": True, "task_set": "TASK_SET_FRESH"},
      "evaluate": {"prompts": 100000, "seed": 12, "pretraining_noise_std": 0.25, "ridge_lambda": 1e-2}},
     ["train, quick"], False),
    ("compare, nothing set", "compare", {}, ["train, quick"], False),
    ("compare, rates", "compare",
     {"prompt": {"tasks": 3}, "compare": {"anchors": 2, "learning_rates": [0.0005, 0.001, 0.002], "queries": 4}},
     ["train, quick"], False),
    ("compare, rates in another order", "compare",
     {"prompt": {"tasks": 3}, "compare": {"anchors": 2, "learning_rates": [0.002, 0.001, 0.0005], "queries": 4}},
     ["train, quick"], False),
    ("compare, protocol written", "compare",
     {"compare": {"protocol": "COMPARE_PROTOCOL_ANCHORED", "improvement": 0.25, "tune_tasks": 32, "seed": 5}},
     ["train, quick"], False),
    ("theory, nothing set", "theory", {}, [], False),
    ("theory, paper", "theory", {"prompt": PAPER_PROMPT, "theory": {"pretraining_length": 101}}, [], False),
    ("theory, clustered", "theory",
     {"prompt": {"geometry": "GEOMETRY_CLUSTERED", "seed": 42, "data": {}},
      "theory": {"pretraining_noise_std": 0.30000000000000004}}, [], False),
    ("train, sparse", "train", {"data": {"family": "FAMILY_SPARSE_LINEAR"}}, [], False),
    ("train, sparse, defaults of the families written", "train",
     {"data": {"family": "FAMILY_SPARSE_LINEAR", "sparsity": 3, "hidden": 100, "depth": 4}}, [], False),
    ("train, noisy", "train", {"data": {"family": "FAMILY_NOISY_LINEAR", "noise_std": 1.0}}, [], False),
    ("train, wide network", "train", {"data": {"family": "FAMILY_RELU_2NN", "hidden": 200}}, [], False),
    ("train, deep tree", "train", {"data": {"family": "FAMILY_DECISION_TREE", "depth": 6}}, [], False),
    ("train, quadratic", "train", {"data": {"family": "FAMILY_QUADRATIC"}}, [], False),
    ("evaluate, sparse", "evaluate",
     {"prompt": {"data": {"family": "FAMILY_SPARSE_LINEAR", "sparsity": 5}}, "evaluate": {"lasso_alpha": 0.01}},
     ["train, sparse"], False),
    ("noop", "noop", {"noop": {"index": 123456789, "microseconds": 1000}}, [], False),
]


def main(path):
    assert len(SETS) == 37
    keys, out = {}, []
    for name, stage, values, depends_on, fast in SETS:
        canonical = form(STAGES[stage], values)
        dependencies = [keys[d] for d in depends_on]
        keys[name] = job_key(stage, canonical, dependencies, fast)
        out.append({"name": name, "stage": stage, "fast": fast, "inputs": text(STAGES[stage], values),
                    "dependencies": [d.hex() for d in dependencies], "form": canonical.hex(), "key": keys[name].hex()})
    with open(path, "w", encoding="ascii") as file:
        json.dump(out, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
