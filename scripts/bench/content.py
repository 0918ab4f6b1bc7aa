"""What real data comes to where it is packed, behind `make bench-content`.

Promises  each kind of data is one path, a file or a folder; all ratios are of the same bytes
          zstd and lz4 pack all of it as one stream: what no store of blocks can reach
Assumes   zstd and lz4 are installed
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from desk import ROOT, Desk, desk_errors, written
from prose import paragraph
from redundancy import describe

PAGE = Path("docs/bench/content.md")
CHUNK = 1 << 20
STREAMS = {"zstd -1": ("zstd", "-1", "-c", "-q"), "lz4": ("lz4", "-1", "-c", "-q")}


def files(path):
    """The files of a path in order, links left out."""
    if path.is_file():
        return [path]
    found = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
    return sorted(file for file in found if file.is_file() and not file.is_symlink())


def stream(line, path):
    """Bytes before for each byte after, all files one after the other."""
    before, packer = 0, subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    counter = subprocess.Popen(["wc", "-c"], stdin=packer.stdout, stdout=subprocess.PIPE)
    packer.stdout.close()
    with packer.stdin as out:
        for file in files(path):
            with open(file, "rb") as data:
                while part := data.read(CHUNK):
                    before += len(part)
                    out.write(part)
    after = int(counter.communicate()[0])
    if packer.wait():
        raise OSError(f"{' '.join(line)} ended with code {packer.returncode}")
    return before / after


def looked_at(desk, name, path):
    """The calculator's ratios, and those of whole streams."""
    desk.say(f"{name}: {path}")
    line = [desk.programs / "cairn", "--output", "json", "bench", "calc", "capacity", "--content", path]
    told = json.loads(subprocess.run([str(word) for word in line], check=True, stdout=subprocess.PIPE).stdout)["content"]
    return told | {words: stream(line, path) for words, line in STREAMS.items()}


def line_of(name, told):
    """A row of the table."""
    mib = lambda blocks: f"{blocks * 4096 / (1 << 20):,.0f}"
    ratios = [told[rule] for rule in ("packed", "vsan", "once", "once_packed", "once_vsan")]
    ratios += [told[words] for words in STREAMS]
    return f"| {name} | {mib(told['blocks'])} | {mib(told['zero_blocks'])} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |"


def page(made, kinds, notes):
    """The page."""
    heading = "| data | MiB | MiB of zeroes | packed | vSAN's rule | equal blocks once | both | both, vSAN's rule | " + " | ".join(STREAMS) + " |"
    return "\n".join(
        [
            "# What real data comes to",
            "",
            *paragraph(
                """Bytes before for each byte after. *Packed*: LZ4 of each 4 KiB block in sectors of 512 bytes, raw above six of them, as disk groups with compression
                have it. *vSAN's rule*: 2 KiB or raw. *Equal blocks once*: what all duplicates of 4 KiB come to, each found. The last columns pack all of the data as
                one stream. Zeroes are left out but there. `cairn bench calc capacity --content PATH...` tells the same of any files."""
            ),
            "",
            *paragraph(f"`{made['command'].split(' --kind')[0]}` on {made['date']}; {made['version']}; {describe(made['machine'])}. {notes}"),
            "",
            heading,
            "|---" * (8 + len(STREAMS)) + "|",
            *(line_of(name, told) for name, told in kinds),
            "",
        ]
    )


def main(words):
    """Runs it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/content.py", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--kind", action="append", required=True, metavar="NAME=PATH", help="a kind of data; may be repeated")
    parser.add_argument("--notes", default="", help="where the data is from, for the page")
    chosen = parser.parse_args(words)
    with Desk("content") as desk:
        made = desk.made(1, 0, "")
        kinds = [(name, looked_at(desk, name, Path(path))) for name, _, path in (kind.partition("=") for kind in chosen.kind)]
    written(ROOT / PAGE, page(made, kinds, chosen.notes))
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
