"""Goal: rows fit their devices, space is refused in time, samples become the right shares, and the page has builds beside each other."""

import json
import tempfile
import unittest
from pathlib import Path

import sizes
import sizes_measure
import sizes_page
import sizes_rows
from processes import ProcessError
from sizes_host import SLACK_GIB, SpaceError, SparseHost
from sizes_measure import Sample
from sizes_rows import GIB, MIB, SIZES, Row
from test_result import MADE

VALUES = {
    "burst_iops": 50000.0,
    "burst_p99_ms": 1.5,
    "iops": 4000.0,
    "p99_ms": 80.0,
    "metadata_of_destaged": 1.2,
    "log_amplification": 1.1,
    "capacity_amplification": 0.9,
    "cpu_us_a_write": 60.0,
    "resident_mib": 500.0,
    "metadata_a_block": None,
    "longest_turn_ms": None,
    "open_killed_s": 5.0,
    "open_clean_s": 1.0,
    "cold_iops": 3000.0,
    "cold_metadata_reads": None,
    "turns": 1.5,
    "half_turns": 0.5,
    "others_percent": 1.0,
}


def result(*cells):
    """A made-up result of cells (label, size, row, values that differ)."""
    names = dict.fromkeys(label for label, *_ in cells)
    builds = [{"label": label, "version": "cairnd 9", "sha256": "00", "made": {**MADE, "seconds": 100.0, "turns": 4.0}} for label in names]
    return {
        "format": sizes.FORMAT,
        "builds": builds,
        "cells": [
            {"label": label, "size": size, "row": row, "log_mib": 2048, "values": {**VALUES, **own}, "date": MADE["date"]}
            for label, size, row, own in cells
        ],
    }


class Rows(unittest.TestCase):
    def test_what_is_written_fits_the_devices_and_the_log_is_as_large_as_that_allows(self):
        for row in sizes_rows.planned(sizes_rows.FULL) + sizes_rows.planned(sizes_rows.QUICK):
            self.assertLessEqual(row.span_mib, row.size.capacity_gib * 1024 * sizes_rows.USED_AT_MOST)
            self.assertGreaterEqual(row.log_mib, sizes_rows.LOG_MIB_MIN)
            if row.filled:
                self.assertLessEqual(Row(row.size, row.key, by_data=True).span_mib, sizes_rows.FILL_GIB_MAX * 1024)
                self.assertEqual(row.span_mib, Row(row.size, row.key.removesuffix(sizes_rows.FILLED)).span_mib)
        self.assertEqual(Row(SIZES["4t"], "uniform-1500").log_mib, 2048)
        self.assertEqual(Row(SIZES["256g"], "uniform-1500").log_mib, 128)
        # Both logs of the host count.
        self.assertEqual(Row(SIZES["10x4t"], "uniform-64").span_mib, 64 * 2 * 2048)
        self.assertEqual(Row(SIZES["4t"], "uniform-1500", 256).span_mib, 1500 * 256)
        self.assertIn("log 128 MiB", Row(SIZES["256g"], "uniform-1500").title)
        self.assertNotIn("log ", Row(SIZES["4t"], "uniform-64").title.replace("logs", ""))

    def test_rows_are_selected(self):
        chosen = sizes_rows.selected(["4t"], ["uniform-4", "zipf"])
        self.assertEqual([(row.size.key, row.key) for row in chosen], [("4t", "uniform-4"), ("4t", "zipf")])
        self.assertEqual({row.size.key for row in sizes_rows.selected(["1t"], None)}, {"1t"})
        self.assertEqual({row.key for row in sizes_rows.selected(None, ["zipf"])}, {"zipf"})
        with self.assertRaisesRegex(ValueError, "no size 3t"):
            sizes_rows.selected(["3t"], None)
        with self.assertRaisesRegex(ValueError, "measure builds that have `cairn-bench fill-map`"):
            sizes_rows.selected(["4t"], ["uniform-1500-filled"], by_data=True)
        # Without the data as large as it is from an empty map.
        self.assertEqual([row.log_mib for row in sizes_rows.selected(["1t", "4t"], ["uniform-256-filled"])], [2048, 2048])

    def test_builds_have_names(self):
        self.assertEqual(sizes.named([], []), [("this tree", None)])
        self.assertEqual(sizes.named([Path("a"), Path("b")], ["before"]), [("before", Path("a")), ("build 2", Path("b"))])
        for builds, labels in (([Path("a")], ["x", "y"]), ([Path("a"), Path("b")], ["x", "x"])):
            with self.assertRaises(ValueError):
                sizes.named(builds, labels)

    def test_a_full_run_takes_an_hour_at_most(self):
        self.assertLessEqual(sizes.estimate_s(sizes_rows.planned(sizes_rows.FULL), 1, sizes.SECONDS, False), 3600)
        self.assertLessEqual(sizes.estimate_s(sizes_rows.planned(sizes_rows.QUICK), 1, sizes.QUICK_SECONDS, True), 240)

    def test_the_command_on_the_page_has_no_folder(self):
        words = ["--sizes", "4t", "--build", "/somewhere/programs", "--label", "before", "--folder", "/else"]
        self.assertEqual(sizes.command(sizes.arguments(words)), "python3 scripts/bench/sizes.py --sizes 4t --turns 4 --seconds 125")


