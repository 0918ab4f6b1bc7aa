"""What threads of the daemons ask of each other for each request: calls of futex, all system calls and context switches by the kernel's
counters, beside a load at QD32.

Promises  real processes: three hosts and an etcd, one disk, the load of one thread; counted while it runs, on each host
          a lock that nobody else holds costs no call of futex: what is counted are waits for other threads, and waking them
Assumes   Linux's perf, and the right to count another process' system calls (root)
"""

import argparse
import shutil
import signal
import subprocess
import sys
import time

import onethread
from desk import Desk, desk_errors, whole
from fio import Job
from hosts import SeveralProcesses

DISK, DISK_MIB, SPAN_MIB = "bench", 256, 128
CACHE_MIB, CAPACITY_MIB = 512, 512
# Below the mark of the write buffer at which destage begins.
WRITES_MIB = 150
EVENTS = {
    "futex": "syscalls:sys_enter_futex",
    "calls": "raw_syscalls:sys_enter",
    "switches": "context-switches",
    "cpu_ms": "task-clock",
}


def counted(text):
    """{event: count} of what `perf stat -x,` writes."""
    names = {event: name for name, event in EVENTS.items()}
    found = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) > 2 and fields[2] in names:
            # An event that the kernel does not count has words in place of a number.
            found[names[fields[2]]] = float(fields[0])
    return found


def measure(desk, depth, seconds):
    """[(load, requests a second, host, {event: count a request})]."""
    cluster = SeveralProcesses(desk.programs, desk.folder / "hosts", desk.sockets, CACHE_MIB, CAPACITY_MIB)
    lines = []
    try:
        cluster.start()
        cluster.create_disk(DISK, DISK_MIB)
        hosts = {name: pid for name, pid in cluster.pids().items() if name != "etcd"}

        def load(rw, long):
            job = Job(rw, "4k", depth, seconds=long, mib=WRITES_MIB)
            return onethread.run(desk.programs / onethread.PROGRAM, job, [cluster.uri(DISK)], SPAN_MIB)

        load("randwrite", 2)
        for words, rw in (("write", "randwrite"), ("read, cached", "randread")):
            cluster.clear()
            if rw == "randread":
                load(rw, 2)
            line = ["perf", "stat", "-x,", "-e", ",".join(EVENTS.values()), "-p"]
            counters = {name: subprocess.Popen([*line, str(pid)], stderr=subprocess.PIPE, text=True) for name, pid in hosts.items()}
            time.sleep(0.5)
            outcome = load(rw, seconds)
            for name, counter in counters.items():
                counter.send_signal(signal.SIGINT)
                counts = counted(counter.communicate()[1])
                lines.append((words, outcome.iops, name, {event: count / outcome.ios for event, count in counts.items()}))
    finally:
        cluster.stop()
    return lines


def main(words):
    """Runs it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/calls.py", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--depth", type=whole, default=32, help="requests outstanding; default 32")
    parser.add_argument("--seconds", type=whole, default=5, help="of each load, at most; default 5")
    chosen = parser.parse_args(words)
    if not shutil.which("perf"):
        raise OSError("perf is not installed, which counts the calls: apt-get install linux-perf")
    with Desk("calls") as desk:
        lines = measure(desk, chosen.depth, chosen.seconds)
    print(f"\n| 4 KiB, QD{chosen.depth} | IOPS | host | futex calls | system calls | context switches | CPU, us |\n|---|---|---|---|---|---|---|")
    for load, iops, host, counts in lines:
        cells = [f"{counts[name]:.3f}" for name in ("futex", "calls", "switches")] + [f"{1000 * counts['cpu_ms']:.1f}"]
        print(f"| {load} | {iops:,.0f} | {host} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
