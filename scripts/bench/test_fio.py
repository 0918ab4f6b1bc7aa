"""Goal: a command line asks for what the row says, and what fio wrote is read as fio means it.

testdata/fio-3.33.json is what fio 3.33 wrote of two mixed jobs on files (psync, 1 MiB each), without the fields that are not read.
"""

import json
import unittest
from pathlib import Path

import fio
from fio import FioError, Job

RECORDED = (Path(__file__).parent / "testdata/fio-3.33.json").read_text()


def recorded(change):
    """The recorded output with a change made to its data."""
    data = json.loads(RECORDED[RECORDED.index("{") :])
    change(data)
    return json.dumps(data)


class Parsing(unittest.TestCase):
    def test_sums_and_means_over_sides_and_jobs(self):
        outcome = fio.parse(RECORDED)
        self.assertEqual(outcome.ios, 184 + 72 + 185 + 71)
        self.assertAlmostEqual(outcome.iops, 14153.846154 + 5538.461538 + 13214.285714 + 5071.428571)
        self.assertAlmostEqual(outcome.mib_s, (57974153 + 22685538 + 54125714 + 20772571) / 1048576)
        first = (184 * 67409.021739 + 72 * 3504.138889) / 256 / 1000
        second = (185 * 68342.145946 + 71 * 4697.802817) / 256 / 1000
        self.assertAlmostEqual(outcome.job_means_us[0], first)
        self.assertAlmostEqual(outcome.mean_us, (first + second) / 2)

    def test_percentiles_are_those_that_fio_counts_itself(self):
        # One side of one job at a time: there fio tells its own.
        for number in (0, 1):
            for side, other in (("read", "write"), ("write", "read")):

                def only(data, number=number, other=other):
                    data["jobs"] = [data["jobs"][number]]
                    data["jobs"][0][other]["total_ios"] = 0

                outcome = fio.parse(recorded(only))
                data = json.loads(RECORDED[RECORDED.index("{") :])
                told = data["jobs"][number][side]["clat_ns"]["percentile"]
                ours = [outcome.p50_us, outcome.p99_us, outcome.p999_us]
                self.assertEqual(ours, [told[key] / 1000 for key in ("50.000000", "99.000000", "99.900000")])

    def test_percentiles_of_all_come_from_merged_bins(self):
        # 512 requests, 143 writes among them below 9 us but for one: the median is a read, and not a mean of medians.
        outcome = fio.parse(RECORDED)
        self.assertGreater(outcome.p50_us, 36)
        self.assertEqual(outcome.p999_us, 296.96)

    def test_an_error_is_no_number(self):
        with self.assertRaisesRegex(FioError, "job1 met error 5"):
            fio.parse(recorded(lambda data: data["jobs"][1].update(error=5)))

    def test_a_job_that_did_nothing_is_no_number(self):
        def idle(data):
            for side in ("read", "write"):
                data["jobs"][0][side]["total_ios"] = 0

        with self.assertRaisesRegex(FioError, "job0 did nothing"):
            fio.parse(recorded(idle))

    def test_words_instead_of_json(self):
        with self.assertRaisesRegex(FioError, "no JSON: fio: engine nbd not loadable"):
            fio.parse("fio: engine nbd not loadable")


class Command(unittest.TestCase):
    def line(self, job, targets=(["--a"],)):
        return fio.command(job, targets, "/out")

    def test_a_time_goes_on_until_it_is_over(self):
        line = self.line(Job("randread", "4k", 32, seconds=1.5))
        for word in ("--runtime=1500ms", "--time_based", "--rw=randread", "--bs=4k", "--iodepth=32", "--output-format=json+"):
            self.assertIn(word, line)

    def test_a_time_with_an_amount_ends_at_what_comes_first(self):
        line = self.line(Job("write", "128k", 8, seconds=3, mib=420))
        self.assertIn("--io_size=430080k", line)
        self.assertNotIn("--time_based", line)

    def test_a_second_pass_over_the_range_is_not_the_first_one_again(self):
        line = self.line(Job("randrw", "4k", 32, mib=100))
        self.assertIn("--randrepeat=0", line)
        self.assertIn("--randseed=1", line)

    def test_an_amount_is_shared_by_the_jobs(self):
        line = self.line(Job("write", "4k", 1, mib=64), [["--x"], ["--y"]])
        self.assertIn("--io_size=32768k", line)
        self.assertEqual(line[-4:], ["--name=job0", "--x", "--name=job1", "--y"])
