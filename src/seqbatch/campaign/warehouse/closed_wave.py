"""A closed wave whose rows are elsewhere: its units with their outcomes, as SQL stages.

Findings read these stages. What they return is compared with the sums that closed the wave.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from seqbatch.campaign.decide.draws import md5_key
from seqbatch.campaign.decide.logged_waves import FOLDS_NAME
from seqbatch.campaign.record.current_situation import Situation, history
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.spec.objective import Reward
from seqbatch.campaign.warehouse.assignments import MARKS, AssignmentsTable
from seqbatch.campaign.warehouse.dialects import SqlDialect
from seqbatch.campaign.warehouse.features import Item
from seqbatch.campaign.warehouse.stages import Stages, named
from seqbatch.campaign.warehouse.sums import (
    Row,
    StoredStages,
    add_outcomes,
    counted_value,
    net_of_costs,
    whole_numbers,
)
from seqbatch.core.arrays import Floats
from seqbatch.inference.rule_value import FOLDS

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
KEYS = ("wave", "metric", "action", "seen", "fold")
#: The counts and sums of a row that are compared with what closed the wave.
CHECKS = ("units", "absent", *MARKS, "rewards")


@dataclass(frozen=True)
class UnitStages:
    """A closed wave's units with one outcome each, as the last stage of a statement.

    Its columns are `place` (the action, the control first), `seen`, `fold`, `y` (the outcome),
    `pr0`, `pr1` and so on (the probabilities), and the model's numbers before standardising.

    Parameters
    ----------
    wave
        The wave.
    tables
        Where its rows are.
    order
        The numbers of all actions, the control first.
    reward, name
        What the outcome is: the objective (its name is empty), or one metric.
    """

    wave: ClosedWave
    tables: Tables
    order: tuple[int, ...]
    reward: Reward
    name: str = ""
    stages: Stages = field(init=False)
    #: The model's numbers, the constant first.
    vector: list[str] = field(init=False)

    def __post_init__(self) -> None:
        now, sql = self.wave.now, self.tables.sql
        made = StoredStages(now, AssignmentsTable(now, sql, self.tables.assignments), cells=False)
        object.__setattr__(self, "stages", made.stages)
        own = list(made.columns.vector)
        constant = [] if now.spec.features.intercept else ["one"]
        object.__setattr__(self, "vector", [*constant, *own])
        digest = sql.md5(f"{sql.text(md5_key(0, FOLDS_NAME))} || id")
        fold = f"MOD({sql.digits(digest, 0, 13)}, {FOLDS})"
        passed = ["id", "chosen", "part", "randomised", *MARKS]
        chances = [f"p{action}" for action in range(len(now.active))]
        one = [(sql.number(1.0), "one")] if constant else []
        made.stages.add("folded", [*named(*passed, *chances, *own), *one, (fold, "fold")])
        made.kept = [*self.vector, "fold"]
        add_outcomes(now, made, sql, self.tables.outcomes, self.reward)
        self._add_units()

    def _add_units(self) -> None:
        now, sql = self.wave.now, self.tables.sql
        value = f"({counted_value(self.reward, sql)}) / {sql.number(self.reward.scale)}"
        wide = len(now.encoder(wave=now.wave).names)
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
            *named(*self.vector),
        ])  # fmt: skip

    @property
    def passed(self) -> list[Item]:
        """The columns that every later stage passes on."""
        return named("place", "seen", "fold", "absent", *MARKS, "exact", "y")

    def selected(self, sums: Sequence[str], *, width: int) -> str:
        """Return the query of a result: keys, checks, and sums as texts.

        A result of several queries has `width` columns of sums.
        """
        sql = self.tables.sql
        empty = sql.as_text("NULL")
        texts = [sql.as_text(text) for text in sums]
        items = [
            (str(self.wave.number), "wave"), (sql.text(self.name), "metric"), ("place", "action"),
            *named("seen", "fold"), ("COUNT(*)", "units"), ("SUM(absent)", "absent"),
            *((sql.total(name), name) for name in MARKS), (sql.total("exact"), "rewards"),
            *((text, f"s{k}") for k, text in enumerate(texts)),
            *((empty, f"s{k}") for k in range(len(texts), width)),
        ]  # fmt: skip
        return self.stages.statement(items, after="GROUP BY place, seen, fold").rstrip()


# ----------------------------------------------------------------------
# The rows of a result.


@dataclass(frozen=True)
class Group:
    """The sums over the units of one action in one fold, with or without an outcome.

    Parameters
    ----------
    wave, metric, action, seen, fold
        The wave; the metric, empty for the objective; the action's place, the control first;
        whether outcomes are known; and the fold.
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
    """Return the groups of one wave and metric."""
    return [one for one in groups if (one.wave, one.metric) == (wave, metric)]


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
