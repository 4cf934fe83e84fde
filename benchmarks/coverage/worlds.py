"""Simulated campaigns of the coverage study, and what is true in them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import erf, log, pi, sqrt

import numpy as np
from numpy.random import Generator

from benchmarks.coverage.cells import Cell, Outcome
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.inference import Rows
from seqbatch.inference.doubly_robust_scores import OutcomeModel
from seqbatch.inference.evidence import Evidence

# ----------------------------------------------------------------------
# Units, and the mean outcome of every action for each of them.


#: A constant and two features.
COLUMNS = 3
#: How strongly a feature moves rates, relative to them.
RATE_SLOPE = 0.4
Rule = Callable[[Floats], Floats]


@cache
def panel() -> Floats:
    """Return units that stand for the population: a Sobol sequence, much evener than draws."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    points = qmc.Sobol(COLUMNS - 1, seed=0).random_base2(12)
    return np.column_stack([np.ones(len(points)), ndtri(points)])


@cache
def population(cell: Cell, wave: int) -> Floats:
    """Return units that stand for those of one wave."""
    x = panel().copy()
    x[:, 1] += cell.moving[wave] if cell.moving else 0.0
    return x


def features(cell: Cell, wave: int, random: Generator, units: int) -> Floats:
    """Draw units: a constant, and standard normal columns, of which the first may move."""
    x = np.column_stack([np.ones(units), random.standard_normal((units, COLUMNS - 1))])
    x[:, 1] += cell.moving[wave] if cell.moving else 0.0
    return x


def expectations(cell: Cell, wave: int, x: Floats) -> Floats:
    """Return the mean outcome of every action for each unit of a wave, shape (n, K)."""
    chances = rates(cell, wave, x)
    if cell.outcome.kind == "amounts":
        return chances * mean_size(cell.outcome) * _sizes(cell)
    return chances


@cache
def expected(cell: Cell, wave: int) -> Floats:
    """Return the mean outcomes of the population of a wave."""
    return expectations(cell, wave, population(cell, wave))


@cache
def net_outcomes(cell: Cell, wave: int) -> Floats:
    """Return the mean outcomes of the population of a wave, less costs."""
    return expected(cell, wave) - _costs(cell)


@cache
def mean_outcomes(cell: Cell, wave: int) -> Floats:
    """Return the mean outcome of each action in a wave, less its cost."""
    means: Floats = net_outcomes(cell, wave).mean(axis=0)
    return means


def rates(cell: Cell, wave: int, x: Floats) -> Floats:
    """Return what outcomes are drawn with: means, or chances of an amount."""
    lifts = np.array([0.0, *(one[wave % len(one)] for one in cell.lifts)])
    columns = [np.zeros(len(x)), *(_tilt(cell, action, x) for action in range(1, cell.actions))]
    effects = lifts + cell.slope * np.column_stack(columns)
    outcome = cell.outcome
    level = cell.level[wave] if cell.level else float(outcome.relative)
    if not outcome.relative:
        return (_base(cell.base, x) + level)[:, None] + effects
    # Of the rarer answer, so that no chance leaves 0 to 1.
    mirrored = outcome.kind == "yes/no" and outcome.rate > 0.5
    rare = 1 - outcome.rate if mirrored else outcome.rate
    moved = rare * level * (1 + RATE_SLOPE * np.tanh(x[:, 1]))
    made: Floats = moved[:, None] * (1 + (-effects if mirrored else effects))
    return 1 - made if mirrored else made / _sizes(cell)


def _tilt(cell: Cell, action: int, x: Floats) -> Floats:
    """Return how features move an action's lift, 0 on average."""
    column = x[:, 1 + (action - 1) % 2] * (1 if action < 3 else -1)
    if cell.outcome.relative:
        return np.tanh(column)
    return np.abs(column) - sqrt(2 / pi) if cell.base == "wavy" else column


def _base(base: str, x: Floats) -> Floats:
    if base == "wavy":
        return np.sin(2 * x[:, 1])
    bent = 0.5 * (x[:, 1] ** 2 - 1) if base == "convex" else 0.0
    return 1 + 0.6 * x[:, 1] + bent


