"""What failures cost, behind `make bench-failures`: stalls when a host dies, and rebuilding a copy, idle and beside a load.

Promises  real processes: four hosts and an etcd, hosts die by SIGKILL; the load is in a process of its own (load.py), reads all that
          it wrote back at the end of each scenario, and a wrong block or an error is no measurement but a failure
          ends what it started and removes its files, also on Ctrl-C; nothing is written then
"""

import argparse
import array
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import fio
import machine
import processes
from desk import ROOT, Desk, desk_errors, whole, written
from failures_page import page
from fio import Job
from hosts import SeveralProcesses
from processes import Child, ProcessError
from systems import make_file
from windows import latency_percentile, longest_silence, slowest

HOSTS = 4
DISK, DISK_MIB, LOAD_MIB = "bench", 1024, 64
CACHE_MIB, CAPACITY_MIB, REPAIR_DELAY_S = 512, 1536, 2
UNDISTURBED_S = 5
# How often the disk's state is looked at. Looking takes processor time too: it is done while nothing is wrong as well, so that the
# guest's latency with and without a rebuild can be held beside each other.
LOOK_S = 0.2
HEALTHY_PATIENCE_S = 300
LOAD_STOP_S = 60
# Some times the stall that the product allows: one that is longer shows as a load that does not end.
AFTER_OWNER_S = 15


class Scene:
    """A cluster with a disk that is written in full, but for the part that the load writes."""

    def __init__(self, desk, rate):
        self.desk, self.rate = desk, rate
        sizes = CACHE_MIB, CAPACITY_MIB
        self.cluster = SeveralProcesses(
            desk.programs, desk.folder / "hosts", desk.sockets, *sizes, hosts=HOSTS, repair_delay_s=REPAIR_DELAY_S
        )

    def start(self):
        """Starts the cluster and fills the disk."""
        self.cluster.start()
        self.cluster.create_disk(DISK, DISK_MIB)
        target = ["--ioengine=nbd", f"--uri={self.cluster.uri(DISK)}", f"--offset={LOAD_MIB}m", f"--size={DISK_MIB - LOAD_MIB}m"]
        fio.run(Job("write", "1m", 4, mib=DISK_MIB - LOAD_MIB), [target], self.desk.folder)

    def cpu_s(self):
        """CPU seconds of all that was started here, with what has ended, and of this program."""
        return machine.own_cpu_s() + sum(processes.cpu_s(pid) for pid in self.cluster.pids().values())

    def roles(self):
        """(owner, the host of the other copy): the disk is attached where a copy is; write buffers and caches are clear."""
        first, other = self.copies()
        self.cluster.cairn("disk", "attach", DISK, "--host", self.cluster.host_name(first), host=first)
        self.cluster.clear()
        return first, other

    def copies(self):
        """The hosts of the two copies."""
        components = self.cluster.cairn("disk", "show", DISK)["components"]
        return sorted(int(c["host_name"].removeprefix("h")) for c in components if c["role"] == "data")

    def zeroed(self):
        """The part of the disk that the load writes reads as zeroes again: it is the only one that does not know what it holds."""
        target = ["--ioengine=nbd", f"--uri={self.cluster.uri(DISK)}", f"--size={LOAD_MIB}m", "--zero_buffers"]
        fio.run(Job("write", "1m", 4, mib=LOAD_MIB), [target], self.desk.folder)

    def begin_load(self, owner):
        """Starts the load, which prefers the owner's host."""
        self.zeroed()
        others = [host for host in range(1, HOSTS + 1) if host != owner]
        sockets = [self.cluster.nbd_socket(host) for host in (owner, *others)]
        self.records = self.desk.folder / "records"
        line = [sys.executable, Path(__file__).with_name("load.py"), self.records, DISK, LOAD_MIB, self.rate, 600, *sockets]
        return Child("load", line, self.desk.folder / "load.log")

    def end_load(self, load):
        """Stops the load; gives [(due, answered)], or ProcessError where it met an error or a wrong block."""
        load.process.terminate()
        if load.process.wait(LOAD_STOP_S):
            raise ProcessError(f"the load failed:\n{load.tail()}")
        values = array.array("d", self.records.read_bytes())
        return list(zip(values[::2], values[1::2]))

    def rebuilt(self, host, dead, begin):
        """Waits until the disk is healthy without the dead host, asked at `host`. Gives when filling was first seen, and its end.

        None for the first where the copy was there again before anybody looked.
        """
        filling = None
        while True:
            disk = self.cluster.get(f"disks/{DISK}", host)
            now = time.monotonic()
            if any(component["state"] == "resyncing" for component in disk["components"]):
                filling = filling or now
            elif disk["health"] == "healthy" and all(c["host_name"] != dead for c in disk["components"]):
                return filling, now
            if now > begin + HEALTHY_PATIENCE_S:
                raise ProcessError(f"the disk is not healthy {HEALTHY_PATIENCE_S} s after the death: {disk['reasons']}")
            time.sleep(LOOK_S)

    def copied_mib(self, owner):
        """MiB that this host, as owner, has sent to components that are filled. Its own count: that of a host ends with its process."""
        hosts = self.cluster.counters(owner)["hosts"]
        return next(h["resync_out_bytes"] for h in hosts if h["host_name"] == self.cluster.host_name(owner)) / (1 << 20)

    def kill(self, host, words):
        """Kills a host; gives its name and when."""
        self.desk.say(f"SIGKILL of h{host}: {words}")
        now = time.monotonic()
        self.cluster.kill_host(host)
        return self.cluster.host_name(host), now

    def restart(self, host):
        """Starts a dead host again and waits until all is well."""
        self.cluster.start_host(host)
        self.cluster.wait_up()


