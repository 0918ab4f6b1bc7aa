"""Where a measuring program works: its folders, its programs, its words, and its orderly end.

Promises  the folders are new and are removed at the end; SIGTERM and SIGHUP end a run as Ctrl-C does
          errors that a person can act on are one sentence and exit code 1; Ctrl-C is exit code 130
"""

import argparse
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import machine
from fio import FioError
from hosts import Refused
from processes import ProcessError

ROOT = Path(__file__).resolve().parents[2]


class Desk:
    """The folders of one run: `folder` for files and logs, `sockets` with a short path; and what is to be measured."""

    def __init__(self, name, programs=None):
        """`programs`: a folder with programs that are there already; else CAIRN_BIN, or built."""
        self.name, self.begin = name, time.monotonic()
        self.there = programs or os.environ.get("CAIRN_BIN")
        self.programs = Path(self.there or target() / "dist").resolve()
        self.folder = target() / "tmp" / f"{name}-{os.getpid()}"

    def __enter__(self):
        self._programs()
        for number in _ENDINGS:
            signal.signal(number, _interrupt)
        self.folder.mkdir(parents=True)
        # A socket's path has at most 107 bytes, and a checkout may lie deep.
        room = "/run" if os.access("/run", os.W_OK) else None
        self.sockets = Path(tempfile.mkdtemp(prefix=f"cairn-{self.name}-", dir=room))
        return self

    def _programs(self):
        """Builds the programs as users run them, unless there are some."""
        if not self.there:
            self.say("building cairnd, cairn and cairn-bench (the first time takes some minutes)")
            line = [os.environ.get("CARGO", "cargo"), "build", "--profile", "dist", "--locked", "--quiet"]
            subprocess.run([*line, "-p", "cairnd", "-p", "cairn-cli", "-p", "cairn-bench"], cwd=ROOT, check=True)
        for program in ("cairnd", "cairn", "cairn-bench"):
            if not (self.programs / program).exists():
                raise OSError(f"{self.programs / program} does not exist")

    def __exit__(self, *_):
        for path in (self.folder, self.sockets):
            shutil.rmtree(path, ignore_errors=True)

    def say(self, words):
        """A line of progress."""
        print(f"{time.monotonic() - self.begin:7.1f} s  {words}", flush=True)

    def made(self, rounds, seconds, json_name):
        """Under which conditions a result comes to be, as far as they are known at the begin."""
        version = _output([self.programs / "cairn", "version"]).splitlines()[0]
        commit = _output(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]) or "unknown"
        changed = _output(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.lock"])
        tools = [_output(line).splitlines()[0] for line in (["fio", "--version"], ["nbdkit", "--version"], ["qemu-nbd", "--version"])]
        return {
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "version": version,
            "commit": commit + (" with changes" if changed else ""),
            "sha256": digest(self.programs / "cairnd"),
            "command": shlex.join(["python3", _name(sys.argv[0]), *sys.argv[1:]]),
            "machine": machine.describe(),
            "tools": ", ".join(tool.split(" (")[0] for tool in tools),
            "rounds": rounds,
            "seconds": seconds,
            "load_begin": machine.load_average(),
            "json": json_name,
        }


_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interrupt(number, _):
    # Only once: a second Ctrl-C would end the tidying up half way.
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)


def _name(program):
    """A program of this folder as it is called from the root of the tree."""
    path = Path(program).resolve()
    return "scripts/bench" if path.name in ("bench", "__main__.py") else f"scripts/bench/{path.name}"


def digest(program):
    """What tells a program from another build of it."""
    return hashlib.sha256(program.read_bytes()).hexdigest()[:16]


def target():
    """Cargo's target folder."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


def _output(line):
    done = subprocess.run([str(word) for word in line], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip()


def whole(text):
    """For argparse: a whole number above 0."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0")
    return int(text)


def written(path, text):
    """Writes a page and says where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"{path}")


def desk_errors(main):
    """Runs a program's main; gives its exit code, with errors in words."""
    try:
        return main()
    except KeyboardInterrupt:
        print("interrupted: everything is ended and removed, nothing is written", file=sys.stderr)
        return 130
    except (FioError, Refused, ProcessError, OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 1
