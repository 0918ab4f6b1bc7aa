"""The machine that is measured on: what it is, how loaded it is, what others take of it.

Promises  CPU that other programs used while a cell was measured is told beside the cell, steal by the hypervisor too
"""

import os
import platform
import resource
from pathlib import Path

from processes import TICKS_PER_S

_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def processor_times():
    """Seconds of all processors together since boot, by kind."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    return {name: int(word) / TICKS_PER_S for name, word in zip(_FIELDS, words)}


def own_cpu_s():
    """CPU seconds of this program and of its children that have ended."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def shares(before, after, known_s):
    """(percent stolen, percent that others took) of the machine between two readings of processor_times.

    `known_s`: CPU seconds of the measured programs and of the measuring one meanwhile. Kernel threads that work for them
    count as others.
    """
    spent = {name: after[name] - before[name] for name in _FIELDS}
    all_s = sum(spent.values())
    if all_s <= 0:
        return 0.0, 0.0
    others = spent["user"] + spent["nice"] + spent["system"] - known_s
    return 100 * spent["steal"] / all_s, 100 * max(others, 0.0) / all_s


def stolen_of_wanted(before, after):
    """Percent of the processor time that anybody wanted between two readings which the hypervisor gave to others.

    Of what was wanted, not of all: where everything stands still because a processor does, little is wanted.
    """
    spent = {name: after[name] - before[name] for name in _FIELDS}
    wanted = sum(spent.values()) - spent["idle"] - spent["iowait"]
    return 100 * spent["steal"] / wanted if wanted > 0 else 0.0


def busy_s(before, after):
    """Seconds that all processors together were at work between two readings, for whomever; what the hypervisor took is not in it."""
    spent = {name: after[name] - before[name] for name in _FIELDS}
    return sum(spent.values()) - spent["idle"] - spent["iowait"] - spent["steal"]


def load_average():
    """The load averages over 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def describe():
    """Processors, memory, kernel."""
    model = memory = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal"):
            memory = f"{int(line.split()[1]) / (1 << 20):.0f} GiB"
    return {"processors": os.cpu_count(), "model": model, "memory": memory, "kernel": platform.release()}
