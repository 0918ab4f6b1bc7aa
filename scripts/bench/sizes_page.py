"""The page of real sizes: aims, one table for each size of devices, what bounds them. Made from the result alone.

Promises  a row stands once for each build, in the order of builds; what a build does not tell is a dash
          with two builds each row has their ratio too
"""

from dataclasses import dataclass
from typing import Callable

from figures import ratio
from prose import items, paragraph
from sizes_measure import BURST_OF_LOG, COLD_S, DRAIN_S
from sizes_rows import FILL_GIB_MAX, FULL, SIZES, Row, every_key, gib

TITLE = "# Devices of real sizes"
# From here on what others took of the processors is told.
OTHERS_PERCENT = 25


@dataclass(frozen=True)
class Aim:
    """What rows are to reach: `name` of each, at most `bound`; rows by their keys, devices of any size or of these."""

    words: str
    name: str
    bound: float
    rows: tuple = ()
    sizes: tuple = ()
    form: Callable = None

    def of(self, cells):
        """The worst of these cells; None where nothing was measured."""
        own = [cell["values"].get(self.name) for cell in cells if self._is_of(cell)]
        return max((value for value in own if value is not None), default=None)

    def _is_of(self, cell):
        return (not self.rows or cell["row"] in self.rows) and (not self.sizes or cell["size"] in self.sizes)


def _share(value):
    return f"{100 * value:.1f} %"


def _plain(unit):
    return lambda value: f"{number(value)}{unit}"


_FEW = tuple(f"uniform-{logs}{filled}" for logs in (4, 16, 64) for filled in ("", "-filled"))

AIMS = (
    Aim("metadata written, of destaged bytes: evenly over up to 64 logs", "metadata_of_destaged", 0.06, _FEW, form=_share),
    Aim("the same, evenly over 256 logs", "metadata_of_destaged", 0.12, ("uniform-256", "uniform-256-filled"), form=_share),
    Aim("the same, evenly over 1,500 logs", "metadata_of_destaged", 0.30, ("uniform-1500", "uniform-1500-filled"), form=_share),
    Aim("the same, Zipf 0.9", "metadata_of_destaged", 0.30, ("zipf",), form=_share),
    Aim("the same, sequential", "metadata_of_destaged", 0.03, ("sequential",), form=_share),
    Aim("longest turn of a shard, ms", "longest_turn_ms", 5.0, form=_plain("")),
    Aim("metadata reads for a cold read of 4 KiB", "cold_metadata_reads", 1.1, form=_plain("")),
    Aim("opening after a kill with a full log, s (1 a GB of log, and 4)", "open_killed_s", 6.0, form=_plain("")),
    Aim("resident memory, MiB", "resident_mib", 1024.0, form=_plain("")),
)


def number(value, digits=0):
    """A number for a table; small ones keep three digits."""
    if value is None:
        return "-"
    if abs(value) < 100 and not digits:
        return f"{value:.3g}"
    return f"{value:,.{digits}f}"


def _pair(cell, first, second):
    return f"{number(cell.get(first))}, {number(cell.get(second))}"


# (head, cell of the row's values)
COLUMNS = (
    ("IOPS: burst, sustained", lambda v: f"{v['burst_iops']:,.0f}, {v['iops']:,.0f}"),
    ("p99, ms: burst, sustained", lambda v: _pair(v, "burst_p99_ms", "p99_ms")),
    ("metadata of destaged", lambda v: "-" if v["metadata_of_destaged"] is None else _share(v["metadata_of_destaged"])),
    ("written for a guest's byte: log, capacity", lambda v: _pair(v, "log_amplification", "capacity_amplification")),
    ("processor, us a write", lambda v: number(v.get("cpu_us_a_write"))),
    ("resident, MiB", lambda v: number(v["resident_mib"])),
    ("metadata a mapped block, bytes", lambda v: number(v.get("metadata_a_block"))),
    ("longest turn, ms", lambda v: number(v.get("longest_turn_ms"))),
    ("opening, s: killed, in order", lambda v: _pair(v, "open_killed_s", "open_clean_s")),
    ("cold reads: IOPS, metadata reads each", lambda v: _pair(v, "cold_iops", "cold_metadata_reads")),
    ("turns of the log: all, measured", lambda v: _pair(v, "turns", "half_turns")),
)
# (head, name of a value) of the ratios of two builds.
RATIOS = (
    ("sustained IOPS", "iops"),
    ("p99", "p99_ms"),
    ("metadata of destaged", "metadata_of_destaged"),
    ("processor", "cpu_us_a_write"),
    ("resident", "resident_mib"),
    ("opening, killed", "open_killed_s"),
    ("cold IOPS", "cold_iops"),
)


