"""The aims: which ratios Cairn is to reach beside the other systems of the same run, and whether it does.

Promises  an aim compares medians of one run only; what was not measured is neither held nor missed
"""

from dataclasses import dataclass
from typing import Callable, Optional

from figures import ratio
from rows import ONE


@dataclass(frozen=True)
class Aim:
    """`value` gives the measured number for a Cairn system out of a result, or None; it is to be at most or at least `bound`."""

    words: str
    at_most: bool
    bound: float
    value: Callable
    # How the number is written: as a part of 100 %, as a factor, or as it is.
    form: str = "percent"

    def holds(self, value) -> Optional[bool]:
        """Whether the aim is held; None where nothing was measured."""
        if value is None:
            return None
        return value <= self.bound if self.at_most else value >= self.bound


def _of(result, row, cairn, name):
    """Cairn's median in a row; that of its own load where fio cannot reach it."""
    return result.median(ONE + row if cairn == "cairn-vhost" else row, cairn, name)


def _rate(row, base, name="iops"):
    """Cairn's median over that of another system."""
    return lambda result, cairn: ratio(_of(result, row, cairn, name), result.median(row, base, name))


def _sum(*values):
    return None if None in values else sum(values)


def _cold_latency(result, cairn):
    row = "coldread-qd1"
    floor = _sum(*(result.median(row, system, "mean_us") for system in ("raw", "nbdkit")))
    return ratio(_of(result, row, cairn, "mean_us"), floor)


def _least(result, cairn):
    row = "seqread-1m-qd4"
    rates = [result.median(row, system, "mib_s") for system in ("raw", "nbdkit")]
    return ratio(result.median(row, cairn, "mib_s"), None if None in rates else min(rates))


def _of_raw(row, copies):
    def value(result, cairn):
        raw = result.median(row, "raw", "mib_s")
        return ratio(result.median(row, cairn, "mib_s"), raw and raw / copies)

    return value


def _scaling(result, cairn):
    return ratio(result.median("disks-64", cairn, "iops"), result.median("disk-qd64", cairn, "iops"))


def _own(row, name):
    return lambda result, cairn: _of(result, row, cairn, name)


def _worst_of_best(result, cairn):
    return result.median("disks-64", cairn, "worst_of_best")


AIMS = [
    Aim("4K write QD32: IOPS, of nbdkit's", False, 0.50, _rate("write-qd32", "nbdkit")),
    Aim("4K write QD32: IOPS, of qemu-nbd's", False, 1.0, _rate("write-qd32", "qemu-nbd")),
    Aim("4K write QD1: mean latency, of raw O_DSYNC's", True, 1.8, _rate("write-qd1", "raw-dsync", "mean_us"), "factor"),
    Aim("4K write QD1: p99, of raw O_DSYNC's", True, 3.0, _rate("write-qd1", "raw-dsync", "p99_us"), "factor"),
    Aim("4K read QD32, cached: IOPS, of nbdkit's", False, 0.70, _rate("read-qd32", "nbdkit")),
    Aim("4K read QD32, uncached: IOPS, of qemu-nbd's", False, 1.0, _rate("coldread-qd32", "qemu-nbd")),
    Aim("4K read QD1, cached: mean latency, of nbdkit's", True, 2.0, _rate("read-qd1", "nbdkit", "mean_us"), "factor"),
    Aim("4K read QD1, uncached: mean latency, of raw's and nbdkit's together", True, 1.3, _cold_latency, "factor"),
    Aim("4K 70/30 QD32: IOPS, of nbdkit's", False, 0.55, _rate("mix-4k-qd32", "nbdkit")),
    Aim("32K 70/30 QD32: IOPS, of qemu-nbd's", False, 1.0, _rate("mix-32k-qd32", "qemu-nbd")),
    Aim("128K sequential write QD8, burst: MiB/s, of half of raw's (2 copies)", False, 0.5, _of_raw("seqwrite-128k-qd8", 2)),
    Aim("128K sequential write QD8, sustained: MiB/s, of a quarter of raw's", False, 0.5, _of_raw("sustained-128k-qd8", 4)),
    Aim("1M sequential read QD4: MiB/s, of the lesser of raw's and nbdkit's", False, 0.70, _least),
    Aim("64 disks QD1 each: IOPS, of one disk's at QD64", False, 0.90, _scaling),
    Aim("64 disks QD1 each: worst disk's mean latency, of the best's", True, 1.5, _worst_of_best, "factor"),
    Aim("4K write QD32: CPU seconds per 1,000", True, 0.030, _own("write-qd32", "cpu_s_per_1000"), "plain"),
    Aim("4K read QD32, cached: CPU seconds per 1,000", True, 0.012, _own("read-qd32", "cpu_s_per_1000"), "plain"),
]


def formed(value, form):
    """A number as its aim writes it."""
    if value is None:
        return "-"
    return {"percent": f"{100 * value:.0f} %", "factor": f"{value:.2f}x", "plain": f"{value:.3f}"}[form]


def table(result, systems):
    """Lines of a Markdown table of all aims for these Cairn systems; empty where none can be judged."""
    lines = []
    for aim in AIMS:
        values = [aim.value(result, system) for system in systems]
        if all(value is None for value in values):
            continue
        verdicts = {None: "-", True: "held", False: "**not held**"}
        cells = [f"{formed(value, aim.form)} {verdicts[aim.holds(value)]}".replace("- -", "-") for value in values]
        bound = f"{'at most' if aim.at_most else 'at least'} {formed(aim.bound, aim.form)}"
        lines.append(f"| {aim.words} | {bound} | {' | '.join(cells)} |")
    if not lines:
        return []
    return [f"| aim | wanted | {' | '.join(systems)} |", "|---|---|" + "---|" * len(systems), *lines]
