"""The systems that take turns: how each is started, filled, brought to a row's state, and reached by fio.

Promises  every system has the same disk, written in full with noise before anything is measured
          only Cairn has states to bring about: the others have neither write buffer nor cache (qemu-nbd runs with cache=none)
"""

import os

import fio
import processes
from fio import Job
from hosts import OneProcess, SeveralProcesses, added
from processes import Child
from rows import CACHED_MIB

SMALL = "small-{}"
FILL = Job("write", "1m", 4)


class System:
    """One system in one stage. `limited`: it has a write buffer, so rows may end earlier (rows.py)."""

    limited = False
    title = ""

    def __init__(self, bench, stage):
        self.bench, self.stage = bench, stage
        self.children = {}

    def start(self, rows):
        """Starts it and writes its disk, and the small ones where a row has them."""
        raise NotImplementedError

    def targets(self, row):
        """fio's arguments for each job of the row: engine, address and range."""
        span = row.span_mib or self.stage.disk_mib
        if row.small_disks:
            return [self.small(number, row) for number in range(row.small_disks)]
        return [[*self.disk(), f"--size={span}m"]]

    def exports(self, row):
        """For the load of one thread: the NBD exports of the row, and the MiB of each that it works on."""
        raise NotImplementedError

    def fill(self, mib):
        """Writes the whole disk once."""
        fio.run(Job(FILL.rw, FILL.block, FILL.depth, mib=mib), [[*self.disk(), f"--size={mib}m"]], self.bench.folder)

    def prepare(self, row):
        """Brings the system to what the row starts from."""

    def fill_caches(self):
        """Reads the whole disk, so that what a system caches is in its memory."""

    def told(self):
        """What the system counts itself, for what_happened; None where it counts nothing."""

    def what_happened(self, before, after):
        """What its own counters say of the time between two answers of told."""

    def pids(self):
        """Its processes by name."""
        return {name: child.pid for name, child in self.children.items()}

    def cpu_s(self):
        """CPU seconds of its processes so far."""
        return sum(processes.cpu_s(pid) for pid in self.pids().values())

    def stop(self):
        """Ends its processes."""
        for child in self.children.values():
            child.stop()


class Nbdkit(System):
    title = "`nbdkit memory` on a unix socket: the protocol's ceiling, no storage"

    def start(self, rows):
        self.socket = self.bench.sockets / "nbdkit.sock"
        size = f"{self.stage.disk_mib}M"
        line = ["nbdkit", "--foreground", "--unix", self.socket, "memory", size]
        self.children["nbdkit"] = Child("nbdkit", line, self.bench.folder / "nbdkit.log")
        self.children["nbdkit"].wait_for("its socket", self.socket.exists)
        self.fill(self.stage.disk_mib)

    def disk(self):
        return ["--ioengine=nbd", f"--uri=nbd+unix:///?socket={self.socket}"]

    def exports(self, row):
        # One export only: as many connections, over as many bytes as the disks of the others have together.
        mib = row.small_disks * self.stage.small_mib or self.stage.disk_mib
        return [f"nbd+unix:///?socket={self.socket}"] * (row.small_disks or 1), mib

    def small(self, number, row):
        # One export only: as many connections, each with a range of its own.
        mib = self.stage.small_mib
        return [*self.disk(), f"--offset={number * mib}m", f"--size={mib}m"]


class Raw(System):
    """A file that is preallocated and written in full, with O_DIRECT; the variants differ in when a write is durable."""

    flags = ()

    def start(self, rows):
        self.file = self.bench.folder / "raw.img"
        if not self.file.exists():
            make_file(self.file, self.stage.disk_mib)
            self.fill(self.stage.disk_mib)

    def disk(self):
        return ["--ioengine=libaio", f"--filename={self.file}", "--direct=1", *self.flags]

    def small(self, number, row):
        mib = self.stage.disk_mib // row.small_disks
        return [*self.disk(), f"--offset={number * mib}m", f"--size={mib}m"]


class RawVolatile(Raw):
    title = "a preallocated file, O_DIRECT, libaio; a write is durable some time later"


class RawDsync(Raw):
    title = "the same, every write durable when it ends (O_DSYNC)"
    flags = ("--sync=dsync",)


class RawFdatasync(Raw):
    title = "the same, fdatasync after every write; fio's latency is that of the write alone, its IOPS have both"
    flags = ("--fdatasync=1",)


