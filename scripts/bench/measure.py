"""Measuring: stages, rounds, turns; one cell is one run of a load on one system.

Promises  systems take turns within every round, and the first of them changes with the round, so that a disturbance of the
          machine meets all of them; processes are the same for all rounds of a stage
          a cell from which the hypervisor took processor time is measured again, and how often that was is kept with it
          at the end, and when anything breaks, all processes are ended and all files removed
"""

import shutil
import time
from contextlib import ExitStack

import fio
import machine
import onethread
import processes
from rows import STAGES
from systems import SYSTEMS, space_mib

# fio's start and end around what it measures, and what a state of Cairn takes to bring about: for the estimate alone.
CELL_EXTRA_S = 0.35
PREPARE_S = {"": 0, "warm": 0.5, "clear": 1, "clear-warm": 1.5, "full": 3}
STAGE_START_S = 35
MIB = 1 << 20

# A cell that lost more of the processor time that was wanted to other guests of the hypervisor is measured again, so often at most. Such
# theft comes in bursts of some ten seconds, and may take half of a machine.
STOLEN_PERCENT_MAX = 10
AGAIN_MAX = 8


def stages_of(rows):
    """[(stage, its rows)] in their order."""
    found = [(stage, [row for row in rows if row.stage == key]) for key, stage in STAGES.items()]
    return [(stage, own) for stage, own in found if own]


def systems_of(rows):
    """The systems of rows, in the order in which they take turns."""
    return [key for key in SYSTEMS if any(key in row.systems for row in rows)]


def estimate_s(rows, rounds, seconds):
    """About how long all of it takes."""
    cells = sum(
        seconds * row.longer + CELL_EXTRA_S + (PREPARE_S[row.before] if key.startswith("cairn") else 0)
        for row in rows
        for key in row.systems
    )
    return rounds * cells + STAGE_START_S * len(stages_of(rows))


def check_space(folder, rows):
    """OSError where the files of a stage do not fit."""
    needed = max(space_mib(stage, systems_of(own)) for stage, own in stages_of(rows)) + 512
    free = shutil.disk_usage(folder).free // MIB
    if free < needed:
        raise OSError(f"{folder} has {free} MiB free, and {needed} MiB are needed: make room, or choose fewer --systems")


def run(bench, rows, rounds, seconds):
    """Measures all rows; `bench` is a Desk; gives (cells, memory) as result.py describes them."""
    cells, memory = [], []
    for stage, own in stages_of(rows):
        with ExitStack() as stack:
            systems = {}
            for key in systems_of(own):
                bench.say(f"stage {stage.key}: starting and filling {key}")
                system = SYSTEMS[key](bench, stage)
                stack.callback(system.stop)
                system.start(own)
                systems[key] = system
            cells += _rounds(bench, own, systems, rounds, seconds)
            for key, system in systems.items():
                system.fill_caches()
                memory += [_memory(stage, key, system)] if system.pids() else []
        for path in [*bench.folder.iterdir(), *bench.sockets.iterdir()]:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return cells, memory


def turns(keys, number):
    """The systems of a row in the order of round `number`, from 0."""
    first = number % len(keys)
    return [*keys[first:], *keys[:first]]


def _rounds(bench, rows, systems, rounds, seconds):
    cells = {(row.key, key): [] for row in rows for key in row.systems}
    for number in range(rounds):
        for row in rows:
            for key in turns(row.systems, number):
                measured = least_stolen(lambda: cell(bench, row, systems[key], seconds), bench.say)
                cells[row.key, key].append(measured)
                bench.say(
                    f"round {number + 1} of {rounds}: {row.key}: {key}: {measured['iops']:,.0f} IOPS, "
                    f"{measured['mib_s']:,.0f} MiB/s, mean {measured['mean_us']:,.0f} us, p99 {measured['p99_us']:,.0f} us"
                )
    return [{"row": row, "system": key, "values": _columns(values)} for (row, key), values in cells.items()]


def least_stolen(measure, say):
    """Measures until little enough was stolen meanwhile, or often enough; gives the best with its `again`: how many are not told."""
    best = measure()
    for again in range(AGAIN_MAX + 1):
        best["again"] = again
        if best["stolen_of_wanted_percent"] <= STOLEN_PERCENT_MAX or again == AGAIN_MAX:
            break
        say(f"once more: {best['stolen_of_wanted_percent']:.0f} % of the processor time that was wanted was stolen by the hypervisor")
        best = min(best, measure(), key=lambda cell: cell["stolen_of_wanted_percent"])
    return best


def _columns(rounds):
    """{name: [value of each round]} of one dict for each round."""
    return {name: [values[name] for values in rounds] for name in rounds[0]}


def cell(bench, row, system, seconds):
    """One run of a row's load on a system that is brought to the row's state first: what it measured, by name."""
    system.prepare(row)
    told = system.told()
    own, times, used, begin = machine.own_cpu_s(), machine.processor_times(), system.cpu_s(), time.monotonic()
    outcome = _outcome(bench, row, system, row.job(seconds, system.limited))
    used = system.cpu_s() - used
    known = used + machine.own_cpu_s() - own
    after = machine.processor_times()
    stolen, others = machine.shares(times, after, known)
    values = {
        "ios": outcome.ios,
        "iops": outcome.iops,
        "mib_s": outcome.mib_s,
        "mean_us": outcome.mean_us,
        "p50_us": outcome.p50_us,
        "p99_us": outcome.p99_us,
        "p999_us": outcome.p999_us,
        "cpu_s_per_1000": used / outcome.ios * 1000 if system.pids() else None,
        "machine_s_per_1000": machine.busy_s(times, after) / outcome.ios * 1000,
        "steal_percent": stolen,
        "stolen_of_wanted_percent": machine.stolen_of_wanted(times, after),
        "others_percent": others,
        "took_s": time.monotonic() - begin,
    }
    if row.small_disks > 1:
        values["worst_of_best"] = max(outcome.job_means_us) / min(outcome.job_means_us)
    if told is not None:
        values |= {f"told_{name}": value for name, value in system.what_happened(told, system.told()).items()}
    return {name: _short(value) for name, value in values.items()}


def _outcome(bench, row, system, job):
    if row.one_thread:
        return onethread.run(bench.programs / onethread.PROGRAM, job, *system.exports(row))
    return fio.run(job, system.targets(row), bench.folder)


def _short(value):
    """Five significant digits: more are noise, and the file is read by people too."""
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _memory(stage, key, system):
    found = {name: {kind: round(mib, 1) for kind, mib in processes.memory_mib(pid).items()} for name, pid in system.pids().items()}
    memory = {"stage": stage.key, "system": key, "processes": found}
    if system.limited:
        gauges = system.cluster.gauges()
        memory["told"] = {
            "read_cache_mib": [round(g["read_cache_used_bytes"] / MIB, 1) for g in gauges],
            "records_buffered": [g["records_buffered"] for g in gauges],
            "log_used_mib": [round(g["log_used_bytes"] / MIB, 1) for g in gauges],
        }
    return memory
