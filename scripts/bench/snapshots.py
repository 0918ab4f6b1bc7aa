"""Disks with snapshots beside one that never had any, on the same hosts, in turns, behind `make bench-snapshots`.

Promises  one cluster of three hosts as processes; in each round every row is measured on every disk, another one first in each
          each disk with snapshots gets a new one before each row but one, in the place of its oldest: so a row's writes meet blocks that have not changed
          since; before that one row all blocks are changed, so its writes meet no other
          ratios are medians of the rounds' ratios to the disk without snapshots
          the guests' pause at a cut is the slowest request of a steady load that was unanswered while the snapshot was taken
          ends what it started and removes its files, also on Ctrl-C; nothing is written then
Assumes   some 40 GB of disk are free under target/: hosts' files take their size at once
"""

import argparse
import array
import random
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import measure
import rows as every
from desk import ROOT, Desk, desk_errors, whole, written
from figures import median, ratio
from hosts import SeveralProcesses
from nbd import WRITE, Connection
from processes import Child, ProcessError
from prose import paragraph
from redundancy import Disk, describe
from windows import latency_percentile, slowest

PAGE = Path("docs/bench/snapshots.md")
# Each round may write over all of each disk some times, and snapshots keep all of that: no cleaner should have to hurry.
CAPACITY_MIB = 12 << 10
STAGES = {
    every.MAIN: every.Stage(every.MAIN, disk_mib=96, cache_mib=1024, capacity_mib=CAPACITY_MIB),
    every.STEADY: every.Stage(every.STEADY, disk_mib=256, cache_mib=1024, capacity_mib=CAPACITY_MIB, log_mib=256),
}
# Snapshots of each disk.
COUNTS = (0, 1, 64, 256)
# Blocks that change between two of them, of the whole disk.
CHANGED_BLOCKS = 64
KEYS = ("write-qd1", "write-qd32", "mix-4k-qd32", "read-qd1", "read-qd32", "seqwrite-1m-qd4")
STEADY_KEYS = ("coldread-qd1", "coldread-qd32", "sustained-4k-qd32")
# What is measured of blocks that have changed since the last snapshot.
LATER_KEY = "sustained-later-4k-qd32"
WARM_MIB = 64
BLOCK = 4096
PATIENCE_S = 20
# The load at whose side snapshots are taken and deleted.
LOAD_RATE, LOAD_MIB = 2000, 128
CUTS, CUT_EVERY_S = 40, 0.5
DELETED_S = 20


class Snapshots:
    """A disk's snapshots."""

    def __init__(self, cluster, disk, mib):
        self.cluster, self.disk = cluster, disk
        self.blocks = mib * (1 << 20) // BLOCK
        self.random = random.Random(1)
        self.names, self.next = [], 0

    def change(self):
        """Writes some blocks."""
        connection = Connection(self.cluster.nbd_socket(1), self.disk, PATIENCE_S)
        for cookie in range(CHANGED_BLOCKS):
            block = self.random.randrange(self.blocks)
            connection.send(cookie, WRITE, block * BLOCK, BLOCK, self.random.randbytes(BLOCK))
        left = CHANGED_BLOCKS
        while left:
            left -= len(connection.answers())
        connection.close()

    def take(self):
        """Takes one; gives when it was asked for and answered."""
        name = f"s-{self.next}"
        self.next += 1
        begin = time.monotonic()
        self.cluster.post("snapshots", {"name": name, "disks": [self.disk]})
        self.names.append(name)
        return begin, time.monotonic()

    def delete(self, at):
        """Deletes one by its place."""
        self.cluster.cairn("snapshot", "delete", f"{self.disk}@{self.names.pop(at)}", "--yes")

    def make(self, count):
        """So many, with changes between them."""
        for _ in range(count):
            self.take()
            self.change()

    def renew(self):
        """The oldest goes, a new one comes."""
        if self.names:
            self.delete(0)
            self.take()


