"""The page: a result as Markdown: aims, one table, and how it was measured. What else was measured is told beside it, not in the tree.

Promises  every number is a median of the rounds, with how far the rounds lie apart beside it
          conditions stand on the page: machine, kernel, programs, command, load, CPU of others
"""

import aims
import measure
from figures import median, ratio
from prose import items, paragraph
from rows import CACHED_MIB, INSIDE_BUFFER_MIB, STAGES, every_row
from systems import SYSTEMS

# From here on a cell's median share of CPU that others took is listed.
DISTURBED_PERCENT = 20


def page(result):
    """The whole page as text."""
    made = result.made
    lines = ["# Speed beside the protocol's ceiling and the medium", ""]
    lines += _conditions(result)
    judged = aims.table(result, [key for key in ("cairn", "cairn-one", "cairn-vhost") if _measured(result, key)])
    if judged:
        lines += ["", "## Aims", "", "Ratios of medians of this run.", "", *judged]
    lines += ["", "## IOPS", "", *_overview(result)]
    lines += ["", "## How this was measured", "", *_method(made)]
    return "\n".join(lines) + "\n"


def details(result):
    """All numbers of all cells as text: latencies, processor time, where reads came from, memory."""
    lines = ["# All numbers", "", *_details(result)]
    lines += ["", "## What Cairn's rows met", "", *_told(result)]
    lines += ["", "## Resident memory at the end", "", *_memory(result)]
    return "\n".join(lines) + "\n"


def _measured(result, system):
    return any(cell["system"] == system for cell in result.cells)


def _titles(result):
    titles = {row.key: row.title for row in every_row()}
    rows = dict.fromkeys(cell["row"] for cell in result.cells)
    return [(key, titles.get(key, key)) for key in rows]


def number(value, digits=0):
    """A number for a table; small ones keep three digits."""
    if value is None:
        return "-"
    if value and abs(value) < 10 and not digits:
        return f"{value:.3g}"
    return f"{value:,.{digits}f}"


