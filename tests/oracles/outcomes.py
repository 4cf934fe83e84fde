"""Outcomes as a dictionary: what becomes of every row, said as plainly as it can be."""

from dataclasses import dataclass, field


@dataclass
class Unit:
    """One unit: its wave and action, its versions, and whether it counts as absent."""

    wave: int
    action: str
    versions: list = field(default_factory=list)
    absent: float | None = None


@dataclass
class Outcomes:
    """All units of a campaign by id; a row is a reward's terms and metrics, None where missing."""

    weights: dict
    costs: dict
    sign: float
    absent: float | None
    wave: int = 1
    units: dict = field(default_factory=dict)

    def record(self, rows, *, correct, with_ids):
        """Return how many rows were accepted, duplicate, conflict, quarantined, late, corrected."""
        counts = dict.fromkeys(
            ("accepted", "duplicate", "conflict", "quarantined", "late", "corrected"), 0
        )
        seen = set()
        for name, row in rows:
            unit = self.units.get(name)
            if unit is None or any(row[term] is None for term in self.weights):
                counts["quarantined"] += 1
            elif unit.versions and unit.versions[-1] == row:
                counts["duplicate"] += 1
                seen.add(name)
            elif unit.versions and (not correct or (name in seen and not with_ids)):
                counts["conflict"] += 1
            else:
                counts["accepted"] += 1
                counts["corrected"] += bool(unit.versions)
                counts["late"] += unit.wave < self.wave
                unit.versions.append(row)
                seen.add(name)
        return counts

    def close(self):
        """End the wave: who has no row counts as absent from now on."""
        for unit in self.units.values():
            if unit.wave == self.wave and not unit.versions and self.absent is not None:
                unit.absent = self.absent
        self.wave += 1

    def observed(self, unit):
        """Return recorded, absent or none."""
        return "recorded" if unit.versions else "none" if unit.absent is None else "absent"

    def reward(self, unit):
        """Return the outcome with the action's cost, None where there is none."""
        if not unit.versions and unit.absent is None:
            return None
        value = unit.absent
        if unit.versions:
            row = unit.versions[-1]
            value = sum(weight * row[term] for term, weight in self.weights.items())
        return value - self.sign * self.costs[unit.action]

    def learned(self, action):
        """Return count, sum and sum of squares of what was learned of an action's closed waves."""
        rewards = [
            self.sign * self.reward(unit)
            for unit in self.units.values()
            if unit.action == action and unit.wave < self.wave and self.reward(unit) is not None
        ]
        return len(rewards), sum(rewards), sum(reward**2 for reward in rewards)
