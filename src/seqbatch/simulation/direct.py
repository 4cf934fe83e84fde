"""Direct simulation, unit by unit, of policies on grids in an environment: simulate()."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import nan
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import Contexts, Problem, arguments
from seqbatch.core.arrays import Floats, Integers
from seqbatch.display import counted
from seqbatch.environments import BLOCK, Block, Environment
from seqbatch.environments.base import of_actions
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.learner import require_playable
from seqbatch.policies import Feedback, Policy
from seqbatch.policies.choice import require_eligible
from seqbatch.simulation.collapsed import collapses, simulate_collapsed
from seqbatch.simulation.device import DEVICES, simulate_trials
from seqbatch.simulation.trajectory import (
    LaterUnits,
    Trajectory,
    diagnostics,
    problem_of,
    too_short,
)
from seqbatch.unit_log import UnitLog

Method = Literal["auto", "direct", "collapsed", "device"]


def simulate(
    policy: Policy,
    environment: Environment,
    grid: Grid,
    *,
    seed: int | SeedSequence = 0,
    checkpoints: Sequence[int] = (),
    method: Method = "auto",
    device: str | None = None,
    learn_last: bool = True,
    keep_log: bool = False,
) -> Trajectory:
    """Run a policy on a grid in an environment, with memory that does not grow with the units.

    The policy's methods are those that a real campaign calls. The same seed gives every policy the
    same instance and, with the direct method, the same contexts, noise and draws.

    Parameters
    ----------
    policy, environment, grid
        The policy, environment and grid.
    seed
        A number, or a seed sequence.
    checkpoints
        Units at which to record the regret, in addition to the batches' ends.
    method
        ``"direct"``: unit by unit. ``"collapsed"``: a batch at a time, for greedy policies under
        independent Gaussian contexts (:mod:`seqbatch.simulation.collapsed`); its regret is the
        expected one given the estimates. ``"auto"``: collapsed if possible, else direct.
        ``"device"``: unit by unit with PyTorch, for example on a GPU
        (:mod:`seqbatch.simulation.device`); its units differ from those of ``"direct"``, but have
        the same distribution.
    device
        For the method ``"device"``: ``"cuda"`` (default), ``"cpu"`` or ``"numpy"``.
    learn_last
        Whether to learn from the last batch, although no decision follows. If False, the last error
        and eigenvalue are those of the batch before, and most of the work of a long run is saved.
    keep_log
        Whether the trajectory has the units as rows for :mod:`seqbatch.inference`; memory then
        grows with them. For the methods ``"direct"`` and ``"auto"``, which is then direct.

    Examples
    --------
    >>> from seqbatch import grids
    >>> from seqbatch.environments import Gaussian
    >>> from seqbatch.policies import SBPE
    >>> grid = grids.minimax(units=20_000, dim=5, batches=3)
    >>> environment = Gaussian(dim=5, actions=4)
    >>> simulate(SBPE(), environment, grid, seed=1, method="direct").regret.round(1)
    array([441.6, 459.6, 477.9])
    """
    return simulate_together(
        [(policy, grid)],
        environment,
        seed=seed,
        checkpoints=checkpoints,
        method=method,
        device=device,
        learn_last=learn_last,
        keep_log=keep_log,
    )[0]


def simulate_together(
    runs: Sequence[tuple[Policy, Grid]],
    environment: Environment,
    *,
    seed: int | SeedSequence = 0,
    checkpoints: Sequence[int] = (),
    method: Method = "auto",
    device: str | None = None,
    learn_last: bool = True,
    names: Sequence[str] = (),
    keep_log: bool = False,
) -> list[Trajectory]:
    """Run several policies and grids on one instance, drawing each unit once for all of them.

    Each trajectory is bit-identical to that of a separate :func:`simulate`. Errors name the run by
    its place in `names`, or else by its policy's class.
    """
    arguments.choice("method", method, get_args(Method))
    require_instance(environment)
    for policy, grid in runs:
        require_playable(policy, grid)
        _require_direct(method, grid, keep_log=keep_log)
    place = seed
    if not isinstance(place, SeedSequence):
        place = SeedSequence(arguments.integer("seed", place, at_least=0))
    marks = np.unique([arguments.integer("checkpoints", mark) for mark in checkpoints])
    marks = marks.astype(np.int64)
    if chosen := chosen_device(method, device):
        return simulate_trials(
            runs, environment, seeds=[place], checkpoints=marks, device=chosen,
            learn_last=learn_last,
        )[0]  # fmt: skip
    named = list(names) or [type(policy).__name__ for policy, _ in runs]
    collapsed = {}
    for number, (policy, grid) in enumerate(runs):
        auto = method == "auto" and not (grid.delay or keep_log)
        if method == "collapsed" or (auto and collapses(policy, environment)):
            with named_in_errors(named[number], grid):
                collapsed[number] = simulate_collapsed(
                    policy, environment, grid, seed=place, checkpoints=marks, learn_last=learn_last
                )
    # All other runs share one pass over the instance's units.
    rest = [number for number in range(len(runs)) if number not in collapsed]
    direct = _direct(
        [runs[n] for n in rest], [named[n] for n in rest], environment, place, marks, learn_last,
        keep_log=keep_log,
    )  # fmt: skip
    found = collapsed | dict(zip(rest, direct, strict=True))
    return [found[number] for number in range(len(runs))]


@contextmanager
def named_in_errors(policy: str, grid: Grid) -> Iterator[None]:
    """Add to any error in which run it came up."""
    try:
        yield
    except Exception as error:
        error.add_note(f"In the policy {policy} on {counted(grid.batches, 'batch')} of "
                       f"{counted(grid.units, 'unit')}.")  # fmt: skip
        raise


def _require_direct(method: Method, grid: Grid, *, keep_log: bool) -> None:
    """Refuse what only a simulation unit by unit can do."""
    asked = [*["a log"] * keep_log, *["batches that overlap"] * bool(grid.delay)]
    if asked and method in ("collapsed", "device"):
        rule = f"'auto' or 'direct' with {' and '.join(asked)}"
        raise InvalidArgumentError("method", rule, repr(method))


def require_instance(environment: object) -> None:
    """Refuse a class, or any object without a method instance()."""
    if isinstance(environment, type) or not hasattr(environment, "instance"):
        rule = "an environment, for example Gaussian(dim=5, actions=4)"
        raise InvalidArgumentError("environment", rule, repr(environment))


def chosen_device(method: Method, device: str | None) -> str | None:
    """Return the device of the device method; None for the other methods."""
    if method == "device":
        return "cuda" if device is None else arguments.choice("device", device, DEVICES)
    if device is not None:
        rule = f"left out with the method {method!r}"
        raise InvalidArgumentError("device", rule, repr(device))
    return None


def _direct(
    runs: Sequence[tuple[Policy, Grid]],
    names: Sequence[str],
    environment: Environment,
    seed: SeedSequence,
    marks: Integers,
    learn_last: bool,
    *,
    keep_log: bool,
) -> list[Trajectory]:
    """Feed every run with the instance's blocks until all are finished."""
    instance = environment.instance(seed)
    going = []
    for name, (policy, grid) in zip(names, runs, strict=True):
        with named_in_errors(name, grid):
            problem = problem_of(environment, grid)
            going.append(
                _Run(policy, problem, grid, instance.theta, marks, learn_last, keep_log=keep_log)
            )
    index = 0
    while any(not run.finished for run in going):
        block = instance.block(index)
        for name, (_, grid), run in zip(names, runs, going, strict=True):
            if not run.finished:
                with named_in_errors(name, grid):
                    run.feed(block)
        index += 1
        # Only the last block of an environment is short.
        if len(block) < BLOCK and (late := [run for run in going if not run.finished]):
            raise too_short(late[0].problem, late[0].seen, late[0].read)
    later, found = LaterUnits(environment, instance), []
    for name, (_, grid), run in zip(names, runs, going, strict=True):
        with named_in_errors(name, grid):
            found.append(run.trajectory(later))
    return found


