"""How long a disk group takes to open, and how much memory, with a write buffer of 100 GiB that is full, and with a map of terabytes.

Promises  devices are files that are mostly holes: the buffer is filled with writes whose data are holes, the map with blocks that were
          never written (`cairn-bench fill-log`, `fill-map`)
          what was killed is opened, with nothing of it in the kernel's memory
Assumes   16 GiB of memory for the largest row
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import machine
import onethread
import sizes_measure
from desk import ROOT, desk_errors, target, written
from processes import ProcessError, cpu_s, die_with_parent, memory_mib
from sizes import Desk
from sizes_host import SparseHost
from sizes_rows import GIB, Size

MIB = 1 << 20
PAGE = Path("docs/bench/openings")
SPACE_GIB = 44


@dataclass(frozen=True)
class Row:
    """What is opened. `fill`: the verb that fills it, and its options."""

    key: str
    words: str
    size: Size
    span_mib: int
    fill: tuple
    log_mib: int = 0
    log_memory_mib: int = 0


LOG_MIB = 100 * 1024
# 220 bytes for 4 KiB of it, and a little: the arithmetic of the refusal.
LOG_MEMORY_MIB = LOG_MIB * 220 // 4096 + 8
LONG = Size("long-log", "", 2048, log_mib=LOG_MIB)

ROWS = (
    Row("log-4k", "a full log of 100 GiB: writes of 4 KiB, 64 at once", LONG, 1 << 20, ("fill-log", "--writes-per-batch=64"), LOG_MIB, LOG_MEMORY_MIB),
    Row(
        "log-64k",
        "a full log of 100 GiB: writes of 64 KiB, 8 at once",
        LONG,
        1 << 20,
        ("fill-log", "--writes-per-batch=8", "--blocks-per-write=16"),
        LOG_MIB,
        LOG_MEMORY_MIB,
    ),
    Row("map-1t", "a map of 268 million blocks at random (1 TiB)", Size("map", "", 4096), 1 << 20, ("fill-map", "--no-heads")),
    Row("map-3t", "a map of 805 million blocks at random (3 TiB)", Size("map", "", 4096), 3 << 20, ("fill-map", "--no-heads")),
)


class OpeningHost(SparseHost):
    """A host whose log may be longer than one is by default."""

    def _write_log(self, cache):
        """Nothing: its data are to be holes, and it is far larger than what may be written."""

    def tuning(self):
        words = super().tuning()
        return words + f'log_memory = "{self.row.log_memory_mib}MiB"\n' if self.row.log_memory_mib else words


def measure(desk, row):
    """Fills the row's group and opens it, twice: killed, and in order."""
    host = OpeningHost(desk.programs, desk.folder / "host", desk.sockets / "host", row, SPACE_GIB)
    try:
        host.make()
        # The copies of the disk are made when it is first used. A map is filled where nothing was written.
        host.served(write=row.fill[0] == "fill-log")
        host.end()
        values = filled(host)
        desk.say(f"{row.key}: filled in {values['fill_s']:.0f} s: {values['filled']}")
        host.forget_pages()
        for name, end in (("first", host.kill), ("again", host.end)):
            begin = time.monotonic()
            host.start()
            seen = sizes_measure.sample(host)
            pid = host.pids()["cairnd"]
            gauges = seen.gauges[0]
            values |= {
                f"{name}_s": gauges["opening_us"] / 1e6,
                f"{name}_started_s": time.monotonic() - begin,
                f"{name}_cpu_s": cpu_s(pid),
                f"{name}_resident_mib": memory_mib(pid)["rss"],
                f"{name}_peak_mib": memory_mib(pid)["peak"],
                f"{name}_log_percent": gauges["log_fill_permille"] / 10,
                f"{name}_records": gauges["records_buffered"],
                f"{name}_metadata_mib": gauges["metadata_used_bytes"] / MIB,
            }
            desk.say(
                f"{row.key}: opened in {values[f'{name}_s']:.1f} s with {values[f'{name}_records']:,} records, "
                f"{values[f'{name}_resident_mib']:,.0f} MiB resident, {values[f'{name}_cpu_s']:.1f} s of processor"
            )
            end()
            host.forget_pages()
            if row.log_memory_mib:
                # What is in the log is destaged for hours from here on.
                break
        return values | {"taken_gib": host.taken_bytes() / GIB}
    finally:
        host.remove()


def filled(host):
    """Fills the log or the map by the tool for it."""
    begin, (cache, capacity) = time.monotonic(), host.groups[0]
    verb, *options = host.row.fill
    line = [str(host.programs / onethread.PROGRAM), verb, str(cache), *map(str, capacity), *options, "--destructive", "--style=json"]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent, check=False)
    if done.returncode:
        raise ProcessError(f"{onethread.PROGRAM} {verb} ended with code {done.returncode}: {done.stderr.strip()}")
    told = json.loads(done.stdout)
    return {"fill_s": time.monotonic() - begin, "blocks": told["blocks"], "filled": f"{told['blocks']:,} blocks"}


def page(result):
    """The table."""
    lines = [
        "# Opening",
        "",
        "Made by `make bench-openings`. Devices are files with holes: what a real one takes to read its part of the log comes on top, where it is",
        "slower than the processor: half of a log of batches of 256 KiB (the first row), all of one of lone small writes.",
        "{processors} processors ({model}), {memory}, kernel {kernel}.".format(**result["machine"]),
        "",
        "| opened | blocks | opening, s | processor, s | records in the log | resident, MiB | at most | again, after an end in order: s, MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in result["rows"]:
        of = cell["values"]
        again = f"{of['again_s']:.2f}, {of['again_resident_mib']:,.0f}" if "again_s" in of else "-"
        lines.append(
            f"| {cell['words']} | {of['blocks']:,} | {of['first_s']:.1f} | {of['first_cpu_s']:.1f} | {of['first_records']:,} | "
            f"{of['first_resident_mib']:,.0f} | {of['first_peak_mib']:,.0f} | {again} |"
        )
    left_out = [row.words for row in ROWS if row.key not in [cell["row"] for cell in result["rows"]]]
    lines += ["", f"Not in this run: {'; '.join(left_out)}."] if left_out else []
    return "\n".join(lines) + "\n"


def run():
    """The rows that are asked for."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/openings.py", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=lambda text: text.split(","), default=[row.key for row in ROWS], help="only these, with commas")
    parser.add_argument("--build", type=Path, help="a folder with programs; else built here")
    parser.add_argument("--folder", type=Path, help="where devices are made; default below target/")
    parser.add_argument("--out", type=Path, help=f"the result; its page is beside it. Default {PAGE}.json, of a selection target/{PAGE.name}.json")
    chosen = parser.parse_args()
    rows = [row for row in ROWS if row.key in chosen.rows]
    if not rows:
        parser.error(f"rows: {', '.join(row.key for row in ROWS)}")
    out = chosen.out or (ROOT / PAGE if len(rows) == len(ROWS) else target() / PAGE.name)
    with Desk(chosen.build, chosen.folder) as desk:
        cells = []
        for row in rows:
            desk.say(f"{row.key}: {row.words}")
            cells.append({"row": row.key, "words": row.words, "values": measure(desk, row)})
        result = {"format": 1, "machine": machine.describe(), "rows": cells}
        written(out.with_suffix(".json"), json.dumps(result, indent=1) + "\n")
        written(out.with_suffix(".md"), page(result))
    print(page(result))


if __name__ == "__main__":
    sys.exit(desk_errors(run))
