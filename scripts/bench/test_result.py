"""Goal: rows are selected as asked, aims judge the right ratio the right way round, results survive their file, changes beyond the
rounds' own spread are told from others, and the page has the numbers.

Results here are made up: two rounds of the same value for each cell, one hundred IOPS a system where nothing else is said.
"""

import tempfile
import unittest
from pathlib import Path

import aims
import compare
import machine
import measure
import page
import result as results
import rows
from result import Result

MADE = {
    "date": "2026-01-01 00:00 UTC",
    "version": "cairn 0",
    "commit": "abc",
    "sha256": "00",
    "command": "x",
    "machine": {"processors": 2, "model": "m", "memory": "1 GiB", "kernel": "k"},
    "tools": "fio",
    "rounds": 2,
    "seconds": 1.0,
    "load_begin": [0, 0, 0],
    "load_end": [1, 1, 1],
    "json": "r.json",
    "elapsed_s": 60,
    "steal_percent": 0.5,
}


def made_up(values, memory=()):
    """A result with cells {(row, system): {quantity: value or values of two rounds}}."""
    cells = []
    for (row, system), own in values.items():
        filled = {name: 100.0 for name in ("iops", "mib_s", "mean_us", "p50_us", "p99_us", "p999_us", "cpu_s_per_1000")}
        filled |= {"steal_percent": 0.0, "others_percent": 1.0} | own
        columns = {name: value if isinstance(value, list) else [value, value] for name, value in filled.items()}
        cells.append({"row": row, "system": system, "values": columns})
    return Result(dict(MADE), cells, list(memory))


