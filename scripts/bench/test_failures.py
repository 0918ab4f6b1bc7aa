"""Goal: the page of failures has every repeat, the median and the worst, worst being the most or the least as it should."""

import unittest

from failures import rebuild_rate
from failures_page import page
from processes import ProcessError
from test_result import MADE

REPEAT = {
    "replica_stall_s": 0.5,
    "replica_slowest_s": 0.5,
    "replica_redundancy_s": 30,
    "owner_stall_s": 2,
    "owner_slowest_s": 2,
    "idle_mib_s": 400,
    "idle_redundancy_s": 30,
    "rebuild_loaded_mib_s": 100,
    "rebuild_silence_s": 0.1,
    "medium_mib_s": 1000,
    "undisturbed_p50_ms": 1,
    "rebuild_p50_ms": 1,
    "undisturbed_p99_ms": 2,
    "rebuild_p99_ms": 5,
    "others_percent": 3,
    "steal_percent": 0.2,
}


class Failures(unittest.TestCase):
    def test_medians_and_worst_values(self):
        repeats = [REPEAT, {**REPEAT, "owner_stall_s": 3, "idle_mib_s": 300}, {**REPEAT, "owner_stall_s": 1.5, "idle_mib_s": 500}]
        text = page({**MADE, "rate": 2000}, repeats)
        self.assertIn("| The owner's host dies: longest time without any answer, s | 2 | 3 | 1.5 | 2 | 3 |", text)
        # The least is the worst of rates.
        self.assertIn("| Rebuild without load: MiB/s | 400 | 300 | 500 | 400 | 300 |", text)
        self.assertIn("40.0 % without load, 10.0 % beside it", text)
        self.assertIn("2.5 times the undisturbed one", text)

    def test_a_rebuild_that_nobody_saw_has_no_rate(self):
        self.assertEqual(rebuild_rate(100, 10, 12), 50)
        for copied, filling in ((100, None), (0, 10), (-5, 10)):
            with self.assertRaises(ProcessError):
                rebuild_rate(copied, filling, 12)
