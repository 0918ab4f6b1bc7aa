"""Mirrors beside rows of data and parity: disks of several policies on the same hosts, in turns, behind `make bench-rows`.

Promises  one cluster of six hosts as processes; in each round every row is measured on every disk, another one first in each
          ratios are medians of the rounds' ratios to the mirror with FTT 1; what the hosts' logs and reads come to is counted, not computed
          ends what it started and removes its files, also on Ctrl-C; nothing is written then
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import measure
import rows as every
from desk import ROOT, Desk, desk_errors, whole, written
from figures import median, ratio
from hosts import SeveralProcesses
from prose import paragraph
from systems import Cairn

HOSTS = 6
PAGE = Path("docs/bench/rows.md")
STAGES = {
    every.MAIN: every.Stage(every.MAIN, disk_mib=384, cache_mib=1024, capacity_mib=2048),
    every.STEADY: every.Stage(every.STEADY, disk_mib=512, cache_mib=384, capacity_mib=2048, log_mib=256),
}
# Name of disk and policy, what it is called, and how the policy is made.
DISKS = (
    ("mirror-1", "mirror FTT 1", ("--ftt", "1")),
    ("raid-5", "3+1", ("--ftm", "erasure-coding", "--data-strips", "3", "--ftt", "1")),
    ("mirror-2", "mirror FTT 2", ("--ftt", "2")),
    ("raid-6", "4+2", ("--ftm", "erasure-coding", "--data-strips", "4", "--ftt", "2")),
)
# Reads of these keep to a part of the disk that fits the caches of its hosts.
WARM_MIB = 64
# Rows of each stage, by their keys.
KEYS = ("write-qd1", "write-qd32", "mix-4k-qd32", "read-qd32", "seqwrite-128k-qd8", "seqwrite-1m-qd4", "seqread-1m-qd4")
STEADY_KEYS = ("coldread-qd1", "coldread-qd32", "sustained-4k-qd32")
# What a byte that hosts read of their stores may come from.
READS = ("read_cache_mib", "read_log_mib", "read_capacity_mib")


def chosen_rows():
    """The rows, by stage."""
    known = {row.key: row for row in every.every_row()}
    found = []
    for key in KEYS:
        row = replace(known[key], span_mib=WARM_MIB if known[key].span_mib else 0)
        if row.rw == "randwrite":
            found.append(replace(row, title=f"{row.title}, cold"))
            warm = f"{row.title}, of {WARM_MIB} MiB that were read before"
            found.append(replace(row, key=f"{key}-warm", title=warm, before="clear-warm", span_mib=WARM_MIB))
        else:
            found.append(row)
    return found, [known[key] for key in STEADY_KEYS]


class Disk(Cairn):
    """A disk of the cluster that all share."""

    def __init__(self, bench, stage, cluster, name):
        super().__init__(bench, stage)
        self.cluster, self.name, self.children = cluster, name, cluster.children

    def disk(self):
        return ["--ioengine=nbd", f"--uri={self.cluster.uri(self.name)}"]

    def door(self, disk):
        return self.cluster.uri(self.name)


def started(desk, stage, sum_of):
    """A cluster with a disk of each policy, written in full."""
    cluster = SeveralProcesses(
        desk.programs, desk.folder / stage.key, desk.sockets / stage.key, stage.cache_mib, stage.capacity_mib, hosts=HOSTS, log_mib=stage.log_mib
    )
    sum_of.append(cluster)
    cluster.start()
    disks = []
    for name, words, rules in DISKS:
        desk.say(f"stage {stage.key}: making and filling a disk, {words}")
        cluster.cairn("policy", "create", name, *rules)
        cluster.create_disk(name, stage.disk_mib, policy=name)
        disks.append(Disk(desk, stage, cluster, name))
        disks[-1].fill(stage.disk_mib)
    return disks


def measured(desk, stage, rows, chosen):
    """{row key: [cells of each disk]}."""
    clusters = []
    cells = {row.key: [[] for _ in DISKS] for row in rows}
    try:
        disks = started(desk, stage, clusters)
        for number in range(chosen.rounds):
            for row in rows:
                for at in measure.turns(range(len(disks)), number):
                    system = disks[at]
                    measure_one = lambda: measure.cell(system.bench, row, system, chosen.seconds)
                    cells[row.key][at].append(measure.least_stolen(measure_one, desk.say))
                told = ", ".join(f"{of[-1]['iops']:,.0f}" for of in cells[row.key])
                desk.say(f"round {number + 1} of {chosen.rounds}: {row.key}: IOPS {told}")
    finally:
        for cluster in clusters:
            cluster.stop()
    return cells


def by_guest_byte(cell, names):
    """Bytes that hosts counted for each byte of the guest."""
    guest_mib = cell["mib_s"] * cell["ios"] / cell["iops"]
    return ratio(sum(cell[f"told_{name}"] for name in names), guest_mib)


def lines_of(rows, cells):
    """A row of the table for each disk of each row."""
    lines = []
    for row in rows:
        first = cells[row.key][0]
        for (_, words, _), own in zip(DISKS, cells[row.key]):
            of = lambda name: median(cell[name] for cell in own)
            ratios = [ratio(cell["iops"], base["iops"]) for cell, base in zip(own, first)]
            counted = [median(by_guest_byte(cell, names) for cell in own) for names in (("write_mib",), READS)]
            lines.append(
                f"| {row.title if own is first else ''} | {words} | {of('iops'):,.0f} | {median(ratios):.2f} | {of('mean_us'):,.0f} "
                f"| {of('p99_us'):,.0f} | {of('cpu_s_per_1000') * 1000:.0f} | {counted[0]:.2f} | {counted[1]:.2f} |"
            )
    return lines


def describe(machine):
    """A machine in words."""
    return f"{machine['processors']} processors ({machine['model']}), {machine['memory']}, Linux {machine['kernel']}"


HEADING = (
    "| row | disk | IOPS | of the mirror's | mean us | p99 us | CPU us an I/O | bytes logged a byte | bytes read a byte |",
    "|---" * 9 + "|",
)


def page(made, rows, cells):
    """The page."""
    return "\n".join(
        [
            "# Rows of data and parity beside mirrors",
            "",
            *paragraph(
                f"""{HOSTS} hosts as processes of one machine, each with one device as a file for its log and one for capacity, and a disk of each
                policy; all of them owned by the host that the load asks. Medians of {made["rounds"]} rounds of {made["seconds"]:g} s, disks in
                turns; ratios are medians of the rounds' ratios to the mirror with FTT 1. *Bytes logged* are those of all members of the disk for
                each byte that the guest wrote or read, *bytes read* those that hosts read of their stores, from memory or devices."""
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
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/redundancy.py", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--rounds", type=whole, default=7, help="default 7")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement; default 2")
    parser.add_argument("--rows", help="only those whose key begins so; the page is printed then, and not written")
    chosen = parser.parse_args(words)
    with Desk("rows") as desk:
        made = desk.made(chosen.rounds, chosen.seconds, "")
        cells, rows = {}, []
        for stage, own in zip(STAGES.values(), chosen_rows()):
            own = [row for row in own if row.key.startswith(chosen.rows or "")]
            if own:
                cells |= measured(desk, stage, own, chosen)
                rows += own
    text = page(made, rows, cells)
    if chosen.rows:
        print(text)
    else:
        written(ROOT / PAGE, text)
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
