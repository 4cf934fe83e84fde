"""Trials of any linear policy, with a few simulated units representing each batch.

If a policy uses more than estimated means (confidence widths, posterior draws), a batch cannot be
drawn as a sum. Instead at most `most` of its units are drawn, and their sums are scaled up to the
batch's size, with noise of the full batch's variance. The policy's own methods decide and learn.
This is good for comparing policies, which share the approximation; in few dimensions also for their
absolute regret.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from seqbatch.allocation import Limits, limited
from seqbatch.core import Contexts, Layout, Problem, Statistics, kernels
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.planning.trials.conditions import Conduct, even, masks
from seqbatch.policies.base import BasePolicy, State
from seqbatch.policies.choice import pick
from seqbatch.policies.rule import Decision


@dataclass(frozen=True, eq=False)
class ThinnedTrial:
    """One true parameter, and the source of contexts.

    Parameters
    ----------
    theta
        The true parameter, shape (models, dim).
    noise
        The standard deviation of the reward's noise.
    actions, layout
        See :class:`~seqbatch.core.problem.Problem`.
    contexts
        A function of a generator and a number of units that returns contexts in the layout.
    conduct
        How the experiment is run besides the policy's own choices.
    weight
        The importance weight of the trial's parameter.
    penalty
        The squared noise divided by the variance of the parameters before any outcome.
    """

    theta: Floats
    noise: float
    actions: int
    layout: Layout
    contexts: Callable[[Generator, int], Floats]
    conduct: Conduct = field(default_factory=Conduct)
    weight: float = 1.0
    penalty: float = 1.0

    def regret(
        self, policy: BasePolicy, sizes: Sequence[int], random: Generator, *, most: int = 1024
    ) -> float:
        """Return the regret of a policy on batches of these sizes."""
        problem = Problem(
            ends=tuple(int(end) for end in np.cumsum(sizes)),
            actions=self.actions,
            dim=self.theta.shape[1],
            layout=self.layout,
        )
        state, total = policy.begin(problem), 0.0
        late: list[list[tuple[int, Statistics]]] = []
        for batch, size in enumerate(sizes, start=1):
            used = min(size, most)
            contexts = Contexts(self.contexts(random, used), problem, self._eligible(used, random))
            positions = np.arange(used) * size // used
            # How many units each one represents: whole numbers.
            stands_for = np.diff(positions, append=size).astype(np.float64)
            decision = policy.assign(state, contexts, random.random(used), positions)
            blind = batch <= 1 + self.conduct.delay
            actions = self._acted(decision, contexts.eligible, random, blind=blind)
            means = contexts.means(self.theta)
            gained = means[np.arange(used), actions]
            total += size / used * (self._best(means, contexts.eligible) - float(gained.sum()))
            # No decision uses the outcomes of the last batches, unless there is a roll-out.
            if self.conduct.after or batch + self.conduct.delay < len(sizes):
                blur = self.noise * random.standard_normal(used)
                models = actions if problem.models > 1 else np.zeros(used, dtype=np.int64)
                models = np.where(self._returned(used, random), models, -1)
                vectors = contexts.chosen(actions)
                parts = []
                for group in np.unique(decision.groups[decision.groups >= 0]).tolist():
                    here = np.where(decision.groups == group, models, -1)
                    sums = _weighted(problem, vectors, gained, blur, here, stands_for, self.noise)
                    parts.append((group, sums))
                late.append(parts)
            if batch < len(sizes):
                for group, sums in late.pop(0) if batch > self.conduct.delay else ():
                    state = policy.absorb(state, group, sums)
                state = policy.close(state)
        if self.conduct.after:
            for group, sums in (part for parts in late for part in parts):
                state = policy.absorb(state, group, sums)
            total += self.conduct.after * self._final(policy, policy.close(state), random, most)
        return total

    def _final(self, policy: BasePolicy, state: State, random: Generator, units: int) -> float:
        """Return what a unit of the roll-out loses under the final rule."""
        contexts = Contexts(self.contexts(random, units), state.problem)
        means = contexts.means(self.theta)
        chosen = contexts.means(policy.summary(state).theta).argmax(axis=1)
        return float((means.max(axis=1) - means[np.arange(units), chosen]).mean())

    def _eligible(self, units: int, random: Generator) -> Bools | None:
        """Draw which actions each unit may get; None if all."""
        return masks(random, units, self.conduct.eligible) if self.conduct.eligible else None

    def _acted(
        self, decision: Decision, eligible: Bools | None, random: Generator, *, blind: bool
    ) -> Integers:
        """Return the actions, some replaced by random ones, within capacities."""
        conduct, units = self.conduct, len(decision.actions)
        if not conduct.restricted:
            return self._mixed(decision.actions, random)
        mask = np.ones((units, self.actions), dtype=np.bool_) if eligible is None else eligible
        by_chance = pick(even(mask, conduct.uniform.weights), random.random(units))[0]
        if blind:
            return by_chance
        own = decision.actions
        if conduct.capacity:
            own = _within(decision, mask, conduct.own_room, random)
        return np.where(random.random(units) < conduct.chance, by_chance, own)

    def _best(self, means: Floats, eligible: Bools | None) -> float:
        """Return the reward of the best feasible assignment."""
        if self.conduct.capacity:
            mask = np.ones(means.shape, dtype=np.bool_) if eligible is None else eligible
            actions = _by_prices(means, mask, self.conduct.room)
            return float(means[np.arange(len(means)), actions].sum())
        possible = means if eligible is None else np.where(eligible, means, -np.inf)
        return float(possible.max(axis=1).sum())

    def _mixed(self, actions: Integers, random: Generator) -> Integers:
        """Return the actions, some replaced by random ones."""
        if not self.conduct.chance:
            return actions
        by_chance = random.random(len(actions)) < self.conduct.chance
        return np.where(by_chance, random.integers(0, self.actions, len(actions)), actions)

    def _returned(self, units: int, random: Generator) -> Bools:
        """Return which units' outcomes arrive."""
        if self.conduct.returned == 1:
            return np.ones(units, dtype=np.bool_)
        back: Bools = random.random(units) < self.conduct.returned
        return back


