"""Rows of the bench of real sizes: which devices, how large the log, which bytes are written, and how.

Promises  a working set is so many logs, all logs of the host together; where the default log would make it larger than the devices, or larger
          than what can be written beforehand (where a build has no tool that fills the map), the log is smaller, and the row says so
Assumes   capacity devices are files that are mostly holes: a row takes what it writes, whatever its devices' size
"""

from dataclasses import dataclass

GIB, MIB = 1 << 30, 1 << 20
LOG_MIB = 2048
# A log that takes every write has at least so much (crates/engine/store: LOG_BYTES_MIN).
LOG_MIB_MIN = 32
# Of a device's bytes: the cleaner keeps some, and a full device is another question.
USED_AT_MOST = 0.9
# What is written before a row that begins with a filled map, where a build cannot fill it without the data.
FILL_GIB_MAX = 24
FILLED = "-filled"


@dataclass(frozen=True)
class Size:
    """The devices of the host: disk groups with so many capacity devices each."""

    key: str
    title: str
    device_gib: int
    groups: int = 1
    devices: int = 1
    log_mib: int = LOG_MIB

    @property
    def capacity_gib(self):
        return self.device_gib * self.groups * self.devices

    @property
    def cache_gib(self):
        """Of one cache device: three times what a metadata region takes by default (a fiftieth), and the log."""
        return self.device_gib * self.devices * 3 // 50 + self.log_mib // 1024 + 4


SIZES = {
    size.key: size
    for size in (
        Size("128g", "One capacity device of 128 GiB, a log of 64 MiB", 128, log_mib=64),
        Size("256g", "One capacity device of 256 GiB", 256),
        Size("1t", "One capacity device of 1 TiB", 1024),
        Size("4t", "One capacity device of 4 TiB", 4096),
        Size("10x4t", "Ten capacity devices of 4 TiB: two disk groups of five, a log each", 4096, groups=2, devices=5),
    )
}


@dataclass(frozen=True)
class Load:
    """What is written: `words` for the page, and what `cairn-bench load` is told beside the usual."""

    words: str
    logs: int
    # Its sustained part may last so many times longer than others': it is slow, and takes long until what waits of the map is full.
    longer: float = 1.0
    options: tuple = ()
    sequential: bool = False

    @property
    def block_kib(self):
        return 128 if self.sequential else 4

    @property
    def depth(self):
        return 8 if self.sequential else 32


LOADS = {
    "uniform-4": Load("evenly over {} logs", 4),
    "uniform-16": Load("evenly over {} logs", 16),
    "uniform-64": Load("evenly over {} logs", 64),
    "uniform-256": Load("evenly over {} logs", 256),
    "uniform-1500": Load("evenly over {} logs", 1500, 2.0),
    "zipf": Load("Zipf 0.9 over {} logs", 256, 1.0, ("--zipf=0.9",)),
    # The load takes whole per cents: 3 of them for a thirty-second.
    "hot": Load("nine tenths on 3 % of {} logs", 256, 1.0, ("--hot=90/3",)),
    "sequential": Load("sequential, 128 KiB QD8, over {} logs", 64, 0.5, ("--random=0",), sequential=True),
}


@dataclass(frozen=True)
class Row:
    """A load on devices of a size, from an empty or a filled map."""

    size: Size
    key: str
    # Of each log, at most; 0: the default of the size.
    log_mib_max: int = 0
    # A filled map is filled by writing the data: one of the builds cannot do it otherwise, and all are to measure the same.
    by_data: bool = False

    @property
    def filled(self):
        return self.key.endswith(FILLED)

    @property
    def load(self):
        return LOADS[self.key.removesuffix(FILLED)]

    @property
    def log_mib(self):
        """Of each disk group."""
        room_gib = self.size.capacity_gib * USED_AT_MOST
        if self.filled and self.by_data:
            room_gib = min(room_gib, FILL_GIB_MAX)
        log_mib = self.log_mib_max or self.size.log_mib
        while log_mib * self.size.groups * self.load.logs > room_gib * 1024:
            log_mib //= 2
        return log_mib

    @property
    def queue_turns(self):
        """Turns of the log in which as much is written as may wait of the map (one block in 128), where the map is filled: from then on shards are
        folded in turn. Elsewhere none: its first blocks are the cheap ones, and the page says how many turns there were.
        """
        return self.size.capacity_gib * 1024 / 128 / self.logs_mib if self.filled else 0

    @property
    def longer(self):
        """A smaller log turns faster."""
        return self.load.longer * max(0.25, min(1, 2 * self.log_mib / self.size.log_mib))

    @property
    def logs_mib(self):
        """Of all disk groups together."""
        return self.log_mib * self.size.groups

    @property
    def span_mib(self):
        return self.logs_mib * self.load.logs

    @property
    def scaled(self):
        return self.log_mib != self.size.log_mib

    @property
    def title(self):
        words = self.load.words.format(f"{self.load.logs:,}")
        log = f"; log {gib(self.log_mib)}" if self.scaled else ""
        return f"{words} ({gib(self.span_mib)}){', map filled' if self.filled else ''}{log}"


def gib(mib):
    """A size in words."""
    if mib < 1024:
        return f"{mib} MiB"
    return f"{mib / 1024:,.0f} GiB" if mib % 1024 == 0 else f"{mib / 1024:,.1f} GiB"


# What a full run measures, and a quick one.
FULL = (
    ("128g", "uniform-1500-filled"),
    ("256g", "uniform-4 uniform-64 uniform-64-filled uniform-256 hot sequential"),
    ("1t", "uniform-256 zipf"),
    ("4t", "uniform-4 uniform-64 uniform-1500 zipf sequential"),
    ("10x4t", "uniform-64 uniform-1500"),
)
QUICK = (("128g", "uniform-4 uniform-4-filled uniform-64 uniform-256 zipf sequential"),)


def planned(plan):
    """The rows of a plan."""
    return [Row(SIZES[size], key) for size, keys in plan for key in keys.split()]


def every_key():
    """All keys of rows."""
    return [*LOADS, *(key + FILLED for key in LOADS)]


def selected(sizes, keys, quick=False, log_mib=0, by_data=False):
    """The rows of these sizes and keys; where one of both is None, those that the plan has of the other. ValueError for a name that is none.

    `by_data`: some build fills a map by writing the data only.
    """
    for names, known, what in ((sizes, SIZES, "size"), (keys, every_key(), "row")):
        for name in names or ():
            if name not in known:
                raise ValueError(f"no {what} {name}; there are {', '.join(known)}")
    rows = planned(QUICK if quick else FULL)
    if sizes is not None and keys is not None:
        rows = [Row(SIZES[size], key) for size in sizes for key in keys]
    elif sizes is not None:
        of_plan = [row for row in rows if row.size.key in sizes]
        rows = of_plan or [row for row in planned(QUICK) if row.size.key in sizes]
    elif keys is not None:
        rows = [row for row in rows if row.key in keys]
    rows = [Row(row.size, row.key, log_mib, by_data) for row in rows]
    for row in rows:
        if row.log_mib < LOG_MIB_MIN:
            raise ValueError(
                f"{row.key} on {row.size.key}: {row.load.logs} logs would be of less than {LOG_MIB_MIN} MiB each. A build without a tool that fills "
                f"the map has to write them beforehand, {FILL_GIB_MAX} GiB at most: measure builds that have `cairn-bench fill-map`"
            )
    return rows
