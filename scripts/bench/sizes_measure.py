"""One row of the bench of real sizes: fill, burst, sustained load, a death with a full log, an end in order, cold reads.

Promises  rates and times are those of the load's own clock; bytes are the daemon's own counts, of the same time
          a load is sustained for turns of the log and not for seconds, where the time is enough: a fast build and a slow one are then measured
          in the same state. What comes before is left out
          what a build does not tell is None and never a number
          a load is ended, and the row with it, before the devices take more than they may
"""

import json
import subprocess
import threading
import time
from dataclasses import dataclass

import machine
import onethread
import processes
from figures import ratio
from fio import FioError
from hosts import Refused
from processes import ProcessError, die_with_parent
from sizes_rows import GIB, MIB

SEED_BURST, SEED_WARM, SEED_STEADY, SEED_DEATH = 1, 2, 3, 4
# Of the log, in bytes of guests: with headers some 70 % of it, below the mark (75 %) from which acknowledgements are delayed.
BURST_OF_LOG = 0.65
BURST_S_MAX = 240
# Of the room that is left, for the sustained load: capacity devices take 1.01 times what is destaged, and metadata come to it.
# Where the second load begins anew, nothing counts for so long.
RAMP_S = 1.0
OF_ROOM = 0.6
# At a death the log is at least as full, or as full as the load makes it: no fuller for so long.
FULL_PERMILLE, RISES_NO_MORE_S, DEATH_S_MAX = 700, 4, 20
DRAIN_S = 30
COLD_S = 5
SAMPLE_S = 1
# A longest turn is told for up to 30 s: it may be of before that long ago.
TURN_TOLD_S = 30
BLOCK = 4096


@dataclass
class Sample:
    """What the daemon told, and the kernel told of it, at a moment."""

    at: float
    counters: dict
    gauges: list
    turn_us: int
    resident_mib: float
    cpu_s: float

    def gauge(self, name):
        """The sum of a gauge over disk groups; None where this build has none."""
        values = [gauges.get(name) for gauges in self.gauges]
        return None if not values or None in values else sum(values)


def sample(host):
    """Looks once; None where the daemon does not answer."""
    try:
        told = host.get("counters")
        pid = host.pids()["cairnd"]
        resident, cpu = processes.memory_mib(pid)["rss"], processes.cpu_s(pid)
    except (Refused, KeyError, OSError):
        return None
    counters, gauges, turn = {}, [], None
    for one in told["hosts"]:
        turn = one.get("gauges", {}).get("turn_longest_us", turn)
        for group in one["disk_groups"]:
            gauges.append(group["gauges"] or {})
            for name, value in (group["counters"] or {}).items():
                counters[name] = counters.get(name, 0) + value
    return Sample(time.monotonic(), counters, gauges, turn, resident, cpu)


class Running:
    """A load that runs, and what is sampled beside it."""

    def __init__(self, host, program, job):
        self.host = host
        self.samples, self.broken = [], None
        line = [str(program), "load", "--style=json", *job.options, host.uri("bench")]
        self.begin = time.monotonic()
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.over = threading.Event()
        self.sampler = threading.Thread(target=self._sample, daemon=True)
        self.sampler.start()

    def _sample(self):
        while not self.over.wait(SAMPLE_S):
            seen = sample(self.host)
            if seen:
                self.samples.append(seen)
            try:
                self.host.check_space()
            except OSError as full:
                self.broken = full
                self.process.kill()
                return

    def end(self):
        """Waits for its end; gives (Outcome, requests of each second)."""
        try:
            out, errors = self.process.communicate()
        finally:
            self.stop()
        if self.broken:
            raise self.broken
        if self.process.returncode:
            self.host.children["cairnd"].check()
            raise FioError(f"{onethread.PROGRAM} ended with code {self.process.returncode}: {errors.strip()}")
        last = sample(self.host)
        if last:
            self.samples.append(last)
        return onethread.parse(out), [second["requests"] for second in json.loads(out)["seconds"]]

    def stop(self):
        """Ends it at once."""
        self.over.set()
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.sampler.join()


@dataclass(frozen=True)
class Job:
    """What `cairn-bench load` is told."""

    options: tuple


def job(row, seconds, seed, ramp=0.0, size_bytes=0, read=False, **other):
    """The row's load, or cold reads of what it wrote."""
    load = row.load
    depth, span = (1 if read else load.depth), other.get("span_bytes", row.span_mib * MIB)
    options = [f"--block={load.block_kib if not read else 4}k", f"--read={100 if read else 0}", f"--outstanding={depth}"]
    options += [f"--ramp={ramp:g}", f"--time={seconds:g}", f"--seed={seed}", f"--span={span}"]
    # Of a sequential row what is read are any places of what it wrote.
    options += () if read and load.sequential else load.options
    options += [f"--bytes={size_bytes}"] if size_bytes else []
    options += [] if read else ["--destructive"]
    return Job(tuple(options))


