"""The rows: which jobs are measured, on which systems, in which state of Cairn's buffers and caches.

Promises  every row says what it starts from and, where it is to stay inside the write buffer, how much it may write
          a row does the same on every system; the buffer's limit alone is Cairn's own, as the others have no buffer
Not here  how a state is brought about (systems.py)
"""

from dataclasses import dataclass, replace

from fio import Job

MAIN, STEADY = "main", "steady"


@dataclass(frozen=True)
class Stage:
    """Rows that share processes and disks. Sizes in MiB."""

    key: str
    # The disk that most rows work on.
    disk_mib: int
    # Files of each host's devices; the write buffer is most of the first one where log_mib is 0.
    cache_mib: int
    capacity_mib: int
    log_mib: int = 0
    # Small disks for the rows with several disks.
    small_disks: int = 0
    small_mib: int = 4


# A write buffer of about 950 MiB: a row of a few seconds fits below the mark at which destage begins, half of it.
# The steady stage has a disk four times the write buffer.
STAGES = {
    MAIN: Stage(MAIN, disk_mib=512, cache_mib=1024, capacity_mib=1280, small_disks=64),
    STEADY: Stage(STEADY, disk_mib=1024, cache_mib=320, capacity_mib=1536, log_mib=256),
}
# What a row that stays inside the write buffer writes at most: 45 % of the log.
INSIDE_BUFFER_MIB = 420
# Reads that are to be cached stay in this part of the disk: it fits the default read cache of 256 MiB.
CACHED_MIB = 128

ALL = ("nbdkit", "raw", "raw-dsync", "raw-fdatasync", "qemu-nbd", "cairn", "cairn-one", "cairn-vhost")
_CAIRN = ("cairn", "cairn-one")
_BASE = ("nbdkit", "raw", "qemu-nbd", *_CAIRN)
_NBD = ("nbdkit", "qemu-nbd", *_CAIRN)
_FEW = ("nbdkit", *_CAIRN)
# For the load of one thread, which speaks vhost-user as well.
_ONE = ("nbdkit", "cairn", "cairn-vhost")
# What a row is called whose load is that of one thread in place of fio.
ONE = "one-"


@dataclass(frozen=True)
class Row:
    """One row.

    before   what Cairn starts from: "warm": the part that is read is in the read cache; "clear": write buffers destaged, read
             caches empty; "clear-warm": first the one, then the other; "full": the row's own writes have filled the write
             buffer and go on; "": as it is
    one_thread  the load is that of one thread (onethread.py) instead of fio
    inside_buffer  it ends where Cairn's write buffer has taken what lies below the mark at which destage begins
    """

    key: str
    title: str
    rw: str
    block: str
    depth: int
    systems: tuple
    before: str = ""
    stage: str = MAIN
    span_mib: int = 0
    small_disks: int = 0
    one_thread: bool = False
    inside_buffer: bool = False
    # Times the run's seconds.
    longer: int = 1

    def mib_max(self):
        """What Cairn may move in this row; 0 without a limit."""
        if not self.inside_buffer:
            return 0
        return INSIDE_BUFFER_MIB * 10 // 3 if self.rw == "randrw" else INSIDE_BUFFER_MIB

    def job(self, seconds, limited):
        """What the load is asked for; `limited` for systems with a write buffer."""
        return Job(self.rw, self.block, self.depth, seconds * self.longer, self.mib_max() if limited else 0)


def _reads():
    for depth in (1, 4, 32, 128):
        systems = _BASE if depth in (1, 32) else _FEW
        title = f"4 KiB random read QD{depth}, cached"
        yield Row(f"read-qd{depth}", title, "randread", "4k", depth, systems, "warm", span_mib=CACHED_MIB)


