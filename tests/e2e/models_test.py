#!/usr/bin/env python3
"""Models trained elsewhere: a folder in train.checkpoint, and deploy/models/ that makes one of a .pt."""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

from cluster import ICLSWEEP, ROOT, Folder, cli, environment, rows

GOLDEN = os.path.join(ROOT, "tests", "golden", "garg_pt")
FROM_GARG = os.path.join(ROOT, "deploy", "models", "from_garg.py")

TRAINED = """
name: trained
model: {layers: 1, heads: 2, width: 16}
data: {dims: 3}
seed: 5
train: {points: 10, steps: 40, validation_prompts: 64}
prompt: {tasks: 2, examples_per_task: 2}
evaluate: {prompts: 64}
"""


def tensors(path):
    """Name -> (dtype, shape, bytes) of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    buffer = data[8 + length:]
    return {name: (entry["dtype"], entry["shape"], buffer[slice(*entry["data_offsets"])]) for name, entry in header.items()}


class ModelsTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)
        self.data = self.folder / "data"

    def write(self, text, name="sweep.yaml"):
        with open(self.folder / name, "w", encoding="utf-8") as file:
            file.write(text)
        return self.folder / name

    def convert(self, *arguments):
        return subprocess.run([sys.executable, FROM_GARG, *arguments], capture_output=True, text=True, cwd=self.folder.path)

    def evaluated(self, data):
        return rows(data, "SELECT predictor, name, task, position, value FROM results WHERE stage = 'evaluate' ORDER BY 1, 2, 3, 4")

    def test_taken_model_is_evaluated_as_where_it_was_trained(self):
        cli("run", self.write(TRAINED), "--data", self.data)
        (checkpoint,) = glob.glob(os.path.join(self.data, "artifacts", "*", ""))
        shutil.move(checkpoint, self.folder / "model")  # a path relative to the sweep file
        other = self.folder / "other"
        taken = self.write("name: taken\nseed: 5\ntrain: {checkpoint: model, validation_prompts: 64}\n"
                           "prompt: {tasks: 2, examples_per_task: 2}\nevaluate: {prompts: 64}\n")
        cli("run", taken, "--data", other)
        self.assertGreater(len(self.evaluated(other)), 20)
        self.assertEqual(self.evaluated(other), self.evaluated(self.data))
        error = "SELECT position, value FROM results WHERE stage = 'train' AND predictor = 'model' ORDER BY position"
        self.assertEqual(rows(other, error), rows(self.data, error))
        # The same sweep again, and a change of what it asks, without the folder.
        shutil.rmtree(self.folder / "model")
        self.assertEqual(self.refused("run", taken, "--data", other), 1)
        (kept,) = os.listdir(os.path.join(other, "artifacts", "imported"))
        again = self.write(f"name: again\nseed: 5\ntrain: {{checkpoint: 'sha256:{kept}', validation_prompts: 64}}\n"
                           "prompt: {tasks: 2, examples_per_task: 2}\nevaluate: {prompts: 64}\n")
        self.assertIn("nothing to run", cli("run", again, "--data", other))

    def refused(self, *arguments):
        """Exit 2 with one line, whose number of lines is returned."""
        done = subprocess.run([ICLSWEEP, *arguments], capture_output=True, text=True, env=environment())
        self.assertEqual(done.returncode, 2, done.stderr)
        return len(done.stderr.strip().splitlines())

    def test_bad_folder_is_refused_before_anything_is_made(self):
        os.makedirs(self.folder / "empty")
        for folder in ("empty", "nowhere"):
            sweep = self.write(f"name: x\ntrain: {{checkpoint: {folder}}}\n")
            for command in ("plan", "run"):
                self.assertEqual(self.refused(command, sweep, "--data", self.data), 1)
        self.assertFalse(os.path.exists(self.data))

    def test_pt_of_gargs_code_becomes_a_folder_with_the_same_weights(self):
        done = self.convert(os.path.join(GOLDEN, "state.pt"), "model")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 layers, 2 heads, width 8, 7 positions, 3 dims, trained on 6 points", done.stdout)
        expected = tensors(os.path.join(GOLDEN, "expected.safetensors"))
        for extra in ("xs", "ys", "pred"):
            expected.pop(extra)
        self.assertEqual(tensors(self.folder / "model/model.safetensors"), expected)
        sweep = self.write("name: garg\ntrain: {checkpoint: model, validation_prompts: 64}\nprompt: {tasks: 1, examples_per_task: 2}\n"
                           "evaluate: {prompts: 64}\n")
        cli("run", sweep, "--data", self.data)
        (published,) = glob.glob(os.path.join(self.data, "artifacts", "[0-9a-f]*", "model.safetensors"))
        self.assertEqual(tensors(published), expected)
        self.assertEqual(rows(self.data, "SELECT count(*) FROM results WHERE stage = 'train' AND predictor = 'model'"), [(6,)])

    def test_converter_says_what_is_wrong_in_one_line(self):
        state = os.path.join(GOLDEN, "state.pt")
        shutil.copy(state, self.folder / "alone.pt")
        self.write("not an archive", "junk.pt")
        cases = [(("alone.pt", "out"), "give --n-head"), (("alone.pt", "out", "--n-head", "3"), "3 heads do not divide the width 8"),
                 (("junk.pt", "out", "--n-head", "2"), "is not a file of torch.save"), (("gone.pt", "out", "--n-head", "2"), "no such file"),
                 (("alone.pt", "out", "--n-head", "2", "--trained-points", "9"), "has room for 7"), (("alone.pt", "."), "exists already")]
        for arguments, message in cases:
            with self.subTest(message):
                done = self.convert(*arguments)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(message, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertFalse(os.path.exists(self.folder / "out"))

    def test_converter_runs_no_code_of_the_file(self):
        import pickle
        import zipfile

        class Attack:
            def __reduce__(self):
                return os.mkdir, (os.path.join(folder, "attacked"),)

        folder = self.folder.path
        with zipfile.ZipFile(self.folder / "evil.pt", "w") as archive:
            archive.writestr("x/data.pkl", pickle.dumps(Attack(), protocol=2))
        done = self.convert("evil.pt", "out", "--n-head", "2")
        self.assertEqual(done.returncode, 2)
        self.assertIn("which weights do not need", done.stderr)
        self.assertFalse(os.path.exists(self.folder / "attacked"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