def fill(host, program):
    """Brings about a filled map; gives what was done, in words.

    With the tool for it every block is mapped at random, to places that were never written. Nothing reads those here: cold reads are of what the
    burst wrote, and the block that openings look at is written first. Heads of runs are left out: they take a 128th of terabytes, and nothing
    is cleaned in these rows.
    """
    if host.row.by_data:
        return fill_by_data(host, program)
    begin, blocks = time.monotonic(), 0
    host.end()
    for cache, capacity in host.groups:
        line = [str(program), "fill-map", str(cache), *map(str, capacity), "--no-heads", "--destructive", "--style=json"]
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        if done.returncode:
            raise ProcessError(f"{onethread.PROGRAM} fill-map ended with code {done.returncode}: {done.stderr.strip()}")
        blocks += json.loads(done.stdout)["blocks"]
        host.check_space()
    seconds = time.monotonic() - begin
    host.start()
    host.served(write=True)
    return f"{blocks * BLOCK / GIB:,.0f} GiB mapped without data in {seconds:.0f} s"


def can_fill(programs):
    """Whether the build has a tool that fills the map."""
    try:
        line = [str(programs / onethread.PROGRAM), "fill-map", "--help"]
        return subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def fill_by_data(host, program):
    """The same without such a tool: writes the whole working set, in order and in large blocks, and destages it.

    What is written is bounded (FILL_GIB_MAX), and so the log is smaller in such rows (`Row.log_mib`).
    """
    span = host.row.span_mib * MIB
    if host.room_bytes() < 1.1 * span:
        raise OSError(f"{host.row.key}: {span / GIB:.0f} GiB are to be written beforehand, and there is room for {host.room_bytes() / GIB:.0f}: more --space")
    options = ("--block=1m", "--read=0", "--random=0", "--outstanding=4", "--ramp=0", "--time=3600", f"--bytes={span}", "--destructive")
    Running(host, program, Job(options)).end()
    host.clear()
    return f"{span / GIB:.0f} GiB written"


def run(host, seconds, turns, say):
    """Measures the row of a host that was just made; gives its values by name."""
    program, row = host.programs / onethread.PROGRAM, host.row
    values = {"log_mib": row.logs_mib, "logs": row.load.logs, "span_mib": row.span_mib}
    begin, times = time.monotonic(), machine.processor_times()
    own, daemon_s = machine.own_cpu_s(), 0.0
    if row.filled:
        say(f"the map is filled: {fill(host, program)}")
    first = sample(host)
    written = int(BURST_OF_LOG * row.logs_mib * MIB)
    values |= burst(host, program, written)
    say(f"burst: {values['burst_iops']:,.0f} IOPS")
    values |= sustained(host, program, seconds, turns, first)
    say(
        f"sustained: {values['iops']:,.0f} IOPS, p99 {values['p99_ms']:.1f} ms, metadata {percent(values['metadata_of_destaged'])}, "
        f"{values['turns']:.2f} turns of the log"
    )
    daemon_s += processes.cpu_s(host.pids()["cairnd"])
    values |= death(host, program)
    daemon_s += processes.cpu_s(host.pids()["cairnd"])
    values |= order(host)
    say(f"opened after a kill in {values['open_killed_s']:.2f} s, after an end in order in {values['open_clean_s']:.2f} s")
    values |= cold(host, program, COLD_S, written)
    say(f"cold reads: {values['cold_iops']:,.0f} IOPS at QD1")
    values["taken_gib"] = host.taken_bytes() / GIB
    daemon_s += processes.cpu_s(host.pids()["cairnd"])
    stolen, others = machine.shares(times, machine.processor_times(), daemon_s + machine.own_cpu_s() - own)
    return values | {"steal_percent": stolen, "others_percent": others, "took_s": time.monotonic() - begin}


def percent(share):
    """A share in words."""
    return "-" if share is None else f"{100 * share:.1f} %"


def burst(host, program, written):
    """Into an empty log, until it is two thirds full."""
    outcome, _ = Running(host, program, job(host.row, BURST_S_MAX, SEED_BURST, size_bytes=written)).end()
    return {"burst_iops": outcome.iops, "burst_p99_ms": outcome.p99_us / 1000}


def sustained(host, program, seconds, turns, first):
    """Twice for half of so many turns of the log, half of the time at most, and what there is room for; the second time counts."""
    logs_bytes = host.row.logs_mib * MIB
    # Half of it fills what may wait, and the half that counts turns it over.
    turns = max(turns, 2 * host.row.queue_turns)
    half_bytes = int(min(turns * logs_bytes, max(host.room_bytes(), 0) * OF_ROOM) / 2)
    if half_bytes < 64 * MIB:
        raise OSError(f"{host.row.size.key} {host.row.key}: no room is left for a load: more --space, or another --folder")
    begin = time.monotonic()
    Running(host, program, job(host.row, seconds / 2, SEED_WARM, size_bytes=half_bytes)).end()
    before = sample(host)
    running = Running(host, program, job(host.row, seconds / 2, SEED_STEADY, ramp=RAMP_S, size_bytes=half_bytes))
    outcome, each = running.end()
    # The last second of it may have been cut short.
    slowest = min(each[:-1], default=None)
    values = {"steady_s": time.monotonic() - begin, "iops": outcome.iops, "p99_ms": outcome.p99_us / 1000, "slowest_s_iops": slowest}
    return values | told(running.samples, before, first, logs_bytes)