class Rows(unittest.TestCase):
    def test_every_row_is_on_known_systems_and_has_a_key_of_its_own(self):
        every = rows.every_row()
        self.assertEqual(len({row.key for row in every}), len(every))
        for row in every:
            self.assertLessEqual(set(row.systems), set(rows.ALL))
            self.assertEqual(len(set(row.systems)), len(row.systems))

    def test_rows_and_systems_are_selected(self):
        chosen = rows.selected(["read-qd1", "sustained-4k-qd32"], ["nbdkit", "cairn"])
        self.assertEqual([(row.key, row.systems) for row in chosen], [("read-qd1", ("nbdkit", "cairn")), ("sustained-4k-qd32", ("cairn",))])
        # A row without any of the systems is left out.
        self.assertEqual([row.key for row in rows.selected(["sustained-4k-qd32"], ["nbdkit"])], [])

    def test_an_unknown_name_is_refused_with_those_that_exist(self):
        with self.assertRaisesRegex(ValueError, "no row read-qd2; there are read-qd1,"):
            rows.selected(["read-qd2"], None)
        with self.assertRaisesRegex(ValueError, "no system ceph"):
            rows.selected(None, ["ceph"])

    def test_only_systems_with_a_write_buffer_end_with_it(self):
        row = next(row for row in rows.every_row() if row.key == "write-qd32")
        self.assertEqual((row.job(3, False).mib, row.job(3, True).mib), (0, rows.INSIDE_BUFFER_MIB))
        # Three in ten of a mixed row's bytes are writes.
        mixed = next(row for row in rows.every_row() if row.key == "mix-4k-qd32")
        self.assertEqual(mixed.job(3, True).mib * 3 // 10, rows.INSIDE_BUFFER_MIB)

    def test_the_steady_disk_is_four_times_the_write_buffer(self):
        steady = rows.STAGES[rows.STEADY]
        self.assertEqual(steady.disk_mib, 4 * steady.log_mib)

    def test_everyone_is_first_in_some_round_and_nobody_is_left_out(self):
        orders = [measure.turns(("a", "b", "c"), number) for number in range(3)]
        self.assertEqual(orders, [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]])

    def test_what_the_hypervisor_took_from_is_measured_again_and_the_best_counts(self):
        def told(*stolen):
            cells = iter([{"stolen_of_wanted_percent": percent, "iops": number} for number, percent in enumerate(stolen)])
            cell = measure.least_stolen(lambda: next(cells), lambda words: None)
            return cell["iops"], cell["again"]

        self.assertEqual(told(1.0), (0, 0))
        self.assertEqual(told(40.0, 60.0, 3.0), (2, 2))
        # Never quiet: the one that lost least.
        self.assertEqual(told(*[50.0] * 5, 20.0, *[50.0] * measure.AGAIN_MAX), (5, measure.AGAIN_MAX))

    def test_a_machine_that_stands_still_has_lost_what_it_wanted(self):
        at = {name: 0.0 for name in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")}
        self.assertEqual(machine.stolen_of_wanted(at, at), 0.0)
        # One tenth of the time was stolen, and nine tenths of what was wanted.
        later = at | {"user": 0.01, "idle": 0.79, "iowait": 0.1, "steal": 0.09}
        self.assertAlmostEqual(machine.stolen_of_wanted(at, later), 90.0)

    def test_an_estimate_grows_with_rounds(self):
        chosen = rows.selected(["write-qd1"], ["nbdkit", "cairn"])
        one, two = (measure.estimate_s(chosen, rounds, 3) for rounds in (1, 2))
        self.assertGreater(two - one, 6)


class Aims(unittest.TestCase):
    def verdict(self, words, values):
        aim = next(aim for aim in aims.AIMS if aim.words.startswith(words))
        value = aim.value(made_up(values), "cairn")
        return value, aim.holds(value)

    def test_more_is_better_of_iops(self):
        row = "write-qd32"
        self.assertEqual(self.verdict("4K write QD32: IOPS, of nbdkit", {(row, "cairn"): {"iops": 60}, (row, "nbdkit"): {}}), (0.6, True))
        self.assertEqual(self.verdict("4K write QD32: IOPS, of nbdkit", {(row, "cairn"): {"iops": 40}, (row, "nbdkit"): {}}), (0.4, False))

    def test_less_is_better_of_latency(self):
        row = "write-qd1"
        for mean, held in ((170, True), (190, False)):
            values = {(row, "cairn"): {"mean_us": mean}, (row, "raw-dsync"): {}}
            self.assertEqual(self.verdict("4K write QD1: mean", values), (mean / 100, held))

    def test_an_uncached_read_may_take_a_raw_read_and_the_protocol(self):
        row = "coldread-qd1"
        values = {(row, "cairn"): {"mean_us": 130}, (row, "raw"): {"mean_us": 60}, (row, "nbdkit"): {"mean_us": 40}}
        self.assertEqual(self.verdict("4K read QD1, uncached", values), (1.3, True))

    def test_sequential_writes_are_held_against_the_copies_share_of_the_medium(self):
        burst, steady = "seqwrite-128k-qd8", "sustained-128k-qd8"
        self.assertEqual(self.verdict("128K sequential write QD8, burst", {(burst, "cairn"): {"mib_s": 25}, (burst, "raw"): {}}), (0.5, True))
        values = {(steady, "cairn"): {"mib_s": 12}, (steady, "raw"): {}}
        self.assertEqual(self.verdict("128K sequential write QD8, sustained", values), (0.48, False))

    def test_sequential_reads_are_held_against_the_slower_of_medium_and_protocol(self):
        row = "seqread-1m-qd4"
        values = {(row, "cairn"): {"mib_s": 40}, (row, "raw"): {"mib_s": 50}, (row, "nbdkit"): {}}
        self.assertEqual(self.verdict("1M sequential read", values), (0.8, True))

    def test_many_disks_are_held_against_one(self):
        values = {("disks-64", "cairn"): {"iops": 80, "worst_of_best": 1.2}, ("disk-qd64", "cairn"): {}}
        self.assertEqual(self.verdict("64 disks QD1 each: IOPS", values), (0.8, False))
        self.assertEqual(self.verdict("64 disks QD1 each: worst", values), (1.2, True))

    def test_what_was_not_measured_is_neither_held_nor_missed(self):
        self.assertEqual(self.verdict("4K write QD32: IOPS, of nbdkit", {("write-qd32", "cairn"): {}}), (None, None))
        self.assertEqual(aims.table(made_up({("write-qd4", "cairn"): {}}), ["cairn"]), [])


class Files(unittest.TestCase):
    def test_a_result_is_read_back_as_it_was_written(self):
        memory = [{"stage": "main", "system": "cairn", "processes": {"h1": {"rss": 1.0}}}]
        before = made_up({("read-qd1", "nbdkit"): {"iops": [90.0, 110.0]}, ("read-qd1", "cairn"): {}}, memory)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "r.json"
            before.write(path)
            # A line for each cell: a change of one is a change of one line.
            self.assertEqual(sum('"system": "nbdkit"' in line for line in path.read_text().splitlines()), 1)
            after = results.read(path)
        self.assertEqual((after.made, after.cells, after.memory), (before.made, before.cells, before.memory))
        self.assertEqual(after.median("read-qd1", "nbdkit", "iops"), 100)
        self.assertAlmostEqual(after.spread("read-qd1", "nbdkit"), 0.2)

    def test_another_file_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "r.json"
            for text, words in (("{", "no result"), ("{}", "no result"), ('{"format": 99}', "format 99")):
                path.write_text(text)
                with self.assertRaisesRegex(ValueError, words):
                    results.read(path)


class Comparing(unittest.TestCase):
    def test_a_change_is_one_where_the_rounds_do_not_overlap(self):
        key = ("read-qd1", "cairn")
        before = made_up({key: {"iops": [90, 110]}})
        for rounds, words in (([100, 130], "overlap"), ([111, 130], "**higher**"), ([50, 89], "**lower**")):
            self.assertEqual(compare.verdict(before, made_up({key: {"iops": rounds}}), *key), words)

    def test_ratios_are_the_later_over_the_earlier(self):
        key = ("read-qd1", "cairn")
        lines = compare.compare(made_up({key: {}}), made_up({key: {"iops": 150, "p99_us": 50}, ("read-qd4", "cairn"): {}}))
        # Two rounds each: of the six orders of four values two keep them apart.
        self.assertIn("Rounds of a cell that did not change lie apart by chance in one of 3 cells.", lines)
        self.assertEqual(lines[-1], "| read-qd1 | cairn | 1.50 | 1.00 | 0.50 | 1.00 | **higher** |")

    def test_another_machine_is_told(self):
        earlier = {**MADE, "machine": {**MADE["machine"], "kernel": "old"}}
        self.assertEqual(compare.differences(earlier, MADE), ["kernel: old before, k now"])


class Page(unittest.TestCase):
    def test_the_page_has_numbers_verdicts_and_conditions(self):
        told = {f"told_{name}_mib": 0.0 for name in ("read_cache", "read_log", "read_capacity", "write", "destaged")}
        told |= {"told_write_mib": 200.0, "told_destaged_mib": 50.0, "told_log_fill_percent": 12.0}
        values = {("write-qd32", "nbdkit"): {"iops": 1000.0}, ("write-qd32", "cairn"): {"iops": 250.0, **told}}
        memory = [{"stage": "main", "system": "cairn", "processes": {"h1": {"rss": 77.0, "peak": 88.0}}}]
        text = page.page(made_up(values, memory)) + page.details(made_up(values, memory))
        for words in (
            "| 4K write QD32: IOPS, of nbdkit's | at least 50 % | 25 % **not held** |",
            "| 4 KiB random write QD32 | 1,000 | 250 | 25 % |",
            "| write-qd32 | cairn | - | - | - | 25 % | 12 % |",
            "| main | cairn | h1 | 77 | 88 | - | - |",
            "kernel k",
        ):
            self.assertIn(words, text)

    def test_cells_that_others_disturbed_are_named(self):
        self.assertEqual(page.disturbed(made_up({("read-qd1", "raw"): {}})), [])
        self.assertIn("read-qd1 raw 40 %", page.disturbed(made_up({("read-qd1", "raw"): {"others_percent": 40.0}}))[0])
