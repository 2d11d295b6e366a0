#!/usr/bin/env python3
"""The science, measured through the whole path: the quickstart's models have learned, continual prompts show the directions
that trained models show, and linear attention measured in `evaluate` agrees with its closed form."""
import os
import sys
import unittest

from cluster import Folder, cli, rows

LEARN = """
name: learn
grid:
  model.layers: [2, 3]
  prompt.angle_degrees: [0, 45, 90]
  prompt.examples_per_task: [1, 2, 4]
model: {heads: 4, width: 64, init_std: 0.07}
data: {dims: 3}
train: {points: 16, steps: 1500, learning_rate: 1e-3, warmup_steps: 100, schedule: cosine, validation_prompts: 4096}
prompt: {tasks: 3, geometry: angle}
evaluate: {prompts: 4096}
"""

# Independent tasks, one set per prompt: the setting of the measured direction checks.
DIRECTIONS = LEARN.replace("name: learn", "name: directions").replace(
    "  prompt.angle_degrees: [0, 45, 90]\n", "  prompt.angle_degrees: [0, 60, 90]\n").replace(
    "geometry: angle", "geometry: angle, task_set: fresh")

AGREE = """
name: agree
grid:
  prompt.task_order: {permutations: all}
  prompt.angle_degrees: [0, 45, 90]
  prompt.examples_per_task: [1, 2]
model: {layers: 2, heads: 2, width: 32, init_std: 0.08}
data: {dims: 2, noise_std: 0.3}
train: {points: 8, steps: 20, learning_rate: 3e-3, validation_prompts: 64}
prompt: {tasks: 2, geometry: angle}
evaluate: {prompts: 16384}
theory: {}
"""


class ScienceTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)
        self.data = self.folder / "data"

    def run_sweep(self, text, name):
        path = self.folder / (name + ".yaml")
        with open(path, "w") as file:
            file.write(text)
        cli("run", path, "--data", self.data, "--workers", "2")

    def mean(self, sweep, layers, angle, examples, name, task=-1):
        """A measurement of the model and its standard error, in units of the zero predictor's error on the same prompts."""
        (value, error), = rows(
            self.data, "SELECT value, standard_error FROM results WHERE sweep = ? AND stage = 'evaluate' AND layers = ? AND "
            "angle_degrees = ? AND examples_per_task = ? AND predictor = 'model' AND name = ? AND position = ?",
            sweep, layers, angle, examples, name, task)
        (zero,), = rows(
            self.data, "SELECT value FROM results WHERE sweep = ? AND stage = 'evaluate' AND layers = ? AND angle_degrees = ? AND "
            "examples_per_task = ? AND predictor = 'zero' AND name = 'G' AND position = -1", sweep, layers, angle, examples)
        return value / zero, error / zero

    def test_quickstart_models_have_learned_and_show_the_measured_directions(self):
        self.run_sweep(LEARN, "learn")
        for layers, bound in ((2, 0.30), (3, 0.15)):
            (last,), = rows(
                self.data, "SELECT DISTINCT m.value / z.value FROM results AS m JOIN results AS z USING (sweep, cell, stage, name, "
                "position) WHERE m.sweep = 'learn' AND m.stage = 'train' AND m.layers = ? AND m.name = 'error' AND position = 15 "
                "AND m.predictor = 'model' AND z.predictor = 'zero'", layers)
            print(f"{layers} layers: normalised error at the last point {last:.3f} (at most {bound})")
            self.assertLessEqual(last, bound)
            flat, similar = (self.mean("learn", layers, angle, 4, "G")[0] for angle in (0, 45))
            print(f"{layers} layers, M = 4: mean G at 0 degrees {flat:.3f}, at 45 degrees {similar:.3f}")
            self.assertGreater(similar, 2 * flat)
        self.run_sweep(DIRECTIONS, "directions")
        for layers in (2, 3):
            self.check_directions(layers)

    def check_directions(self, layers):
        at = lambda examples, name, position: self.mean("directions", layers, 90, examples, name, position)[0]
        self.assertGreater(at(1, "G", 0), 2 * at(4, "G", 0), "the first task's error falls with M")
        for examples in (1, 2, 4):
            self.assertGreater(at(examples, "NT", 2), 0.2, f"negative transfer to the third task at M = {examples}")
        self.assertLess(at(4, "F", 2), 0.05 * at(4, "F", 0), "the last task hardly drifts")
        self.assertGreater(at(1, "delta_E", 0), 0.1, "the first task is forgotten")
        mean = lambda angle: self.mean("directions", layers, angle, 4, "G")[0]
        self.assertGreater(mean(60), 2 * mean(0), "dissimilar tasks disturb each other")

    def test_linear_attention_agrees_with_its_closed_form_within_four_standard_errors(self):
        self.run_sweep(AGREE, "agree")
        pairs = rows(
            self.data, "SELECT e.predictor, e.name, e.cell, e.task, e.value, e.standard_error, t.value FROM results AS e JOIN results AS "
            "t ON t.sweep = e.sweep AND t.cell = e.cell AND t.stage = 'theory' AND t.predictor = e.predictor AND t.name = e.name AND "
            "t.task = e.task AND t.position = e.position WHERE e.sweep = 'agree' AND e.stage = 'evaluate' AND e.predictor IN ('lsa', 'msa')")
        self.assertGreaterEqual(len(pairs), 12 * 2 * 12)
        worst = 0.0
        for predictor, name, cell, task, value, error, theory in pairs:
            if abs(value - theory) <= 1e-9 * max(1.0, abs(theory)):
                continue  # exactly zero by construction, such as NT of a task that is alone
            self.assertGreater(error, 0, (predictor, name, cell, task))
            z = abs(value - theory) / error
            worst = max(worst, z)
            self.assertLessEqual(z, 4, f"{predictor} {name}, cell {cell}, task {task}: {value} +- {error}, theory {theory}")
        print(f"{len(pairs)} measurements, largest |z| {worst:.2f}")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
