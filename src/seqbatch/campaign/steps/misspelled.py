"""Outcomes that are numbers, spelled otherwise than the spec says: which amendment reads them."""

from collections.abc import Iterator
from typing import Any

from seqbatch.campaign.deciding.judging import Judged
from seqbatch.campaign.design.number_format import PLAIN, THOUSANDS, NumberFormat, formats_for
from seqbatch.campaign.design.spec import Spec
from seqbatch.campaign.record.situation import Situation

#: Cells of a column that are looked at.
FEW = 50


class Misspelled:
    """Gathers held cells that are no numbers, and the formats that would accept them."""

    def __init__(self) -> None:
        self._cells: dict[str, list[str]] = {}

    def look(self, spec: Spec, batch: Any, judged: Judged) -> None:
        """Look at a piece of a file that was judged."""
        for column in unspelled_columns(spec):
            said = self._cells.setdefault(column, [])
            rule = f"{column} must be a number"
            rows = (row for row, kind in judged.kinds.items() if kind == rule)
            for row, _ in zip(rows, range(FEW - len(said)), strict=False):
                said.append(str(batch.column(column)[row].as_py()))

    def advice(self, now: Situation) -> Iterator[str]:
        """Yield the commands that declare a format for what was held."""
        metrics = [metric.column for metric in now.spec.metrics]
        for column, cells in self._cells.items():
            formats = [example for example in _common(cells) if '"' not in example]
            commands = [_command(now.name, column, each, column in metrics) for each in formats]
            if commands:
                yield f"{column} can be read after {' or '.join(commands)}; then record it again."


def unspelled_columns(spec: Spec) -> tuple[str, ...]:
    """Return the columns of an outcome file that hold numbers for which no format is declared."""
    rewards = spec.reward.columns if spec.reward.format is None else ()
    return (*rewards, *(each.column for each in spec.metrics if each.format is None))


def ways_out(now: Situation) -> str:
    """Return what can be done about numbers that can be read in two ways."""
    amend = f"seqbatch campaign amend {now.name} --reward-format"
    return (
        f'say which, by {amend} "{PLAIN}" or "{THOUSANDS}" with --reason (--metric-format for a '
        "metric; in the spec before the campaign is created), or write the numbers without "
        "thousands and with two decimals"
    )


def _common(cells: list[str]) -> list[str]:
    """Return the formats that accept the most of some cells.

    >>> _common(["1.234,50 EUR", "310,00 EUR", "1,500 EUR", "none yet"])
    ['1.234,56 EUR']
    >>> _common(["$1,234.50", "$25.00", "($12.50)"])
    ['(1,234.56 $)']
    """
    examples = dict.fromkeys(example for cell in cells for example in formats_for(cell))
    counts = {
        example: sum(NumberFormat.of(example).read(cell) is not None for cell in cells)
        for example in examples
    }
    most = max(counts.values(), default=0)
    return [example for example, count in counts.items() if count == most]


def _command(name: str, column: str, example: str, metric: bool) -> str:
    option = f'--metric-format "{column}={example}"' if metric else f'--reward-format "{example}"'
    return f'seqbatch campaign amend {name} {option} --reason "..."'
