#!/usr/bin/env python3
"""A trained checkpoint, opened by Hugging Face's `transformers`: every tensor has its place, and the errors that GPT2Model makes on prompts drawn
here agree with those that `train` measured on its own, at every point, within four standard errors of their difference.
Skipped where the library is not installed (`deploy/bench/train_step.py --setup`)."""
import glob
import json
import os
import subprocess
import sys
import unittest

from cluster import ROOT, Folder, cli, rows

PEER = os.path.join(ROOT, ".deps", "bench")

SWEEP = """
name: opened
model: {layers: 2, heads: 2, width: 32, init_std: 0.08}
data: {dims: 3}
train: {points: 10, steps: 1200, learning_rate: 3e-3, validation_prompts: 8192}
"""

# Runs with the library; prints what it found as JSON.
READER = """
import json, sys, torch
from safetensors.torch import load_file
from transformers import GPT2Model
folder, points, prompts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model, info = GPT2Model.from_pretrained(folder, key_mapping={r'^_backbone\\.': ''}, output_loading_info=True, attn_implementation='eager')
weights = load_file(folder + '/model.safetensors')
dims = weights['_read_in.weight'].shape[1]
torch.manual_seed(1)
xs, w = torch.randn(prompts, points, dims), torch.randn(prompts, dims, 1)
ys = (xs @ w)[:, :, 0]
wide = torch.cat([ys[:, :, None], torch.zeros(prompts, points, dims - 1)], dim=2)
tokens = torch.stack([xs, wide], dim=2).view(prompts, 2 * points, dims)
with torch.no_grad():
    hidden = model.eval()(inputs_embeds=tokens @ weights['_read_in.weight'].T + weights['_read_in.bias']).last_hidden_state
    read_out = (hidden @ weights['_read_out.weight'].T + weights['_read_out.bias'])[:, ::2, 0]
squared = (read_out - ys) ** 2
print(json.dumps({'missing': sorted(info['missing_keys']), 'unexpected': sorted(info['unexpected_keys']),
                  'mismatched': sorted(str(key) for key in info['mismatched_keys']), 'error': squared.mean(0).tolist(),
                  'standard_error': (squared.std(0) / prompts ** 0.5).tolist()}))
"""


@unittest.skipUnless(os.path.isdir(os.path.join(PEER, "transformers")), "transformers is not installed (deploy/bench/train_step.py --setup)")
class TransformersTest(unittest.TestCase):
    def test_checkpoint_opens_and_predicts_as_it_was_measured(self):
        folder = Folder()
        self.addCleanup(folder.close)
        data = folder / "data"
        sweep = folder / "opened.yaml"
        with open(sweep, "w", encoding="utf-8") as file:
            file.write(SWEEP)
        cli("run", sweep, "--data", data)
        (checkpoint,) = glob.glob(os.path.join(data, "artifacts", "*", ""))
        ours = rows(data, "SELECT position, value, standard_error FROM results WHERE stage = 'train' AND predictor = 'model' AND "
                          "name = 'error' AND position >= 0 ORDER BY position")
        self.assertEqual([row[0] for row in ours], list(range(10)))
        environment = dict(os.environ, PYTHONPATH=PEER, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="2")
        out = subprocess.run([sys.executable, "-c", READER, checkpoint.rstrip("/"), "10", "8192"], env=environment, check=True,
                             capture_output=True, text=True).stdout
        theirs = json.loads(out.splitlines()[-1])
        # Token embeddings have no use: inputs are vectors.
        self.assertLessEqual(set(theirs["missing"]), {"wte.weight"})
        self.assertLessEqual({name.split(".")[0] for name in theirs["unexpected"]}, {"_read_in", "_read_out"})
        self.assertEqual(theirs["mismatched"], [])
        for (position, value, error), other, other_error in zip(ours, theirs["error"], theirs["standard_error"]):
            self.assertLess(abs(value - other), 4 * (error**2 + other_error**2) ** 0.5, f"point {position}: {value} and {other}")
        self.assertLess(ours[-1][1], 0.9 * ours[0][1], "the model has learned something")


if __name__ == "__main__":
    unittest.main(verbosity=2)
