"""Prints the notices of every crate that is linked into one of the programs: their licences ask for that.

Promises  the same Cargo.lock gives the same text, wherever crates are kept
Assumes   cargo has the crates' sources, as it has once the program was built; the network is not asked
Usage     licences.py CRATE
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

NOTICES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def cargo(*words):
    command = [os.environ.get("CARGO", "cargo"), *words, "--locked", "--offline"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"licences: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def linked(crate, target):
    """(name, version) of what is in the program; procedural macros, which run in the compiler, are counted too."""
    tree = cargo("tree", "-p", crate, "-e", "normal", "--target", target, "--no-dedupe", "--prefix", "none", "--format", "{p}")
    return {(line.split()[0], line.split()[1].removeprefix("v")) for line in tree.splitlines() if line}


def main():
    crate, target = sys.argv[1], f"{platform.machine()}-unknown-linux-gnu"
    wanted = linked(crate, target)
    packages = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))["packages"]
    # Those without a source are Cairn's own.
    crates = sorted((p for p in packages if (p["name"], p["version"]) in wanted and p["source"]), key=lambda p: (p["name"], p["version"]))
    texts = {}
    print("Crates that are linked into this program, with their licences.\nThe texts below are those of their sources, each once.\n")
    for package in crates:
        folder = Path(package["manifest_path"]).parent
        files = sorted(file for file in folder.iterdir() if file.is_file() and file.name.upper().startswith(NOTICES))
        numbers = [texts.setdefault(file.read_text(errors="replace").strip(), len(texts) + 1) for file in files]
        told = ", ".join(f"[{number}]" for number in sorted(set(numbers)))
        print(f"{package['name']} {package['version']}: {package['license'] or 'see its text'}{told and ' ' + told}")
    for text, number in texts.items():
        print(f"\n[{number}] {'-' * 72}\n\n{text}")


main()
