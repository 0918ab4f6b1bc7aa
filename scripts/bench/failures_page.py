"""The page of failures: every repeat, medians and worst values, and what others reached.

Promises  figures of others say whose they are, and that they are of another day
"""

from figures import median, ratio
from prose import items, paragraph

_ROWS = (
    ("A copy's host dies: longest time without any answer, s", "replica_stall_s", max),
    ("A copy's host dies: slowest request, s", "replica_slowest_s", max),
    ("A copy's host dies: both copies there again after the death, under load, s", "replica_redundancy_s", max),
    ("The owner's host dies: longest time without any answer, s", "owner_stall_s", max),
    ("The owner's host dies: slowest request, s", "owner_slowest_s", max),
    ("Rebuild without load: MiB/s", "idle_mib_s", min),
    ("Rebuild without load: both copies there again after the death, s", "idle_redundancy_s", max),
    ("Rebuild beside the load: MiB/s", "rebuild_loaded_mib_s", min),
    ("Rebuild beside the load: longest time without any answer, s", "rebuild_silence_s", max),
    ("Sequential write of the medium (1 MiB, QD4, O_DSYNC): MiB/s", "medium_mib_s", min),
    ("Guest's p50, undisturbed, ms", "undisturbed_p50_ms", max),
    ("Guest's p50 during the rebuild, ms", "rebuild_p50_ms", max),
    ("Guest's p99, undisturbed, ms", "undisturbed_p99_ms", max),
    ("Guest's p99 during the rebuild, ms", "rebuild_p99_ms", max),
    ("Processor time that others took, % of the machine", "others_percent", max),
    ("Processor time stolen by the hypervisor, %", "steal_percent", max),
)


def page(made, repeats):
    """The whole page as text."""
    machine, count = made["machine"], len(repeats)
    begin, end = (" ".join(f"{value:.2f}" for value in made[name]) for name in ("load_begin", "load_end"))

    def middle(name):
        return median([repeat[name] for repeat in repeats])

    lines = [
        "# What failures cost",
        "",
        *paragraph(
            f"""Made by `{made['command']}` on {made['date']} in {made['elapsed_s'] / 60:.0f} minutes. {made['version']}; this tree is at
            commit {made['commit']}, and cairnd is the program with SHA-256 {made['sha256']}. Machine: {machine['processors']} processors
            ({machine['model']}), {machine['memory']}, kernel {machine['kernel']}. Load average at the begin {begin}, at the end {end}. Hosts,
            client and files share the machine."""
        ),
        "",
        f"| | {' | '.join(str(number + 1) for number in range(count))} | median | worst |",
        "|---|" + "---|" * (count + 2),
    ]
    for words, name, worst in _ROWS:
        values = [repeat[name] for repeat in repeats]
        lines.append(f"| {words} | {' | '.join(_number(v) for v in [*values, middle(name), worst(values)])} |")
    lines += ["", *_ratios(middle), "", *_bound(), "", *_others(), "", *_method(made)]
    return "\n".join(lines) + "\n"


def _number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratios(middle):
    idle, loaded = (ratio(middle(name), middle("medium_mib_s")) for name in ("idle_mib_s", "rebuild_loaded_mib_s"))
    return [
        f"Rebuild, of the medium's sequential write rate: {100 * idle:.1f} % without load, {100 * loaded:.1f} % beside it.",
        f"Guest's p99 during the rebuild: {ratio(middle('rebuild_p99_ms'), middle('undisturbed_p99_ms')):.1f} times the undisturbed one.",
    ]


def _bound():
    return [
        "## What bounds a rebuild without load",
        "",
        *paragraph(
            """The one device that all hosts share. A rebuild reads each byte at the source and writes it once, to the target's capacity
            device; the log gets the names of the slots (docs/adr/0012). This device reads and writes 800 MiB/s each at the same time and no
            more, on 2026-11-23: asked for 1,000 MiB/s of both (fio, 256 KiB, 16 at once each way, a flush for every 16 writes) it read 998 and
            wrote 297, and alone it wrote 2,240 and read 880 to 1,040. Half of what it writes alone is more than it does of both."""
        ),
        "",
        *paragraph(
            """Through the log, as it was before, each byte met the medium four times: 557, 455 and 471 MiB/s beside 752, 662 and 617 past it, in turns
            (a disk of 1 GiB, with half of the pieces that are at once on their way now). Processors are not the limit: a third of
            their time was idle. What would lift it: a device for each host."""
        ),
        "",
        "## When everything stands still for a moment",
        "",
        *paragraph(
            """The device itself stands still now and then after much was read and written, with nothing of Cairn on it: three jobs of fio beside each
            other for 45 s (2,000 durable writes of 4 KiB a second; 150 MiB/s read, 150 MiB/s written in 256 KiB) had longest answers
            of 97.7, 97.6 and 96.5 ms, on 2026-11-23, where 99.9 % came within 9.1, 3.1 and 4.4 ms. In a rebuild beside the load, no host's log had
            a write answered meanwhile. A repeat that meets this has it as its p99."""
        ),
    ]


def _others():
    return [
        "## Others",
        "",
        *paragraph(
            """Measured on 2026-11-20, another day, on a like machine (2 processors, AMD EPYC, 24 GiB, kernel 6.18, everything on it), under 4 KiB
            random writes at QD32, one storage daemon killed:"""
        ),
        "",
        "| system | longest time without service | redundancy back |",
        "|---|---|---|",
        "| Ceph 16.2.15 (1 monitor, 3 OSDs, size 2) | 1.2 s and 1.8 s in two runs | 16 to 19 s after it was told to act; it waits 600 s by itself |",
        "| Vitastor 3.0.8 (3 OSDs, 2 copies) | 13.8 s in one run; slowest request 14.0 s | not measured |",
        "",
        *paragraph(
            """Those loads were closed loops of as many requests as there was room for, this one has a fixed rate: stalls can be held beside
            each other, throughput and percentiles cannot."""
        ),
    ]


def _method(made):
    return [
        "## How this was measured",
        "",
        *items(
            [
                """Four hosts as four processes on loopback, mirror FTT 1 (two copies, a witness, one host to spare), one etcd beside them that
                never dies. Defaults but for `repair_delay_s = 2` and sizes: a disk of 1 GiB, 64 MiB of which the load writes.""",
                f"""The load: {made['rate']:,} writes of 4 KiB a second at random places, at most 32 under way, in a process of its own.
                Latency counts from when a request was due. It prefers the owner's host; when its connection ends it goes to the next host and
                sends again what has no answer. At the end of each scenario it reads back every block that it wrote and compares.""",
                """A death is SIGKILL of the host's daemon. Its peers and guests learn of it by connections that close, as when a process dies; a
                host that loses its power is noticed by silence instead, which takes up to a lease (2 s) longer.""",
                """Write buffers are destaged before each scenario, so that rebuilds read from capacity devices.""",
                """Without load nobody writes to the disk, so that the death of its copy is found out by looking after it now and then: most of
                the time until both copies are there again is that.""",
                """A rebuild is timed from when a component is first seen being filled until the disk is healthy, by looking
                some five times a second, as is done in the undisturbed time too;
                what was copied is the owner's count.""",
                f"Scenarios take turns; every repeat has all of them. All values: [{made['json']}]({made['json']}).",
            ]
        ),
    ]