class Space(unittest.TestCase):
    def test_holes_take_nothing_and_too_much_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            host = SparseHost("/", Path(folder) / "host", Path(folder) / "sockets", Row(SIZES["4t"], "uniform-4"), SLACK_GIB + 1)
            for path in host.files():
                with open(path, "xb") as file:
                    file.truncate(4 * GIB)
            self.assertEqual(host.taken_bytes(), 0)
            host.check_space()
            host.taken_bytes = lambda: 2 * GIB
            with self.assertRaisesRegex(SpaceError, "4t uniform-4: the devices take 2.0 GiB of the 4 that they may"):
                host.check_space()


class Filled(unittest.TestCase):
    def program(self, folder, text):
        """A folder with a cairn-bench that is this script."""
        folder.mkdir()
        program = folder / "cairn-bench"
        program.write_text("#!/bin/sh\n" + text)
        program.chmod(0o755)
        return program

    def test_builds_without_the_tool_are_known(self):
        with tempfile.TemporaryDirectory() as folder:
            new, old = self.program(Path(folder) / "new", "exit 0\n"), self.program(Path(folder) / "old", "exit 2\n")
            self.assertTrue(sizes_measure.can_fill(new.parent))
            self.assertFalse(sizes_measure.can_fill(old.parent))
            self.assertFalse(sizes_measure.can_fill(Path(folder) / "none"))
            rows = ["--sizes", "256g", "--rows", "uniform-64-filled"]
            alone = sizes.arguments([*rows, "--build", str(new.parent)]).chosen
            beside = sizes.arguments([*rows, "--build", str(new.parent), "--build", str(old.parent)]).chosen
            self.assertEqual([row.by_data for row in (*alone, *beside)], [False, True])
            self.assertLess(beside[0].span_mib, alone[0].span_mib)

    def test_each_group_is_filled_while_the_daemon_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            words = Path(folder) / "words"
            program = self.program(Path(folder) / "new", f'echo "$@" >>{words}\necho \'{{"blocks": 262144}}\'\n')
            host = SparseHost("/", Path(folder) / "host", Path(folder) / "sockets", Row(SIZES["10x4t"], "uniform-64-filled"), SLACK_GIB + 1)
            for path in host.files():
                path.touch()
            done = []
            host.end = lambda: done.append("end")
            host.start = lambda: done.append("start")
            host.served = lambda write=False: done.append(f"served {write}")
            self.assertIn("2 GiB mapped without data", sizes_measure.fill(host, program))
            self.assertEqual(done, ["end", "start", "served True"])
            lines = words.read_text().splitlines()
            self.assertEqual([line.split()[1] for line in lines], [str(cache) for cache, _ in host.groups])
            self.assertTrue(all(line.startswith("fill-map ") and line.endswith("--no-heads --destructive --style=json") for line in lines))
            self.program(Path(folder) / "broken", "echo no room >&2\nexit 1\n")
            with self.assertRaisesRegex(ProcessError, "ended with code 1: no room"):
                sizes_measure.fill(host, Path(folder) / "broken" / "cairn-bench")


