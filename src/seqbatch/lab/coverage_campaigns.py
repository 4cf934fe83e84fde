"""Campaigns simulated for the sake of their intervals, by the very code that users run."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from seqbatch.core.arrays import Floats
from seqbatch.inference import PlanOfShares, Rows, plan_of_shares
from seqbatch.inference.model import Evidence, Model
from seqbatch.lab.coverage_worlds import ACTIONS, CLUSTER, COLUMNS, WORLDS, World, features, lost

#: How units are divided among waves.
SIZES = {2: (0.3, 0.7), 3: (0.2, 0.3, 0.5), 5: (0.1, 0.15, 0.2, 0.25, 0.3)}
POLICIES = ("greedy", "UCB", "Thompson")
#: Draws of the parameters that Thompson sampling's probabilities come from.
DRAWS = 32


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting in which coverage is measured.

    Parameters
    ----------
    policy, world
        Names.
    waves, units
        M, and all units together.
    randomised, floor
        h and f.
    missing
        Whose outcomes do not come back: ``"nobody"``, ``"anybody"`` (a fifth) or ``"by feature"``.
    """

    policy: str = "greedy"
    world: str = "no effect"
    waves: int = 3
    units: int = 3_000
    randomised: float = 0.1
    floor: float = 0.02
    missing: str = "anybody"

    @property
    def sizes(self) -> list[int]:
        """How many units each wave has."""
        return [round(share * self.units) for share in SIZES[self.waves]]

    @property
    def plan(self) -> PlanOfShares:
        """The plan of shares that such a campaign would fix."""
        return plan_of_shares(
            self.sizes,
            actions=ACTIONS,
            randomised=self.randomised,
            floor=self.floor,
            policy="thompson" if self.policy == "Thompson" else "greedy",
        )

    def describe(self) -> str:
        """Return the cell in words."""
        return (
            f"{self.world}, {self.policy}, M = {self.waves}, {self.units:,} units, "
            f"randomised {self.randomised:g}, floor {self.floor:g}, missing {self.missing}"
        )


@dataclass(frozen=True, eq=False)
class Simulated:
    """A campaign that was simulated.

    Parameters
    ----------
    waves
        Its units.
    rules
        What gave each wave its probabilities: a function from features to them.
    """

    waves: list[Rows]
    rules: list[Callable[[Floats], Floats]]


def simulate_campaign(cell: Cell, random: Generator) -> Simulated:
    """Run a campaign: the first wave at random, each later one by all outcomes before it."""
    world = WORLDS[cell.world]
    evidence = Evidence.zero(ACTIONS, COLUMNS)
    waves: list[Rows] = []
    rules: list[Callable[[Floats], Floats]] = []
    for number, size in enumerate(cell.sizes):
        rules.append(_rule(cell, evidence, random) if number else _uniform)
        waves.append(_wave(cell, world, rules[-1], size, random))
        if world.clustered:
            names = np.arange(size) // CLUSTER + number * cell.units
            waves[-1] = replace(waves[-1], clusters=names)
        evidence = evidence.with_rows(waves[-1])
    return Simulated(waves, rules)


def _uniform(x: Floats) -> Floats:
    return np.full((len(x), ACTIONS), 1 / ACTIONS)


def _rule(cell: Cell, evidence: Evidence, random: Generator) -> Callable[[Floats], Floats]:
    """Return what the policy makes of the outcomes so far."""
    model = Model.fitted(evidence)
    b = model.coefficients[None]
    if cell.policy == "Thompson":
        roots = np.linalg.cholesky(model.inverse)
        b = b + np.einsum("kpq,dkq->dkp", roots, random.standard_normal((DRAWS, ACTIONS, COLUMNS)))
    h, f = cell.randomised, cell.floor

    def probabilities(x: Floats) -> Floats:
        scores = (x @ b.reshape(-1, COLUMNS).T).reshape(len(x), -1, ACTIONS)
        if cell.policy == "UCB":
            width = np.sqrt(np.einsum("np,kpq,nq->nk", x, model.inverse, x, optimize=True))
            scores = scores + width[:, None, :]
        best = scores.argmax(axis=2)
        shares = np.stack([(best == action).mean(axis=1) for action in range(ACTIONS)], axis=1)
        mixed: Floats = h / ACTIONS + (1 - h) * (f + (1 - ACTIONS * f) * shares)
        return mixed

    return probabilities


def _wave(
    cell: Cell, world: World, rule: Callable[[Floats], Floats], size: int, random: Generator
) -> Rows:
    x = features(random, size)
    p = rule(x)
    actions = (random.random(size)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    actions = np.minimum(actions, ACTIONS - 1)
    outcomes = world.draws(random, world.means(x)[np.arange(size), actions])
    outcomes[lost(random, cell.missing, x, actions)] = np.nan
    return Rows.of(x, actions, p, outcomes)