def rebuild_rate(copied_mib, filling, healthy):
    """MiB/s of a rebuild; ProcessError where it was too short to be timed."""
    if filling is None or copied_mib <= 0:
        raise ProcessError("the copy was there again before anybody saw it being filled: nothing can be timed")
    return copied_mib / (healthy - filling)


def replica_dies(scene):
    """Under load: the stall, the time to redundancy, the rate of the rebuild and what it does to the guest's p99."""
    owner, other = scene.roles()
    load = scene.begin_load(owner)
    try:
        time.sleep(1)
        calm = time.monotonic()
        while time.monotonic() < calm + UNDISTURBED_S:
            scene.cluster.get(f"disks/{DISK}", owner)
            time.sleep(LOOK_S)
        before = scene.copied_mib(owner)
        dead, died = scene.kill(other, "a copy, under load")
        filling, healthy = scene.rebuilt(owner, dead, died)
        copied = scene.copied_mib(owner) - before
        time.sleep(1)
        records = scene.end_load(load)
    finally:
        load.stop()
    scene.restart(other)
    rate = rebuild_rate(copied, filling, healthy)
    return {
        "replica_stall_s": longest_silence(records, died, filling),
        "replica_slowest_s": slowest(records, died, filling),
        "replica_redundancy_s": healthy - died,
        "undisturbed_p50_ms": latency_percentile(records, calm, died, 50) * 1000,
        "undisturbed_p99_ms": latency_percentile(records, calm, died, 99) * 1000,
        "rebuild_silence_s": longest_silence(records, filling, healthy),
        "rebuild_p50_ms": latency_percentile(records, filling, healthy, 50) * 1000,
        "rebuild_p99_ms": latency_percentile(records, filling, healthy, 99) * 1000,
        "rebuild_loaded_mib": copied,
        "rebuild_loaded_s": healthy - filling,
        "rebuild_loaded_mib_s": rate,
    }


