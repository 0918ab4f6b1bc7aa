"""What a second shard costs and brings: servers with one shard and with two, in turns, under the same load on two disks; as they are, and
with each shard's thread on a part of a processor, as few processors have no room for more threads than a load of one keeps busy.

Promises  real processes: for each number of shards three servers and an etcd; both clusters are there all the time, and one is loaded
          with two shards each disk is served by its own, which is looked up in the counters before anything is measured
          requests of one thread; calls and processor time are the kernel's counts over all daemons
Assumes   Linux's perf, and the right to count another process' system calls (root); for parts of processors the cpu controller of cgroups, version 1
"""

import argparse
import itertools
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import onethread
import processes
from calls import EVENTS, counted
from desk import Desk, desk_errors, whole
from fio import FioError, Job
from hosts import SeveralProcesses

SHARDS = (1, 2)
DISKS, DISK_MIB, SPAN_MIB = ("a", "b"), 256, 64
CACHE_MIB, CAPACITY_MIB = 512, 512
# Of both disks: below the mark of one write buffer at which destage begins.
WRITES_MIB = 150
LOADS = (("write", "randwrite"), ("read, cached", "randread"))
# Placement goes by what shards told last, twice a second.
TOLD_S = 2


class Part:
    """While it lasts, each shard's thread of these processes may use so much of a processor, in groups of its own."""

    ROOT = Path("/sys/fs/cgroup/cpu")
    # The kernel gives no less than 1 ms of a period.
    QUOTA_US = 1000

    def __init__(self, pids, percent):
        self.pids, self.percent, self.groups = pids, percent, []

    def __enter__(self):
        threads = [task for pid in self.pids for task in Path(f"/proc/{pid}/task").iterdir()]
        shards = [task.name for task in threads if (task / "comm").read_text().startswith("cairn-shard")]
        for thread in shards if self.percent else []:
            group = self.ROOT / f"cairn-bench-{thread}"
            group.mkdir()
            self.groups.append((group, thread))
            (group / "cpu.cfs_period_us").write_text(str(self.QUOTA_US * 100 // self.percent))
            (group / "cpu.cfs_quota_us").write_text(str(self.QUOTA_US))
            (group / "tasks").write_text(thread)

    def __exit__(self, *_):
        for group, thread in self.groups:
            (self.ROOT / "tasks").write_text(thread)
            group.rmdir()


def started(desk, shards):
    """A cluster whose disks are used, at as many shards of its first server."""
    folder, sockets = desk.folder / f"shards-{shards}", desk.sockets / f"s{shards}"
    cluster = SeveralProcesses(desk.programs, folder, sockets, CACHE_MIB, CAPACITY_MIB, shards=shards)
    cluster.start()
    for disk in DISKS:
        cluster.create_disk(disk, DISK_MIB)
        load(desk, cluster, "randwrite", 1, 1)
        time.sleep(TOLD_S)
    served = {host["host_name"] for host in cluster.counters()["hosts"] if any(disk["guests"]["write_requests"] for disk in host["disks"])}
    if len(served) != shards:
        raise FioError(f"disks are served by {sorted(served)}, not by {shards} shards of one server")
    return cluster


def load(desk, cluster, rw, depth, seconds):
    """The load of one thread on the disks that there are."""
    uris = [cluster.uri(disk) for disk in DISKS if disk in {known["name"] for known in cluster.cairn("disk", "list")}]
    job = Job(rw, "4k", depth, seconds=seconds, mib=WRITES_MIB if rw == "randwrite" else None)
    return onethread.run(desk.programs / onethread.PROGRAM, job, uris, SPAN_MIB)


def measure(desk, cluster, rw, percent, depth, seconds):
    """(requests a second, {event: count a request of all daemons})."""
    cluster.clear()
    if rw == "randread":
        load(desk, cluster, rw, depth, 1)
    daemons = [str(pid) for name, pid in cluster.pids().items() if name != "etcd"]
    line = ["perf", "stat", "-x,", "-e", ",".join(EVENTS.values()), "-p", ",".join(daemons)]
    with Part(daemons, percent):
        counter = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        outcome = load(desk, cluster, rw, depth, seconds)
        counter.send_signal(signal.SIGINT)
        counts = counted(counter.communicate()[1])
    return outcome.iops, {event: count / outcome.ios for event, count in counts.items()}


def at_rest(clusters, seconds):
    """{shards: (processor seconds a minute of a server, its MiB)}, the highest of the servers."""
    pids = {shards: [pid for name, pid in cluster.pids().items() if name != "etcd"] for shards, cluster in clusters.items()}
    before = {pid: processes.cpu_s(pid) for each in pids.values() for pid in each}
    time.sleep(seconds)
    cpu = {pid: (processes.cpu_s(pid) - begin) * 60 / seconds for pid, begin in before.items()}
    mib = {pid: processes.memory_mib(pid)["rss"] for pid in before}
    return {shards: (max(cpu[pid] for pid in each), max(mib[pid] for pid in each)) for shards, each in pids.items()}


def show(lines, rest, rounds):
    """Two tables: medians of the rounds, and servers at rest."""
    print("\n| 4 KiB, two disks | a thread's part of a processor | shards | IOPS | of one shard's | CPU, us | futex calls | system calls | context switches |")
    print("|---|---|---|---|---|---|---|---|---|")
    for words, percent in dict.fromkeys((words, percent) for words, percent, _ in lines):
        for shards in SHARDS:
            found = lines[words, percent, shards]
            ratio = statistics.median(iops / one for (iops, _), (one, _) in zip(found, lines[words, percent, SHARDS[0]]))
            middle = {name: statistics.median(counts[name] for _, counts in found) for name in EVENTS}
            cells = [f"{statistics.median(iops for iops, _ in found):,.0f}", f"{ratio:.2f}", f"{1000 * middle['cpu_ms']:.1f}"]
            cells += [f"{middle[name]:.3f}" for name in ("futex", "calls", "switches")]
            part = f"{percent} %" if percent else "all"
            print(f"| {words} | {part} | {shards} | {' | '.join(cells)} |")
    print(f"\nMedians of {rounds} rounds; counts are those of all daemons for each request of a guest.\n")
    print("| at rest: shards | CPU of a server, s a minute | resident, MiB |\n|---|---|---|")
    for shards, (cpu_s, mib) in rest.items():
        print(f"| {shards} | {cpu_s:.2f} | {mib:.0f} |")


def main(words):
    """Runs it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/shards.py", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--depth", type=whole, default=16, help="requests outstanding on each disk; default 16")
    parser.add_argument("--rounds", type=whole, default=5, help="default 5")
    parser.add_argument("--seconds", type=whole, default=3, help="of each load, at most; default 3")
    parser.add_argument("--percent", type=whole, default=20, help="of a processor, for each shard's thread in the second half; default 20")
    parser.add_argument("--rest", type=whole, default=30, help="seconds of rest that are measured; default 30")
    chosen = parser.parse_args(words)
    if not shutil.which("perf"):
        raise OSError("perf is not installed, which counts the calls: apt-get install linux-perf")
    if not (Part.ROOT / "tasks").exists():
        raise OSError(f"{Part.ROOT} has no groups: the cpu controller of cgroups, version 1, is not mounted there")
    parts = (0, chosen.percent)
    clusters, lines = {}, {(words, part, shards): [] for words, _ in LOADS for part in parts for shards in SHARDS}
    with Desk("shards") as desk:
        try:
            for shards in SHARDS:
                desk.say(f"three servers with {shards} shard{'s' * (shards > 1)} each")
                clusters[shards] = started(desk, shards)
            rest = at_rest(clusters, chosen.rest)
            for number in range(chosen.rounds):
                for (words, rw), part in itertools.product(LOADS, parts):
                    # Each first in turn.
                    for shards in SHARDS if number % 2 else SHARDS[::-1]:
                        found = measure(desk, clusters[shards], rw, part, chosen.depth, chosen.seconds)
                        lines[words, part, shards].append(found)
                desk.say(f"round {number + 1} of {chosen.rounds}")
        finally:
            for cluster in clusters.values():
                cluster.stop()
    show(lines, rest, chosen.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
