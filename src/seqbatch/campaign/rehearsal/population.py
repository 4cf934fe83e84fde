"""The population of a rehearsal: the checked units that campaigns draw their waves from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.features.eligibility import Eligibility
from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.files.carried import CarriedColumns
from seqbatch.campaign.files.ids import joined
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.files.units import UnitPiece, read_units
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.rehearsal.truth import SegmentMeans, Truth
from seqbatch.campaign.spec.features import Hashed, NumericRules
from seqbatch.core.arrays import Bools, Floats, Places
from seqbatch.display import counted
from seqbatch.errors import Doubt, InvalidSpecError

#: How many units are made if there is no file.
MADE = 20_000
#: Differences below this are rounding errors.
NOTHING = 1e-12
#: The day before which dates are made, if the spec has no start.
DAY = date(2030, 1, 1)


@dataclass(frozen=True, eq=False)
class Population:
    """Units that campaigns draw from.

    Parameters
    ----------
    given
        Their columns as a campaign stores them; the first one holds the ids.
    source
        Where they come from, in words.
    """

    given: pa.Table
    source: str

    @property
    def units(self) -> int:
        """How many units there are."""
        return int(self.given.num_rows)

    @cached_property
    def levels(self) -> dict[str, list[str]]:
        """The values of each column of categories, or of yes and no."""
        found = {}
        for name in self.given.column_names[1:]:
            kind = self.given[name].type
            if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind):
                found[name] = sorted(set(_texts(self.given[name])) - {""})
        return found

    def within(self, segments: Sequence[SegmentMeans]) -> Bools:
        """Return which units belong to which segments, shape (units, segments)."""
        made = np.ones((self.units, len(segments)), dtype=np.bool_)
        for place, segment in enumerate(segments):
            for column, value in segment.where.items():
                made[:, place] &= np.array(_texts(self.given[column])) == value
        return made

    def draw(self, random: np.random.Generator, units: int) -> Places:
        """Draw units: each one at most once if there are enough, otherwise with repeats."""
        if units <= self.units:
            return random.choice(self.units, units, replace=False)
        return random.integers(self.units, size=units)

    def wave(self, rows: Places, ids: pa.Array) -> "RehearsedUnits":
        """Return some units under new ids, as checked units of a file."""
        given = self.given.take(rows).set_column(0, self.given.column_names[0], ids)
        return RehearsedUnits(given)


def _texts(column: pa.ChunkedArray) -> list[str]:
    """Return a column as the texts that a truth names."""
    if pa.types.is_boolean(column.type):
        column = pc.if_else(column, "yes", "no")
    elif pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    return ["" if value is None else value for value in column.to_pylist()]


@dataclass(frozen=True, eq=False)
class RehearsedUnits:
    """Units of a wave that were checked with all others; they stand for those of a file."""

    given: pa.Table
    carried: CarriedColumns = field(default_factory=lambda: CarriedColumns(None, ()))
    doubts: tuple[Doubt, ...] = ()

    def pieces(self) -> Iterator[UnitPiece]:
        """Yield all units."""
        ids = self.given.column(0).combine_chunks()
        yield UnitPiece(ids, self.given, pa.table({}))

    def require_fit(self, encoder: Encoder) -> None:
        """Accept the units: they are like those of the first wave."""


def ids_of(first: int, count: int, columns: int) -> pa.Array:
    """Return new ids; in several columns they have the same text in each of them."""
    names = [f"{number}" for number in range(first, first + count)]
    return pa.array(joined([names] * columns), type=pa.string())


# ----------------------------------------------------------------------
# Units of a file, or made from the spec's features.


def population(now: Situation, units: Source | None) -> Population:
    """Return the units of a file, checked as `assign` checks them; or made if there is no file."""
    source = units or Source(_made(now))
    with source, read_units(
        source, now.encoder(wave=1), lambda _rows: None, strata=now.spec.strata
    ) as checked:  # fmt: skip
        given = pa.concat_tables(list(checked.tables())).unify_dictionaries().combine_chunks()
    said = f"{counted(given.num_rows, 'unit')} of {source.name}"
    return Population(given, said if units else "units made from the spec's features")


def _made(now: Situation) -> pa.Table:
    """Return units whose features are independent, with the values that the spec declares."""
    if beside := now.spec.beside:
        raise InvalidSpecError(
            f"spec: rules or strata use {', '.join(beside)}, which are not features: only a file "
            "of units says how common their values are. Give the file.",
            code="no-units",
            field="units",
        )
    random, spec = np.random.default_rng(0), now.spec
    ids = [f"{number}" for number in range(MADE)]
    made: dict[str, Any] = dict.fromkeys(spec.unit, ids)
    for name, rules in spec.features.numeric.items():
        made[name] = _numbers(random, rules)
    for name in spec.features.date:
        days = random.integers(1, 366, MADE).tolist()
        made[name] = [(spec.start or DAY) - timedelta(days=own) for own in days]
    for name in spec.features.boolean:
        made[name] = random.random(MADE) < 0.5
    for name, kind in spec.features.categorical.items():
        levels = (
            [f"level {n}" for n in range(kind.hash)] if isinstance(kind, Hashed) else kind.levels
        )
        made[name] = pa.array(np.array(levels)[random.integers(len(levels), size=MADE)])
    return pa.table(made)


def _numbers(random: np.random.Generator, rules: NumericRules) -> Floats:
    """Return normal numbers on the declared scale, within the declared range."""
    scale = rules.scale
    mean, sd = (0.0, 1.0) if isinstance(scale, str) else (scale.mean, scale.sd)
    if rules.range is not None:
        low, high = rules.range
        return random.uniform(low, high, MADE)
    return mean + sd * random.standard_normal(MADE)


# ----------------------------------------------------------------------
# What is true of the population.


@dataclass(frozen=True, eq=False)
class World:
    """A truth among the units of a population.

    Parameters
    ----------
    truth, now, units
        The truth, the campaign as it is created, and the population.
    within
        Which units belong to which of the truth's segments.
    eligible
        Which units may get which action; None without rules.
    """

    truth: Truth
    now: Situation
    units: Population
    within: Bools
    eligible: Bools | None
    _means: dict[Any, Floats] = field(default_factory=dict)
    _segments: dict[tuple[str, str], Bools] = field(default_factory=dict)

    @classmethod
    def of(cls, truth: Truth, now: Situation, units: Population) -> "World":
        """Return the truth among these units."""
        rules = Eligibility.of(now.spec, [action.name for action in now.actions])
        eligible = None if rules is None else rules.mask(units.given)
        return cls(truth, now, units, units.within(truth.segments), eligible)

    @property
    def control(self) -> int:
        """The number of the control."""
        names = [action.name for action in self.now.actions]
        return 0 if self.now.spec.control is None else names.index(self.now.spec.control)

    def may(self, rows: Places) -> Bools:
        """Return which units may get which action."""
        if self.eligible is None:
            return np.ones((len(rows), len(self.now.actions)), dtype=np.bool_)
        return self.eligible[rows]

    def rewards(self, wave: int, rows: Places | slice = slice(None)) -> Floats:
        """Return the true mean of the objective for units under every action, less costs."""
        reward, within = self.now.spec.reward, self.within[rows]
        total = np.zeros((len(within), len(self.now.actions)))
        for metric, weight in zip(reward.terms, reward.weights, strict=True):
            rates = self.truth.rates(metric.name, wave, within)
            if metric.cap is not None and metric.name in self.truth.spreads:
                rates = self.truth.spreads[metric.name].counted(rates, metric)
            total += weight * rates
        made: Floats = total - reward.sign * self.now.charges
        return made

    def means(self, wave: int) -> Floats:
        """Return each action's mean over the population in a wave, among those who may get it."""
        return self._kept(("mean", wave), lambda: self.rewards(wave), together=False)

    def lifts(self, wave: int) -> Floats:
        """Return each action's lift over the control, among those who may get both."""
        return self._kept(("lift", wave), lambda: self._over(self.rewards(wave)), together=True)

    def metric_means(self, metric: str, wave: int, control: int | None = None) -> Floats:
        """Return each action's mean of a metric, or its difference from the control's."""

        def own() -> Floats:
            rates = self.truth.rates(metric, wave, self.within)
            return rates if control is None else self._over(rates)

        return self._kept((metric, wave, control), own, together=control is not None)

    def nothing_in(self, column: str, value: str, action: int) -> bool:
        """Return whether an action has no effect within a segment, in any wave."""
        if (column, value) not in self._segments:
            self._segments[column, value] = np.array(_texts(self.units.given[column])) == value
        rows = self._segments[column, value]
        return not (np.abs(self._every_lift[:, rows, action]) > NOTHING).any()

    @cached_property
    def _every_lift(self) -> Floats:
        """Every unit's lifts in each wave, shape (waves, units, actions)."""
        waves = range(1, len(self.now.sizes) + 1)
        return np.array([self._over(self.rewards(wave)) for wave in waves])

    @cached_property
    def same_for_all(self) -> bool:
        """Whether every action has the same lift for every unit."""
        return not (np.ptp(self._every_lift, axis=1) > NOTHING).any()

    @cached_property
    def nothing_at_all(self) -> bool:
        """Whether no action has an effect on any unit."""
        return not (np.abs(self._every_lift) > NOTHING).any()

    def steady(self, waves: int) -> bool:
        """Whether means are the same in the first waves."""
        return _constant([self.means(wave) for wave in range(1, waves + 1)])

    def same_lifts(self, waves: int) -> bool:
        """Whether lifts are the same in the first waves."""
        return _constant([self.lifts(wave) for wave in range(1, waves + 1)])

    def _over(self, own: Floats) -> Floats:
        return own - own[:, [self.control]]

    def _kept(self, key: Any, made: Callable[[], Floats], *, together: bool) -> Floats:
        """Return the averages of columns over the units that may get an action, computed once."""
        if key not in self._means:
            own = made()
            averages = np.empty(own.shape[1])
            for action in range(own.shape[1]):
                rows: Any = slice(None)
                if self.eligible is not None:
                    places = [action, self.control] if together else [action]
                    rows = self.eligible[:, places].all(axis=1)
                averages[action] = own[rows, action].mean() if own[rows].size else np.nan
            self._means[key] = averages
        return self._means[key]


def _constant(by_wave: Sequence[Floats]) -> bool:
    return not (np.ptp(np.array(by_wave), axis=0) > NOTHING).any()
