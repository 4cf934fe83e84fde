"""The result of recording a file: rows by verdict, held rows, and what became of them in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from seqbatch.campaign.record.held_rows import held_text, rows_are
from seqbatch.campaign.spec.spec import Spec
from seqbatch.display import counted
from seqbatch.errors import Doubt, Words

#: The keys of a held row, and of a reason. They do not depend on the spec's id column, so one
#: client and one HTTP schema can read the rows of every campaign.
HELD, REASON = ("line", "unit", "verdict", "reason"), ("verdict", "reason", "rows")


@dataclass(frozen=True)
class Recorded:
    """The result of a call of record.

    Parameters
    ----------
    rows
        Rows read; the sum of the next five counts.
    accepted, duplicate, conflict, quarantined, outside
        Rows by verdict; see :mod:`seqbatch.campaign.decide.row_verdicts`. Accepted rows count.
    windows
        How many rows do not count for a metric because they are dated before and after its window,
        by the window's length.
    unknown
        Quarantined rows whose unit is not in the campaign, or could not be read.
    matched
        Rows whose id was matched to the id of a unit.
    units
        Units whose outcome is new or has changed.
    late
        Those of them in closed waves; the changes enter the next estimate.
    corrected
        Accepted rows that replace an earlier value.
    repeats
        Duplicates of rows of closed waves.
    repeated
        Duplicates of another row of the same file.
    erased
        Rows of erased units, which were not kept; `rows` does not count them.
    metrics
        The metrics that the file has; the others stay as they are.
    held
        The first conflicts and quarantined rows: line, unit, verdict, reason.
    reasons
        Why all held rows were held: verdict, reason and number of rows, most frequent first.
    event
        The number of the event; None if all rows were duplicates, and for a dry run.
    remarks
        What became of the rows, in words.
    read_as
        How a CSV file was read, if its format is unusual.
    doubts
        Likely causes of held rows, and what to do about them.
    formats
        Formats that would accept held numbers, by column.
    """

    rows: int
    accepted: int
    duplicate: int
    conflict: int
    quarantined: int
    outside: int
    windows: Mapping[str, tuple[int, int]]
    unknown: int
    matched: int
    units: int
    late: int
    corrected: int
    repeats: int
    repeated: int
    metrics: tuple[str, ...]
    held: tuple[tuple[int, str, str, str], ...]
    reasons: tuple[tuple[str, str, int], ...]
    event: int | None
    remarks: tuple[str, ...] = ()
    read_as: str = ""
    doubts: tuple[Doubt, ...] = ()
    formats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    erased: int = 0

    @property
    def advice(self) -> tuple[str, ...]:
        """The doubts in words."""
        return tuple(self.advised())

    def advised(self, words: Words | None = None) -> list[str]:
        """Return the doubts in words, with remedies written for the given interface."""
        return [doubt.text(words) for doubt in self.doubts]

    def plain(self) -> dict[str, Any]:
        """Return everything as plain values for JSON, held rows and reasons by name."""
        return {
            **{name: own for name, own in vars(self).items() if name != "doubts"},
            "advice": self.advised(),
            "held": [dict(zip(HELD, row, strict=True)) for row in self.held],
            "reasons": [dict(zip(REASON, row, strict=True)) for row in self.reasons],
        }


# ----------------------------------------------------------------------
# What became of the rows.


def rows_text(result: Recorded, spec: Spec) -> Iterator[str]:
    """Yield what became of the rows of a file, in sentences."""
    metrics = [spec.metrics[name] for name in result.metrics]
    if any(metric.logged for metric in metrics) and result.accepted:
        yield (
            f"{rows_are(result.accepted)} counted, for {counted(result.units, 'unit')} whose "
            "outcome is new or has changed."
        )
    for within, (before, after) in result.windows.items():
        names = [metric.name for metric in metrics if metric.within == within]
        yield (
            f"{rows_are(before + after)} outside {within} of the unit's assignment ({before:,} "
            f"before, {after:,} after), and not in {' and '.join(names)}."
        )
    if result.repeated:
        yield (
            f"{counted(result.repeated, 'row')} repeat{'s' if result.repeated == 1 else ''} "
            f"another row of this file, and count{'s' if result.repeated == 1 else ''} once."
        )
    if result.erased:
        yield f"{rows_are(result.erased)} of erased units, and not kept."
    if result.matched:
        yield (
            f"{rows_are(result.matched)} recorded for units whose ids differ only by leading "
            "zeros, spaces, case or a final .0."
        )
    if held := result.conflict + result.quarantined:
        yield held_text(held, result.unknown)
    if missing := [name for name in spec.metrics if name not in result.metrics]:
        yield f"Not in this file, and unchanged: {', '.join(missing)}."
