#!/usr/bin/env python3
"""What a sweep will cost: without a history, with one, and beside what it took."""
import json
import unittest

from cluster import Folder, cli


class PlanTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)
        self.data = self.folder / "data"

    def sweep(self, name, first, end):
        with open(self.folder / f"{name}.yaml", "w", encoding="utf-8") as file:
            file.write(f"name: {name}\ngrid: {{noop.index: {{range: [{first}, {end}]}}}}\nnoop: {{microseconds: 2000}}\n")
        return self.folder / f"{name}.yaml"

    def forecast(self, sweep, *arguments):
        return json.loads(cli("plan", sweep, "--data", self.data, "--json", *arguments))["forecast"]

    def test_expected_time_is_stored_and_stands_beside_what_it_took(self):
        first, second = self.sweep("first", 0, 40), self.sweep("second", 20, 100)
        before = self.forecast(first)
        self.assertEqual((before["stages"], before["unknown"]), ([], ["noop"]))
        self.assertIn("no time is known for noop", cli("plan", first, "--data", self.data))
        cli("run", first, "--data", self.data)
        self.assertEqual(cli("plan", "--calibration", "--data", self.data), "sweep\tstage\tdevice_kind\tjobs\tjobs_done\texpected_s\tlow_s\thigh_s\t"
                         "measured_s\tratio\tinterval\n")  # nothing was expected of the first one
        after = self.forecast(second, "--workers", "2")
        (stage,) = after["stages"]
        self.assertEqual((stage["stage"], stage["jobs"], stage["jobs_measured"], after["unknown"]), ("noop", 60, 40, []))
        self.assertLess(0, stage["low_s"])
        self.assertLess(stage["low_s"], stage["expected_s"])
        self.assertLess(stage["expected_s"], stage["high_s"])
        self.assertAlmostEqual(after["wall_s"][stage["device_kind"]], stage["expected_s"] / 2)
        cli("run", second, "--data", self.data)
        (row,) = [json.loads(line) for line in cli("plan", "--calibration", "--data", self.data, "--json").splitlines()]
        self.assertEqual((row["sweep"], row["stage"], row["device_kind"], row["jobs"], row["jobs_done"]),
                         ("second", "noop", stage["device_kind"], 60, 60))
        self.assertAlmostEqual(row["expected_s"], stage["expected_s"], places=3)
        self.assertGreaterEqual(row["measured_s"], 0.12)  # 60 jobs that wait 2 ms
        self.assertIn(row["interval"], ("inside", "faster", "slower"))
        self.assertEqual(self.forecast(second)["stages"], [])  # nothing is left

    def test_a_file_or_calibration_is_needed(self):
        for arguments in ((), (self.sweep("first", 0, 1), "--calibration")):
            cli("plan", *arguments, "--data", self.data, expect=2)
        cli("plan", "--calibration", "--data", self.data, expect=3)  # no database


if __name__ == "__main__":
    unittest.main(verbosity=2)
