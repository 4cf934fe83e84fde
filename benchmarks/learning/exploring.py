"""Lookahead beside other policies during a campaign, without and with features."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.random import Generator

from benchmarks.learning.plain_campaign import (
    World,
    doubling,
    equal,
    losses,
)
from benchmarks.learning.table import Claim, Measured, against, compared, said
from benchmarks.progress import say
from seqbatch import Learner, grids
from seqbatch.core.arrays import Floats
from seqbatch.policies import RBGL, SBPE, SBUCB, Lookahead, ThompsonSampling, UniformRandom
from seqbatch.policies.base import BasePolicy

#: The effects' standard deviation, in units of the noise: small ones, and larger ones.
EFFECT, LARGER = 0.1, 0.3
#: More units afterwards than any campaign has: only what the waves teach counts.
FOREVER = 10**9


def penalty(effect: float) -> float:
    """Return the ridge penalty that knows the law of the effects."""
    return 1 / effect**2


def during(effect: float) -> dict[str, BasePolicy]:
    """Return policies for what is earned during a campaign, the first of which is greedy."""
    ridge = penalty(effect)
    return {
        "greedy": RBGL(ridge=ridge, first="uniform"),
        "Thompson": ThompsonSampling(scale=1.0, ridge=ridge, first="uniform"),
        "Thompson, greedy last": ThompsonSampling(
            scale=1.0, ridge=ridge, first="uniform", last="greedy"
        ),
        "UCB, gamma 1": SBUCB(gamma=1.0, ridge=ridge, first="uniform"),
        "UCB, paper": SBUCB(ridge=ridge, first="uniform"),
        "lookahead": Lookahead(ridge=ridge),
    }


def afterwards(effect: float) -> dict[str, BasePolicy]:
    """Return policies for a choice at the end."""
    ridge = penalty(effect)
    return {
        "exploration sampling": ThompsonSampling(
            scale=1.0, ridge=ridge, objective="choose", first="uniform"
        ),
        "lookahead, after 10^9": Lookahead(after=FOREVER, ridge=ridge),
        "uniform": UniformRandom(),
    }


SETTINGS = {
    "3, 600, 2 equal": (3, equal(600, 2)),
    "3, 600, 3 equal": (3, equal(600, 3)),
    "3, 600, 4 equal": (3, equal(600, 4)),
    "3, 600, 5 equal": (3, equal(600, 5)),
    "3, 600, 3 doubling": (3, doubling(600, 3)),
    "3, 600, 5 doubling": (3, doubling(600, 5)),
    "10, 1,000, 3 equal": (10, equal(1_000, 3)),
}


#: The waves in which larger effects are looked at.
FEWER = ("3, 600, 3 equal", "3, 600, 3 doubling", "3, 600, 5 doubling")


def effects(random: Generator, *, effect: float, actions: int, units: int) -> World:
    """Return a world whose actions' means are drawn from the law that the policies assume."""
    return World.normal(random, units, effect * random.standard_normal(actions))


def without_features(
    runs: int, *, effect: float = EFFECT, names: Sequence[str] = tuple(SETTINGS), seed: int = 0
) -> Measured:
    """Measure regret during the campaign, and simple regret at its end."""
    rows, claims = [], []
    early, late = during(effect), afterwards(effect)
    for number, name in enumerate(names):
        K, sizes = SETTINGS[name]
        make = partial(effects, effect=effect, actions=K, units=sum(sizes))
        found = losses(
            early | late, sizes, make, ridge=penalty(effect), runs=runs, seed=seed + number
        )
        regret = {each: found[each][0] for each in early}
        simple = {each: found[each][1] for each in ["greedy", *late]}
        rows.append([f"{effect:g}", name, *compared(regret, "greedy"), *compared(simple, "greedy")])
        if len(sizes) > 2:
            claims += [
                Claim(
                    "Lookahead loses less during the campaign than greedy",
                    against(regret["lookahead"], regret["greedy"]),
                ),
                Claim(
                    "Lookahead loses less than Thompson sampling",
                    against(regret["lookahead"], regret["Thompson"]),
                ),
            ]
        say(name)
    columns = ["effects", "actions, units, waves", "greedy: regret", *list(early)[1:]]
    columns += ["greedy: simple", *(f"simple: {each}" for each in late)]
    return Measured(columns, rows, claims)


def all_without_features(runs: int) -> Measured:
    """Measure small effects, and larger ones in fewer settings."""
    small = without_features(runs)
    larger = without_features(runs, effect=LARGER, names=FEWER, seed=20)
    rows, claims = [*small.rows, *larger.rows], [*small.claims, *larger.claims]
    return Measured(small.columns, rows, claims)


