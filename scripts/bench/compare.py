"""Two results of the same machine beside each other: ratios of the later one to the earlier one.

Promises  a change is called one only where the rounds of the two do not overlap
          says what differs in how they were measured; other systems stand beside Cairn, as they show what the machine did
"""

import math

from figures import overlap, ratio

_QUANTITIES = (("iops", "IOPS"), ("mean_us", "mean"), ("p99_us", "p99"), ("cpu_s_per_1000", "CPU"))


def compare(earlier, later):
    """Lines of text with a table: each cell that both have, later / earlier."""
    lines = [f"{later.made['date']} ({later.made['commit']}) / {earlier.made['date']} ({earlier.made['commit']}); ratios of medians."]
    lines += [f"differs: {words}" for words in differences(earlier.made, later.made)]
    one_in = math.comb(earlier.made["rounds"] + later.made["rounds"], later.made["rounds"]) / 2
    lines.append(f"Rounds of a cell that did not change lie apart by chance in one of {one_in:.0f} cells.")
    lines += ["", "| row | system | " + " | ".join(words for _, words in _QUANTITIES) + " | rounds of IOPS |"]
    lines.append("|---|---|" + "---|" * (len(_QUANTITIES) + 1))
    for cell in later.cells:
        key, system = cell["row"], cell["system"]
        if not earlier.rounds(key, system, "iops"):
            continue
        values = [ratio(later.median(key, system, name), earlier.median(key, system, name)) for name, _ in _QUANTITIES]
        cells = ["-" if value is None else f"{value:.2f}" for value in values]
        lines.append(f"| {key} | {system} | {' | '.join(cells)} | {verdict(earlier, later, key, system)} |")
    return lines


def verdict(earlier, later, row, system):
    """Whether a cell's IOPS changed, in words."""
    before, now = (result.rounds(row, system, "iops") for result in (earlier, later))
    if overlap(before, now):
        return "overlap"
    return "**higher**" if min(now) > max(before) else "**lower**"


def differences(earlier, later):
    """What differs in how two results were measured, in words."""
    found = [
        f"{name}: {earlier.get(name)} before, {later.get(name)} now"
        for name in ("rounds", "seconds", "tools")
        if earlier.get(name) != later.get(name)
    ]
    for name, value in later["machine"].items():
        if earlier["machine"].get(name) != value:
            found.append(f"{name}: {earlier['machine'].get(name)} before, {value} now")
    return found
