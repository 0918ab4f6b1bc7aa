"""Disk groups that pack beside disk groups that do not, two clusters of the same build, in turns, behind `make bench-packing`.

Promises  two clusters of three hosts as processes, each with a disk of noise and one of content that packs to half; capacity devices are modelled
          in each round every row is measured on every disk of both, another one first in each
          ratios are medians of the rounds' ratios of the cluster that packs to the one that does not
          ends what it started and removes its files, also on Ctrl-C; nothing is written then
Assumes   some 16 GB of disk are free under target/: hosts' files take their size at once
"""

import argparse
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import measure
import rows as every
from desk import ROOT, Desk, desk_errors, whole, written
from figures import median, ratio
from hosts import SeveralProcesses
from prose import paragraph
from redundancy import Disk, describe

PAGE = Path("docs/bench/packing.md")
MEDIUM = "sata-ssd"
STEADY = every.Stage(every.STEADY, disk_mib=384, cache_mib=384, capacity_mib=1536, log_mib=256)


@dataclass(frozen=True)
class Part:
    """Rows that are measured on the same disks. `dilation`: how many times as slow as the medium its model is. `sustained`: until writes are as
    fast as destage."""

    stage: every.Stage
    rows: tuple
    dilation: int = 4
    sustained: bool = False


# Three hosts share the processors here: only a medium that is that slow is what writes wait for.
SLOW = 16
PARTS = (
    Part(every.Stage(every.MAIN, disk_mib=256, cache_mib=1024, capacity_mib=1280), ("write-qd1", "write-qd32")),
    Part(STEADY, ("coldread-qd1", "coldread-qd32")),
    Part(STEADY, ("sustained-4k-qd32",), dilation=SLOW, sustained=True),
)
# What fio is told for each content. Of 4 KiB 53 % are zeroes: LZ4 brings them to 4 sectors.
CONTENTS = {
    "noise": ("--refill_buffers",),
    "half": ("--refill_buffers", "--buffer_compress_percentage=53", "--buffer_compress_chunk=4k"),
}
KINDS = ("raw", "packed")


class Content(Disk):
    """A disk of a cluster, written with this content."""

    def disk(self):
        return [*super().disk(), *CONTENTS[self.name]]


def started(desk, part, clusters):
    """{(kind, content): disk}, written in full."""
    stage, disks = part.stage, {}
    media = f'capacity_medium = "{MEDIUM}"\nmedium_dilation = {part.dilation}\n'
    for kind in KINDS:
        folder, sockets = desk.folder / stage.key / kind, desk.sockets / f"{stage.key}-{kind}"
        cluster = SeveralProcesses(
            desk.programs, folder, sockets, stage.cache_mib, stage.capacity_mib, hosts=3, log_mib=stage.log_mib, media=media
        )
        clusters.append(cluster)
        cluster.start()
        if kind == "packed":
            for group in cluster.cairn("disk-group", "list"):
                cluster.cairn("disk-group", "set", group["id"], "--compression", "on")
        for content in CONTENTS:
            desk.say(f"stage {stage.key}: making and filling a disk, {kind}, {content}")
            cluster.create_disk(content, stage.disk_mib)
            disks[kind, content] = Content(desk, stage, cluster, content)
            disks[kind, content].fill(stage.disk_mib)
        cluster.clear()
    return disks


def measured(desk, part, rows, chosen):
    """({row key: {(kind, content): cells}}, {kind: what it tells of its space})."""
    clusters, stage = [], part.stage
    seconds = chosen.sustained_seconds if part.sustained else chosen.seconds
    cells = {row.key: {(kind, content): [] for content in CONTENTS for kind in KINDS} for row in rows}
    try:
        disks = started(desk, part, clusters)
        for number in range(chosen.rounds):
            for row in rows:
                for at in measure.turns(list(disks), number):
                    measure_one = lambda: measure.cell(disks[at].bench, row, disks[at], seconds)
                    cells[row.key][at].append(measure.least_stolen(measure_one, desk.say))
                told = ", ".join(f"{kind} {content} {own[-1]['iops']:,.0f}" for (kind, content), own in cells[row.key].items())
                desk.say(f"round {number + 1} of {chosen.rounds}: {row.key}: IOPS {told}")
        for cluster in clusters:
            cluster.clear()
        space = {kind: cluster.cairn("cluster", "capacity")["space"] for kind, cluster in zip(KINDS, clusters)}
    finally:
        for cluster in clusters:
            cluster.stop()
        shutil.rmtree(desk.folder / stage.key, ignore_errors=True)
    return cells, space


def lines_of(rows, cells):
    """A row of the table for each content of each row."""
    lines = []
    for row in rows:
        for content in CONTENTS:
            raw, packed = (cells[row.key][kind, content] for kind in KINDS)
            of = lambda name: median(ratio(cell[name], base[name]) for cell, base in zip(packed, raw))
            title = row.title if content == "noise" else ""
            lines.append(
                f"| {title} | {content} | {median(c['iops'] for c in raw):,.0f} | {median(c['iops'] for c in packed):,.0f} | {of('iops'):.2f} "
                f"| {of('mean_us'):.2f} | {of('p99_us'):.2f} | {of('cpu_s_per_1000'):.2f} |"
            )
    return lines


HEADING = ("| row | content | IOPS raw | IOPS packed | ratio | mean, ratio | p99, ratio | CPU an I/O, ratio |", "|---" * 8 + "|")


def space_words(space):
    """What blocks took."""
    told = space["packed"]
    return f"{told['stored_before_bytes'] >> 20} MiB of blocks took {told['stored_bytes'] >> 20} MiB in the cluster that packs"


def page(made, rows, cells, space, sustained_seconds):
    """The page."""
    return "\n".join(
        [
            "# Disk groups that pack",
            "",
            *paragraph(
                f"""Two clusters of three hosts as processes of one machine, one of which packs; capacity devices are files as slow as {MEDIUM} times {Part.dilation}, for
                sustained writes times {SLOW}: the hosts share the processors, and writes are to wait for the medium there. Disks of
                two copies, one of noise and one of which each block is 53 % zeroes. Medians of {made["rounds"]} rounds of {made["seconds"]:g} s, of sustained writes
                {sustained_seconds:g} s, disks in turns;
                ratios are medians of the rounds' ratios of the cluster that packs to the other one. At the end of the last part {space_words(space)}."""
            ),
            "",
            *paragraph(f"`{made['command']}` on {made['date']}; {made['version']}; {describe(made['machine'])}; {made['tools']}."),
            "",
            *HEADING,
            *lines_of(rows, cells),
            "",
        ]
    )


def main(words):
    """Runs it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/packing.py", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--rounds", type=whole, default=5, help="default 5")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement; default 3")
    parser.add_argument("--sustained-seconds", type=float, default=30.0, help="the same of sustained writes; default 30")
    parser.add_argument("--rows", help="only those whose key begins so; the page is printed then, and not written")
    chosen = parser.parse_args(words)
    with Desk("packing") as desk:
        made = desk.made(chosen.rounds, chosen.seconds, "")
        known = {row.key: row for row in every.every_row()}
        cells, rows, space = {}, [], {}
        for part in PARTS:
            own = [known[key] for key in part.rows if key.startswith(chosen.rows or "")]
            if own:
                found, space = measured(desk, part, own, chosen)
                cells |= found
                rows += own
    text = page(made, rows, cells, space, chosen.sustained_seconds)
    if chosen.rows:
        print(text)
    else:
        written(ROOT / PAGE, text)
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
