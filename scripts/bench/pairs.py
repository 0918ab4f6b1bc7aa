"""Two builds of Cairn beside each other: the same rows on both, in turns, as ratios of pairs.

Promises  the clusters of all builds are up at once, and each round measures each row on each of them, another one first in each: what the
          machine does meets all alike. Told are medians of the rounds' ratios to the first build, with their quartiles
          a measurement from which the hypervisor took processor time is made again, as in the benchmark
          nothing is kept: it answers a question of the day
Usage     python3 scripts/bench/pairs.py target/before target/dist --rows write-qd32,write-qd1 --rounds 10

A build is a folder with cairnd, cairn and cairn-bench. The first one may be named twice, to see what the machine's noise alone makes.
"""

import argparse
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import measure
import rows as every
from desk import Desk, desk_errors, whole
from figures import median, ratio
from systems import Cairn, CairnOne, CairnVhost

COLUMNS = (
    ("IOPS", "iops"),
    ("mean", "mean_us"),
    ("p99", "p99_us"),
    ("CPU of Cairn", "cpu_s_per_1000"),
    ("CPU of the machine", "machine_s_per_1000"),
)


def arguments(words):
    """The command line."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/pairs.py", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("builds", nargs="+", type=Path, help="folders with programs; ratios are to the first")
    known = [row.key for row in every.every_row() if "cairn" in row.systems]
    parser.add_argument("--rows", default="write-qd32", help=f"of: {', '.join(known)}; default write-qd32")
    parser.add_argument("--rounds", type=whole, default=10, help="default 10")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement; default 1")
    parser.add_argument("--one", action="store_true", help="all hosts in one process")
    parser.add_argument("--vhost", action="store_true", help="over vhost-user-blk in place of NBD; rows of one thread only")
    chosen = parser.parse_args(words)
    try:
        chosen.chosen = every.selected(chosen.rows.split(","), ["cairn"])
    except ValueError as error:
        parser.error(str(error))
    if chosen.vhost and not all(row.one_thread for row in chosen.chosen):
        parser.error("fio does not speak vhost-user: take rows of one thread")
    if len({row.stage for row in chosen.chosen}) != 1:
        parser.error(f"these rows do not share one stage, with its disks: {chosen.rows}")
    return chosen


def started(desk, chosen):
    """A running system of each build."""
    stage = every.STAGES[chosen.chosen[0].stage]
    systems = []
    try:
        for number, programs in enumerate(chosen.builds):
            bench = SimpleNamespace(
                programs=programs.resolve(), folder=desk.folder / str(number), sockets=desk.sockets / str(number), say=desk.say
            )
            bench.folder.mkdir()
            bench.sockets.mkdir()
            systems.append((CairnOne if chosen.one else CairnVhost if chosen.vhost else Cairn)(bench, stage))
            desk.say(f"starting and filling {programs}")
            systems[-1].start(chosen.chosen)
    except BaseException:
        stop(systems)
        raise
    return systems


def stop(systems):
    """Ends all of them."""
    for system in systems:
        system.stop()


def one_cell(row, system, chosen, say):
    """One measurement, again where too much was stolen."""
    return measure.least_stolen(lambda: measure.cell(system.bench, row, system, chosen.seconds), say)


def compared(measured, row, name):
    """(median of the first build, [ (median, lower quartile, upper quartile) of the ratios of each other one ])."""
    first, *others = ([cell[name] for cell in cells] for cells in measured[row.key])
    told = []
    for other in others:
        ratios = sorted(value for value in map(ratio, other, first) if value is not None)
        half = len(ratios) // 2
        told.append((median(ratios), median(ratios[: half or 1]), median(ratios[-half or None :])))
    return median(first), told


def table(measured, chosen):
    """The lines of the table of all rows."""
    lines = ["", "| row | of | first build | " + " | ".join(f"{b}: ratio (quartiles)" for b in chosen.builds[1:]) + " |"]
    lines.append("|---" * (2 + len(chosen.builds)) + "|")
    for row in chosen.chosen:
        for words, name in COLUMNS:
            base, others = compared(measured, row, name)
            ratios = [f"{m:.3f} ({low:.3f} to {high:.3f})" for m, low, high in others]
            lines.append(f"| {row.key} | {words} | {base:.5g} | {' | '.join(ratios)} |")
    return lines


def main(words):
    """Runs it; gives the exit code."""
    chosen = arguments(words)
    with Desk("pairs", programs=chosen.builds[0]) as desk:
        systems = started(desk, chosen)
        measured = {row.key: [[] for _ in systems] for row in chosen.chosen}
        try:
            for number in range(chosen.rounds):
                for row in chosen.chosen:
                    for at in measure.turns(range(len(systems)), number):
                        measured[row.key][at].append(one_cell(row, systems[at], chosen, desk.say))
                    told = ", ".join(f"{cells[-1]['iops']:,.0f}" for cells in measured[row.key])
                    desk.say(f"round {number + 1} of {chosen.rounds}: {row.key}: IOPS {told}")
        finally:
            stop(systems)
    print("\n".join(table(measured, chosen)))
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
