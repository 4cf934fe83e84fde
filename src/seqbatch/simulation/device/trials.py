"""Many trials of policies on grids, side by side on a device.

The device draws units, assigns them by the frozen rules and sums them up. All else is the policies'
own code, as in any other simulation: `begin`, `absorb`, `close`, and the estimates.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import Problem
from seqbatch.core.arrays import Array, Floats, Integers, namespace
from seqbatch.environments import Environment
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.policies import (
    BPE,
    LBGL,
    RBGL,
    SBPE,
    SBUCB,
    FixedAction,
    LinUCB,
    Oracle,
    Policy,
    ThompsonSampling,
    UniformRandom,
)
from seqbatch.policies.base import BasePolicy
from seqbatch.simulation.device.assigning import Rules
from seqbatch.simulation.device.backend import Backend, backend
from seqbatch.simulation.device.memory import sources
from seqbatch.simulation.device.sums import Sums
from seqbatch.simulation.device.units import Source, Units
from seqbatch.simulation.trajectory import Trajectory, diagnostics, problem_of

#: The policies whose rules are plain numbers. A subclass may change a rule: it does not count.
POLICIES = (
    *(SBPE, BPE, RBGL, LBGL, SBUCB, LinUCB, ThompsonSampling),
    *(UniformRandom, FixedAction, Oracle),
)


def simulate_trials(
    runs: Sequence[tuple[Policy, Grid]],
    environment: Environment,
    *,
    seeds: Sequence[SeedSequence],
    checkpoints: Integers,
    device: str,
    learn_last: bool = True,
) -> list[list[Trajectory]]:
    """Return the trajectories of every seed: one of each run, all on the seed's own instance.

    Parameters
    ----------
    runs
        Policies and their grids.
    environment
        Where units come from.
    seeds
        The place of every trial in a seed tree. A trial's units do not depend on the others.
    checkpoints
        Units at which to record the regret.
    device
        See :func:`~seqbatch.simulation.device.backend.backend`.
    learn_last
        Whether to learn from the last batch.
    """
    for policy, _ in runs:
        if type(policy) not in POLICIES:
            raise InvalidArgumentError(
                "method",
                "'auto' or 'direct' unless every policy is one of "
                + ", ".join(kind.__name__ for kind in POLICIES),
                f"'device' with {type(policy).__name__}",
            )
    place = backend(device)
    problems = [problem_of(environment, grid) for _, grid in runs]
    instances = [environment.instance(seed) for seed in seeds]
    done: list[list[Trajectory]] = []
    for source, part in sources(instances, environment, place):
        thetas = [instance.theta for instance in part]
        going = [
            _Run(cast(BasePolicy, policy), problem, thetas, checkpoints, learn_last, source, place)
            for (policy, _), problem in zip(runs, problems, strict=True)
        ]
        _play(going, source)
        done += [list(one) for one in zip(*(run.trajectories() for run in going), strict=True)]
    return done


def _play(runs: Sequence["_Run"], source: Source) -> None:
    """Feed every run with blocks until all are finished."""
    index = 0
    while waiting := [run for run in runs if not run.finished]:
        units = source.block(index)
        for run in waiting:
            run.feed(units)
        index += 1


class _Run:
    """One policy on one grid, in all trials."""

    def __init__(
        self,
        policy: BasePolicy,
        problem: Problem,
        thetas: Sequence[Floats | None],
        checkpoints: Integers,
        learn_last: bool,
        source: Source,
        place: Backend,
    ) -> None:
        self.policy, self.problem, self.thetas = policy, problem, thetas
        self.learning = problem.batches if learn_last else problem.batches - 1
        self.scale, self.place = source.scale, place
        self.states = [policy.begin(problem) for _ in thetas]
        self.checkpoints = checkpoints[checkpoints <= problem.units]
        self.seen, self.batch, self.done = 0, 1, 0
        self.regret, self.reward = place.zeros((len(thetas),)), place.zeros((len(thetas),))
        self.marks: list[Array] = []
        self.known = [(float("nan"), float("nan"))] * len(thetas)
        self.closed: list[tuple[Any, ...]] = []
        self.open()

    @property
    def finished(self) -> bool:
        return self.batch > self.problem.batches

    def open(self) -> None:
        """Move the batch's rules to the device."""
        self.rules = Rules.of(
            [self.policy.rule(state) for state in self.states], self.place, self.scale
        )
        self.intervals = self.policy.intervals(self.states[0])
        if self.batch > self.learning:
            self.intervals = []
        self.sums = [Sums(self.problem, self.place, self.scale) for _ in self.intervals]
        self.counts = self.place.zeros((len(self.thetas), self.problem.actions))

    def feed(self, units: Units) -> None:
        """Take the block's units, through as many batches as they reach."""
        used = 0
        while used < len(units) and not self.finished:
            wanted = self.problem.size(self.batch) - self.done
            part = slice(used, min(used + wanted, len(units)))
            self.take(units, part)
            used = part.stop
            if self.done == self.problem.size(self.batch):
                self.close()

    def take(self, units: Units, part: slice) -> None:
        """Assign units of the open batch, and sum up their outcomes."""
        x, means = units.contexts[:, part], units.means[:, part]
        xp = namespace(x)
        actions = self.rules.actions(x, lambda: units.draws[:, part], self.problem)
        gained = xp.take_along_axis(means, actions[..., None], axis=-1)[..., 0]
        first = self.done
        for (_, start, stop), sums in zip(self.intervals, self.sums, strict=True):
            low, high = max(start - first, 0), min(stop - first, part.stop - part.start)
            if low < high:
                rewards = gained[:, low:high] + units.noise[:, part][:, low:high]
                chosen = _chosen(x[:, low:high], actions[:, low:high])
                sums.add(chosen, actions[:, low:high], rewards)
        self.note(actions, gained, units.best[:, part] - gained)

    def note(self, actions: Array, gained: Array, lost: Array) -> None:
        """Add to the sums, and answer the checkpoints that were passed."""
        xp, units = namespace(actions), int(actions.shape[1])
        due = self.checkpoints[len(self.marks) :]
        for mark in due[due <= self.seen + units]:
            self.marks.append(self.regret + xp.sum(lost[:, : int(mark) - self.seen], axis=1))
        self.regret = self.regret + xp.sum(lost, axis=1)
        self.reward = self.reward + xp.sum(gained, axis=1)
        numbers = xp.arange(self.problem.actions, device=actions.device)
        taken = xp.sum(xp.astype(actions[..., None] == numbers, xp.float64), axis=1)
        self.counts = self.counts + taken
        self.seen, self.done = self.seen + units, self.done + units

    def close(self) -> None:
        """End the batch: teach every trial's policy its sums, and note what is known then."""
        if self.batch <= self.learning:
            trials = len(self.states)
            taught = [sums.statistics(trials) for sums in self.sums]
            for trial, state in enumerate(self.states):
                for (group, _, _), statistics in zip(self.intervals, taught, strict=True):
                    state = self.policy.absorb(state, group, statistics[trial])
                self.states[trial] = state = self.policy.close(state)
                self.known[trial] = diagnostics(state, self.policy, self.thetas[trial])
        host = self.place.host
        counts = host(self.counts).astype(np.int64)
        self.closed.append((host(self.regret), host(self.reward), counts, *_columns(self.known)))
        self.batch, self.done = self.batch + 1, 0
        if not self.finished:
            self.open()

    def trajectories(self) -> list[Trajectory]:
        regret, reward, counts, error, eigenvalue = (
            np.stack(column, axis=1) for column in zip(*self.closed, strict=True)
        )
        marks = np.zeros((len(self.states), 0))
        if self.marks:
            marks = np.stack([self.place.host(mark) for mark in self.marks], axis=1)
        return [
            Trajectory(
                ends=np.asarray(self.problem.ends, dtype=np.int64),
                regret=regret[trial],
                reward=reward[trial],
                counts=counts[trial],
                error=error[trial],
                eigenvalue=eigenvalue[trial],
                checkpoints=self.checkpoints,
                checkpoint_regret=marks[trial],
                units_read=self.problem.units,
            )
            for trial in range(len(self.states))
        ]


def _chosen(x: Array, actions: Array) -> Array:
    """Return each unit's vector under its action, shape (trials, n, dim)."""
    if x.shape[2] == 1:
        return x[:, :, 0]
    return namespace(x).take_along_axis(x, actions[:, :, None, None], axis=2)[:, :, 0]


def _columns(known: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    pairs = np.array(known)
    return pairs[:, 0], pairs[:, 1]
