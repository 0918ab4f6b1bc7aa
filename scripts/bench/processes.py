"""Processes of a measurement: they are started, looked at and ended here, each by its own number.

Promises  a process that was started is ended when its Child is stopped, and also when the measuring program dies
          ending asks first (SIGTERM), waits, and then kills
"""

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STOP_PATIENCE_S = 10
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


class ProcessError(Exception):
    """A process ended when it should not, or did not become ready."""


def die_with_parent():
    """For preexec_fn: the new process is killed when the thread that started it is no more."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Child:
    """A running process with its log file."""

    def __init__(self, name, line, log):
        self.name, self.log = name, Path(log)
        with open(self.log, "ab") as out:
            # Not in the terminal's group: Ctrl-C reaches the measuring program alone, which ends its children in order.
            self.process = subprocess.Popen(
                [str(word) for word in line],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self):
        return self.process.pid

    def check(self):
        """ProcessError where it has ended."""
        if self.process.poll() is not None:
            raise ProcessError(f"{self.name} ended with code {self.process.returncode}:\n{self.tail()}")

    def tail(self, lines=15):
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait_for(self, what, ready, patience_s=60):
        """Waits until `ready()` is true; ProcessError where the process ends or the time is over before."""
        end = time.monotonic() + patience_s
        while not ready():
            self.check()
            if time.monotonic() > end:
                raise ProcessError(f"{self.name}: {what} did not happen within {patience_s} s:\n{self.tail()}")
            time.sleep(0.05)

    def kill(self):
        """SIGKILL, at once."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Asks it to end, waits, and kills what does not."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.kill()


def cpu_s(pid):
    """CPU seconds of a process since its start, all of its threads; 10 ms fine."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def memory_mib(pid):
    """Resident memory of a process in MiB: now, at its peak, anonymous (heap, stacks, buffers), of files (its program)."""
    names = {"VmRSS": "rss", "VmHWM": "peak", "RssAnon": "anonymous", "RssFile": "file"}
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, rest = line.partition(":")
        if key in names:
            found[names[key]] = int(rest.split()[0]) / 1024
    return found
