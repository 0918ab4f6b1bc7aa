#!/usr/bin/env python3
"""Builds the test programs of the workspace and runs them in two lanes, as `cargo test` runs them in one.

Promises  those that start processes or go by the clock (IN_REAL_TIME) run one after the other, and wait for nobody; all others are
          simulated or pure: they run beside them, one after the other, and take only the processor time that is left
          what a program says is shown when it has ended, with the lines by which test-summary.awk counts
          exit code 0 only where every program's was
Usage     scripts/test-programs.py [CARGO TEST ARGUMENTS]     that choose packages: --workspace, -p NAME
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

# Folders of crates whose tests start processes, or wait for what takes real time.
IN_REAL_TIME = ("crates/apps/", "crates/real/", "crates/front/", "crates/check/e2e", "crates/check/conformance")
# For those that are not in a hurry.
NICENESS = 19
CARGO = os.environ.get("CARGO", "cargo")


class Program:
    """A test program that cargo has built."""

    def __init__(self, message):
        target = message["target"]
        self.executable = message["executable"]
        self.folder = Path(message["manifest_path"]).parent
        source = Path(target["src_path"]).relative_to(self.folder)
        self.name = str(source) if "test" in target["kind"] else f"unittests {source}"
        self.is_in_real_time = any(f"/{folder}" in f"{self.folder}/" for folder in IN_REAL_TIME)

    def command(self):
        return [self.executable, "--show-output"]


def built(chosen):
    """The test programs of these packages, in an order that does not hang on the build's.

    Ends the script, with the compiler's words, where one does not compile.
    """
    build = [CARGO, "test", "--release", "--locked", "--no-run", "--message-format=json-render-diagnostics", *chosen]
    done = subprocess.run(build, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{"))
    tests = (m for m in messages if m["reason"] == "compiler-artifact" and m["executable"] and m["profile"]["test"])
    return sorted(map(Program, tests), key=lambda program: (str(program.folder), program.name))


class Lane(threading.Thread):
    """Runs programs one after the other."""

    def __init__(self, programs, after, nice, shown):
        super().__init__()
        self.programs, self.after, self.nice, self.shown = programs, after, nice, shown
        self.failed = []

    def run(self):
        for program in self.programs:
            heading = f"     Running {program.name} ({program.executable})"
            self.one(heading, program.command(), program.folder)
        for command in self.after:
            self.one("", command, None)

    def one(self, heading, command, folder):
        began = time.monotonic()
        nice = ["nice", "-n", str(NICENESS)] if self.nice else []
        done = subprocess.run(nice + command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        said = done.stdout.decode(errors="replace").rstrip("\n")
        if done.returncode:
            self.failed.append(command[0])
            how = f"signal: {-done.returncode}" if done.returncode < 0 else f"exit status: {done.returncode}"
            said += f"\nerror: test failed; process didn't exit successfully: `{' '.join(command)}` ({how})"
        with self.shown:
            print(f"{heading}\n{said}\n(ended after {time.monotonic() - began:.0f} s)", flush=True)


def main():
    chosen = sys.argv[1:] or ["--workspace"]
    programs = built(chosen)
    real = [program for program in programs if program.is_in_real_time]
    others = [program for program in programs if not program.is_in_real_time]
    documented = [CARGO, "test", "--release", "--locked", "--no-fail-fast", "--doc", *chosen, "--", "--show-output"]
    shown = threading.Lock()
    lanes = [
        Lane(real, [], nice=False, shown=shown),
        Lane(others, [documented], nice=bool(real), shown=shown),
    ]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    return 1 if any(lane.failed for lane in lanes) else 0


if __name__ == "__main__":
    sys.exit(main())
