"""The benchmark behind `make bench`: Cairn beside the protocol's ceiling, the medium and another server, in turns.

Promises  measures in one run, writes a result (JSON) and its page, prints which aims are held; a selection does not
          overwrite the page of the tree unless --out says so
          ends what it started and removes its files, also on Ctrl-C; nothing is written then
"""

import argparse
import sys
import time
from pathlib import Path

import aims
import compare
import machine
import measure
import page
import result as results
import rows as every
from desk import ROOT, Desk, desk_errors, target, whole, written
from result import Result


# The page of a full run, in the tree.
PAGE = Path("docs/bench/speed-floor")


def arguments(words):
    """The command line."""
    keys = ", ".join(row.key for row in every.every_row())
    parser = argparse.ArgumentParser(
        prog="python3 scripts/bench",
        description="Measures Cairn beside nbdkit (protocol ceiling), a raw file (medium) and qemu-nbd (one file served), in turns.",
        epilog=f"rows: {keys}. systems: {', '.join(every.ALL)}. "
        "The programs are built in target/dist, or come from the folder in CAIRN_BIN. All systems take some 22 GiB below target/ meanwhile. "
        f"What lost more than {measure.STOLEN_PERCENT_MAX} % of the processor time that it wanted to other guests of the hypervisor is measured "
        f"again, up to {measure.AGAIN_MAX} times: where that happens often, a run takes several times as long as it says at its begin.",
    )
    parser.add_argument("--rows", type=lambda text: text.split(","), help="only these, as keys with commas")
    parser.add_argument("--systems", type=lambda text: text.split(","), help="only these")
    parser.add_argument("--rounds", type=whole, default=5, help="default 5")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each row in each round; default 3")
    out = f"the result; its page is beside it. Default {PAGE}.json, of a selection target/{PAGE.name}.json"
    parser.add_argument("--out", type=Path, help=out)
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="print ratios to this earlier result")
    parser.add_argument("--from", dest="source", type=Path, metavar="RESULT.json", help="measure nothing: take this result")
    chosen = parser.parse_args(words)
    try:
        chosen.chosen = every.selected(chosen.rows, chosen.systems)
    except ValueError as error:
        parser.error(str(error))
    if chosen.seconds <= 0 or not chosen.chosen:
        parser.error("there is nothing to measure: no row has one of these systems, or --seconds is not above 0")
    if not chosen.out:
        everything = chosen.rows is None and chosen.systems is None
        chosen.out = chosen.source or (ROOT if everything else target()) / (PAGE if everything else PAGE.name)
    chosen.out = chosen.out.with_suffix(".json")
    return chosen


def main(words):
    """Runs it; gives the exit code."""
    chosen = arguments(words)
    # Before anything is measured: it may be the file that is about to be replaced.
    earlier = results.read(chosen.compare) if chosen.compare else None
    later = results.read(chosen.source) if chosen.source else run(chosen)
    written(chosen.out.with_suffix(".md"), page.page(later))
    written(target() / f"{chosen.out.stem}-details.md", page.details(later))
    report(later, earlier)
    return 0


def run(chosen):
    """Measures, and writes the result."""
    with Desk("bench") as desk:
        measure.check_space(desk.folder, chosen.chosen)
        wanted = measure.estimate_s(chosen.chosen, chosen.rounds, chosen.seconds)
        cells = sum(len(row.systems) for row in chosen.chosen)
        size = f"{len(chosen.chosen)} rows, {cells} cells, {chosen.rounds} rounds of {chosen.seconds:g} s"
        desk.say(f"{size}: about {wanted / 60:.0f} minutes")
        made = desk.made(chosen.rounds, chosen.seconds, chosen.out.name)
        begin, times = time.monotonic(), machine.processor_times()
        measured, memory = measure.run(desk, chosen.chosen, chosen.rounds, chosen.seconds)
        stolen, _ = machine.shares(times, machine.processor_times(), 0)
        made |= {"elapsed_s": round(time.monotonic() - begin), "load_end": machine.load_average(), "steal_percent": round(stolen, 2)}
    result = Result(made, measured, memory)
    result.write(chosen.out)
    return result


def report(later, earlier):
    """Prints aims, disturbances and the comparison."""
    cairn = [key for key in ("cairn", "cairn-one", "cairn-vhost") if any(cell["system"] == key for cell in later.cells)]
    print("\n".join(["", *aims.table(later, cairn), "", *page.disturbed(later)]))
    if earlier:
        print("\n".join(["", *compare.compare(earlier, later)]))


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
