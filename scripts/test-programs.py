#!/usr/bin/env python3
"""Builds the test programs of the workspace and runs them as `cargo test` does, but those that need no clock two at a time.

Promises  those that start processes or go by the clock (IN_REAL_TIME) run one after the other, and nothing beside them; all others are
          simulated or pure: many of them have one long test, and leave a processor idle where they run alone
          what a program says is shown when it has ended, with the lines by which test-summary.awk counts
          commands that failed are named at the end, each with the last lines of what it said
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
# Programs that need no clock, at once.
TOGETHER = 2
# Lines of what a failed command said that are shown once more at the end.
LAST_LINES = 30
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


def libraries():
    """Where programs find the libraries of Rust: those of macros are linked to them, and cargo tells them so."""
    told = subprocess.run([os.environ.get("RUSTC", "rustc"), "--print", "target-libdir"], stdout=subprocess.PIPE, check=True)
    given = os.environ.get("LD_LIBRARY_PATH")
    return told.stdout.decode().strip() + (f":{given}" if given else "")


class Lane(threading.Thread):
    """Runs programs and other commands from a list that it shares, one after the other."""

    def __init__(self, left, shown):
        super().__init__()
        self.left, self.shown = left, shown
        self.of_cargo = {"LD_LIBRARY_PATH": libraries()}
        self.failed = []

    def run(self):
        while True:
            try:
                heading, command, folder = self.left.pop(0)
            except IndexError:
                return
            self.one(heading, command, folder)

    def one(self, heading, command, folder):
        began = time.monotonic()
        env = {**os.environ, **self.of_cargo, "CARGO_MANIFEST_DIR": str(folder)} if folder else None
        done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        said = done.stdout.decode(errors="replace").rstrip("\n")
        if done.returncode:
            how = f"signal: {-done.returncode}" if done.returncode < 0 else f"exit status: {done.returncode}"
            said += f"\nerror: test failed; process didn't exit successfully: `{' '.join(command)}` ({how})"
            self.failed.append(last_lines(said))
        with self.shown:
            print(f"{heading}\n{said}\n(ended after {time.monotonic() - began:.0f} s)", flush=True)


def last_lines(said):
    """The end of what a command said, in lines that test-summary.awk takes for no program's result."""
    return "\n".join(f"  | {line}" for line in said.splitlines()[-LAST_LINES:])


def run(work, count, shown):
    """Runs all of it in so many lanes. The last lines of each command that failed."""
    left = list(work)
    lanes = [Lane(left, shown) for _ in range(count)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    return [failed for lane in lanes for failed in lane.failed]


def main():
    chosen = sys.argv[1:] or ["--workspace"]
    programs = built(chosen)

    def work(in_real_time):
        some = [program for program in programs if program.is_in_real_time == in_real_time]
        return [(f"     Running {program.name} ({program.executable})", program.command(), program.folder) for program in some]

    documented = [CARGO, "test", "--release", "--locked", "--no-fail-fast", "--doc", *chosen, "--", "--show-output"]
    shown = threading.Lock()
    failed = run(work(True), 1, shown) + run([*work(False), ("", documented, None)], TOGETHER, shown)
    for words in failed:
        print(f"A command that failed ended with:\n{words}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
