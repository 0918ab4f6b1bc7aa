"""What disks at rest cost, a part of `make bench-scaling`: start, processor time, heartbeats and memory of hosts with ever more disks.

Promises  real processes: three hosts and an etcd; disks are thin, nobody uses them, and every host owns a third of them
          processor time is counted by the kernel, bytes between hosts by the kernel's counters of their connections: neither depends on
          what else runs on the machine, but times until a host serves do
          ends what it started and removes its files, also on Ctrl-C; nothing is written then
"""

import argparse
import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import processes
from desk import Desk, desk_errors, target, whole
from hosts import Refused, SeveralProcesses

HOSTS = 3
DISK_BYTES = 1 << 20
CACHE_MIB, LOG_MIB = 768, 64
# The metadata region is a fiftieth of the capacity and 32 MiB; a component takes some 10 KiB of it.
CAPACITY_MIB = 4608
# Calls at once: each waits for etcd's log to be on stable media twice.
MAKERS = 8
# After the last disk, and after a host's start, until nothing is left to do.
SETTLES_S = 60
SERVES_PATIENCE_S = 300


class Cluster(SeveralProcesses):
    """Three hosts whose disks are made by calls of the API: a program for each of ten thousand would be what is measured."""

    def start_host(self, host):
        """Starts one host. Its files take no space that nothing is written to: disks at rest write little."""
        folder = self.folder / self.host_name(host)
        folder.mkdir(exist_ok=True)
        for name, mib in zip(("cache.img", "capacity.img"), self.sizes):
            if not (folder / name).exists():
                with open(folder / name, "xb") as file:
                    file.truncate(mib << 20)
        super().start_host(host)

    def _config(self, host, folder):
        # The files are there.
        return re.sub(r"(?m)^(cache|capacity)_size = .*\n", "", super()._config(host, folder))

    def make(self, first, last):
        """Makes the disks of these numbers, each owned by the host that makes it; gives the seconds it took."""
        numbers, lock, broken = iter(range(first, last)), threading.Lock(), []

        def work():
            while not broken:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                try:
                    self.post("disks", {"name": disk(number), "size_bytes": DISK_BYTES}, 1 + number % HOSTS)
                except Refused as refused:
                    broken.append(refused)

        begin = time.monotonic()
        threads = [threading.Thread(target=work) for _ in range(MAKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if broken:
            raise broken[0]
        return time.monotonic() - begin

    def restart(self, host, name):
        """Ends a host in order, starts it again, and waits until it serves a disk; gives the seconds from its start."""
        self.children.pop(self.host_name(host)).stop()
        time.sleep(5)
        begin = time.monotonic()
        self.start_host(host)
        child = self.children[self.host_name(host)]
        child.wait_for(f"it serves {name}", lambda: self.serves(host, name), SERVES_PATIENCE_S)
        return time.monotonic() - begin

    def serves(self, host, name):
        """Whether a guest at this host reads a block of the disk."""
        line = [self.programs / "cairn-bench", "load", "--style=json", "--ramp=0", "--time=60", "--bytes=4096", self.uri(name, host)]
        done = subprocess.run([str(word) for word in line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode == 0

    def sent_bytes(self):
        """Bytes that hosts have sent each other over the connections that are open: {connection: bytes}."""
        return connections(subprocess.run(["ss", "-tinHO"], stdout=subprocess.PIPE, text=True, check=True).stdout, self.network)

    def cpu_s(self):
        """CPU seconds of each process so far, by name."""
        return {name: processes.cpu_s(pid) for name, pid in self.pids().items()}

    def resident_mib(self):
        """Resident memory of each process, by name."""
        return {name: processes.memory_mib(pid)["rss"] for name, pid in self.pids().items()}


def disk(number):
    """The name of a disk."""
    return f"disk-{number:05}"


def connections(text, network):
    """{(own end, other end): bytes sent} of what ss tells of connections between hosts of this network, etcd's left out."""
    found = {}
    for line in text.splitlines():
        ends = tuple(re.findall(r"\b\d+\.\d+\.\d+\.\d+:\d+", line)[:2])
        sent = re.search(r"\bbytes_sent:(\d+)", line)
        # Whoever connects does so from any address.
        if sent and any(end.startswith(f"{network}.") and end.endswith(":9600") for end in ends):
            found[ends] = int(sent.group(1))
    return found


def at_rest(cluster, seconds):
    """What hosts cost while nobody asks for anything."""
    cpu, sent, begin = cluster.cpu_s(), cluster.sent_bytes(), time.monotonic()
    time.sleep(seconds)
    took, cpu_after, sent_after = time.monotonic() - begin, cluster.cpu_s(), cluster.sent_bytes()
    hosts = [cluster.host_name(host) for host in range(1, HOSTS + 1)]
    # A connection that is new has sent all of it meanwhile.
    bytes_sent = sum(count - sent.get(ends, 0) for ends, count in sent_after.items())
    return {
        "cpu_s_per_min": [round((cpu_after[name] - cpu[name]) / took * 60, 3) for name in hosts],
        "etcd_cpu_s_per_min": round((cpu_after["etcd"] - cpu["etcd"]) / took * 60, 3),
        "bytes_per_s_per_host": round(bytes_sent / took / HOSTS),
        "resident_mib": [round(mib, 1) for name, mib in cluster.resident_mib().items() if name != "etcd"],
        "etcd_resident_mib": round(cluster.resident_mib()["etcd"], 1),
    }


def measure(desk, counts, seconds):
    """One line for each count of disks, which grows."""
    cluster = Cluster(desk.programs, desk.folder / "hosts", desk.sockets, CACHE_MIB, CAPACITY_MIB, HOSTS, log_mib=LOG_MIB)
    lines, made = [], 0
    try:
        cluster.start()
        for count in counts:
            took = cluster.make(made, count)
            desk.say(f"{count} disks: {count - made} made in {took:.1f} s")
            line = {"disks": count, "made": count - made, "made_s": round(took, 2)}
            made = count
            time.sleep(SETTLES_S)
            line |= at_rest(cluster, seconds)
            line["serves_after_s"] = round(cluster.restart(HOSTS, disk(0)), 2)
            desk.say(json.dumps(line))
            lines.append(line)
            time.sleep(SETTLES_S)
    finally:
        cluster.stop()
    return lines


def table(lines):
    """Lines of a Markdown table."""
    heading = "| disks | made a second | a host serves after, s | CPU a host, s a minute | etcd's | sent by a host, bytes/s | resident a host, MiB | etcd's |"
    cells = [heading, "|---|---|---|---|---|---|---|---|"]
    for line in lines:
        cpu, resident = max(line["cpu_s_per_min"]), max(line["resident_mib"])
        rate = line["made"] / line["made_s"] if line["made_s"] else 0
        cells.append(
            f"| {line['disks']:,} | {rate:.0f} | {line['serves_after_s']:.1f} | {cpu:.2f} | {line['etcd_cpu_s_per_min']:.2f} "
            f"| {line['bytes_per_s_per_host']:,} | {resident:.0f} | {line['etcd_resident_mib']:.0f} |"
        )
    return cells


def main(words):
    """Runs it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/objects.py", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--disks", type=lambda text: [int(n) for n in text.split(",")], default=[10, 1000, 10000], help="ascending")
    parser.add_argument("--seconds", type=whole, default=60, help="of rest that are measured; default 60")
    parser.add_argument("--out", type=Path, default=None, help="the result as JSON; default target/objects.json")
    chosen = parser.parse_args(words)
    if chosen.disks != sorted(set(chosen.disks)) or chosen.disks[0] < 1:
        parser.error("--disks: numbers above 0, each larger than the one before")
    with Desk("objects") as desk:
        made = desk.made(1, chosen.seconds, "objects.json")
        lines = measure(desk, chosen.disks, chosen.seconds)
    out = chosen.out or target() / "objects.json"
    out.write_text(json.dumps({"made": made, "lines": lines}, indent=1) + "\n")
    print("\n".join(["", *table(lines), "", f"{out}"]))
    return 0


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
