"""Goal: a stall is found where it was, whole, and percentiles are of the window's own requests."""

import unittest

import load
from windows import latency_percentile, longest_silence, slowest

# A request every second, answered 0.1 s later; those due at 5, 6 and 7 are answered at 8.1.
RECORDS = [(due, due + 0.1) for due in range(5)] + [(5, 8.1), (6, 8.1), (7, 8.1)] + [(due, due + 0.1) for due in range(8, 12)]
RECORDS.sort(key=lambda record: record[1])


class Windows(unittest.TestCase):
    def test_a_stall_is_told_whole(self):
        self.assertAlmostEqual(longest_silence(RECORDS, 5, 9), 4.0)
        # Also where the window has only a part of it.
        self.assertAlmostEqual(longest_silence(RECORDS, 6, 6.5), 4.0)
        self.assertAlmostEqual(longest_silence(RECORDS, 8.5, 11), 1.0)
        self.assertEqual(longest_silence([], 0, 9), 0)

    def test_the_slowest_request_may_have_begun_before(self):
        self.assertAlmostEqual(slowest(RECORDS, 6.5, 7), 3.1)
        self.assertAlmostEqual(slowest(RECORDS, 8.5, 12), 0.1)

    def test_percentiles_are_of_requests_due_within(self):
        self.assertAlmostEqual(latency_percentile(RECORDS, 0, 5, 99), 0.1)
        self.assertAlmostEqual(latency_percentile(RECORDS, 5, 8, 50), 2.1)
        self.assertAlmostEqual(latency_percentile(RECORDS, 5, 8, 99), 3.1)
        with self.assertRaises(ValueError):
            latency_percentile(RECORDS, 100, 200, 99)


class Content(unittest.TestCase):
    def test_every_write_of_every_block_is_another_content(self):
        seen = {load.content(block, version) for block in range(4) for version in range(4)}
        # Version 0 is the zeroes of a block that was never written.
        self.assertEqual(len(seen), 4 * 3 + 1)
        self.assertEqual({len(content) for content in seen}, {load.BLOCK})