def page(result):
    """The whole page as text."""
    lines = [TITLE, "", *_conditions(result), "", "## Aims", "", *aims(result)]
    for size in SIZES.values():
        cells = _of_size(result, size.key)
        if cells:
            lines += ["", f"## {size.title}", "", *_table(result, cells), *_ratios(result, cells)]
    lines += [*_disturbed(result), "", "## What bounds them", "", *_bounds(result), "", "## How this was measured", "", *_method(result)]
    return "\n".join(lines) + "\n"


def labels(result):
    """The builds' labels in their order."""
    return list(dict.fromkeys(build["label"] for build in result["builds"]))


def aims(result):
    """Lines of a Markdown table: the worst row of each aim, for each build."""
    lines = [f"| aim (the worst row of each) | at most | {' | '.join(labels(result))} |", "|---|---|" + "---|" * len(labels(result))]
    for aim in AIMS:
        values = [aim.of([cell for cell in result["cells"] if cell["label"] == label]) for label in labels(result)]
        told = ["-" if v is None else f"{aim.form(v)} {'held' if v <= aim.bound else '**not held**'}" for v in values]
        lines.append(f"| {aim.words} | {aim.form(aim.bound)} | {' | '.join(told)} |")
    return lines


def _of_size(result, size):
    """The cells of a size: by row in the order of the plan, then by build."""
    plan = next((keys.split() for key, keys in FULL if key == size), [])
    order = {key: number for number, key in enumerate([*plan, *(key for key in every_key() if key not in plan)])}
    builds = labels(result)
    own = [cell for cell in result["cells"] if cell["size"] == size]
    return sorted(own, key=lambda cell: (order.get(cell["row"], len(order)), -cell["log_mib"], builds.index(cell["label"])))


def _title(cell):
    return Row(SIZES[cell["size"]], cell["row"], cell["log_mib"]).title


