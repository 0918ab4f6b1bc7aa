"""A result: what one run measured and under which conditions; kept as JSON, one line for each cell.

Promises  what is written is read back the same; a file of another format is refused with a sentence

  made    when, of which programs, on which machine, with which command and under which load
  cells   row, system, and for each quantity its value in every round
  memory  resident memory of each process at the end of a stage, and what the daemons tell of it
"""

import json

from figures import median, spread

FORMAT = 1


class Result:
    """A run's result with its medians."""

    def __init__(self, made, cells, memory):
        self.made, self.cells, self.memory = made, cells, memory
        self._by_key = {(cell["row"], cell["system"]): cell["values"] for cell in cells}

    def rounds(self, row, system, name):
        """A quantity in every round; empty where it was not measured."""
        return self._by_key.get((row, system), {}).get(name, [])

    def median(self, row, system, name):
        """The median of a quantity over the rounds; None where it was not measured."""
        return median(self.rounds(row, system, name))

    def spread(self, row, system, name="iops"):
        """How far the rounds lie apart, as a part of the median."""
        return spread(self.rounds(row, system, name))

    def systems(self, row):
        """The systems that were measured in a row."""
        return [cell["system"] for cell in self.cells if cell["row"] == row]

    def write(self, path):
        """Writes the JSON file."""
        lines = [f'{{"format": {FORMAT},', f'"made": {json.dumps(self.made)},', '"cells": [']
        lines += [_rows(self.cells), '],', '"memory": [', _rows(self.memory), ']}']
        path.write_text("\n".join(lines) + "\n")


def _rows(values):
    return ",\n".join(json.dumps(value) for value in values)


def read(path):
    """Reads a result; ValueError where the file is none."""
    try:
        data = json.loads(path.read_text())
        known = data["format"] == FORMAT
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no result of this benchmark: {error!r}") from error
    if not known:
        raise ValueError(f"{path} has format {data['format']}, and this program reads {FORMAT}")
    return Result(data["made"], data["cells"], data["memory"])
