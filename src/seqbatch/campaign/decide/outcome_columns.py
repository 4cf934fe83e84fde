"""The columns of an outcome file: which metrics it has, and what identifies and dates its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from seqbatch.campaign.files.number_format import holds_numbers
from seqbatch.campaign.files.reading import Source, meant_column, no_such_column
from seqbatch.campaign.spec.metrics import YES_NO, Metric
from seqbatch.campaign.spec.spec import Spec
from seqbatch.errors import Doubt, InvalidFileError, Part, Remedy, RowProblem

#: The column of an outcome file that may name each unit's wave.
WAVE = "wave"
#: The columns that assign writes, except those with the probability of each action.
ANSWERS = ("action", "wave", "score", "probability", "randomised")
NOTHING = "nothing was recorded"


@dataclass(frozen=True)
class OutcomeColumns:
    """What the columns of an outcome file mean.

    Parameters
    ----------
    metrics
        The metrics that the file has, in the spec's order; the others stay as they are.
    row_id, date
        The columns with the id and the date of each row; None if no metric declares one.
    date_format
        How the file writes these dates; None for ISO.
    wave
        Whether the column "wave" names the units' waves.
    units
        The columns of the unit's id.
    """

    metrics: tuple[Metric, ...]
    row_id: str | None
    date: str | None
    date_format: str | None
    wave: bool
    units: tuple[str, ...]

    @classmethod
    def of(cls, spec: Spec, source: Source) -> "OutcomeColumns":
        """Return the columns of a file; refuse a file without a metric, or without a needed one."""
        there = source.columns()
        metrics = tuple(metric for metric in spec.metrics.values() if metric.column in there)
        wanted = [metric.column for metric in metrics or spec.metrics.values()]
        if not metrics:
            _refuse_other_names(spec, source)
        missing = [name for name in spec.unit if name not in there]
        missing += [] if metrics else dict.fromkeys(wanted)
        missing += [
            name
            for name in dict.fromkeys(name for metric in metrics for name in metric.columns)
            if name not in there
        ]
        if missing:
            problems = [no_such_column(name, there) for name in missing]
            raise InvalidFileError(source.name, problems, NOTHING)
        _refuse_answers(wanted, there, source)
        own = {name for metric in spec.metrics.values() for name in metric.columns}
        # A feature with this name has another meaning.
        wave = WAVE in there and WAVE not in (*own, *spec.unit, *spec.features.columns)
        row_id, date, form = (
            _shared(metrics, setting, source) for setting in ("row_id", "date", "date_format")
        )
        return cls(metrics, row_id, date, form, wave, spec.unit)

    @property
    def logged(self) -> bool:
        """Whether rows are logged, and outcomes combined from them."""
        return any(metric.logged for metric in self.metrics)

    @property
    def asks(self) -> bool:
        """Whether only the user knows if equal rows are the same row."""
        return self.row_id is None and any(metric.rows for metric in self.metrics)

    @property
    def read(self) -> list[str]:
        """The columns to read."""
        own = [name for metric in self.metrics for name in metric.columns]
        return list(dict.fromkeys([*self.units, *own, *([WAVE] if self.wave else [])]))

    @property
    def numbers(self) -> tuple[Metric, ...]:
        """The metrics whose columns hold numbers."""
        return tuple(metric for metric in self.metrics if is_number(metric))

    def require_numbers(self, batch: Any, source: Source) -> None:
        """Refuse a file whose values are of a type that holds no numbers, such as dates."""
        own = [metric.column for metric in self.metrics if not metric.counts_rows]
        own += [WAVE] if self.wave else []
        for name in dict.fromkeys(own):
            kind = batch.column(name).type
            # An empty column has only missing values, and each row is held separately.
            if not (holds_numbers(kind) or pa.types.is_null(kind)):
                problem = RowProblem(0, name, f"must be numbers; received {kind}", "wrong-type")
                raise InvalidFileError(source.name, [problem], NOTHING)

    def untouched(self, spec: Spec, source: Source) -> list[Doubt]:
        """Return a doubt for each metric that is not in the file, but may be misspelled there."""
        there, made = source.columns(), []
        used = {*self.read, *spec.features.columns}
        for metric in spec.metrics.values():
            free = [name for name in there if name not in used]
            if metric in self.metrics or not (near := get_close_matches(metric.column, free, n=1)):
                continue
            said = (
                f"{metric.name} was not recorded: the file has no column {metric.column!r}. Is "
                f"{near[0]!r} meant?"
            )
            made.append(Doubt("no-such-column", (said,), column=metric.column, examples=(near[0],)))
        return made


def is_number(metric: Metric) -> bool:
    """Return whether a metric's cells are numbers; those of a counted row may be anything."""
    return metric.kind != YES_NO and not metric.counts_rows


def wanted_columns(spec: Spec) -> tuple[str, ...]:
    """Return the columns that outcome files of a campaign may have, the unit's id first."""
    own = [name for metric in spec.metrics.values() for name in metric.columns]
    return tuple(dict.fromkeys([*spec.unit, *own]))


def _shared(metrics: Sequence[Metric], setting: str, source: Source) -> str | None:
    """Return the setting that all logged metrics of a file share; refuse different ones."""
    named = {metric.name: getattr(metric, setting) for metric in metrics if metric.logged}
    if len(set(named.values())) < 2:
        return next(iter(named.values()), None)
    said = ", ".join(f"{name} has {column or 'none'}" for name, column in named.items())
    what = {"row_id": "id", "date": "date", "date_format": "format of dates"}[setting]
    why = (
        f"the rows of one file have one {what}, but the metrics in it declare different ones in "
        f"{setting}: {said}. Amend them, or give each file its own metrics"
    )
    problem = RowProblem(0, "", why, f"different-{setting.replace('_', '-')}")
    raise InvalidFileError(source.name, [problem], NOTHING)


def _refuse_other_names(spec: Spec, source: Source) -> None:
    """Refuse a file that has the column of a metric under a similar name: it can be declared."""
    there = source.columns()
    found = {metric.name: meant_column(metric.column, there) for metric in spec.metrics.values()}
    meant = {name: column for name, column in found.items() if column}
    if not meant or not set(spec.unit) <= set(there):
        return
    declared = Remedy(
        "amend", metrics={name: {"column": column} for name, column in meant.items()}, reason=...
    )  # fmt: skip
    problems = [no_such_column(spec.metrics[name].column, there) for name in meant]
    advice: list[Part] = ["If it is meant, declare its name: ", declared]
    raise InvalidFileError(source.name, problems, NOTHING, advice=advice)


def _refuse_answers(metrics: Sequence[str], there: Sequence[str], source: Source) -> None:
    """Refuse a file of assignments if one of its columns could be mistaken for outcomes."""
    meant = [name for name in dict.fromkeys(metrics) if name in ANSWERS]
    if meant and set(ANSWERS) <= set(there):
        others = ", ".join(name for name in ANSWERS if name not in metrics)
        why = (
            "is a column that assign wrote, not an outcome: this looks like a file of "
            f"assignments, since it also has {others}; give a file of ids and outcomes without "
            "these columns"
        )
        problems = [RowProblem(0, name, why, "not-an-outcome") for name in meant]
        raise InvalidFileError(source.name, problems, NOTHING)