# ----------------------------------------------------------------------
# With features.

UNITS, FEATURES, ACTIONS = 600, 5, 3
#: The effects' standard deviation for each feature.
SPREAD = 0.1


def with_features(runs: int) -> Measured:
    """Measure regret in campaigns whose units have features, waves doubling."""
    ridge = 1 / SPREAD**2
    policies: dict[str, BasePolicy] = {
        "greedy": RBGL(ridge=ridge, first="uniform"),
        "SBPE": SBPE(first="uniform"),
        "UCB, gamma 1": SBUCB(gamma=1.0, ridge=ridge, first="uniform"),
        "Thompson": ThompsonSampling(scale=1.0, ridge=ridge, samples=128, first="uniform"),
        "lookahead": Lookahead(ridge=ridge),
    }
    rows, claims = [], []
    for waves in (2, 3, 4, 5):
        lost: dict[str, list[float]] = {name: [] for name in policies}
        for run in range(runs):
            random = np.random.default_rng([waves, run])
            theta = SPREAD * random.standard_normal((ACTIONS, FEATURES))
            x = random.standard_normal((UNITS, FEATURES))
            x[:, 0] = 1.0
            noise = random.standard_normal((UNITS, ACTIONS))
            for name, policy in policies.items():
                lost[name].append(_played(policy, doubling(UNITS, waves), x, theta, noise, run))
        regret = {name: np.array(each) for name, each in lost.items()}
        rows.append([str(waves), *compared(regret, "greedy")])
        if waves > 2:
            claims += [
                Claim(
                    f"Lookahead loses less than {other}",
                    against(regret["lookahead"], regret[other]),
                )
                for other in ("SBPE", "Thompson")
            ]
        say(f"with features, {waves} waves")
    return Measured(["waves", "greedy: regret", *list(policies)[1:]], rows, claims)


def _played(
    policy: BasePolicy, sizes: list[int], x: Floats, theta: Floats, noise: Floats, seed: int
) -> float:
    """Return the regret per unit of one campaign."""
    ends = np.cumsum(sizes)
    learner = Learner(
        policy,
        grids.explicit(ends.tolist()),
        actions=len(theta),
        dim=x.shape[1],
        layout="block",
        seed=seed,
    )
    means = x @ theta.T
    lost = 0.0
    for end, size in zip(ends, sizes, strict=True):
        rows = np.arange(end - size, end)
        actions = learner.assign(x[rows]).actions
        learner.observe((means + noise)[rows, actions])
        lost += float((means[rows].max(axis=1) - means[rows, actions]).sum())
    return lost / len(x)


# ----------------------------------------------------------------------
# Units that get the final rule.

#: Units afterwards, in campaigns.
TIMES = (0, 1, 5, 20, 100)
ROLL_OUTS = {"3, 600, 4 equal": (3, equal(600, 4)), "8, 1,600, 4 equal": (8, equal(1_600, 4))}


def rolled_out(runs: int) -> Measured:
    """Measure what campaigns lose together with the units that get the final choice."""
    ridge = penalty(EFFECT)
    fixed = during(EFFECT) | afterwards(EFFECT)
    del fixed["lookahead"], fixed["uniform"]
    rows, claims = [], []
    for number, (name, (K, sizes)) in enumerate(ROLL_OUTS.items()):
        units = sum(sizes)
        ahead = {times: Lookahead(after=times * units, ridge=ridge) for times in TIMES}
        policies = fixed | {f"lookahead {times}": policy for times, policy in ahead.items()}
        make = partial(effects, effect=EFFECT, actions=K, units=units)
        found = losses(policies, sizes, make, ridge=ridge, runs=runs, seed=50 + number)
        for times in TIMES:
            total = {each: regret + times * simple for each, (regret, simple) in found.items()}
            best = min(fixed, key=lambda each: total[each].mean())
            change = against(total[f"lookahead {times}"], total[best])
            said_after = f"{times} T" if times else "0"
            mean = total[best].mean()
            rows.append([name, said_after, best, f"{mean:.4f}", said(change)])
            # The best fixed policy is known in hindsight only: no worse than it is the aim.
            if times:
                claims.append(
                    Claim("Less is lost than by the best other policy",
                          change)
                )  # fmt: skip
        say(f"after: {name}")
    columns = ["actions, units, waves", "after", "best other policy", "its loss", "lookahead"]
    return Measured(columns, rows, claims)