class _Run:
    """One policy on one grid, fed with blocks of units."""

    def __init__(
        self,
        policy: Policy,
        problem: Problem,
        grid: Grid,
        theta: Floats | None,
        checkpoints: Integers,
        learn_last: bool,
        *,
        keep_log: bool,
    ) -> None:
        self.grid, self.log = grid, UnitLog(policy, problem) if keep_log else None
        self.learning = problem.batches if learn_last else problem.batches - 1
        self.policy, self.problem, self.theta = policy, problem, theta
        self.state: Any = policy.begin(problem)
        if self.log is not None:
            self.log.open(self.state)
        self.checkpoints = checkpoints[checkpoints <= problem.units]
        self.batch, self.done = 1, 0
        self.seen, self.read = 0, 0
        self.regret, self.reward = 0.0, 0.0
        self.marks: list[float] = []
        #: Outcomes that are known later, by the batch by whose end they are.
        self.late: dict[int, list[Feedback]] = {}
        self.known = (float("nan"), float("nan"))
        self.closed: list[tuple[int, float, float, float, float]] = []
        self.counts = np.zeros((problem.batches, problem.actions), dtype=np.int64)

    @property
    def finished(self) -> bool:
        return self.batch > self.problem.batches

    def feed(self, block: Block) -> None:
        """Use the block's units, for as many batches as they reach."""
        used = 0
        while used < len(block) and not self.finished:
            used += self.take(block, used)
            if self.done == self.problem.size(self.batch):
                self.close()
        self.read += used

    def take(self, block: Block, start: int) -> int:
        """Assign units of the open batch and learn their outcomes; return how many were read."""
        wanted = self.problem.size(self.batch) - self.done
        # Only some of the logged units will match, hence all available ones are tried.
        rows = slice(start, None if block.logged is not None else start + wanted)
        eligible = None if block.eligible is None else block.eligible[rows]
        contexts = Contexts(block.contexts[rows], self.problem, eligible)
        positions = np.arange(self.done, self.done + len(contexts))
        decision = self.policy.assign(self.state, contexts, block.draws[rows], positions)
        kept: Any = slice(None)
        read = len(contexts)
        if block.logged is not None:
            kept = np.flatnonzero(block.logged[rows] == decision.actions)[:wanted]
            # Units after the last one needed are left for the next batch.
            read = int(kept[-1]) + 1 if len(kept) == wanted else read
            # Decide again for the units that count, at their positions in the batch.
            contexts, draws = contexts.take(kept), block.draws[rows][kept]
            decision = self.policy.assign(self.state, contexts, draws, positions[: len(kept)])
        actions, means = decision.actions, block.means[rows][kept]
        require_eligible(
            type(self.policy).__name__, actions, decision.probabilities, contexts.eligible
        )
        gained = means[np.arange(len(actions)), actions]
        if self.batch <= self.learning or self.log is not None:
            vectors = contexts.chosen(actions)
            rewards = gained + of_actions(block.noise[rows][kept], actions)
            feedback = Feedback(vectors, actions, decision.groups, rewards)
            delay = None if block.delay is None else of_actions(block.delay[rows][kept], actions)
            times = self.known_when(len(actions), delay)
            if self.log is not None:
                self.log.add(contexts, decision, wave=self.batch)
                known = np.flatnonzero(times <= self.problem.batches)
                self.log.know(self.seen + known, rewards[known])
            self.learn(feedback, times)
        self.note(actions, gained, block.best[rows][kept] - gained)
        return read

    def known_when(self, units: int, delay: Floats | None) -> Integers:
        """Return the batch at whose end each outcome is known; M + 1 if too late, or never."""
        last = self.problem.batches
        batches = np.full(units, self.batch)
        if delay is not None:
            known = self.seen + 1 + np.arange(units) + delay
            batches = np.searchsorted(np.array(self.problem.ends), known) + 1
        return np.where(batches > last, batches, np.minimum(batches + self.grid.delay, last))

    def learn(self, feedback: Feedback, times: Integers) -> None:
        """Learn the outcomes that are known when the batch ends; keep those that come later."""
        for batch in np.unique(times[(times > self.batch) & (times <= self.learning)]):
            self.late.setdefault(int(batch), []).append(feedback.take(times == batch))
        if self.batch <= self.learning:
            now = times == self.batch
            self.state = self.policy.learn(
                self.state, feedback if now.all() else feedback.take(now)
            )

    def note(self, actions: Integers, gained: Floats, lost: Floats) -> None:
        """Add to the sums, and record the regret at checkpoints that were passed."""
        due = self.checkpoints[len(self.marks) :]
        due = due[due <= self.seen + len(actions)]
        if len(due):
            self.marks += (self.regret + np.cumsum(lost)[due - self.seen - 1]).tolist()
        self.counts[self.batch - 1] += np.bincount(actions, minlength=self.problem.actions)
        self.seen += len(actions)
        self.done += len(actions)
        self.regret += float(lost.sum())
        self.reward += float(gained.sum())

    def close(self) -> None:
        """End the batch and record the diagnostics."""
        if self.batch <= self.learning:
            for late in self.late.pop(self.batch, ()):
                self.state = self.policy.learn(self.state, late)
            self.state = self.policy.close(self.state)
            self.known = diagnostics(self.state, self.policy, self.theta)
            if self.log is not None:
                self.log.open(self.state)
        self.closed.append((self.seen, self.regret, self.reward, *self.known))
        self.batch, self.done = self.batch + 1, 0

    def trajectory(self, later: LaterUnits) -> Trajectory:
        learned = self.learning == self.problem.batches
        columns = [np.array(column) for column in zip(*self.closed, strict=True)]
        return Trajectory(
            ends=columns[0].astype(np.int64),
            regret=columns[1],
            reward=columns[2],
            counts=self.counts,
            error=columns[3],
            eigenvalue=columns[4],
            checkpoints=self.checkpoints,
            checkpoint_regret=np.array(self.marks),
            units_read=self.read,
            simple_regret=later.simple_regret(self.policy, self.state, self.problem)
            if learned
            else nan,
            rows=None if self.log is None else self.log.rows(),
        )
