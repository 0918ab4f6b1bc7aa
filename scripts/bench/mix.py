"""Mirrors for databases and RAID-5 for the rest, on disk groups that pack and store equal blocks once: behind `make bench-mix`.

Promises  the applications, their sizes and what each is kept as are those of a set of IOmark-VM-HC on vSAN 6.6; SCALE MiB stand for a GB
          every block is written; what is held and stored is asked of the cluster once all of it is destaged
          ends what it started and removes its files, also on Ctrl-C; nothing is written then
Assumes   some 14 GB of disk are free under target/: hosts' files take their size at once
"""

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass

from desk import ROOT, Desk, desk_errors, whole, written
from hosts import SeveralProcesses
from prose import paragraph
from redundancy import describe

PAGE = "docs/bench/mix.md"
HOSTS, LOG_MIB, CACHE_MIB, CAPACITY_MIB = 4, 256, 640, 2560
# MiB of a disk here for each GB there.
SCALE = 2
MIRROR, RAID5 = "default", "raid-5"
# Bytes of all hosts for a byte of a disk.
MULTIPLIERS = {MIRROR: 2, RAID5: 4 / 3}
# The part of a disk that is an image: the same in the same application of all sets.
IMAGE_SHARE = 3
# Of 4 KiB 53 % are zeroes: LZ4 brings them to 4 sectors.
CONTENT = ("--refill_buffers", "--buffer_compress_percentage=53", "--buffer_compress_chunk=4k")


@dataclass(frozen=True)
class Application:
    """One of a set: GB of its disk in the document."""

    name: str
    gb: int
    policy: str


APPLICATIONS = (
    Application("dvd-store-db", 45, MIRROR),
    Application("exchange", 80, MIRROR),
    Application("olio-db", 14, RAID5),
    Application("olio-web", 80, RAID5),
    Application("dvd-store-web-1", 10, RAID5),
    Application("dvd-store-web-2", 10, RAID5),
    Application("dvd-store-web-3", 10, RAID5),
    Application("standby", 10, RAID5),
)


def filled(cluster, name, mib, seeds):
    """Writes a disk: its image, then what it has of its own, each drawn from a seed."""
    image = mib // IMAGE_SHARE
    for offset, size, seed in ((0, image, seeds[0]), (image, mib - image, seeds[1])):
        line = ["fio", "--name=fill", "--ioengine=nbd", f"--uri={cluster.uri(name)}", "--rw=write", "--bs=1m", "--iodepth=4"]
        line += [f"--offset={offset}m", f"--size={size}m", f"--randseed={seed}", *CONTENT, "--output-format=json"]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)


def measured(desk, sets, saves):
    """The cluster's capacity once all sets are written."""
    folder = desk.folder / ("saves" if saves else "plain")
    cluster = SeveralProcesses(
        desk.programs, folder, desk.sockets / folder.name, CACHE_MIB, CAPACITY_MIB, hosts=HOSTS, log_mib=LOG_MIB
    )
    try:
        cluster.start()
        cluster.cairn("policy", "create", RAID5, "--ftt", "1", "--ftm", "erasure-coding", "--data-strips", "3")
        for group in cluster.cairn("disk-group", "list") if saves else []:
            cluster.cairn("disk-group", "set", group["id"], "--compression", "on", "--dedupe", "on")
        for number in range(1, sets + 1):
            for at, application in enumerate(APPLICATIONS, start=1):
                name = f"set-{number}-{application.name}"
                cluster.create_disk(name, application.gb * SCALE, policy=application.policy)
                filled(cluster, name, application.gb * SCALE, (at, 1000 * number + at))
            cluster.clear()
            desk.say(f"{folder.name}: set {number} of {sets} is destaged")
        return cluster.cairn("cluster", "capacity")["space"]
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def mib(count):
    """Bytes, told in MiB."""
    return f"{count / (1 << 20):,.0f}"


def lines_of(sets):
    """A row of the table for each application, and their sum."""
    rows = [(a.name, a.gb * SCALE * sets, a.policy, a.gb * SCALE * sets * MULTIPLIERS[a.policy]) for a in APPLICATIONS]
    lines = [f"| {name} | {size:,} | {'mirror' if policy == MIRROR else 'RAID-5, 3+1'} | {held:,.0f} |" for name, size, policy, held in rows]
    return [*lines, f"| all | {sum(row[1] for row in rows):,} | | {sum(row[3] for row in rows):,.0f} |"]


def beside(space):
    """Bytes in use that are no blocks."""
    return space["headers_bytes"] + space["dead_bytes"] + space["metadata_used_bytes"]


def in_use(space):
    """All bytes in use."""
    return space["stored_bytes"] + beside(space)


def saved_lines(plain, saves):
    """What both clusters tell."""
    lines = []
    for words, space in (("as they are", plain), ("that pack and store equal blocks once", saves)):
        held = space["disks_bytes"]
        whole_system = in_use(plain) / in_use(space)
        lines.append(
            f"| {words} | {mib(held)} | {mib(space['stored_before_bytes'])} | {mib(space['stored_bytes'])} | {held / space['stored_bytes']:.2f} "
            f"| {mib(beside(space))} | {whole_system:.2f} |"
        )
    return lines


def page(made, sets, plain, saves):
    """The page."""
    return "\n".join(
        [
            "# Mirrors and RAID-5 on disk groups that save",
            "",
            *paragraph(
                f"""The document (IOmark-VM-HC on vSAN 6.6) keeps the disks of a set's database and of Exchange as mirrors and the six others as RAID-5, in one datastore, with
                deduplication and compression, and tells that 100 sets used 9.23 TB of 58 TB. Here {sets} sets are written to {HOSTS} hosts as processes of one machine, each
                with one capacity device; {SCALE} MiB stand for a GB. The document does not tell what its disks hold. Here a third of each disk is an image, the same in all
                sets, the rest its own; each block packs to half. Without the image nothing would be equal, and packing alone would save."""
            ),
            "",
            *paragraph(f"`{made['command']}` on {made['date']}; {made['version']}; {describe(made['machine'])}; {made['tools']}."),
            "",
            *paragraph(
                """Held is what calculation says. Not all copies of an image are found: a disk is on two or four of the hosts, and equal blocks are looked for on the same device;
                parity of rows is equal only where all of a row is."""
            ),
            "",
            "| disks of | MiB | policy | on all hosts, MiB by calculation |",
            "|---" * 4 + "|",
            *lines_of(sets),
            "",
            "| disk groups | held, MiB | blocks before packing | blocks | held, of blocks | headers, dead, metadata | whole system, of the first row |",
            "|---" * 7 + "|",
            *saved_lines(plain, saves),
            "",
        ]
    )


def main(words):
    """Runs it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/mix.py", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--sets", type=whole, default=3, help="default 3")
    chosen = parser.parse_args(words)
    with Desk("mix") as desk:
        made = desk.made(1, 0.0, "")
        plain, saves = (measured(desk, chosen.sets, saves) for saves in (False, True))
    written(ROOT / PAGE, page(made, chosen.sets, plain, saves))
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
