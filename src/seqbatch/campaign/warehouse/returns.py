"""Newton steps of the return model in a database: which outcomes come back, by action."""

from collections.abc import Mapping, Sequence

import numpy as np

from seqbatch.campaign.warehouse.closed_wave import Group, UnitStages
from seqbatch.campaign.warehouse.stages import named, summed
from seqbatch.core.arrays import Floats
from seqbatch.inference.return_model import FARTHEST


def return_query(
    units: UnitStages, starts: Mapping[int, Floats], turn: Floats, *, width: int
) -> str:
    """Return the query of the sums of a step, from the regressions that it starts from."""
    sql, v = units.tables.sql, units.vector
    cases = []
    for action, start in starts.items():
        pairs = zip((start @ turn).tolist(), v, strict=True)
        line = summed([f"{sql.number(weight)} * {name}" for weight, name in pairs])
        cases.append(f"WHEN {action} THEN {line}")
    bounded = f"LEAST(GREATEST(z, {sql.number(-FARTHEST)}), {sql.number(FARTHEST)})"
    one = sql.number(1.0)
    units.stages.add(
        "predicted", [*units.passed, *named(*v), (f"CASE place {' '.join(cases)} END", "z")]
    )
    units.stages.add(
        "missed", [*units.passed, *named(*v), (f"{one} / ({one} + EXP(-{bounded}))", "back")]
    )
    return units.selected(return_sums(v), width=width)


def return_sums(v: Sequence[str]) -> list[str]:
    """Return the sums of a step: its curvature, and its gradient."""
    pairs = [(i, j) for i in range(len(v)) for j in range(i, len(v))]
    return [
        *(f"SUM(back * (1 - back) * {v[i]} * {v[j]})" for i, j in pairs),
        *(f"SUM((seen - back) * {each})" for each in v),
    ]


def stepped(
    groups: Sequence[Group], action: int, start: Floats, turn: Floats
) -> tuple[Floats, Floats]:
    """Return H and c of an action's step."""
    wide = turn.shape[1]
    curvature, gradient = np.zeros((wide, wide)), np.zeros(wide)
    above, split = np.triu_indices(wide), wide * (wide + 1) // 2
    for one in groups:
        if one.action == action:
            curvature[above] += one.sums[:split]
            gradient += one.sums[split : split + wide]
    below = np.tril_indices(wide, -1)
    curvature[below] = curvature.T[below]
    H = turn @ curvature @ turn.T
    return H, H @ start + turn @ gradient