def _percent(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def _conditions(result):
    made = result.made
    machine = made["machine"]
    begin, end = (" ".join(f"{value:.2f}" for value in made[name]) for name in ("load_begin", "load_end"))
    others = [median(cell["values"]["others_percent"]) for cell in result.cells]
    stolen = [value for cell in result.cells for value in cell["values"]["steal_percent"]]
    return [
        *paragraph(
            f"""Made by `{made['command']}` on {made['date']} in {made['elapsed_s'] / 60:.0f} minutes: {made['rounds']} rounds,
            {made['seconds']:g} s each. {made['version']}; this tree is at commit {made['commit']}, and cairnd is the program with
            SHA-256 {made['sha256']}."""
        ),
        "",
        *paragraph(
            f"""Machine: {machine['processors']} processors ({machine['model']}), {machine['memory']}, kernel {machine['kernel']}.
            {made['tools']}. Load average at the begin {begin}, at the end {end}. Processor time stolen by the hypervisor:
            {made['steal_percent']:.1f} % over all, {max(stolen):.0f} % in the worst cell.{_again(result)} Processor time that neither the
            measured programs nor the load used: {median(others):.0f} % of the machine in the median cell (kernel threads that work for them are in it),
            {max(others):.0f} % in the median round of the worst."""
        ),
        "",
        *paragraph("Client, servers and files share the machine: compare within this page only, or by `--compare` on the same machine."),
    ]


def _again(result):
    """What was measured again, as a sentence; nothing of a result that does not tell."""
    again = [value for cell in result.cells for value in cell["values"].get("again", [])]
    lost = [value for cell in result.cells for value in cell["values"].get("stolen_of_wanted_percent", [])]
    if not again or not lost:
        return ""
    return f""" {sum(again)} measurements of {len(again) + sum(again)} lost more than {measure.STOLEN_PERCENT_MAX} % of the processor time
        that they wanted, and were made again; the worst that is kept lost {max(lost):.0f} %."""


def _overview(result):
    systems = [key for key in SYSTEMS if _measured(result, key)]
    against = [(s, b) for s in ("cairn",) for b in ("nbdkit", "qemu-nbd") if s in systems and b in systems]
    head = [*systems, *(f"{system} of {base}" for system, base in against)]
    lines = [f"| row | {' | '.join(head)} |", "|---|" + "---|" * len(head)]
    for key, title in _titles(result):
        cells = [number(result.median(key, system, "iops")) for system in systems]
        cells += [_percent(ratio(result.median(key, s, "iops"), result.median(key, b, "iops"))) for s, b in against]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


_QUANTITIES = ("iops", "mib_s", "mean_us", "p50_us", "p99_us", "p999_us", "cpu_s_per_1000")


def _details(result):
    lines = [
        *paragraph(
            """Latency in microseconds, from the load's submission to completion. CPU: seconds of all server processes per 1,000 requests, etcd
            included. Spread: (highest - lowest IOPS of the rounds) / median. Others: processor time of the machine that is neither the
            servers' nor the load's."""
        ),
        "",
        "| row | system | IOPS | MiB/s | mean | p50 | p99 | p99.9 | CPU s | spread | others |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for key, _ in _titles(result):
        for system in result.systems(key):
            values = [result.median(key, system, name) for name in _QUANTITIES]
            cells = [number(value) for value in values[:-1]]
            cells.append(number(values[-1], 4))
            cells += [_percent(result.spread(key, system)), f"{result.median(key, system, 'others_percent'):.0f} %"]
            lines.append(f"| {key} | {system} | {' | '.join(cells)} |")
    return lines + _several_disks(result)


def _several_disks(result):
    """Sentences about many disks, for every system: what 64 connections cost, a server without storage shows."""
    cells = [(cell["row"], cell["system"]) for cell in result.cells if "worst_of_best" in cell["values"]]
    fairness = [f"{key} {system} {result.median(key, system, 'worst_of_best'):.2f}" for key, system in cells]
    scaling = [
        (system, ratio(result.median(key, system, "iops"), result.median("disk-qd64", system, "iops")))
        for key, system in cells
        if key == "disks-64"
    ]
    lines = []
    if fairness:
        lines += ["", f"Worst disk's mean latency over the best's: {', '.join(fairness)}."]
    if any(share is not None for _, share in scaling):
        shares = ", ".join(f"{system} {_percent(share)}" for system, share in scaling)
        words = f"IOPS of 64 disks at QD1 over those of one at QD64: {shares}. The load is one thread in all of them; what 64 connections cost is in it: see nbdkit's."
        lines += ["", *paragraph(words)]
    return lines


def _told(result):
    lines = [
        *paragraph(
            """By the daemons' own counters. Reads: where their blocks came from. Destaged: bytes moved to capacity devices meanwhile, of the
            bytes written, all copies. Log: how full the fullest write buffer was when the row began."""
        ),
        "",
        "| row | system | from cache | from log | from capacity | destaged of written | log at begin |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in result.cells:
        key, system = cell["row"], cell["system"]
        if "told_write_mib" not in cell["values"]:
            continue
        names = ("read_cache", "read_log", "read_capacity", "write", "destaged")
        *reads, write, destaged = (result.median(key, system, f"told_{name}_mib") for name in names)
        cells = [_percent(ratio(value, sum(reads))) for value in reads]
        cells.append(_percent(ratio(destaged, write)))
        cells.append(f"{result.median(key, system, 'told_log_fill_percent'):.0f} %")
        lines.append(f"| {key} | {system} | {' | '.join(cells)} |")
    return lines


def _memory(result):
    lines = [
        *paragraph(
            """MiB, after all of the disk was read once, so that read caches are full. Anonymous is heap, stacks and buffers; file is the program
            itself. The daemons tell of their memory only what the read cache holds; the records of the write buffer, which are indexed in
            memory, are told as a count."""
        ),
        "",
        "| stage | system | process | resident | peak | anonymous | file |",
        "|---|---|---|---|---|---|---|",
    ]
    told = []
    for entry in result.memory:
        for name, mib in entry["processes"].items():
            cells = " | ".join(number(mib.get(kind), 0) for kind in ("rss", "peak", "anonymous", "file"))
            lines.append(f"| {entry['stage']} | {entry['system']} | {name} | {cells} |")
        if "told" in entry:
            caches, records, logs = (
                ", ".join(f"{value:,.0f}" for value in entry["told"][name])
                for name in ("read_cache_mib", "records_buffered", "log_used_mib")
            )
            words = f"per host: read cache {caches} MiB; {records} records in {logs} MiB of write buffer."
            told.append(f"- {entry['stage']}, {entry['system']}, {words}")
    return [*lines, "", *told] if told else lines


def _method(made):
    main, steady = STAGES["main"], STAGES["steady"]
    return [
        *(f"- *{key}*: {system.title}." for key, system in SYSTEMS.items()),
        *items(
            [
                f"""Every disk is written in full with noise first: {main.disk_mib} MiB, and {steady.disk_mib} MiB for the rows `coldread`
                and `sustained`.""",
                """Systems take turns within every round, another one first in each; the same processes serve all rounds of a stage. A row runs
                for the seconds above (`sustained`: twice as long). All latencies and CPU seconds are from the first request on: nothing is
                left out as warm-up.""",
                f"""Cairn's settings are the defaults but for sizes: devices of {main.cache_mib} MiB (cache) and {main.capacity_mib} MiB
                (capacity) in each host.""",
                f"""*cached*: reads of {CACHED_MIB} MiB that were read before; what a mixed row writes there, it reads from the log. *capacity
                tier*: after `cairn cache clear`; `coldread` reads no block twice as long as it does not read all of them.""",
                f"""Writes of the main rows begin with an empty write buffer and end, on Cairn, after {INSIDE_BUFFER_MIB} MiB, before destage
                begins: they tell what the buffer does, and leave out what destage costs. `sustained` tells that: there the write buffer has
                {steady.log_mib} MiB and the disk four times as much, and the row's own writes have gone over the whole buffer once when
                measuring begins.""",
                """*one thread*: the rows with 1, 8 and 64 disks, and the one at QD64 that they are held against, have `cairn-bench load`
                as their load: one thread for all disks, a connection for each. fio takes a thread for each disk, and 64 of them on few
                processors bound the row themselves. nbdkit has one export, which all connections share.""",
                """*cairn-vhost*: its load is `cairn bench load` in all rows, as fio 3.33 does not speak vhost-user-blk: it is the machine
                and its driver, with a ring of 1,024 entries a disk. The aims hold it against what fio has of the other systems, as those of
                the other columns; the rows *one thread* have nbdkit and Cairn over NBD under the same load. That load may ask for a place again, which
                fio does not: some of its `coldread` are cached by then, as the table above tells.""",
            ]
        ),
        "",
        *paragraph(
            f"""All values of all rounds: [{made['json']}]({made['json']}); `python3 scripts/bench --from docs/bench/{made['json']}` makes tables of them
            in target/. A later run prints its ratios to them with `python3 scripts/bench --compare docs/bench/{made['json']}`."""
        ),
    ]


def disturbed(result):
    """Sentences about cells in whose median round others took much of the machine."""
    found = [
        f"{cell['row']} {cell['system']} {median(cell['values']['others_percent']):.0f} %"
        for cell in result.cells
        if median(cell["values"]["others_percent"]) > DISTURBED_PERCENT
    ]
    return [f"others took more than {DISTURBED_PERCENT} % of the machine: {', '.join(found)}"] if found else []
