"""Copies of one image, one after the other, on disk groups that store equal blocks once, and on such that do not: behind `make bench-copies`.

Promises  clusters of three hosts as processes, in turns; write buffers that hold a fraction of an image; capacity devices are modelled
          every copy is written whole and destaged before the next one begins; the time of both counts
          ratios are medians of the rounds' ratios to the first copy of the same cluster
          ends what it started and removes its files, also on Ctrl-C; nothing is written then
Assumes   some 12 GB of disk are free under target/
"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from desk import ROOT, Desk, desk_errors, whole, written
from figures import median, ratio
from hosts import SeveralProcesses
from prose import paragraph
from redundancy import describe

PAGE = Path("docs/bench/copies.md")
MEDIUM, DILATION = "sata-ssd", 4
MEDIA = f'capacity_medium = "{MEDIUM}"\nmedium_dilation = {DILATION}\n'
IMAGE_MIB, LOG_MIB, CACHE_MIB, COPIES = 512, 128, 384, 3
KINDS = ("as it is", "dedupe")
COUNTED = ("dedupe_hit_blocks", "dedupe_twin_blocks", "destaged_bytes", "metadata_write_bytes", "dedupe_late_blocks", "dedupe_compared_blocks")


def total(told, name):
    """The sum of a counter over all disk groups."""
    groups = [group["counters"] for host in told["hosts"] for group in host["disk_groups"] if group["counters"]]
    return sum(group[name] for group in groups)


def copied(cluster, name):
    """Writes the image to a new disk and waits until it is destaged: seconds, and what was counted meanwhile."""
    cluster.create_disk(name, IMAGE_MIB)
    before, begin = cluster.counters(), time.monotonic()
    line = ["fio", "--name=image", "--ioengine=nbd", f"--uri={cluster.uri(name)}", "--rw=write", "--bs=1m", "--iodepth=4"]
    line += [f"--size={IMAGE_MIB}m", "--randseed=77", "--refill_buffers", "--output-format=json"]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    cluster.clear()
    seconds, after = time.monotonic() - begin, cluster.counters()
    return seconds, {counter: total(after, counter) - total(before, counter) for counter in COUNTED}


def measured(desk, kind, number):
    """[(seconds, counted)] of each copy."""
    folder = desk.folder / f"{number}-{kind.split()[0]}"
    capacity_mib = IMAGE_MIB * (COPIES + 1)
    cluster = SeveralProcesses(
        desk.programs, folder, desk.sockets / folder.name, CACHE_MIB, capacity_mib, hosts=3, log_mib=LOG_MIB, media=MEDIA
    )
    try:
        cluster.start()
        if kind == "dedupe":
            for group in cluster.cairn("disk-group", "list"):
                cluster.cairn("disk-group", "set", group["id"], "--dedupe", "on")
        copies = []
        for copy in range(1, COPIES + 1):
            copies.append(copied(cluster, f"copy-{copy}"))
            seconds, counted = copies[-1]
            desk.say(f"round {number + 1}, {kind}, copy {copy}: {seconds:.2f} s, {counted}")
        return copies
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def lines_of(found):
    """A row of the table for each copy of each kind."""
    lines = []
    for kind in KINDS:
        for copy in range(COPIES):
            own = [rounds[copy] for rounds in found[kind]]
            first = [rounds[0] for rounds in found[kind]]
            sum_of = lambda name: sum(counted[name] for _, counted in own)
            equal = sum_of("dedupe_hit_blocks") + sum_of("dedupe_twin_blocks")
            blocks = sum_of("destaged_bytes") / 4096
            lines.append(
                f"| {kind} | {copy + 1} | {median(IMAGE_MIB / seconds for seconds, _ in own):.0f} "
                f"| {median(ratio(base, seconds) for (seconds, _), (base, _) in zip(own, first)):.2f} "
                f"| {100 * equal / blocks:.1f} % | {100 * sum_of('metadata_write_bytes') / (blocks * 4096):.1f} % |"
            )
    return lines


HEADING = ("| disk groups | copy | MiB/s | to the first | equal blocks found | metadata written, of blocks destaged |", "|---" * 6 + "|")


def page(made, found):
    """The page."""
    return "\n".join(
        [
            "# Copies of one image",
            "",
            *paragraph(
                f"""An image of {IMAGE_MIB} MiB of noise is written to one disk after the other, each of two copies, on three hosts as processes of one machine with write
                buffers of {LOG_MIB} MiB. The time until all of it is destaged counts. Capacity devices are files as slow as {MEDIUM} times {DILATION}. Medians of {made["rounds"]}
                rounds, each on clusters of its own. Blocks count that were destaged or found equal."""
            ),
            "",
            *paragraph(f"`{made['command']}` on {made['date']}; {made['version']}; {describe(made['machine'])}; {made['tools']}."),
            "",
            *HEADING,
            *lines_of(found),
            "",
        ]
    )


def main(words):
    """Runs it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/copies.py", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--rounds", type=whole, default=3, help="default 3")
    parser.add_argument("--print", action="store_true", help="the page is printed, and not written")
    chosen = parser.parse_args(words)
    with Desk("copies") as desk:
        made = desk.made(chosen.rounds, 0.0, "")
        found = {kind: [] for kind in KINDS}
        for number in range(chosen.rounds):
            for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
                found[kind].append(measured(desk, kind, number))
    text = page(made, found)
    if chosen.print:
        print(text)
    else:
        written(ROOT / PAGE, text)
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