def _sizes(cell: Cell) -> Floats:
    """Return how much larger each action's amounts are; they are as much rarer."""
    if cell.outcome.kind != "amounts" or not cell.outcome.by_action:
        return np.ones(1)
    return np.array(cell.outcome.by_action)


def mean_size(outcome: Outcome) -> float:
    """Return the mean of log-normal amounts of mean 1 after the cap.

    >>> mean_size(Outcome(kind="amounts", spread=1.0))
    1.0
    """
    s, c = outcome.spread, outcome.cap
    if not c:
        return 1.0
    away = (log(c) + s * s / 2) / s
    below, above = (0.5 * (1 + erf(z / sqrt(2))) for z in (away - s, -away))
    return below + c * above


def draw(cell: Cell, random: Generator, means: Floats, actions: Integers) -> Floats:
    """Draw the outcomes of units with these means, or these chances of an amount."""
    outcome, n = cell.outcome, len(means)
    if cell.clusters:
        shared = np.repeat(random.standard_normal(n // cell.clusters + 1), cell.clusters)[:n]
    if outcome.kind == "normal":
        noise = random.standard_normal(n)
        if cell.clusters:
            noise = sqrt(0.5) * shared + sqrt(0.5) * noise
        return means + noise * (np.array(outcome.by_action)[actions] if outcome.by_action else 1)
    if outcome.kind == "heavy tails":
        return means + random.standard_t(3, n) / sqrt(3)
    if outcome.kind == "counts":
        s = outcome.spread
        return random.poisson(means * (random.gamma(1 / s, s, n) if s else 1)).astype(np.float64)
    if outcome.kind == "amounts without zeros":
        return means * _log_normal(random, outcome.spread, n)
    if cell.clusters:
        means = means * (1 + 0.6 * np.sign(shared))
    bought = (random.random(n) < means).astype(np.float64)
    if outcome.kind == "yes/no":
        return bought
    amounts = _log_normal(random, outcome.spread, n)
    amounts = np.minimum(amounts, outcome.cap) if outcome.cap else amounts
    sizes = _sizes(cell)
    return bought * amounts * (sizes[actions] if len(sizes) > 1 else 1)


def _log_normal(random: Generator, spread: float, units: int) -> Floats:
    return random.lognormal(-spread * spread / 2, spread, units)


def lost(random: Generator, kind: str, x: Floats, actions: Integers) -> Bools:
    """Say whose outcomes do not come back."""
    if kind == "none":
        return np.zeros(len(x), dtype=np.bool_)
    if kind.endswith("at random"):
        chance: Floats | float = float(kind.partition("%")[0]) / 100
    else:
        way = np.where(actions % 2 == 1, -1, 1) if kind.startswith("in opposite") else 1
        chance = 1 / (1 + np.exp(1.3 - 0.8 * way * x[:, 1]))
    gone: Bools = random.random(len(x)) < chance
    return gone


# ----------------------------------------------------------------------
# Campaigns, by the very code that users run.


#: Draws of the parameters that Thompson sampling's probabilities come from.
DRAWS = 24


@dataclass(frozen=True, eq=False)
class Simulated:
    """A campaign that was simulated.

    Parameters
    ----------
    cell
        Its setting.
    waves
        Its units.
    rules
        What gave each wave its probabilities: a function from features to them.
    """

    cell: Cell
    waves: list[Rows]
    rules: list[Rule]

    @property
    def sizes(self) -> Floats:
        """The number of units of each wave."""
        return np.array([float(rows.count) for rows in self.waves])

    def seen(self, x: Floats) -> Floats:
        """Return the features that the policy and the models know."""
        return x if self.cell.features else x[:, :1]

    def means(self, wave: int) -> Floats:
        """Return the mean outcome of each action in a wave, less its cost."""
        return mean_outcomes(self.cell, wave)

    def net(self, wave: int) -> Floats:
        """Return the mean outcomes of a wave's population, less costs."""
        return net_outcomes(self.cell, wave)

    def value(self, wave: int) -> float:
        """Return the mean outcome of a wave as it was run, less costs."""
        shares = self.rules[wave](self.seen(population(self.cell, wave)))
        return float((shares * self.net(wave)).sum(axis=1).mean())

    def over_waves(self, by_wave: Callable[[int], float], waves: range | None = None) -> float:
        """Return a quantity over waves, weighted by their sizes."""
        places = list(waves or range(len(self.waves)))
        sizes = self.sizes[places]
        return float(sizes @ [by_wave(wave) for wave in places] / sizes.sum())

    def lift(self, action: int, waves: range | None = None) -> float:
        """Return the true lift of an action over the units of some waves."""

        def by_wave(wave: int) -> float:
            means = self.means(wave)
            return float(means[action] - means[0])

        return self.over_waves(by_wave, waves)


def _costs(cell: Cell) -> Floats:
    return np.array(cell.costs) if cell.costs else np.zeros(cell.actions)


def simulate_campaign(cell: Cell, random: Generator) -> Simulated:
    """Run a campaign: the first wave at random, each later one by all outcomes before it."""
    columns = COLUMNS if cell.features else 1
    evidence = Evidence.zero(cell.actions, columns)
    made = Simulated(cell, [], [])
    for wave, size in enumerate(cell.counts):
        rule = _policy(cell, evidence, random) if wave else uniform(cell.actions)
        rows = _wave(made, wave, rule, size, random)
        made.rules.append(rule)
        made.waves.append(rows)
        evidence = evidence.with_rows(rows)
    return made


def uniform(actions: int) -> Rule:
    """Return what assigns a wave at random."""
    return lambda x: np.full((len(x), actions), 1 / actions)


def _policy(cell: Cell, evidence: Evidence, random: Generator) -> Rule:
    """Return what the policy makes of the outcomes so far."""
    model, K = OutcomeModel.fitted(evidence), cell.actions
    columns = model.coefficients.shape[1]
    b = model.coefficients.copy()
    b[:, 0] -= _costs(cell)
    noise = _noise(evidence)
    draws = b[None]
    if cell.policy == "Thompson":
        roots = np.linalg.cholesky(model.inverse)
        normal = random.standard_normal((DRAWS, K, columns))
        draws = draws + noise * np.einsum("kpq,dkq->dkp", roots, normal)
    h, f = cell.randomised, cell.floor

    def probabilities(x: Floats) -> Floats:
        scores = (x @ draws.reshape(-1, columns).T).reshape(len(x), -1, K)
        if cell.policy == "UCB":
            width = np.sqrt(np.einsum("np,kpq,nq->nk", x, model.inverse, x, optimize=True))
            scores = scores + noise * width[:, None, :]
        best = scores.argmax(axis=2)
        shares = np.stack([(best == action).mean(axis=1) for action in range(K)], axis=1)
        mixed: Floats = h / K + (1 - h) * (f + (1 - K * f) * shares)
        return mixed

    return probabilities


def _noise(evidence: Evidence) -> float:
    """Return the standard deviation of all outcomes so far."""
    sums = evidence.statistics
    count = max(evidence.outcomes, 1)
    mean = float(sums.moment[:, 0].sum()) / count
    return sqrt(max(float(sums.squares.sum()) / count - mean**2, 1e-12))


def _wave(made: Simulated, wave: int, rule: Rule, size: int, random: Generator) -> Rows:
    cell = made.cell
    x = features(cell, wave, random, size)
    p = rule(made.seen(x))
    actions = (random.random(size)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    actions = np.minimum(actions, cell.actions - 1)
    outcomes = draw(cell, random, rates(cell, wave, x)[np.arange(size), actions], actions)
    outcomes[lost(random, cell.missing, x, actions)] = np.nan
    rows = Rows.of(made.seen(x), actions, p, outcomes)
    if not cell.clusters:
        return rows
    return replace(rows, clusters=np.arange(size) // cell.clusters + wave * cell.units)
