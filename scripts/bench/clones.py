"""Clones of a golden disk, and machines that boot of them, behind `make bench-clones`.

Promises  one cluster of three hosts as processes; the golden disk is large and mostly a hole, as an image is
          a boot is each block of the image's data once, in an order of its own, one read at a time; all machines boot at once
          the same machines boot of clones and of own copies, in turns, each time with caches that were cleared
          ends what it started and removes its files, also on Ctrl-C; nothing is written then
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from desk import ROOT, Desk, desk_errors, whole, written
from figures import median, ratio
from fio import jobs_of
from hosts import SeveralProcesses
from measure import turns
from processes import die_with_parent
from prose import paragraph
from redundancy import describe

PAGE = Path("docs/bench/clones.md")
GOLDEN, GOLDEN_MIB = "golden", 40 << 10
# Calls at once, as `cairn disk clone --count` has them.
AT_ONCE = 4
READ_KIB = 16


def used(cluster):
    """Bytes that all hosts hold: blocks, the metadata, and what is in logs."""
    names = ("capacity_live_bytes", "metadata_used_bytes", "log_used_bytes")
    return sum(gauges[name] for gauges in cluster.gauges() for name in names)


def cloned(desk, cluster, count):
    """Makes so many clones; gives seconds of each call, and of all."""
    desk.say(f"{count} clones of {GOLDEN_MIB >> 10} GiB")

    def one(number):
        begin = time.monotonic()
        cluster.post(f"snapshots/{GOLDEN}@image/clone", {"name": f"desk-{number}"}, host=1 + number % 3)
        return time.monotonic() - begin

    begin = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as calls:
        took = list(calls.map(one, range(count)))
    return took, time.monotonic() - begin


def booted(desk, cluster, names, mib):
    """All of these boot at once; seconds of each."""
    output = desk.folder / "boot.json"
    line = ["fio", "--thread", "--output-format=json", f"--output={output}", "--ioengine=nbd", "--rw=randread", f"--bs={READ_KIB}k"]
    line += ["--iodepth=1", f"--size={mib}m"]
    for number, name in enumerate(names):
        line += [f"--name={name}", f"--randseed={number + 1}", f"--uri={cluster.uri(name, host=1 + number % 3)}"]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
    jobs = jobs_of(output.read_text())
    for job in jobs:
        if job["error"] or job["read"]["io_bytes"] != mib << 20:
            raise OSError(f"{job['jobname']} did not boot: {job['error']}")
    return [job["read"]["runtime"] / 1000 for job in jobs]


def page(made, chosen, told):
    """The page."""
    took = sorted(1000 * s for s in told["took"])
    lines = [
        "# Clones of a golden disk",
        "",
        *paragraph(
            f"""Three hosts as processes of one machine; a golden disk of {GOLDEN_MIB >> 10} GiB with {chosen.image_mib} MiB of data, two copies. {chosen.clones} clones by
            {AT_ONCE} calls at once: {told["all_s"]:.1f} s, {1000 * told["all_s"] / chosen.clones:.1f} ms each (a call {median(took):.1f} ms, the slowest
            {took[-1]:.0f}). All hosts together hold {told["used"] / chosen.clones / 1024:.1f} KiB more for each: blocks, metadata and logs."""
        ),
        "",
        *paragraph(
            f"""Then {chosen.boots} machines boot at once, each reading {chosen.image_mib} MiB in {READ_KIB} KiB at random, every block once, one at a time; caches are cleared
            before. Rounds of clones and of own copies in turns: seconds to the end of a machine's boot, medians of all machines."""
        ),
        "",
        "| round | clones | own copies | ratio |",
        "|---|---|---|---|",
    ]
    for number, (clones, own) in enumerate(zip(told["clones"], told["own"])):
        lines.append(f"| {number + 1} | {median(clones):.2f} | {median(own):.2f} | {ratio(median(clones), median(own)):.2f} |")
    lines += ["", *paragraph(f"`{made['command']}` on {made['date']}; {made['version']}; {describe(made['machine'])}; {made['tools']}."), ""]
    return "\n".join(lines)


def measured(desk, chosen):
    """What there is to tell."""
    cluster = SeveralProcesses(desk.programs, desk.folder / "clones", desk.sockets / "clones", 1024, 4096 + chosen.boots * chosen.image_mib, hosts=3)
    try:
        cluster.start()
        cluster.create_disk(GOLDEN, GOLDEN_MIB)
        image = desk.folder / "image"
        with image.open("wb") as file:
            for _ in range(chosen.image_mib):
                file.write(os.urandom(1 << 20))
        copy = lambda name: subprocess.run(["nbdcopy", image, cluster.uri(name)], check=True, preexec_fn=die_with_parent)
        filled(cluster, image)
        cluster.post("snapshots", {"name": "image", "disks": [GOLDEN]})
        own = [f"own-{number}" for number in range(chosen.boots)]
        desk.say(f"{chosen.boots} copies of the image")
        for name in own:
            cluster.create_disk(name, chosen.image_mib)
            copy(name)
        cluster.clear()
        before = used(cluster)
        took, all_s = cloned(desk, cluster, chosen.clones)
        cluster.clear()
        told = {"took": took, "all_s": all_s, "used": used(cluster) - before, "clones": [], "own": []}
        arms = {"clones": [f"desk-{number}" for number in range(chosen.boots)], "own": own}
        for number in range(chosen.rounds):
            for arm in turns(list(arms), number):
                cluster.clear()
                told[arm].append(booted(desk, cluster, arms[arm], chosen.image_mib))
                desk.say(f"round {number + 1}: {arm}: a machine boots in {median(told[arm][-1]):.2f} s")
        return told
    finally:
        cluster.stop()


def filled(cluster, image):
    """The image at the beginning of the golden disk."""
    words = f"write -q -s {image} 0 {image.stat().st_size}"
    subprocess.run(["qemu-io", "-f", "raw", "-c", words, cluster.uri(GOLDEN)], check=True, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)


def main(words):
    """Runs it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/clones.py", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--clones", type=whole, default=1000, help="default 1000")
    parser.add_argument("--boots", type=whole, default=50, help="machines that boot at once; default 50")
    parser.add_argument("--image-mib", type=whole, default=32, help="data of the image; default 32")
    parser.add_argument("--rounds", type=whole, default=3, help="default 3")
    chosen = parser.parse_args(words)
    if chosen.boots > chosen.clones:
        parser.error("more machines than clones")
    with Desk("clones") as desk:
        made = desk.made(chosen.rounds, 0, "")
        text = page(made, chosen, measured(desk, chosen))
    written(ROOT / PAGE, text)
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
