"""Outcomes that are numbers, spelled otherwise than the spec says: which amendment reads them."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
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
        self._held: Counter[str] = Counter()

    def look(self, spec: Spec, batch: Any, judged: Judged) -> None:
        """Look at a piece of a file that was judged."""
        for column in _formats(spec):
            said = self._cells.setdefault(column, [])
            rule = f"{column} must be a number"
            rows = [row for row, kind in judged.kinds.items() if kind.startswith(rule)]
            self._held[column] += len(rows)
            for row in rows[: FEW - len(said)]:
                said.append(str(batch.column(column)[row].as_py()))

    def formats(self, spec: Spec, rows: int) -> dict[str, tuple[str, ...]]:
        """Return the formats that accept what was held of a file of so many rows, by column."""
        declared, found = _formats(spec), {}
        for column, cells in self._cells.items():
            common = _common(cells, declared[column])
            # A few cells of another spelling are slips: the declared format reads the others.
            if self._held[column] > rows / 2:
                common = max(common, _common(cells), key=lambda some: _read(some, cells))
            found[column] = tuple(example for example in common if '"' not in example)
        return {column: examples for column, examples in found.items() if examples}

    def partly(self, formats: Mapping[str, tuple[str, ...]]) -> set[str]:
        """Return the columns of which each of these formats leaves some cells held."""
        found = set()
        for column, examples in formats.items():
            cells = self._cells[column]
            if _read(examples, cells) < len(cells):
                found.add(column)
        return found


def amendments(
    now: Situation, formats: Mapping[str, tuple[str, ...]], partly: Container[str]
) -> Iterator[str]:
    """Yield the commands that declare one of these formats, for each column.

    Parameters
    ----------
    now
        Where the campaign stands.
    formats
        The formats by column.
    partly
        The columns of which they accept some held cells only.
    """
    metrics = [metric.column for metric in now.spec.metrics]
    for column, examples in formats.items():
        commands = [_command(now.name, column, each, column in metrics) for each in examples]
        what = f"A part of {column}" if column in partly else column
        yield f"{what} can be read after {' or '.join(commands)}; then record it again."


def unspelled_columns(spec: Spec) -> tuple[str, ...]:
    """Return the columns of an outcome file that hold numbers for which no format is declared."""
    return tuple(column for column, example in _formats(spec).items() if example is None)


def _formats(spec: Spec) -> dict[str, str | None]:
    """Return the columns of an outcome file that hold numbers, and the formats declared."""
    metrics = {metric.column: metric.format for metric in spec.metrics}
    return dict.fromkeys(spec.reward.columns, spec.reward.format) | metrics


def ways_out(now: Situation) -> str:
    """Return what can be done about numbers that can be read in two ways."""
    amend = f"seqbatch campaign amend {now.name} --reward-format"
    return (
        f'say which, by {amend} "{PLAIN}" or "{THOUSANDS}" with --reason (--metric-format for a '
        "metric; in the spec before the campaign is created), or write the numbers without "
        "thousands and with two decimals"
    )


def _common(cells: list[str], declared: str | None = None) -> list[str]:
    """Return the formats that accept the most of some cells; wider ones than what is declared.

    >>> _common(["1.234,50 EUR", "310,00 EUR", "1,500 EUR", "none yet"])
    ['1.234,56 EUR']
    >>> _common(["$1,234.50", "$25.00", "($12.50)"])
    ['(1,234.56 $)']
    >>> _common(["($12.50)", "12 EUR"], "$1,234.56")
    ['($1,234.56)']
    """
    accepting = formats_for if declared is None else NumberFormat.of(declared).wider_for
    examples = dict.fromkeys(example for cell in cells for example in accepting(cell))
    counts = {example: _read([example], cells) for example in examples}
    most = max(counts.values(), default=0)
    return [example for example, count in counts.items() if count == most]


def _read(examples: Sequence[str], cells: list[str]) -> int:
    """Return how many cells the best of some formats accepts."""
    formats = map(NumberFormat.of, examples)
    counts = [sum(one.read(cell) is not None for cell in cells) for one in formats]
    return max(counts, default=0)


def _command(name: str, column: str, example: str, metric: bool) -> str:
    option, said = ("metric", f"{column}={example}") if metric else ("reward", example)
    # A shell would put something else in the place of $1, but for these quotes.
    quote = "'" if "$" in said and "'" not in said else '"'
    option = f"--{option}-format {quote}{said}{quote}"
    return f'seqbatch campaign amend {name} {option} --reason "..."'
