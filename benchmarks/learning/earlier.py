"""Starting from an earlier campaign: its sums as a prior, ignored, or simply added."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.random import Generator, SeedSequence

from benchmarks.learning.table import Claim, Measured, against, compared
from benchmarks.progress import say
from seqbatch.core import Contexts, Problem, Statistics
from seqbatch.core.arrays import Floats, Integers
from seqbatch.policies import Feedback, History, JointRidge
from seqbatch.policies.base import State

ACTIONS, DIM, SIZES, EARLIER = 3, 5, (400, 400, 400), 600
#: The standard deviations of the common coefficients, and of each action's deviations from them.
COMMON, SPREAD = 0.17, 0.1
#: How far actions have drifted since, in units of that spread.
DRIFTS = (0.0, 0.5, 1.0, 2.0)
IGNORED, NEW = "ignored", "learned, wave 1 from history"


@dataclass(frozen=True)
class World:
    """The earlier campaign's units, and the new one's with the outcome of every action."""

    before: tuple[Floats, Floats, Integers]
    rows: Floats
    means: Floats
    table: Floats
    draws: Floats

    @classmethod
    def of(cls, random: Generator, drift: float) -> "World":
        """Draw the truth of both campaigns, and their units."""
        shared = COMMON * random.standard_normal(DIM)
        theta = shared + SPREAD * random.standard_normal((ACTIONS, DIM))
        old = _units(random, EARLIER)
        given = random.integers(0, ACTIONS, EARLIER)
        got = np.sum(old * theta[given], axis=1) + random.standard_normal(EARLIER)
        theta = theta + drift * SPREAD * random.standard_normal(theta.shape)
        rows = _units(random, sum(SIZES))
        means = rows @ theta.T
        noise = random.standard_normal(len(rows))[:, None]
        return cls((old, got, given), rows, means, means + noise, random.random(len(rows)))


def _units(random: Generator, count: int) -> Floats:
    return np.column_stack([np.ones(count), random.standard_normal((count, DIM - 1))])


def measure(runs: int) -> Measured:
    """Measure the regret of the joint ridge with and without the earlier campaign."""
    rows, claims = [], []
    for drift in DRIFTS:
        lost: dict[str, list[float]] = {}
        for run in range(runs):
            world = World.of(np.random.default_rng(SeedSequence(57, spawn_key=(run,))), drift)
            for name, (policy, start) in _policies(world, drift).items():
                lost.setdefault(name, []).append(_played(policy, start, world))
        regret = {name: np.array(each) for name, each in lost.items()}
        rows.append([f"{drift:g}", *compared(regret, IGNORED)])
        claims.append(
            Claim(
                "The history loses less than none",
                against(regret[NEW], regret[IGNORED]),
            )
        )
        if drift:
            claims.append(
                Claim(
                    "A learned drift loses less than added sums",
                    against(regret[NEW], regret["sums added"]),
                )
            )
        say(f"earlier campaign: drift {drift:g}")
    return Measured(["drift", f"{IGNORED}: regret", *list(lost)[1:]], rows, claims)


def _policies(world: World, drift: float) -> dict[str, tuple[JointRidge, State]]:
    """Return each policy with its state before the first wave."""
    ends = tuple(np.cumsum(SIZES).tolist())
    problem = Problem(ends=ends, actions=ACTIONS, dim=DIM, layout="block")
    zero = Statistics.zero(ACTIONS, DIM)
    history = History.of([zero.add(*world.before)], constant=0)
    plain, added = JointRidge(constant=0), JointRidge(constant=0, first="fixed")
    known = replace(history, drift=drift * SPREAD)
    made = {
        IGNORED: plain,
        "sums added": added,
        "learned, wave 1 uniform": replace(plain, history=history),
        NEW: replace(added, history=history),
        "the same with wave levels": replace(added, history=history, waves="own level"),
        "drift known": replace(added, history=known),
    }
    states = {name: policy.begin(problem) for name, policy in made.items()}
    start = states["sums added"]
    folds = np.arange(EARLIER) % added.folds
    for fold in range(added.folds):
        old, got, given = world.before
        part = folds == fold
        start = added.absorb(start, fold, zero.add(old[part], got[part], given[part]))
    states["sums added"] = added.refit(start)
    return {name: (policy, states[name]) for name, policy in made.items()}


def _played(policy: JointRidge, state: State, world: World) -> float:
    """Play the new campaign; return its regret per unit."""
    ends, taken = (0, *state.problem.ends), np.empty(len(world.rows), dtype=np.int64)
    for start, end in pairwise(ends):
        own, positions = world.rows[start:end], np.arange(end - start)
        decision = policy.assign(
            state, Contexts.of(own, state.problem), world.draws[start:end], positions
        )
        taken[start:end] = decision.actions
        rewards = world.table[start:end][positions, decision.actions]
        fed = Feedback(own, decision.actions, decision.groups, rewards)
        state = policy.close(policy.learn(state, fed))
    chosen = world.means[np.arange(len(taken)), taken]
    return float((world.means.max(axis=1) - chosen).mean())