def _within(decision: Decision, mask: Bools, room: Floats, random: Generator) -> Integers:
    """Return a policy's actions within capacities: by prices, or by tilted probabilities."""
    table = decision.probabilities
    if ((table == 0) | (table == 1)).all():
        return _by_prices(decision.scores, mask, room)
    most = np.where(room < 1, room * len(table), np.inf)
    kept = limited(None, table, Limits(at_most=most), eligible=mask).probabilities
    return pick(kept, random.random(len(table)))[0]


def _by_prices(scores: Floats, mask: Bools, room: Floats) -> Integers:
    """Return the actions with the highest score minus price."""
    chosen = np.empty(len(scores), dtype=np.int64)
    possible = np.where(mask, scores, kernels.NEVER)
    kernels.assign_within(np.ascontiguousarray(possible.T), room, chosen)
    return chosen


def _weighted(
    problem: Problem,
    vectors: Floats,
    means: Floats,
    noise: Floats,
    models: Integers,
    weights: Floats,
    level: float,
) -> Statistics:
    """Return the sums of units that each represent as many as `weights`; model -1: no outcome.

    `level` is the standard deviation of the noise.
    """
    roots = np.sqrt(weights)
    # Noise divided by the root of the weight, then weighted, has the variance of all units.
    rewards = roots * means + noise
    sums = Statistics.zero(problem.models, problem.dim)
    sums = sums.add(roots[:, None] * vectors, rewards, models)
    back, wide = models >= 0, problem.models
    count = np.bincount(models[back], weights[back], minlength=wide)
    # The drawn noise is that of one unit of those represented.
    spare = level**2 * (count - sums.count)
    return Statistics(sums.gram, sums.moment, sums.squares + spare, count.astype(np.int64))