class QemuNbd(System):
    title = "`qemu-nbd --cache=none --aio=native`, one raw file, one copy; a write is durable after a flush only"

    def start(self, rows):
        file, self.socket = self.bench.folder / "qemu-nbd.img", self.bench.sockets / "qemu-nbd.sock"
        make_file(file, self.stage.disk_mib)
        line = ["qemu-nbd", "--format=raw", "--cache=none", "--aio=native", "--persistent", "--shared=4"]
        line += ["--socket", self.socket, "--export-name=bench", file]
        self.children["qemu-nbd"] = Child("qemu-nbd", line, self.bench.folder / "qemu-nbd.log")
        self.children["qemu-nbd"].wait_for("its socket", self.socket.exists)
        self.fill(self.stage.disk_mib)

    def disk(self):
        return ["--ioengine=nbd", f"--uri=nbd+unix:///bench?socket={self.socket}"]


class Cairn(System):
    """A cluster of three hosts, disks with the default policy: two copies and a witness, every write durable on both copies."""

    limited = True
    title = "three hosts as three processes on loopback, mirror FTT 1; a write is durable in both copies when it ends"
    kind, name = SeveralProcesses, "three"

    def start(self, rows):
        stage = self.stage
        self.cluster = self.kind(
            self.bench.programs,
            self.bench.folder / self.name,
            self.bench.sockets / self.name,
            stage.cache_mib,
            stage.capacity_mib,
            log_mib=stage.log_mib,
        )
        self.children = self.cluster.children
        self.cluster.start()
        self.cluster.create_disk("bench", stage.disk_mib)
        self.fill(stage.disk_mib)
        if any(row.small_disks for row in rows):
            self._start_small()
        if any(row.before == "full" for row in rows):
            # Blocks lie on the capacity devices as random writes leave them.
            self._move(Job("randwrite", "4k", 32, mib=stage.disk_mib), stage.disk_mib)

    def _start_small(self):
        count, mib = self.stage.small_disks, self.stage.small_mib
        for number in range(count):
            self.cluster.create_disk(SMALL.format(number), mib)
        fill = Job("write", "256k", 1, mib=count * mib)
        fio.run(fill, [self.small(number, None) for number in range(count)], self.bench.folder)

    def disk(self):
        return ["--ioengine=nbd", f"--uri={self.cluster.uri('bench')}"]

    def small(self, number, row):
        uri = self.cluster.uri(SMALL.format(number))
        return ["--ioengine=nbd", f"--uri={uri}", f"--size={self.stage.small_mib}m"]

    def exports(self, row):
        if not row.small_disks:
            return [self.door("bench")], row.span_mib or self.stage.disk_mib
        return [self.door(SMALL.format(number)) for number in range(row.small_disks)], self.stage.small_mib

    def door(self, disk):
        """Where the load of one thread finds a disk."""
        return self.cluster.uri(disk)

    def _move(self, job, span_mib):
        fio.run(job, [[*self.disk(), f"--size={span_mib}m"]], self.bench.folder)

    def prepare(self, row):
        if row.before.startswith("clear"):
            self.cluster.clear()
        if row.before.endswith("warm"):
            self._move(Job("read", "64k", 8, mib=CACHED_MIB), CACHED_MIB)
        if row.before == "full":
            # The log and a quarter, at the speed that is sustained.
            self._move(Job(row.rw, row.block, row.depth, mib=self.stage.log_mib * 5 // 4), self.stage.disk_mib)

    def fill_caches(self):
        self._move(Job("read", "64k", 8, mib=self.stage.disk_mib), self.stage.disk_mib)

    def told(self):
        return self.cluster.counters()

    def what_happened(self, before, after):
        return added(before, after)

    def stop(self):
        if hasattr(self, "cluster"):
            self.cluster.stop()


class CairnOne(Cairn):
    title = "the same three hosts in one process, embedded directory"
    kind, name = OneProcess, "one-process"


class CairnVhost(Cairn):
    title = "three hosts as three processes, as above; the guest's door is vhost-user-blk, and the load a machine of the same server"
    name = "vhost"

    def door(self, disk):
        return self.cluster.vhost_user_uri(disk)


SYSTEMS = {
    "nbdkit": Nbdkit,
    "raw": RawVolatile,
    "raw-dsync": RawDsync,
    "raw-fdatasync": RawFdatasync,
    "qemu-nbd": QemuNbd,
    "cairn": Cairn,
    "cairn-one": CairnOne,
    "cairn-vhost": CairnVhost,
}


def make_file(path, mib):
    """A file with all of its space reserved."""
    with open(path, "xb") as file:
        os.posix_fallocate(file.fileno(), 0, mib << 20)


def space_mib(stage, systems):
    """What the files of these systems take in this stage."""
    hosts = 3 * (stage.cache_mib + stage.capacity_mib)
    raw = any(key.startswith("raw") for key in systems)
    return hosts * sum(key.startswith("cairn") for key in systems) + stage.disk_mib * (raw + ("qemu-nbd" in systems))