def owner_dies(scene):
    """Under load: the stall until the client is answered through another host."""
    owner, other = scene.roles()
    load = scene.begin_load(owner)
    try:
        time.sleep(2)
        dead, died = scene.kill(owner, "the owner, under load")
        time.sleep(AFTER_OWNER_S)
        end = time.monotonic()
        records = scene.end_load(load)
    finally:
        load.stop()
    # The rest of the rebuild has the machine for itself.
    scene.rebuilt(other, dead, died)
    scene.restart(owner)
    return {"owner_stall_s": longest_silence(records, died, end), "owner_slowest_s": slowest(records, died, end)}


def idle_rebuild(scene):
    """Without any load: the rate of the rebuild."""
    owner, other = scene.roles()
    before = scene.copied_mib(owner)
    dead, died = scene.kill(other, "a copy, no load")
    filling, healthy = scene.rebuilt(owner, dead, died)
    copied = scene.copied_mib(owner) - before
    scene.restart(other)
    rate = rebuild_rate(copied, filling, healthy)
    return {
        "idle_mib": copied,
        "idle_s": healthy - filling,
        "idle_mib_s": rate,
        "idle_redundancy_s": healthy - died,
    }


def medium(desk):
    """MiB/s of durable sequential writes to a file of this medium that is written in full before."""
    file = desk.folder / "medium.img"
    target = ["--ioengine=libaio", f"--filename={file}", "--direct=1", "--sync=dsync", "--size=512m"]
    if not file.exists():
        make_file(file, 512)
        fio.run(Job("write", "1m", 4, mib=512), [target], desk.folder)
    return {"medium_mib_s": fio.run(Job("write", "1m", 4, seconds=2), [target], desk.folder).mib_s}


def measure(desk, repeats, rate):
    """All scenarios, in turns; gives one dict for each repeat."""
    with ExitStack() as stack:
        scene = Scene(desk, rate)
        stack.callback(scene.cluster.stop)
        desk.say(f"starting {HOSTS} hosts and writing a disk of {DISK_MIB} MiB")
        scene.start()
        found = []
        for number in range(repeats):
            times, used = machine.processor_times(), scene.cpu_s()
            values = medium(desk) | replica_dies(scene) | owner_dies(scene) | idle_rebuild(scene)
            stolen, others = machine.shares(times, machine.processor_times(), scene.cpu_s() - used)
            values |= {"steal_percent": stolen, "others_percent": others}
            found.append({name: float(f"{value:.4g}") for name, value in values.items()})
            desk.say(f"repeat {number + 1} of {repeats}: " + ", ".join(f"{name} {value:g}" for name, value in found[-1].items()))
        return found


def main(words):
    """Runs it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python3 scripts/bench/failures.py", description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=whole, default=3, help="of each scenario; default 3, about two minutes each")
    parser.add_argument("--rate", type=whole, default=2000, help="writes of 4 KiB per second; default 2000")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/bench/failures.json", help="the result; its page is beside it")
    parser.add_argument("--from", dest="source", type=Path, metavar="RESULT.json", help="measure nothing: write this result's page anew")
    chosen = parser.parse_args(words)
    out = chosen.source or chosen.out
    if not chosen.source:
        with Desk("failures") as desk:
            result = run(desk, chosen)
        out.write_text(json.dumps(result, indent=1) + "\n")
    result = json.loads(out.read_text())
    written(out.with_suffix(".md"), page(result["made"], result["repeats"]))
    return 0


def run(desk, chosen):
    """Measures everything; gives what the JSON file holds."""
    made = desk.made(chosen.repeats, 0, chosen.out.name)
    begin = time.monotonic()
    found = measure(desk, chosen.repeats, chosen.rate)
    made |= {"rate": chosen.rate, "elapsed_s": round(time.monotonic() - begin), "load_end": machine.load_average()}
    return {"format": 1, "made": made, "repeats": found}


if __name__ == "__main__":
    sys.exit(desk_errors(lambda: main(sys.argv[1:])))
