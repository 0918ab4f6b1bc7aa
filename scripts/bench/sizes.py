"""The bench of real sizes, behind `make bench-sizes`: devices of terabytes, loads of many logs, one build or several in turns.

Promises  devices are files that are mostly holes, so that a small machine measures large ones: a run takes less than --space
          each row has devices and a daemon of its own; builds take turns within each row, another one first in each
          progress and the time that is left are on stderr; ends what it started and removes its files, also on Ctrl-C
          a selection does not overwrite the page of the tree unless --out says so
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import desk as desks
import machine
import sizes_measure
import sizes_page
import sizes_rows
from desk import ROOT, desk_errors, target, whole, written
from sizes_host import SparseHost

PAGE = Path("docs/bench/sizes")
FORMAT = 1
SECONDS, QUICK_SECONDS, TURNS = 125.0, 12.0, 4.0
SPACE_GIB = 52
# Beside the sustained load: start, burst, death, openings, cold reads, removal. For the estimate alone.
ROW_EXTRA_S, QUICK_ROW_EXTRA_S = 60, 16
# Of a map that is filled: with the data, and without.
DATA_S_A_GIB, FILL_S_A_GIB = 4, 0.2


class Desk(desks.Desk):
    """Where this program works: its words go to stderr, its devices where they have room."""

    def __init__(self, programs, folder):
        super().__init__("sizes", programs)
        if folder:
            self.folder = folder.resolve() / self.folder.name

    def say(self, words):
        print(f"{time.monotonic() - self.begin:7.1f} s  {words}", file=sys.stderr, flush=True)


def arguments(words):
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 scripts/bench/sizes.py",
        description="Measures a host with devices of real sizes, which are files that are mostly holes.",
        epilog=f"rows: {', '.join(sizes_rows.every_key())}. sizes: {', '.join(sizes_rows.SIZES)}.",
    )

    def names(text):
        return text.split(",")

    parser.add_argument("--rows", type=names, help="only these, as keys with commas; with --sizes each of them on each size")
    parser.add_argument("--sizes", type=names, help="only these")
    parser.add_argument("--quick", action="store_true", help="small devices and short loads: about three minutes")
    parser.add_argument("--log", type=whole, default=0, metavar="MIB", help="of each log at most: the same loads in logs, sooner over")
    parser.add_argument("--turns", type=float, default=TURNS, help=f"of the log, by the sustained load, whose second half counts; default {TURNS:g}")
    seconds = f"that it takes at most, some rows up to twice as many; default {SECONDS:g}, quick {QUICK_SECONDS:g}"
    parser.add_argument("--seconds", type=float, help=seconds)
    parser.add_argument("--build", type=Path, action="append", default=[], help="a folder with programs; several are measured in turns; else built here")
    parser.add_argument("--label", action="append", default=[], help="what each build is called on the page, in their order")
    parser.add_argument("--space", type=whole, default=SPACE_GIB, metavar="GIB", help=f"that devices may take; default {SPACE_GIB}")
    parser.add_argument("--folder", type=Path, help="where devices are made; default below target/")
    parser.add_argument("--out", type=Path, help=f"the result; its page is beside it. Default {PAGE}.json, of a selection target/{PAGE.name}.json")
    parser.add_argument("--add", action="store_true", help="keep what the result has of other rows and builds")
    parser.add_argument("--from", dest="source", type=Path, metavar="RESULT.json", help="measure nothing: write this result's page anew")
    chosen = parser.parse_args(words)
    try:
        chosen.builds = named(chosen.build, chosen.label)
        folders = [folder or os.environ.get("CAIRN_BIN") for _, folder in chosen.builds]
        # What is built here has the tool.
        by_data = not all(sizes_measure.can_fill(Path(folder)) for folder in folders if folder)
        chosen.chosen = sizes_rows.selected(chosen.sizes, chosen.rows, chosen.quick, chosen.log, by_data)
    except ValueError as error:
        parser.error(str(error))
    chosen.seconds = chosen.seconds or (QUICK_SECONDS if chosen.quick else SECONDS)
    if chosen.seconds <= 4 or chosen.turns <= 0 or not chosen.chosen:
        parser.error("there is nothing to measure: no row is both in --rows and --sizes, or --seconds is not above 4, or --turns not above 0")
    everything = not (chosen.rows or chosen.sizes or chosen.quick or chosen.log)
    chosen.out = (chosen.source or chosen.out or (ROOT if everything else target()) / (PAGE if everything else PAGE.name)).with_suffix(".json")
    return chosen


def named(builds, labels):
    """[(label, folder)]; the build of this tree, folder None, where none is given."""
    if len(labels) > max(len(builds), 1):
        raise ValueError("there are more labels than builds")
    builds = builds or [None]
    labels = [*labels, *("this tree" if len(builds) == 1 else f"build {number + 1}" for number in range(len(labels), len(builds)))]
    if len(set(labels)) != len(labels):
        raise ValueError("two builds have one label")
    return list(zip(labels, builds))


def estimate_s(rows, builds, seconds, quick):
    """How long rows take, about and at most: one that is fast has its turns before its time is over."""
    extra = QUICK_ROW_EXTRA_S if quick else ROW_EXTRA_S
    filling = sum(row.span_mib / 1024 * (DATA_S_A_GIB if row.by_data else FILL_S_A_GIB) for row in rows if row.filled)
    return builds * (sum(row.longer * seconds + extra for row in rows) + filling)


def command(chosen):
    """The command as others may type it: no folder of this machine."""
    words = ["python3 scripts/bench/sizes.py"]
    words += ["--quick"] if chosen.quick else []
    words += [f"--sizes {','.join(chosen.sizes)}"] if chosen.sizes else []
    words += [f"--rows {','.join(chosen.rows)}"] if chosen.rows else []
    words += [f"--log {chosen.log}"] if chosen.log else []
    return " ".join([*words, f"--turns {chosen.turns:g}", f"--seconds {chosen.seconds:g}"])


def measure(desk, chosen):
    """All rows on all builds; gives cells."""
    cells, left = [], list(chosen.chosen)
    wanted = estimate_s(left, len(chosen.builds), chosen.seconds, chosen.quick)
    desk.say(f"{len(left)} rows, {len(chosen.builds)} builds, {chosen.seconds:g} s each: at most {wanted / 60:.0f} minutes or so")
    begin, estimated = time.monotonic(), 0.0
    for number, row in enumerate(chosen.chosen):
        turn = number % len(chosen.builds)
        for label, programs in [*chosen.builds[turn:], *chosen.builds[:turn]]:
            name = f"{row.size.key} {row.key} {label}"
            of = SparseHost(programs or desk.programs, desk.folder / "host", desk.sockets / "host", row, chosen.space)
            try:
                desk.say(f"{name}: {row.title}")
                of.make()
                values = sizes_measure.run(of, chosen.seconds * row.longer, chosen.turns, lambda words, name=name: desk.say(f"{name}: {words}"))
            finally:
                of.remove()
            values = {name: short(value) for name, value in values.items()}
            cells.append({"label": label, "size": row.size.key, "row": row.key, "log_mib": row.log_mib, "values": values})
            estimated += estimate_s([row], 1, chosen.seconds, chosen.quick)
            took = time.monotonic() - begin
            desk.say(f"{name}: done; about {(wanted - estimated) * took / estimated / 60:.0f} minutes left")
    return cells


def short(value):
    """Four significant digits: more are noise."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def run(chosen):
    """Measures; gives the result."""
    with Desk(chosen.builds[0][1], chosen.folder) as desk:
        begin, times = time.monotonic(), machine.processor_times()
        made = desk.made(1, chosen.seconds, chosen.out.name) | {"command": command(chosen), "turns": chosen.turns}
        builds = []
        for label, programs in chosen.builds:
            for program in ("cairnd", "cairn", "cairn-bench"):
                if programs and not (programs / program).exists():
                    raise OSError(f"{programs / program} does not exist")
            daemon = (programs or desk.programs) / "cairnd"
            version = subprocess.run([daemon, "--version"], capture_output=True, text=True, check=True).stdout.strip()
            builds.append({"label": label, "version": version, "sha256": desks.digest(daemon)})
        cells = measure(desk, chosen)
        stolen, _ = machine.shares(times, machine.processor_times(), 0)
        made |= {"elapsed_s": round(time.monotonic() - begin), "load_end": machine.load_average(), "steal_percent": round(stolen, 2)}
    for build in builds:
        build["made"] = made
    for cell in cells:
        cell["date"] = made["date"]
    return {"format": FORMAT, "builds": builds, "cells": cells}