def _writes():
    raw = {1: ("raw", "raw-dsync", "raw-fdatasync", "qemu-nbd"), 32: ("raw-dsync", "qemu-nbd")}
    for depth in (1, 4, 32, 128):
        systems = ("nbdkit", *raw.get(depth, ()), *_CAIRN)
        title = f"4 KiB random write QD{depth}"
        yield Row(f"write-qd{depth}", title, "randwrite", "4k", depth, systems, "clear", inside_buffer=True)
    # The least that two copies of a write can take where both hosts have one and the same device.
    title = "4 KiB random write, 2 places at once, QD1 each"
    yield Row("write-pair", title, "randwrite", "4k", 1, ("raw-dsync",), small_disks=2)


def _mixed():
    for kib in (4, 32):
        yield Row(
            f"mix-{kib}k-qd32",
            f"{kib} KiB random 70/30 QD32, begun with cached reads",
            "randrw",
            f"{kib}k",
            32,
            _NBD,
            "clear-warm",
            span_mib=CACHED_MIB,
            inside_buffer=True,
        )


def _sequential():
    dsync = ("nbdkit", "raw", "raw-dsync", "qemu-nbd", *_CAIRN)
    yield Row("seqwrite-128k-qd8", "128 KiB sequential write QD8, burst", "write", "128k", 8, dsync, "clear", inside_buffer=True)
    yield Row("seqread-1m-qd4", "1 MiB sequential read QD4, capacity tier", "read", "1m", 4, _BASE, "clear")
    yield Row("seqwrite-1m-qd4", "1 MiB sequential write QD4, burst", "write", "1m", 4, _BASE, "clear", inside_buffer=True)


def _disks():
    same = {"rw": "randwrite", "block": "4k", "systems": (*_FEW, "cairn-vhost"), "before": "clear", "inside_buffer": True, "one_thread": True}
    for count in (1, 8, 64):
        title = f"4 KiB random write, {count} disk{'s' if count > 1 else ''}, QD1{' each' if count > 1 else ''}, one thread"
        yield Row(f"disks-{count}", title, depth=1, small_disks=count, **same)
    yield Row("disk-qd64", "4 KiB random write, 1 disk, QD64, one thread", depth=64, **same)


def _one_thread():
    """Rows above, with another load."""
    for row in [*_reads(), *_writes(), *_mixed(), *_steady()]:
        if row.key in ("read-qd1", "read-qd32", "write-qd1", "write-qd32", "mix-4k-qd32", "mix-32k-qd32", "coldread-qd1", "coldread-qd32"):
            systems = [system for system in _ONE if system in row.systems or system == "cairn-vhost"]
            title = f"{row.title}, one thread"
            yield replace(row, key=ONE + row.key, title=title, systems=tuple(systems), one_thread=True)


def _steady():
    cold = {1: _BASE, 32: ("qemu-nbd", *_CAIRN)}
    for depth in (1, 32):
        title = f"4 KiB random read QD{depth}, capacity tier, uncached"
        yield Row(f"coldread-qd{depth}", title, "randread", "4k", depth, cold[depth], "clear", STEADY)
    for kib, rw, depth, name in ((4, "randwrite", 32, "random"), (128, "write", 8, "sequential")):
        yield Row(
            f"sustained-{kib}k-qd{depth}",
            f"{kib} KiB {name} write QD{depth}, sustained with destage",
            rw,
            f"{kib}k",
            depth,
            ("raw", *_CAIRN),
            "full",
            STEADY,
            longer=2,
        )


def every_row():
    """All rows in their order."""
    return [*_reads(), *_writes(), *_mixed(), *_sequential(), *_disks(), *_steady(), *_one_thread()]


def selected(row_keys, system_keys):
    """The rows of these keys on these systems, None for all; ValueError names what does not exist."""
    rows = every_row()
    for kind, asked, known in (("row", row_keys, [row.key for row in rows]), ("system", system_keys, list(ALL))):
        unknown = [key for key in asked or () if key not in known]
        if unknown:
            raise ValueError(f"there is no {kind} {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [row for row in rows if row_keys is None or row.key in row_keys]
    if system_keys is not None:
        chosen = [replace(row, systems=tuple(s for s in row.systems if s in system_keys)) for row in chosen]
    return [row for row in chosen if row.systems]
