"""A closed wave whose rows are elsewhere: its units with their outcomes, as SQL stages.

Findings read these stages. What they return is compared with the sums that closed the wave.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from seqbatch.campaign.decide.draws import md5_key
from seqbatch.campaign.decide.logged_waves import FOLDS_NAME
from seqbatch.campaign.features.base import Feature
from seqbatch.campaign.features.boolean import BooleanFeature
from seqbatch.campaign.features.categorical import OTHER, LevelsFeature
from seqbatch.campaign.features.eligibility import Eligibility
from seqbatch.campaign.record.current_situation import Situation, history
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.spec.objective import Reward
from seqbatch.campaign.warehouse.assignments import MARKS, AssignmentsTable, stored_name
from seqbatch.campaign.warehouse.dialects import SqlDialect
from seqbatch.campaign.warehouse.features import Item, allowed_of
from seqbatch.campaign.warehouse.features import beside as beside_rules
from seqbatch.campaign.warehouse.stages import Stages, named
from seqbatch.campaign.warehouse.sums import (
    BesideModel,
    Row,
    StoredStages,
    add_outcomes,
    counted_value,
    net_of_costs,
    whole_numbers,
)
from seqbatch.core.arrays import Floats
from seqbatch.inference.rule_value import FOLDS
from seqbatch.inference.summary import AmongEligible, Declared, Eligible, Partition

# ----------------------------------------------------------------------
# Which waves are closed, and in which situation each of them was open.


@dataclass(frozen=True)
class ClosedWave:
    """A closed wave.

    Parameters
    ----------
    now
        The situation in which it was open.
    sums
        The rows of the sums that closed it.
    """

    now: Situation
    sums: Sequence[Row]

    @property
    def number(self) -> int:
        """Its number."""
        return self.now.wave

    @cached_property
    def recorded(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """What was recorded of the units of each action, with and without outcomes."""
        made: dict[tuple[str, int], tuple[int, ...]] = {}
        for row in self.sums:
            own = [row["units"], row["absent"], *(int(row[name]) for name in MARKS)]
            own.append(int(row["rewards"] or 0))
            key = row["action"], row["seen"]
            made[key] = _added(made.get(key), own)
        return made


def _added(one: tuple[int, ...] | None, other: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(sum, zip(one or [0] * len(other), other, strict=True)))


def closed_waves(events: Sequence[Event]) -> tuple[ClosedWave, ...]:
    """Return the waves that were closed by sums, in order."""
    found, before = [], None
    for event, now in zip(events, history(events), strict=True):
        if before is not None and "elsewhere" in event.payload:
            found.append(ClosedWave(before, event.payload["elsewhere"]["sums"]))
        before = now
    return tuple(found)


# ----------------------------------------------------------------------
# The stages that read a wave.


@dataclass(frozen=True)
class Tables:
    """Where a wave's rows are.

    Parameters
    ----------
    sql
        The dialect.
    assignments, outcomes
        The tables.
    """

    sql: SqlDialect
    assignments: str
    outcomes: str


#: The columns that identify a row of a result.
KEYS = ("wave", "metric", "action", "seen", "fold", "division", "segment")
#: Those that are texts.
TEXTS = ("metric", "segment")
#: The division of a row that is about all units, and the fold of one that is about a segment.
ALL_UNITS, ALL_FOLDS = -1, -1
#: The counts and sums of a row that are compared with what closed the wave.
CHECKS = ("units", "absent", *MARKS, "rewards")


@dataclass(frozen=True)
class UnitStages:
    """A closed wave's units with one outcome each, as the last stage of a statement.

    Its columns are `place` (the action, the control first), `seen`, `fold`, `y` (the outcome),
    `pr0`, `pr1` and so on (the probabilities), `a0`, `a1` and so on (1 if a unit could get the
    action, with eligibility rules), `in0`, `in1` and so on (the segment of each division, NULL for
    units that do not count), and the model's numbers before standardising.

    Parameters
    ----------
    wave
        The wave.
    tables
        Where its rows are.
    names, order
        The names and numbers of all actions, the control first.
    reward, name
        What the outcome is: the objective (its name is empty), or one metric.
    divisions
        How units are divided into segments, if sums are also over those.
    """

    wave: ClosedWave
    tables: Tables
    names: tuple[str, ...]
    order: tuple[int, ...]
    reward: Reward
    name: str = ""
    divisions: Sequence[Partition] = ()
    stages: Stages = field(init=False)
    #: The model's numbers, the constant first.
    vector: list[str] = field(init=False)

    def __post_init__(self) -> None:
        now, sql = self.wave.now, self.tables.sql
        table = AssignmentsTable(now, sql, self.tables.assignments)
        beside = self._beside
        made = StoredStages(now, table, cells=False, beside=beside)
        object.__setattr__(self, "stages", made.stages)
        own = list(made.columns.vector)
        constant = [] if now.spec.features.intercept else ["one"]
        object.__setattr__(self, "vector", [*constant, *own])
        digest = sql.md5(f"{sql.text(md5_key(0, FOLDS_NAME))} || id")
        fold = f"MOD({sql.digits(digest, 0, 13)}, {FOLDS})"
        passed = ["id", "chosen", "part", "randomised", *MARKS, *beside.names]
        chances = [f"p{action}" for action in range(len(now.active))]
        one = [(sql.number(1.0), "one")] if constant else []
        made.stages.add("folded", [*named(*passed, *chances, *own), *one, (fold, "fold")])
        made.kept = [*self.vector, "fold", *beside.names]
        add_outcomes(now, made, sql, self.tables.outcomes, self.reward)
        self._add_units()

    @property
    def masks(self) -> list[str]:
        """The columns that say which actions a unit could get; none without eligibility rules."""
        return [f"a{place}" for place in range(len(self.order))] if self._rules else []

    @property
    def _rules(self) -> Eligibility | None:
        return Eligibility.of(self.wave.now.spec, self.names)

    @property
    def _segments(self) -> list[str]:
        """The columns whose values are segments."""
        own = [
            each.partition if isinstance(each, AmongEligible) else each for each in self.divisions
        ]
        return list(dict.fromkeys(each.name for each in own if isinstance(each, Declared)))

    @property
    def _beside(self) -> BesideModel:
        """What the stages read beside the model: columns of rules, and segments."""
        now, sql = self.wave.now, self.tables.sql
        encoder = now.encoder(wave=now.wave)
        places = {name: f"g{number}" for number, name in enumerate(encoder.parts)}
        named_by = {name: f"segment{number}" for number, name in enumerate(self._segments)}
        known = [(_segment(encoder.parts[name], places[name], sql), alias)
                 for name, alias in named_by.items()]  # fmt: skip
        drawn = named(*named_by.values())
        if (rules := self._rules) is None:
            return BesideModel((), known, drawn)
        encoder = replace(encoder, eligibility=rules)
        allowed = allowed_of(encoder, sql)
        assert allowed is not None
        read = [(sql.name_of(stored_name(name)), f"r{number}")
                for number, name in enumerate(beside_rules(encoder))]  # fmt: skip
        masks = [item for item in allowed.settled if item[1] in self.masks]
        return BesideModel(read, [*known, *allowed.asked], [*drawn, *masks])

    def _level(self, division: Partition) -> str:
        """Return the segment of a unit in a division; NULL if the unit does not count."""
        if isinstance(division, Declared):
            return f"segment{self._segments.index(division.name)}"
        assert isinstance(division, Eligible | AmongEligible)
        could = " AND ".join(f"a{place} = 1" for place in division.actions)
        if isinstance(division, Eligible):
            return f"CASE WHEN {could} THEN {self._yes} ELSE {self._no} END"
        return f"CASE WHEN {could} THEN {self._level(division.partition)} END"

    @property
    def _yes(self) -> str:
        return self.tables.sql.text("yes")

    @property
    def _no(self) -> str:
        return self.tables.sql.text("no")

    def _add_units(self) -> None:
        now, sql = self.wave.now, self.tables.sql
        value = f"({counted_value(self.reward, sql)}) / {sql.number(self.reward.scale)}"
        wide = len(now.encoder().names)
        [(exact, _)] = whole_numbers(now, sql, [*[None] * wide, net_of_costs(now, sql)])
        places = {number: place for place, number in enumerate(self.order)}
        spelled = " ".join(f"WHEN {a} THEN {places[n]}" for a, n in enumerate(now.active))
        chances = {places[number]: f"p{a}" for a, number in enumerate(now.active)}
        usable = "value IS NOT NULL AND conflicting = 0 AND outside = 0"
        self.stages.add("unit", [
            (f"CASE chosen {spelled} END", "place"), *named("fold", "absent", *MARKS),
            (f"CASE WHEN {usable} THEN 1 ELSE 0 END", "seen"),
            (f"CASE WHEN {usable} THEN {value} END", "y"),
            (exact if not self.name else "0", "exact"),
            *((chances.get(a, sql.number(0.0)), f"pr{a}") for a in range(len(self.order))),
            *named(*self.masks, *self.vector),
            *((self._level(each), f"in{at}") for at, each in enumerate(self.divisions)),
        ])  # fmt: skip

    @property
    def passed(self) -> list[Item]:
        """The columns that every later stage passes on."""
        inside = [f"in{at}" for at in range(len(self.divisions))]
        return named("place", "seen", "fold", "absent", *MARKS, "exact", "y", *self.masks, *inside)

    def selected(self, sums: Sequence[str], *, width: int) -> str:
        """Return the query of a result: keys, checks, and sums as texts.

        A result of several queries has `width` columns of sums.
        """
        sql = self.tables.sql
        empty = sql.as_text("NULL")
        texts = [sql.as_text(text) for text in sums]
        division, segment, groups = self._grouped()
        items = [
            (str(self.wave.number), "wave"), (sql.text(self.name), "metric"), ("place", "action"),
            ("seen", "seen"), (f"COALESCE(fold, {ALL_FOLDS})", "fold"), (division, "division"),
            (segment, "segment"), ("COUNT(*)", "units"), ("SUM(absent)", "absent"),
            *((sql.total(name), name) for name in MARKS), (sql.total("exact"), "rewards"),
            *((text, f"s{k}") for k, text in enumerate(texts)),
            *((empty, f"s{k}") for k in range(len(texts), width)),
        ]  # fmt: skip
        return self.stages.statement(items, after=groups).rstrip()

    def _grouped(self) -> tuple[str, str, str]:
        """Return a row's division and segment, and the clauses that group units."""
        inside = [f"in{at}" for at in range(len(self.divisions))]
        nowhere = self.tables.sql.text("")
        if not inside:
            return str(ALL_UNITS), nowhere, "GROUP BY place, seen, fold"
        cases = " ".join(f"WHEN {name} IS NOT NULL THEN {at}" for at, name in enumerate(inside))
        sets = ", ".join(f"(place, seen, {name})" for name in ("fold", *inside))
        some = " OR ".join(f"{name} IS NOT NULL" for name in ("fold", *inside))
        return (
            f"CASE {cases} ELSE {ALL_UNITS} END",
            f"COALESCE({', '.join(inside)}, {nowhere})",
            f"GROUP BY GROUPING SETS ({sets})\nHAVING {some}",
        )