class Samples(unittest.TestCase):
    def sample(self, at, destaged, turn=None, **gauges):
        names = ("write_bytes", "destaged_bytes", "metadata_write_bytes", "capacity_write_destage_bytes", "capacity_write_clean_bytes")
        counters = dict.fromkeys((*names, "log_write_bytes"), destaged * MIB) | {"write_operations": destaged * 256, "metadata_reads": destaged}
        counters["metadata_write_bytes"] = destaged * MIB // 4 if at > 50 else 0
        return Sample(at, counters, [{"log_fill_permille": 700, **gauges}], turn, 100.0 + at, at / 10)

    def test_bytes_are_those_of_what_counts_and_turns_those_of_all(self):
        samples = [self.sample(at, 10 * at) for at in (10, 40, 60, 100)]
        told = sizes_measure.told(samples[2:], samples[1], self.sample(0, 0), 500 * MIB)
        # From the begin of the second half: 600 MiB destaged, and a quarter of 1,000 as metadata.
        self.assertAlmostEqual(told["metadata_of_destaged"], 250 / 600)
        self.assertAlmostEqual(told["turns"], 2)
        self.assertAlmostEqual(told["half_turns"], 1.2)
        self.assertAlmostEqual(told["cpu_us_a_write"], 6e6 / (600 * 256))
        self.assertEqual(told["resident_mib"], 200)
        # An earlier build tells neither.
        self.assertIsNone(told["metadata_a_block"])
        self.assertIsNone(told["longest_turn_ms"])

    def test_what_a_build_tells_becomes_figures(self):
        gauges = {"capacity_live_bytes": 4096 * 1000, "metadata_used_bytes": 30000}
        turns = {60: 900_000, 85: 7_000, 100: 5_000}
        samples = [self.sample(at, at, turns.get(at, 0), **gauges) for at in (10, 50, 60, 85, 100)]
        told = sizes_measure.told(samples[2:], samples[1], self.sample(0, 0), MIB)
        self.assertEqual(told["metadata_a_block"], 30)
        # What is told at 60 may be of before.
        self.assertEqual(told["longest_turn_ms"], 7)

    def test_loads_of_a_row(self):
        row = Row(SIZES["256g"], "uniform-4")
        steady = sizes_measure.job(row, 50, 2, ramp=50).options
        self.assertLessEqual({"--block=4k", "--read=0", "--outstanding=32", "--ramp=50", "--time=50", f"--span={8 * GIB}", "--destructive"}, set(steady))
        cold = sizes_measure.job(Row(SIZES["4t"], "sequential"), 5, 1, read=True, span_bytes=GIB).options
        self.assertLessEqual({"--block=4k", "--read=100", "--outstanding=1", f"--span={GIB}"}, set(cold))
        self.assertFalse({"--random=0", "--destructive"} & set(cold))


class Results(unittest.TestCase):
    def test_a_result_is_read_back_and_added_to(self):
        first = result(("before", "4t", "zipf", {}), ("before", "4t", "uniform-4", {}))
        later = result(("after", "4t", "zipf", {}), ("after", "4t", "uniform-4", {"iops": 8000.0}))
        both = sizes.added(first, later)
        self.assertEqual(sizes_page.labels(both), ["before", "after"])
        # Measured again: the later one is kept.
        again = sizes.added(both, result(("before", "4t", "zipf", {"iops": 1.0})))
        self.assertEqual(sum(cell["label"] == "before" and cell["row"] == "zipf" for cell in again["cells"]), 1)
        self.assertEqual(sizes_page.labels(again), ["before", "after"])
        # A run stands there while it has rows.
        newer = result(("before", "4t", "zipf", {}))
        for of in (*newer["cells"], newer["builds"][0]["made"]):
            of["date"] = "2026-02-02 00:00 UTC"
        self.assertEqual([build["label"] for build in sizes.added(both, newer)["builds"]], ["before", "before", "after"])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sizes.json"
            path.write_text(sizes.as_text(both))
            self.assertEqual(sizes.read(path), both)
            self.assertEqual(sum('"row": "zipf"' in line for line in path.read_text().splitlines()), 2)
            path.write_text(json.dumps({"format": 99}))
            with self.assertRaisesRegex(ValueError, "another format"):
                sizes.read(path)

    def test_the_page_has_builds_beside_each_other(self):
        both = result(("before", "4t", "uniform-64", {}), ("after", "4t", "uniform-64", {"iops": 8000.0, "metadata_of_destaged": 0.03}))
        text = sizes_page.page(both)
        for words in (
            "| 6.0 % | 120.0 % **not held** | 3.0 % held |",
            "## One capacity device of 4 TiB",
            "| evenly over 64 logs (128 GiB) | before | 50,000, 4,000 | 1.5, 80 | 120.0 % | 1.1, 0.9 | 60 | 500 | - | - | 5, 1 | 3,000, - | 1.5, 0.5 |",
            "|  | after | 50,000, 8,000 |",
            "| evenly over 64 logs (128 GiB) | 2.00 | 1.00 | 0.03 |",
        ):
            self.assertIn(words, text)
        self.assertNotIn("1 TiB", text)
        self.assertNotIn("others had", text)
        disturbed = sizes_page.page(result(("before", "4t", "zipf", {"others_percent": 60.0})))
        self.assertIn("others had more than 25 %", disturbed)
        self.assertIn("4t zipf 60 %", disturbed)
