"""Pooled estimates, the joint ridge and wave levels, for customers of Hillstrom's log."""

from collections.abc import Mapping
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.random import SeedSequence

from benchmarks.learning.table import Claim, Measured, against, compared
from benchmarks.progress import say
from seqbatch import datasets
from seqbatch.core import Contexts, Problem
from seqbatch.core.arrays import Floats, Integers
from seqbatch.policies import SBPE, Feedback, JointRidge, Policy, ThompsonSampling
from seqbatch.policies.base import LinearPolicy

ACTIONS, COMMON = 3, 0.38
#: Units, and the standard deviations of the constant's and of the features' deviations.
SETTINGS = [
    (3_000, 0.1, 0.0), (3_000, 0.1, 0.03), (3_000, 0.1, 0.1), (20_000, 0.1, 0.0),
    (20_000, 0.1, 0.1),
]  # fmt: skip
SHOCKS = (0.0, 0.1, 0.3, 1.0)


@cache
def customers() -> Floats:
    """Return a constant and the standardised features of the log's customers."""
    features = datasets.hillstrom("visit").features
    varied = features[:, features.std(axis=0) > 1e-9]
    scaled = (varied - varied.mean(axis=0)) / varied.std(axis=0)
    return np.column_stack([np.ones(len(scaled)), scaled])


def pooled(runs: int) -> Measured:
    """Measure the regret of estimates in three doubling waves."""
    policies: dict[str, LinearPolicy] = {
        "SBPE": SBPE(first="uniform"),
        "joint ridge": JointRidge(constant=0, estimate="averaged"),
        "SBPE, pooled": SBPE(first="uniform", estimate="pooled", constant=0),
        "Thompson, pooled, greedy last": ThompsonSampling(
            first="uniform", estimate="pooled", constant=0, scale="outcomes", last="greedy",
            samples=128,
        ),
    }  # fmt: skip
    rows, claims = [], []
    for units, constant, features in SETTINGS:
        sizes = tuple(units * share // 7 for share in (1, 2, 4))
        lost = _losses(policies, sizes, runs, scales=(constant, features))
        rows.append([f"{units:,}", f"{constant:g}, {features:g}", *compared(lost, "SBPE")])
        claims += [
            Claim(f"{name} loses less",
                  against(lost[name], lost["SBPE"]))
            for name in ("joint ridge", "SBPE, pooled")
        ]  # fmt: skip
        say(f"pooled: {units:,} units, {constant:g}, {features:g}")
    columns = ["units", "deviations", "SBPE: regret", *list(policies)[1:]]
    return Measured(columns, rows, claims)


def leveled(runs: int) -> Measured:
    """Measure the regret with and without wave levels, if the level of outcomes moves."""
    policies: dict[str, LinearPolicy] = {
        "SBPE": SBPE(first="uniform"),
        "SBPE, levels": SBPE(first="uniform", constant=0, waves="own level"),
        "joint ridge": JointRidge(constant=0, estimate="averaged"),
        "joint ridge, levels": JointRidge(constant=0, estimate="averaged", waves="own level"),
        "pooled": SBPE(first="uniform", estimate="pooled", constant=0),
        "pooled, levels": SBPE(first="uniform", estimate="pooled", constant=0, waves="own level"),
    }
    rows, claims = [], []
    for shock in SHOCKS:
        lost = _losses(policies, (800,) * 5, runs, scales=(0.1, 0.03), shock=shock, chance=0.1)
        rows.append([f"{shock:g}", *compared(lost, "SBPE")])
        claims += [
            Claim(f"Levels lose less ({name})",
                  against(lost[f"{name}, levels"], lost[name]))
            for name in ("SBPE", "joint ridge", "pooled") if shock
        ]  # fmt: skip
        say(f"levels: shocks of {shock:g}")
    columns = ["shock", "SBPE: regret", *list(policies)[1:]]
    return Measured(columns, rows, claims)


def _losses(
    policies: Mapping[str, LinearPolicy],
    sizes: tuple[int, ...],
    runs: int,
    *,
    scales: tuple[float, float],
    shock: float = 0.0,
    chance: float = 0.0,
) -> dict[str, Floats]:
    """Return each policy's regret per unit in every run; `chance` of the units act at random."""
    losses = {name: np.empty(runs) for name in policies}
    units, dim = sum(sizes), customers().shape[1]
    for run in range(runs):
        random = np.random.default_rng(SeedSequence(91, spawn_key=(run,)))
        rows = customers()[random.integers(0, len(customers()), units)]
        spread = np.full(dim, scales[1])
        spread[0] = scales[0]
        shared = COMMON / np.sqrt(dim) * random.standard_normal(dim)
        theta = shared + spread * random.standard_normal((ACTIONS, dim))
        level = np.repeat(shock * random.standard_normal(len(sizes)), sizes)
        means = rows @ theta.T
        noise = random.standard_normal(units) + level
        forced = np.where(random.random(units) < chance, random.integers(0, ACTIONS, units), -1)
        draws = random.random(units)
        for name, policy in policies.items():
            actions = played(policy, rows, means + noise[:, None], draws, sizes, forced)
            lost = means.max(axis=1) - means[np.arange(units), actions]
            losses[name][run] = lost.mean()
    return losses


def played(
    policy: Policy,
    rows: Floats,
    table: Floats,
    draws: Floats,
    sizes: tuple[int, ...],
    forced: Integers,
) -> Integers:
    """Play a campaign; return its actions. Those that are forced are 0 or more."""
    ends = tuple(np.cumsum(sizes).tolist())
    problem = Problem(ends=ends, actions=ACTIONS, dim=rows.shape[1], layout="block")
    state, actions = policy.begin(problem), np.empty(len(rows), dtype=np.int64)
    for start, end in pairwise((0, *ends)):
        own, positions = rows[start:end], np.arange(end - start)
        decision = policy.assign(state, Contexts.of(own, problem), draws[start:end], positions)
        taken = np.where(forced[start:end] >= 0, forced[start:end], decision.actions)
        rewards = table[start:end][positions, taken]
        state = policy.close(policy.learn(state, Feedback(own, taken, decision.groups, rewards)))
        actions[start:end] = taken
    return actions