def _segment(part: Feature, given: str, sql: SqlDialect) -> str:
    """Return the segment of a value, as findings from rows name it."""
    if isinstance(part, BooleanFeature):
        yes, no, missing = (sql.text(word) for word in ("yes", "no", "missing"))
        return f"CASE WHEN {given} IS NULL THEN {missing} WHEN {given} THEN {yes} ELSE {no} END"
    assert isinstance(part, LevelsFeature)
    levels = ", ".join(sql.text(level) for level in part.rules.levels)
    return (
        f"CASE WHEN {given} IS NULL OR {given} = '' THEN {sql.text('missing')} "
        f"WHEN {given} IN ({levels}) THEN {given} ELSE {sql.text(OTHER)} END"
    )


# ----------------------------------------------------------------------
# The rows of a result.


@dataclass(frozen=True)
class Group:
    """The sums over the units of one action, with or without an outcome, in a fold or a segment.

    Parameters
    ----------
    wave, metric, action, seen, fold
        The wave; the metric, empty for the objective; the action's place, the control first;
        whether outcomes are known; and the fold.
    division, segment
        The number of a division of the units, and the segment; -1 and "" for all units.
    checks
        What is compared with the sums that closed the wave.
    sums
        The sums of the statement, in its order.
    """

    wave: int
    metric: str
    action: int
    seen: int
    fold: int
    division: int
    segment: str
    checks: tuple[int, ...]
    sums: Floats

    @property
    def units(self) -> int:
        """The number of units."""
        return self.checks[0]

    @property
    def absent(self) -> int:
        """How many of them have no row."""
        return self.checks[1]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Group":
        """Return a stored row."""
        sums = np.array([float(each) for each in row["sums"].split()])
        return cls(**{name: row[name] for name in KEYS}, checks=tuple(row["checks"]), sums=sums)


