"""Outcomes as a dictionary: what becomes of every row, said as plainly as it can be."""

from dataclasses import dataclass, field


class TwoValuesError(Exception):
    """A file has two different values of one metric of a unit."""


@dataclass
class Unit:
    """One unit: its wave and action, its metrics, and whether it counts as absent."""

    wave: int
    action: str
    cells: dict = field(default_factory=dict)
    absent: bool = False


@dataclass
class Outcomes:
    """All units of a campaign by id; a row is a dictionary of metrics, None where empty."""

    weights: dict
    costs: dict
    sign: float
    absents: dict
    wave: int = 1
    units: dict = field(default_factory=dict)

    def record(self, rows, *, correct):
        """Return how many rows were accepted, duplicate, conflict, quarantined, late, corrected."""
        self.refuse_two_values(rows)
        counts = dict.fromkeys(
            ("accepted", "duplicate", "conflict", "quarantined", "late", "corrected"), 0
        )
        for name, row in rows:
            unit = self.units.get(name)
            given = {metric: value for metric, value in row.items() if value is not None}
            if unit is None or not given:
                counts["quarantined"] += 1
                continue
            differs = any(unit.cells.get(metric, value) != value for metric, value in given.items())
            if differs and not correct:
                counts["conflict"] += 1
            elif not differs and given.keys() <= unit.cells.keys():
                counts["duplicate"] += 1
            else:
                counts["accepted"] += 1
                counts["corrected"] += differs
                counts["late"] += unit.wave < self.wave
                unit.cells |= given
        return counts

    def refuse_two_values(self, rows):
        """Refuse a file with two different values of one metric of a unit."""
        said = {}
        for name, row in rows:
            for metric, value in row.items():
                told = name in self.units and value is not None
                if told and said.setdefault((name, metric), value) != value:
                    raise TwoValuesError

    def close(self):
        """End the wave: who has no reward counts as absent from now on."""
        for unit in self.units.values():
            if unit.wave == self.wave and self.absents and not self.complete(unit):
                unit.absent = True
        self.wave += 1

    def complete(self, unit):
        """Return whether every term of the reward was recorded."""
        return all(term in unit.cells for term in self.weights)

    def observed(self, unit):
        """Return recorded, absent or none; one that was absent is recorded with its first term."""
        if self.complete(unit):
            return "recorded"
        return "absent" if unit.absent else "none"

    def reward(self, unit):
        """Return the outcome with the action's cost, None where there is none."""
        if self.observed(unit) == "none":
            return None
        terms = {**(self.absents or {}), **unit.cells}
        value = sum(weight * terms[term] for term, weight in self.weights.items())
        return value - self.sign * self.costs[unit.action]

    def learned(self, action):
        """Return count, sum and sum of squares of what was learned of an action's closed waves."""
        rewards = [
            self.sign * self.reward(unit)
            for unit in self.units.values()
            if unit.action == action and unit.wave < self.wave and self.reward(unit) is not None
        ]
        return len(rewards), sum(rewards), sum(reward**2 for reward in rewards)