def started(desk, stage, clusters):
    """A cluster with a disk for each count, written in full."""
    cluster = SeveralProcesses(
        desk.programs, desk.folder / stage.key, desk.sockets / stage.key, stage.cache_mib, stage.capacity_mib, hosts=3, log_mib=stage.log_mib
    )
    clusters.append(cluster)
    cluster.start()
    disks = []
    for count in COUNTS:
        name = f"with-{count}"
        desk.say(f"stage {stage.key}: making and filling a disk, then taking {count} snapshots")
        cluster.create_disk(name, stage.disk_mib)
        disks.append((Disk(desk, stage, cluster, name), Snapshots(cluster, name, stage.disk_mib)))
        disks[-1][0].fill(stage.disk_mib)
        disks[-1][1].make(count)
    return disks


def measured(desk, stage, rows, chosen):
    """({row key: [cells of each disk]}, what cuts and a deletion did to a load)."""
    clusters = []
    cells = {row.key: [[] for _ in COUNTS] for row in rows}
    beside = None
    try:
        disks = started(desk, stage, clusters)
        for number in range(chosen.rounds):
            for row in rows:
                for at in measure.turns(range(len(disks)), number):
                    system, snapshots = disks[at]
                    if row.key == LATER_KEY:
                        system.fill(stage.disk_mib)
                    else:
                        snapshots.renew()
                    measure_one = lambda: measure.cell(system.bench, row, system, chosen.seconds)
                    cells[row.key][at].append(measure.least_stolen(measure_one, desk.say))
                told = ", ".join(f"{of[-1]['iops']:,.0f}" for of in cells[row.key])
                desk.say(f"round {number + 1} of {chosen.rounds}: {row.key}: IOPS {told}")
        if stage.key == every.MAIN and not chosen.rows:
            beside = beside_load(desk, clusters[0])
    finally:
        for cluster in clusters:
            cluster.stop()
            # The next stage's hosts need as much.
            shutil.rmtree(desk.folder / stage.key, ignore_errors=True)
    return cells, beside


def beside_load(desk, cluster):
    """What snapshots do to a steady load that writes over another disk."""
    desk.say(f"{CUTS} snapshots beside {LOAD_RATE} writes a second, then the middle one of 64 is deleted")
    cluster.create_disk("loaded", LOAD_MIB)
    snapshots = Snapshots(cluster, "loaded", LOAD_MIB)
    records = desk.folder / "records"
    words = [records, "loaded", LOAD_MIB, LOAD_RATE, 600, cluster.nbd_socket(1)]
    load = Child("load", [sys.executable, Path(__file__).with_name("load.py"), *words], desk.folder / "load.log")
    time.sleep(10)
    cuts = []
    for _ in range(CUTS):
        cuts.append(snapshots.take())
        time.sleep(CUT_EVERY_S)
    while len(snapshots.names) < 64:
        snapshots.take()
        time.sleep(0.1)
    time.sleep(DELETED_S / 2)
    begin = time.monotonic()
    time.sleep(DELETED_S)
    deleted = time.monotonic()
    snapshots.delete(32)
    time.sleep(DELETED_S)
    end = time.monotonic()
    load.process.terminate()
    if load.process.wait(120):
        raise ProcessError(f"the load failed:\n{load.tail()}")
    values = array.array("d", records.read_bytes())
    times = list(zip(values[::2], values[1::2]))
    pauses = sorted(slowest(times, *cut) * 1000 for cut in cuts)
    took = sorted((cut[1] - cut[0]) * 1000 for cut in cuts)
    rest = latency_percentile(times, begin, deleted, 99) * 1000
    meanwhile = latency_percentile(times, deleted, end, 99) * 1000
    return {"pauses_ms": pauses, "took_ms": took, "p99_rest_ms": rest, "p99_deleting_ms": meanwhile}


def words_of(count):
    """A disk, as people call it."""
    return {0: "none", 1: "1 snapshot"}.get(count, f"{count} snapshots")


