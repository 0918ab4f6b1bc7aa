"""A host whose devices are files that are mostly holes: terabytes that take what is written to them.

Promises  one real daemon with the embedded directory, sockets of the run's own, no port
          what its files take is told, and `check_space` refuses in words before it is more than is allowed
Assumes   a file system with holes; a disk group is open when the daemon tells its gauges
"""

import os
import shutil
import subprocess
import time

from hosts import Cluster, Refused, open_gauges
from nbd import READ, WRITE, Connection, Gone
from processes import Child, ProcessError
from sizes_rows import GIB, MIB

HOST, DISK, POLICY = "h1", "bench", "one"
# A daemon that stood still for most of a lease ends its guests' connections. One whose processors others want all the time does, and
# there is nobody here to take its disks over.
LEASE_MS = 60_000
OPEN_PATIENCE_S = 600
END_PATIENCE_S = 120
LOOK_S = 0.02
# Beside what a run may take, so that nobody else meets a full file system.
FREE_GIB_MIN = 4
# A second or two of writes, between two looks at what the files take.
SLACK_GIB = 3


class SpaceError(OSError):
    """The files would take more than is allowed."""


class SparseHost(Cluster):
    """A host for one row."""

    hosts = 1

    def __init__(self, programs, folder, sockets, row, space_gib):
        super().__init__(programs, folder, sockets, log_mib=row.log_mib)
        self.row, self.space_gib = row, space_gib
        self.children = {}
        size = row.size
        self.groups = [
            (self.folder / f"cache-{group}.img", [self.folder / f"capacity-{group}-{number}.img" for number in range(size.devices)])
            for group in range(size.groups)
        ]

    def files(self):
        """All devices."""
        return [path for cache, capacity in self.groups for path in (cache, *capacity)]

    def make(self):
        """Makes the devices, starts the host, and makes its disk: unmirrored, as large as what is written, over all devices."""
        size = self.row.size
        for cache, capacity in self.groups:
            for path, gib in [(cache, size.cache_gib), *((path, size.device_gib) for path in capacity)]:
                with open(path, "xb") as file:
                    file.truncate(gib * GIB)
            self._write_log(cache)
        self.start()
        devices = size.groups * size.devices
        self.cairn("policy", "create", POLICY, "--ftt", 0, "--stripe-width", min(devices, 12))
        self.cairn("disk", "create", DISK, "--size", f"{self.row.span_mib}MiB", "--policy", POLICY)

    def _write_log(self, cache):
        """Zeroes where the log will be: below a device there is no file system that has to find blocks for each durable write."""
        size = self.row.size
        zeroes = bytes(8 << 20)
        with open(cache, "r+b") as file:
            # Behind the metadata region: a fiftieth of the capacity by default, and 32 MiB. A little before and behind it does no harm.
            file.seek(size.device_gib * size.devices * GIB // 50 // MIB * MIB + 24 * MIB)
            for _ in range(self.row.log_mib // 8 + 4):
                file.write(zeroes)
            os.fsync(file.fileno())

    def start(self):
        """Starts the daemon; gives the seconds until all disk groups are open, and until a guest is answered (None without a disk)."""
        config = self.folder / "cairnd.toml"
        config.write_text(self._config())
        begin = time.monotonic()
        child = Child("cairnd", [self.programs / "cairnd", "--config", config], self.folder / "log")
        self.children = {"cairnd": child}
        self._wait("its disk groups are open", lambda: len(self._gauges()) == len(self.groups))
        return time.monotonic() - begin

    def served(self, write=False):
        """Waits until a guest that reads the first block is answered; with `write` one that writes it."""
        self._wait("a guest is answered", lambda: self._serves(write))

    def _wait(self, what, ready):
        end = time.monotonic() + OPEN_PATIENCE_S
        while not ready():
            self.children["cairnd"].check()
            if time.monotonic() > end:
                raise ProcessError(f"cairnd: {what} did not happen within {OPEN_PATIENCE_S} s:\n{self.children['cairnd'].tail()}")
            time.sleep(LOOK_S)

    def _gauges(self):
        try:
            return open_gauges(self.get("counters"))
        except Refused:
            return []

    def _serves(self, write):
        try:
            connection = Connection(self.nbd_socket(1), DISK, 30)
        except Gone:
            return False
        try:
            connection.send(1, *((WRITE, 0, 4096, bytes(4096)) if write else (READ, 0, 4096)))
            return bool(connection.answers())
        except Gone:
            return False
        finally:
            connection.close()

    def kill(self):
        """SIGKILL."""
        self.children.pop("cairnd").kill()

    def end(self):
        """Ends the daemon in order; gives the seconds that it took."""
        child, begin = self.children.pop("cairnd"), time.monotonic()
        child.process.terminate()
        try:
            child.process.wait(END_PATIENCE_S)
        except subprocess.TimeoutExpired as silent:
            child.kill()
            raise ProcessError(f"cairnd did not end within {END_PATIENCE_S} s of SIGTERM") from silent
        return time.monotonic() - begin

    def forget_pages(self):
        """Takes what the devices hold out of the kernel's memory, as after the start of a machine. The daemon is not running."""
        for path in self.files():
            with open(path, "rb+") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def taken_bytes(self):
        """What the files take of the file system."""
        return sum(path.stat().st_blocks * 512 for path in self.files())

    def room_bytes(self):
        """What may still be written; below 0 where it is too much already."""
        allowed = self.space_gib * GIB - self.taken_bytes()
        free = shutil.disk_usage(self.folder).free - FREE_GIB_MIN * GIB
        return min(allowed, free) - SLACK_GIB * GIB

    def check_space(self):
        """SpaceError where nothing more may be written."""
        if self.room_bytes() < 0:
            taken, free = self.taken_bytes() / GIB, shutil.disk_usage(self.folder).free / GIB
            raise SpaceError(
                f"{self.row.size.key} {self.row.key}: the devices take {taken:.1f} GiB of the {self.space_gib} that they may, and {free:.1f} GiB are "
                f"free: stopped before it is more. Take fewer --seconds, more --space, or another --folder"
            )

    def remove(self):
        """Ends what runs and removes the devices."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.sockets, ignore_errors=True)

    def _config(self):
        groups = "".join(
            f'[[disk_group]]\ncache = "{cache}"\ncapacity = [{", ".join(f"{chr(34)}{path}{chr(34)}" for path in capacity)}]\n'
            for cache, capacity in self.groups
        )
        return (
            f'[cluster]\nname = "bench-sizes"\nlease_ms = {LEASE_MS}\n[host]\nname = "{HOST}"\ndata_dir = "{self.folder}/data"\n'
            f'[listen]\npeers = ""\napi = ""\nnbd = ""\napi_socket = "{self.api_socket(1)}"\nnbd_socket = "{self.nbd_socket(1)}"\n'
            f'[directory]\nkind = "embedded"\n[log]\nlevel = "warn"\n{self.tuning()}{groups}'
        )

    def host_name(self, host):
        return HOST

    def api_socket(self, host):
        return self.sockets / "api.sock"

    def nbd_socket(self, host):
        return self.sockets / "nbd.sock"