def told(half, begin, first, log_bytes):
    """What the samples of a time that began with `begin` say of it, and of all since `first`."""
    if not half or not begin or not first:
        raise ProcessError("the daemon did not answer while the load was on: take more --seconds")
    end = half[-1]

    def added(name, since=begin):
        return end.counters[name] - since.counters[name]

    guests, destaged = added("write_bytes"), added("destaged_bytes")
    capacity = added("capacity_write_destage_bytes") + added("capacity_write_clean_bytes")
    live, used = end.gauge("capacity_live_bytes"), end.gauge("metadata_used_bytes")
    late = [one.turn_us for one in half if one.at >= begin.at + TURN_TOLD_S and one.turn_us is not None]
    late = late or [one.turn_us for one in half[-1:] if one.turn_us is not None]
    return {
        "turns": ratio(added("log_write_bytes", first), log_bytes),
        "half_turns": ratio(added("log_write_bytes"), log_bytes),
        "destaged_mib": destaged / MIB,
        "metadata_of_destaged": ratio(added("metadata_write_bytes"), destaged),
        "metadata_of_destaged_all": ratio(added("metadata_write_bytes", first), added("destaged_bytes", first)),
        "capacity_amplification": ratio(capacity, guests),
        "log_amplification": ratio(added("log_write_bytes"), guests),
        "metadata_amplification": ratio(added("metadata_write_bytes"), guests),
        "metadata_reads_a_block": ratio(added("metadata_reads"), destaged / BLOCK) if "metadata_reads" in end.counters else None,
        "cpu_us_a_write": ratio((end.cpu_s - begin.cpu_s) * 1e6, added("write_operations")),
        "resident_mib": max(one.resident_mib for one in half),
        "mapped_mib": None if live is None else live / MIB,
        "metadata_used_mib": None if used is None else used / MIB,
        "metadata_a_block": ratio(used, None if live is None else live / BLOCK),
        "longest_turn_ms": max(late) / 1000 if late else None,
        "log_fill_permille": max(gauges["log_fill_permille"] for gauges in end.gauges),
    }


def opened(host, name, fill_permille):
    """Starts the host with nothing in the kernel's memory; how long it took, by its name."""
    host.forget_pages()
    begin = time.monotonic()
    seconds = host.start()
    seen = sample(host)
    host.served()
    serves = time.monotonic() - begin
    opening = [gauges.get("opening_us") for gauges in seen.gauges] if seen else [None]
    return {
        f"open_{name}_s": seconds,
        f"open_{name}_group_s": None if None in opening else max(opening) / 1e6,
        f"serves_{name}_s": serves,
        f"open_{name}_log_percent": fill_permille / 10,
    }


def death(host, program):
    """SIGKILL while the load fills the log, and an opening."""
    running = Running(host, program, job(host.row, DEATH_S_MAX, SEED_DEATH))
    try:
        fill_permille = highest = 0
        rose = time.monotonic()
        while fill_permille < FULL_PERMILLE and time.monotonic() < rose + RISES_NO_MORE_S and running.process.poll() is None:
            time.sleep(0.2)
            seen = sample(host)
            fill_permille = max(gauges["log_fill_permille"] for gauges in seen.gauges) if seen else 0
            if fill_permille > highest:
                highest, rose = fill_permille, time.monotonic()
        if running.broken:
            raise running.broken
        host.kill()
    finally:
        running.stop()
    return opened(host, "killed", fill_permille)


def order(host):
    """An end in order, after destage had some time for what is in the log, and an opening."""
    try:
        host.cairn("--timeout", DRAIN_S + 30, "cache", "clear", "--wait", DRAIN_S)
    except Refused:
        # It was not enough time: the fill is told.
        pass
    seen = sample(host)
    fill_permille = max(gauges["log_fill_permille"] for gauges in seen.gauges)
    ended = host.end()
    return {"end_s": ended} | opened(host, "clean", fill_permille)


def cold(host, program, seconds, written):
    """Reads of 4 KiB, one at a time, of what the burst wrote, and no others: after an opening, so that nothing is in memory."""
    other = {"size_bytes": written} | ({"span_bytes": written} if host.row.load.sequential else {})
    before = sample(host)
    outcome, _ = Running(host, program, job(host.row, seconds, SEED_BURST, read=True, **other)).end()
    after = sample(host)
    added = {name: after.counters[name] - before.counters[name] for name in after.counters}
    whole = sum(added[f"read_{place}_bytes"] for place in ("log", "cache", "capacity", "hole"))
    return {
        "cold_iops": outcome.iops,
        "cold_p99_ms": outcome.p99_us / 1000,
        "cold_of_capacity": ratio(added["read_capacity_bytes"], whole),
        "cold_metadata_reads": ratio(added["metadata_reads"], added["read_operations"]) if "metadata_reads" in added else None,
    }