def lines_of(rows, cells):
    """A row of the table for each disk of each row."""
    lines = []
    for row in rows:
        first = cells[row.key][0]
        for count, own in zip(COUNTS, cells[row.key]):
            of = lambda name: median(cell[name] for cell in own)
            ratios = [ratio(cell["iops"], base["iops"]) for cell, base in zip(own, first)]
            lines.append(
                f"| {row.title if own is first else ''} | {words_of(count)} | {of('iops'):,.0f} | {median(ratios):.2f} "
                f"| {of('mean_us'):,.0f} | {of('p99_us'):,.0f} | {of('cpu_s_per_1000') * 1000:.0f} |"
            )
    return lines


HEADING = ("| row | snapshots | IOPS | of the disk without | mean us | p99 us | CPU us an I/O |", "|---" * 7 + "|")


def beside_lines(beside):
    """What a load at the side of snapshots saw."""
    if not beside:
        return []
    pauses, took = beside["pauses_ms"], beside["took_ms"]
    deleting = ratio(beside["p99_deleting_ms"], beside["p99_rest_ms"])
    return [
        "",
        "## Beside a load",
        "",
        *paragraph(
            f"""{LOAD_RATE} writes of 4 KiB a second over {LOAD_MIB} MiB of a disk of their own, by one connection. {len(pauses)} snapshots, one each {CUT_EVERY_S} s:
            a call took {median(took):.1f} ms (worst {took[-1]:.1f}), and the slowest write that was under way meanwhile {median(pauses):.1f} ms (median; worst
            {pauses[-1]:.1f}). The middle one of 64 deleted: p99 {beside["p99_deleting_ms"]:.2f} ms in the {DELETED_S} s after it, {deleting:.2f} times that
            of the {DELETED_S} s before."""
        ),
    ]


def page(made, rows, cells, beside):
    """The page."""
    return "\n".join(
        [
            "# Disks with snapshots",
            "",
            *paragraph(
                f"""Three hosts as processes of one machine, each with one device as a file for its log and one for capacity; disks of two copies, with {CHANGED_BLOCKS} random
                blocks changed between two snapshots. Before each row a disk's oldest snapshot is deleted and a new one is taken: so each block that a row
                writes is changed for the first time since a snapshot, and what it held is kept. Before the last row all blocks are written over instead: its
                writes are those of a disk some time after a snapshot. Medians of {made["rounds"]} rounds of {made["seconds"]:g} s, disks in
                turns; ratios are medians of the rounds' ratios to the disk without snapshots."""
            ),
            "",
            *paragraph(f"`{made['command']}` on {made['date']}; {made['version']}; {describe(made['machine'])}; {made['tools']}."),
            "",
            *HEADING,
            *lines_of(rows, cells),
            *beside_lines(beside),
            "",
        ]
    )


def chosen_rows():
    """The rows, by stage."""
    known = {row.key: row for row in every.every_row()}
    main = [replace(known[key], span_mib=WARM_MIB if known[key].span_mib else 0) for key in KEYS]
    first = known["sustained-4k-qd32"]
    return main, [*(known[key] for key in STEADY_KEYS), replace(first, key=LATER_KEY, title=f"{first.title}, changed before")]


def main(words):
    """Runs it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/snapshots.py", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--rounds", type=whole, default=5, help="default 5")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement; default 2")
    parser.add_argument("--rows", help="only those whose key begins so; the page is printed then, and not written")
    chosen = parser.parse_args(words)
    with Desk("snapshots") as desk:
        made = desk.made(chosen.rounds, chosen.seconds, "")
        cells, rows, beside = {}, [], None
        for stage, own in zip(STAGES.values(), chosen_rows()):
            own = [row for row in own if row.key.startswith(chosen.rows or "")]
            if own:
                found, told = measured(desk, stage, own, chosen)
                cells |= found
                rows += own
                beside = beside or told
    text = page(made, rows, cells, beside)
    if chosen.rows:
        print(text)
    else:
        written(ROOT / PAGE, text)
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