def of_wave(groups: Sequence[Group], wave: int, metric: str) -> list[Group]:
    """Return the groups of one wave and metric, of all units."""
    wanted = (wave, metric, ALL_UNITS)
    return [one for one in groups if (one.wave, one.metric, one.division) == wanted]


def of_division(
    groups: Sequence[Group], wave: int, metric: str, division: int
) -> dict[str, list[Group]]:
    """Return the groups of one wave, metric and division, by segment."""
    made: dict[str, list[Group]] = {}
    for one in groups:
        if (one.wave, one.metric, one.division) == (wave, metric, division):
            made.setdefault(one.segment, []).append(one)
    return made


def differences(
    waves: Sequence[ClosedWave], names: Sequence[str], groups: Sequence[Group]
) -> Iterator[int]:
    """Yield the waves whose units and outcomes are not those that closed them.

    `names` are those of the actions, the control first. Metrics beside the objective have other
    outcomes, so only their units are compared.
    """
    for wave in waves:
        for metric in {one.metric for one in groups if one.wave == wave.number}:
            found: dict[tuple[str, int], tuple[int, ...]] = {}
            for one in of_wave(groups, wave.number, metric):
                key = names[one.action], one.seen
                found[key] = _added(found.get(key), one.checks)
            same = found == wave.recorded
            if metric:
                same = _units(found) == _units(wave.recorded)
            if not same:
                yield wave.number


def _units(checks: Mapping[tuple[str, int], tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the number of units of each action, and the sums of their marks."""
    made: dict[str, tuple[int, ...]] = {}
    for (name, _), (units, _, *marks, _) in checks.items():
        made[name] = _added(made.get(name), [units, *marks])
    return made
