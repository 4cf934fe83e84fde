"""Choosing one action at the end of a campaign: exploration sampling beside other policies."""

from functools import partial

import numpy as np
from numpy.random import Generator

from benchmarks.learning.plain_campaign import World, equal, losses
from benchmarks.learning.table import Claim, Measured, against, compared
from benchmarks.progress import say
from seqbatch.policies import RBGL, Lookahead, ThompsonSampling, UniformRandom
from seqbatch.policies.base import BasePolicy

#: The rates of an experiment on enrolling farmers (Kasy and Sautmann 2021): posterior means.
RATES = np.array([0.161, 0.196, 0.184, 0.146, 0.169, 0.177])
#: The noise of outcomes at such rates, and the prior's precision in units of it.
NOISE, RIDGE = 0.38, 1.0

POLICIES: dict[str, BasePolicy] = {
    "uniform": UniformRandom(),
    "greedy": RBGL(ridge=RIDGE, first="uniform"),
    "Thompson": ThompsonSampling(scale=NOISE, ridge=RIDGE, first="uniform"),
    "exploration sampling": ThompsonSampling(
        scale=NOISE, ridge=RIDGE, objective="choose", first="uniform"
    ),
    "lookahead, after 10^9": Lookahead(after=10**9, ridge=RIDGE),
}
SETTINGS = [
    ("published rates", 4_000, 2),
    ("published rates", 4_000, 3),
    ("published rates", 4_000, 5),
    ("published rates", 4_000, 10),
    ("published rates", 10_000, 4),
    ("Beta(20, 80), 6 actions", 1_500, 2),
    ("Beta(20, 80), 6 actions", 1_500, 3),
    ("Beta(20, 80), 6 actions", 1_500, 5),
]


def rates(random: Generator, *, units: int, truth: str) -> World:
    """Return a world of yes/no outcomes."""
    drawn = RATES if truth.startswith("published") else random.beta(20, 80, 6)
    return World.yes_no(random, units, drawn)


def measure(runs: int) -> Measured:
    """Measure simple regret, and how often the best action is chosen."""
    rows, claims = [], []
    for number, (truth, units, waves) in enumerate(SETTINGS):
        make = partial(rates, units=units, truth=truth)
        sizes = equal(units, waves)
        found = losses(POLICIES, sizes, make, ridge=RIDGE, runs=runs, seed=100 + number)
        simple = {name: lost for name, (_, lost) in found.items()}
        right = [
            f"{(simple[name] == 0).mean():.2f}" for name in ("uniform", "lookahead, after 10^9")
        ]
        rows.append([truth, f"{units:,}, {waves}", *compared(simple, "uniform"), *right])
        claims += [
            Claim(
                f"{who} chooses better than equal shares",
                against(simple[name], simple["uniform"]),
            )
            for who, name in (
                ("Exploration sampling", "exploration sampling"),
                ("Lookahead", "lookahead, after 10^9"),
            )
        ]
        say(f"{truth}, {units:,} in {waves}")
    columns = ["rates", "units, waves", "uniform: simple regret", *list(POLICIES)[1:]]
    columns += ["right: uniform", "right: lookahead"]
    return Measured(columns, rows, claims)
