#!/usr/bin/env python3
"""Makes of a model of Garg et al.'s code (github.com/dtsip/in-context-learning, arXiv 2208.01066) a folder that a sweep file can name:
    train: {checkpoint: FOLDER}

    from_garg.py STATE.pt FOLDER [--config config.yaml | --n-head N] [--trained-points N]

STATE.pt is a run's state.pt (weights under "model_state_dict") or model_<step>.pt (weights alone). Sizes are the weights' own; the number of heads
is not in them: it comes from the run's config.yaml (beside STATE.pt by default) or from --n-head, the training length from its curriculum's
points.end or --trained-points. Writes model.safetensors (float32) and config.json; refuses a folder that is there.
Needs nothing but Python: the archive that torch.save wrote is read as it is, and no code in it is run."""
import argparse
import collections
import json
import os
import pickle
import re
import shutil
import struct
import sys
import zipfile

UNUSED = re.compile(r"(^|\.)wte\.weight$|\.attn\.(bias|masked_bias)$")  # the word table and the masks of older GPT2Models


def fail(message):
    print(f"from_garg.py: {message}", file=sys.stderr)
    sys.exit(2)


class Storage:
    """Numbers of one type in the archive: struct letter and size."""

    def __init__(self, letter, size):
        self.letter, self.size = letter, size


STORAGES = {"FloatStorage": Storage("f", 4), "DoubleStorage": Storage("d", 8), "HalfStorage": Storage("e", 2), "LongStorage": Storage("q", 8),
            "IntStorage": Storage("i", 4), "ByteStorage": Storage("B", 1), "BoolStorage": Storage("?", 1)}


class Tensor:
    def __init__(self, storage, offset, shape, stride, *_):
        self.storage, self.offset, self.shape, self.stride = storage, offset, tuple(shape), tuple(stride)

    def values(self):
        """All numbers, row-major."""
        kind, data = self.storage
        numbers = struct.unpack(f"<{len(data) // kind.size}{kind.letter}", data)
        indices = [self.offset]
        for count, step in zip(self.shape, self.stride):
            indices = [index + i * step for index in indices for i in range(count)]
        return [numbers[index] for index in indices]


class Reader(pickle.Unpickler):
    """Reads what torch.save wrote and nothing else: no code of the file is run."""

    def __init__(self, file, archive, prefix):
        super().__init__(file)
        self.archive, self.prefix = archive, prefix

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return Tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, *_: data
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        raise pickle.UnpicklingError(f"it holds {module}.{name}, which weights do not need")

    def persistent_load(self, pid):
        _, kind, key, *_ = pid
        return kind, self.archive.read(f"{self.prefix}data/{key}")


def read_state(path):
    try:
        with zipfile.ZipFile(path) as archive:
            (index,) = [name for name in archive.namelist() if name.split("/")[-1] == "data.pkl"]
            with archive.open(index) as file:
                state = Reader(file, archive, index[:-len("data.pkl")]).load()
    except (zipfile.BadZipFile, ValueError):
        fail(f"{path}: is not a file of torch.save (PyTorch 1.6 or newer)")
    except Exception as error:  # a pickle can raise anything
        fail(f"{path}: cannot read it: {error}")
    if isinstance(state, dict) and "model_state_dict" in state:
        state = state["model_state_dict"]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        fail(f"{path}: holds no weights (neither a state dict nor one under model_state_dict)")
    return {name: value for name, value in state.items() if not UNUSED.search(name)}


def read_yaml_number(path, keys):
    """The integer at a path of keys of a plain YAML file (nested mappings by indentation), or None."""
    found, stack = None, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            match = re.match(r"( *)([A-Za-z_]\w*):\s*([^#\s]*)", line)
            if not match:
                continue
            indent, key, value = len(match[1]), match[2], match[3]
            stack = [entry for entry in stack if entry[0] < indent] + [(indent, key)]
            if [entry[1] for entry in stack] == keys and re.fullmatch(r"\d+", value):
                found = int(value)
    return found


def sizes(weights, path):
    try:
        width, dims = weights["_read_in.weight"].shape
        tokens = weights["_backbone.wpe.weight"].shape[0]
    except KeyError as error:
        fail(f"{path}: has no {error.args[0]}: not a GPT-2 of Garg et al.'s code")
    layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("_backbone.h."))
    return {"n_layer": layers, "n_embd": width, "n_positions": tokens}, dims


def write_safetensors(path, weights):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    names = sorted(weights)
    for name in names:
        size = 4
        for count in weights[name].shape:
            size *= count
        header[name] = {"dtype": "F32", "shape": list(weights[name].shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            values = weights[name].values()
            file.write(struct.pack(f"<{len(values)}f", *values))
        file.flush()
        os.fsync(file.fileno())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("state")
    parser.add_argument("folder")
    parser.add_argument("--config", help="the run's config.yaml")
    parser.add_argument("--n-head", type=int)
    parser.add_argument("--trained-points", type=int)
    arguments = parser.parse_args()
    if os.path.exists(arguments.folder):
        fail(f"{arguments.folder} exists already; name a new folder")
    if not os.path.isfile(arguments.state):
        fail(f"{arguments.state}: no such file")
    config_file = arguments.config or os.path.join(os.path.dirname(arguments.state), "config.yaml")
    if arguments.config and not os.path.isfile(config_file):
        fail(f"{config_file}: no such file")
    have = os.path.isfile(config_file)
    heads = arguments.n_head or (read_yaml_number(config_file, ["model", "n_head"]) if have else None)
    points = arguments.trained_points or (read_yaml_number(config_file, ["training", "curriculum", "points", "end"]) if have else None)
    if not heads:
        fail(f"the number of heads is not in the weights: give --n-head, or --config with model.n_head{f' ({config_file} has none)' if have else ''}")
    weights = read_state(arguments.state)
    config, dims = sizes(weights, arguments.state)
    if config["n_embd"] % heads:
        fail(f"{heads} heads do not divide the width {config['n_embd']}")
    config = {"model_type": "gpt2", "architectures": ["GPT2Model"], "activation_function": "gelu_new", **config, "n_head": heads, "n_inner": None,
              "vocab_size": 1, "layer_norm_epsilon": 1e-5, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "use_cache": False}
    if points:
        if 2 * points > config["n_positions"]:
            fail(f"trained on {points} points, but the model has room for {config['n_positions'] // 2}")
        config["trained_points"] = points
    temporary = arguments.folder.rstrip("/") + ".new"
    shutil.rmtree(temporary, ignore_errors=True)
    os.makedirs(temporary)
    write_safetensors(os.path.join(temporary, "model.safetensors"), weights)
    with open(os.path.join(temporary, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
        file.write("\n")
    os.rename(temporary, arguments.folder)
    trained = f", trained on {points} points" if points else ""
    print(f"{arguments.folder}: {config['n_layer']} layers, {heads} heads, width {config['n_embd']}, {config['n_positions'] // 2} positions, {dims} dims{trained}")


if __name__ == "__main__":
    main()