def added(earlier, later):
    """Both together: a row of a build that both have is the later one's. A build that was measured twice stands twice, while both have rows."""

    def key(cell):
        return cell["label"], cell["size"], cell["row"], cell["log_mib"]

    known = {key(cell) for cell in later["cells"]}
    cells = [*(cell for cell in earlier["cells"] if key(cell) not in known), *later["cells"]]
    runs = {(cell["label"], cell["date"]) for cell in cells}
    builds = [build for build in [*earlier["builds"], *later["builds"]] if (build["label"], build["made"]["date"]) in runs]
    order = list(dict.fromkeys(build["label"] for build in [*earlier["builds"], *later["builds"]]))
    return {"format": FORMAT, "builds": sorted(builds, key=lambda build: order.index(build["label"])), "cells": cells}


def read(path):
    """Reads a result; ValueError where the file is none."""
    try:
        result = json.loads(path.read_text())
        known = result["format"] == FORMAT and {"builds", "cells"} <= result.keys()
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no result of this benchmark: {error!r}") from error
    if not known:
        raise ValueError(f"{path} has another format than {FORMAT}")
    return result


def as_text(result):
    """The JSON file: a line for each build and each cell."""
    lines = [f'{{"format": {result["format"]},', '"builds": [', ",\n".join(map(json.dumps, result["builds"])), "],"]
    return "\n".join([*lines, '"cells": [', ",\n".join(map(json.dumps, result["cells"])), "]}"]) + "\n"


def main(words):
    """Runs it; gives the exit code."""
    chosen = arguments(words)
    # Before anything is measured: an hour is not to end with a file that cannot be read.
    earlier = read(chosen.out) if chosen.source or (chosen.add and chosen.out.exists()) else None
    if chosen.source:
        result = earlier
    else:
        result = run(chosen)
        result = added(earlier, result) if earlier else result
        written(chosen.out, as_text(result))
    written(chosen.out.with_suffix(".md"), sizes_page.page(result))
    print("\n".join(["", *sizes_page.aims(result)]))
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
