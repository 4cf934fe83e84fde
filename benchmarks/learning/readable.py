"""A rule one can read: the tree of a pooled regression beside linear rules and single actions."""

import numpy as np
from numpy.random import Generator

from benchmarks.learning.table import Claim, Measured, against, compared
from benchmarks.progress import say
from benchmarks.quality.worlds import hillstrom
from seqbatch.core import Statistics, least_squares
from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.joint_regression import JointSums
from seqbatch.core.pooled_regression import pooled_regression
from seqbatch.datasets import LoggedExperiment
from seqbatch.inference.decision_tree import TreeFeature, bins_of, distil
from seqbatch.inference.logged_units import Rows

SETTINGS = [
    ("visit", 1_500), ("visit", 6_000), ("visit", 20_000), ("conversion", 6_000),
    ("conversion", 20_000),
]  # fmt: skip


def measure(runs: int) -> Measured:
    """Measure the values of rules, fitted to some customers, on the others."""
    rows, claims = [], []
    for number, (outcome, size) in enumerate(SETTINGS):
        log = hillstrom(outcome)
        found = [
            _values(log, size, np.random.default_rng([94, number, run])) for run in range(runs)
        ]
        worth = {name: np.array([one[name] for one in found]) for name in found[0]}
        rows.append([outcome, f"{size:,}", *compared(worth, "SBPE")])
        claims += [
            Claim(f"{worse} is worth less than {better}",
                  against(worth[worse], worth[better]))
            for better, worse in (("pooled", "SBPE"), ("tree", "SBPE"))
        ]  # fmt: skip
        say(f"readable: {outcome}, {size:,}")
    columns = ["outcome", "rows", "SBPE: value", "pooled", "tree", "single"]
    return Measured(columns, rows, claims)


def _values(log: LoggedExperiment, size: int, random: Generator) -> dict[str, float]:
    """Return each rule's mean outcome on the customers to whom it was not fitted."""
    order = random.permutation(len(log.rewards))
    fitted, others = order[:size], order[size:]
    x, actions, rewards = log.features[fitted], log.actions[fitted], log.rewards[fitted]
    K = len(log.names)
    sums = Statistics.zero(K, x.shape[1]).add(x, rewards, actions)
    theta = pooled_regression(JointSums.of([sums], constant=0), constant=0).fit.theta
    wave = Rows.of(x, actions, np.full((size, K), 1 / K), rewards)
    every = [TreeFeature(str(column), (column,)) for column in range(1, x.shape[1])]
    tree = distil([wave], theta, bins_of(wave, every))
    new = log.features[others]
    rest = Rows.of(new, log.actions[others], np.full((len(new), K), 1 / K), log.rewards[others])
    given: dict[str, Integers] = {
        "SBPE": (new @ least_squares(sums).theta.T).argmax(axis=1),
        "pooled": (new @ theta.T).argmax(axis=1),
        "tree": tree.actions(rest),
        "single": np.full(len(new), (sums.moment[:, 0] / sums.count).argmax()),
    }
    return {name: _value(rest, own) for name, own in given.items()}


def _value(rows: Rows, given: Integers) -> float:
    """Return what a rule is worth to a unit, by inverse probability."""
    matched: Floats = (rows.actions == given) / rows.taken
    return float((matched * rows.outcomes).sum() / matched.sum())
