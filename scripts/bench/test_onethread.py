"""Goal: the load of one thread asks for what the row says, and its JSON is read as it is meant."""

import json
import unittest

import onethread
from fio import FioError, Job


def side(requests, mean_ns):
    return {"requests": requests, "lat": {"mean_ns": mean_ns if requests else None}}


def told(streams, complete=True):
    """A result of writes: [(requests, mean in ns)] of each disk."""
    requests = sum(count for count, _ in streams)
    mean = sum(count * mean for count, mean in streams) / requests if requests else None
    total = {"requests": requests, "iops": requests / 2, "bytes_per_s": requests * 2048, "lat": {"mean_ns": mean}}
    total["bins"] = {str(mean): count for count, mean in streams if count}
    each = [{"target": f"t{n}", "read": side(0, 0), "write": side(*stream)} for n, stream in enumerate(streams)]
    return json.dumps({"complete": complete, "doubts": ["it broke"], "total": total, "streams": each})


class Parsing(unittest.TestCase):
    def test_all_disks_together_and_each_by_itself(self):
        outcome = onethread.parse(told([(300, 1000), (100, 5000)]))
        self.assertEqual((outcome.ios, outcome.iops, outcome.mean_us), (400, 200, 2))
        self.assertEqual((outcome.p50_us, outcome.p99_us), (1, 5))
        self.assertEqual(outcome.job_means_us, [1, 5])
        self.assertAlmostEqual(outcome.mib_s, 400 * 2048 / 1048576)

    def test_what_broke_or_did_nothing_is_no_number(self):
        with self.assertRaisesRegex(FioError, "it broke"):
            onethread.parse(told([(1, 1)], complete=False))
        with self.assertRaisesRegex(FioError, "t1: the load did nothing"):
            onethread.parse(told([(1, 1), (0, 0)]))


class Command(unittest.TestCase):
    def test_a_job_is_asked_for_on_every_disk(self):
        line = onethread.command("p", Job("randwrite", "4k", 1, 3, mib=420), ["nbd+unix:///a?socket=s", "nbd+unix:///b?socket=s"], 4)
        self.assertEqual(line[:2], ["p", "load"])
        self.assertEqual(line[-2:], ["nbd+unix:///a?socket=s", "nbd+unix:///b?socket=s"])
        for word in ("--read=0", "--outstanding=1", "--span=4MiB", "--time=3", "--bytes=420MiB", "--ramp=0", "--destructive"):
            self.assertIn(word, line)

    def test_a_mix_reads_as_fios_does_and_destroys(self):
        line = onethread.command("p", Job("randrw", "4k", 32, 3), ["t"], 4)
        self.assertIn(f"--read={Job('randrw', '4k', 32, 3).read_percent}", line)
        self.assertIn("--destructive", line)

    def test_a_load_that_reads_destroys_nothing(self):
        self.assertNotIn("--destructive", onethread.command("p", Job("randread", "4k", 1, 3), ["t"], 4))

    def test_other_jobs_are_refused(self):
        with self.assertRaises(ValueError):
            onethread.command("p", Job("write", "4k", 1, 3), ["t"], 4)


if __name__ == "__main__":
    unittest.main()