def _table(result, cells):
    several = len(labels(result)) > 1
    heads = ["written", *(["build"] if several else []), *(head for head, _ in COLUMNS)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    before = None
    for cell in cells:
        title = _title(cell)
        told = [title if title != before else "", *([cell["label"]] if several else []), *(column(cell["values"]) for _, column in COLUMNS)]
        before = title
        lines.append(f"| {' | '.join(told)} |")
    return lines


def _ratios(result, cells):
    """The second build over the first, row by row."""
    if len(labels(result)) != 2:
        return []
    first, second = labels(result)
    by_key = {(_title(cell), cell["label"]): cell["values"] for cell in cells}
    rows = [row for row in dict.fromkeys(map(_title, cells)) if {(row, first), (row, second)} <= by_key.keys()]
    if not rows:
        return []
    lines = ["", f"Ratios, {second} / {first}:", "", f"| row | {' | '.join(head for head, _ in RATIOS)} |", "|---" * (len(RATIOS) + 1) + "|"]
    for row in rows:
        told = [ratio(by_key[row, second].get(name), by_key[row, first].get(name)) for _, name in RATIOS]
        lines.append(f"| {row} | {' | '.join('-' if value is None else f'{value:.2f}' for value in told)} |")
    return lines


def _conditions(result):
    lines = []
    for build in result["builds"]:
        made, machine = build["made"], build["made"]["machine"]
        begin, end = (" ".join(f"{value:.2f}" for value in made[name]) for name in ("load_begin", "load_end"))
        lines += paragraph(
            f"""{build['label'].capitalize()}: `{made['command']}` on {made['date']} in {made['elapsed_s'] / 60:.0f} minutes; {build['version']} with
            SHA-256 {build['sha256']}; the tree of these scripts at commit {made['commit']}; {machine['processors']} processors ({machine['model']}), {machine['memory']},
            kernel {machine['kernel']}; load average at the begin {begin}, at the end {end}; {made['steal_percent']} % stolen by the
            hypervisor. Load, daemon and all files share the machine and one device."""
        )
    return lines


def _disturbed(result):
    """Rows beside which other programs had a good part of the processors."""
    several = len(labels(result)) > 1
    found = [
        f"{cell['size']} {cell['row']}{' ' + cell['label'] if several else ''} {cell['values']['others_percent']:.0f} %"
        for cell in result["cells"]
        if cell["values"]["others_percent"] > OTHERS_PERCENT
    ]
    if not found:
        return []
    return ["", *paragraph(f"Beside these rows others had more than {OTHERS_PERCENT} % of the processors (kernel threads that work for them are in it): {', '.join(found)}.")]


def _bounds(result):
    return items(
        [
            """*Burst*: the log's device, and the processor that the load and the daemon share. The map has no part in it.""",
            """*Sustained, at random*: the thread of the shard, which takes guests' writes and destages them, and the device that log and capacity share.
            On files in memory, where no device waits, 0.2.0 and 0.3.0 came to 21,474 and 24,340 IOPS over 64 logs of one device of 256 GiB, and to 15,153
            and 20,040 over 3 TiB (`--folder` on a tmpfs, 2026-11-26): metadata are no bound any more.""",
            """*Metadata*: each transaction writes the state of its file's allocator and the changes, some 1 to 3 % of what is destaged. Once as much was
            written as may wait of the map (a block in 128 of the capacity), shards are folded in turn: over 1,500 logs, three quarters of the device, that
            is most of it. Rows with few turns of the log end before; the first one here has gone round twice.""",
            """*Sequential*: the device, which takes each byte twice (log and capacity) and gives it back once.""",
            """*Bytes for a guest's byte*: the log takes a header of 4 KiB for each batch; capacity takes what was not overwritten in the log.
            Nothing is cleaned here: devices are far from full.""",
            """*Opening*: the log is read once; what waits of the map is read from its rows and taken over in order, 0.6 to 1 us of a processor each
            by what these rows took.""",
            """*Longest turn*: in a run over 3 TiB that was timed step by step, what the thread does without a break took up to 3 ms where nothing displaced
            it, and more where load, helpers and kernel had both processors. What the longest turns of the sequential row and of 256 logs are is not
            known: their time is short, and has the burst in it.""",
            """*Cold reads*: one read of the capacity device, and what the map reads before it.""",
        ]
    )


def _method(result):
    made = result["builds"][-1]["made"]
    return items(
        [
            """A real daemon, one host with the embedded directory; a disk of the size that is written, unmirrored (failures to tolerate 0), striped over all
            capacity devices; over NBD. Devices are files that are mostly holes: they take what is written and no more. The log's place is written
            beforehand, as on a device: where a file system has to find blocks for each durable write, that is what is measured.""",
            f"""The log of a disk group has {gib(SIZES['4t'].log_mib)}, but where the row says another size: there so many logs of that size would not fit the
            devices, or not in the {FILL_GIB_MAX} GiB that may be written beforehand (a row with its map filled, where a build cannot do it otherwise).""",
            """*Map filled*: `cairn-bench fill-map` maps every block of the disk at random before the daemon serves it, without data, and reads are of what the
            burst wrote. Where one of the builds has no such tool, all of them write the disk in order beforehand.""",
            f"""*Burst*: {BURST_OF_LOG:.0%} of the log, from when it is empty. *Sustained*: the second half of what follows: {made['turns']:g} turns of the log, for {made['seconds']:g} s at
            most (1,500 logs: twice that; a small log: less), and for the space that there is. Metadata, amplification, processor and memory are of
            that half. *Turns*: bytes that the log took, over its size, from the begin of the burst. With few turns the map is in no steady state yet:
            what waits of it in memory has not been full for long.""",
            """*Longest turn*: the longest time for which the shard's thread took no new work; everybody waited for as long. What the processor was given to
            others meanwhile is in it.""",
            f"""*Opening*: from the start of the process until its disk groups are open; killed with the log as full as the load keeps it, in order after
            at most {DRAIN_S} s of destage. The devices' pages are out of the kernel's memory before.""",
            f"""*Cold reads*: after that, 4 KiB at QD1 for {COLD_S} s, of places that the burst wrote. Metadata reads are calls of the device; the kernel may have
            the page of a neighbour.""",
            "All values: the JSON file beside this page.",
        ]
    )
