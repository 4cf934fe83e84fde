"""Yes/no outcomes: logistic and linear estimates, where the truth is logistic."""

from dataclasses import dataclass, field

import numpy as np
from numpy.random import SeedSequence
from sklearn.linear_model import LogisticRegression

from benchmarks.learning.pooling import played
from benchmarks.learning.table import Claim, Measured, against, compared
from benchmarks.progress import say
from benchmarks.quality.worlds import chances, hillstrom
from seqbatch.core.arrays import Floats
from seqbatch.policies import RBGL, SBPE, JointRidge, ModelPolicy, Policy

#: The mean rate, how many times the fitted differences between arms, and the units.
SETTINGS = [
    (0.02, 1, 21_000), (0.02, 3, 21_000), (0.02, 3, 6_000), (0.3, 1, 6_000), (0.3, 3, 6_000),
]  # fmt: skip
SINGLE = "single"


@dataclass
class Logistic:
    """A logistic regression that predicts chances, also where all outcomes are the same."""

    model: LogisticRegression = field(default_factory=lambda: LogisticRegression(max_iter=1_000))
    same: float | None = None

    def fit(self, rows: Floats, outcomes: Floats) -> "Logistic":
        """Fit the model."""
        self.same = float(outcomes[0]) if np.ptp(outcomes) == 0 else None
        if self.same is None:
            self.model.fit(rows, outcomes)
        return self

    def predict(self, rows: Floats) -> Floats:
        """Return the chance of each row."""
        if self.same is not None:
            return np.full(len(rows), self.same)
        return np.asarray(self.model.predict_proba(rows)[:, 1])


POLICIES: dict[str, Policy] = {
    "SBPE": SBPE(first="uniform"),
    "RBGL": RBGL(first="uniform"),
    "logistic": ModelPolicy(Logistic()),
    "joint ridge": JointRidge(constant=0, estimate="averaged"),
    "pooled": SBPE(first="uniform", estimate="pooled", constant=0),
    SINGLE: SBPE(first="uniform"),
}


def means(rate: float, differences: float) -> Floats:
    """Return each customer's chance under each arm."""
    fitted = chances("visit")
    scores = np.log(fitted / (1 - fitted))
    middle = scores.mean(axis=1, keepdims=True)
    scores = middle + differences * (scores - middle)
    low, high = -10.0, 10.0
    for _ in range(40):
        move = (low + high) / 2
        found = 1 / (1 + np.exp(-scores - move))
        low, high = (move, high) if found.mean() < rate else (low, move)
    return np.asarray(found)


def measure(runs: int) -> Measured:
    """Measure the regret of estimates in three doubling waves."""
    rows, claims = [], []
    for rate, differences, units in SETTINGS:
        lost = _losses(means(rate, differences), units, runs)
        rows.append([f"{rate:.0%}", f"{differences}", f"{units:,}", *compared(lost, "SBPE")])
        where = f"{rate:.0%}, differences times {differences}, {units:,} units"
        claims += [
            Claim(f"{name} loses less than SBPE", against(lost[name], lost["SBPE"]))
            for name in ("pooled", "joint ridge")
        ]
        say(f"yes or no: {where}")
    columns = ["rate", "differences", "units", "SBPE: regret", *list(POLICIES)[1:]]
    return Measured(columns, rows, claims)


def _losses(chance: Floats, units: int, runs: int) -> dict[str, Floats]:
    """Return each policy's regret per unit in every run."""
    sizes, features = tuple(units * share // 7 for share in (1, 2, 4)), hillstrom("visit").features
    losses = {name: np.empty(runs) for name in POLICIES}
    for run in range(runs):
        random = np.random.default_rng(SeedSequence(93, spawn_key=(units, run)))
        among = random.integers(0, len(chance), sum(sizes))
        own, x = chance[among], features[among]
        outcomes = (random.random((len(own), 1)) < own).astype(np.float64)
        draws, free = random.random(len(own)), np.full(len(own), -1)
        for name, policy in POLICIES.items():
            seen = x[:, :1] if name == SINGLE else x
            actions = played(policy, seen, outcomes, draws, sizes, free)
            lost = own.max(axis=1) - own[np.arange(len(own)), actions]
            losses[name][run] = lost.mean()
    return losses
