"""All trials of a simulation in parallel on one device, batch by batch."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import Problem, Statistics
from seqbatch.core.arrays import AnyArray, Array, Floats, Integers, namespace
from seqbatch.environments import Environment, Instance
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.policies import Policy, registry
from seqbatch.policies.base import BasePolicy
from seqbatch.simulation.device import assignment
from seqbatch.simulation.device.assignment import Rules, greedy_actions
from seqbatch.simulation.device.backend import Backend, backend
from seqbatch.simulation.device.units import BlockSource, Maker, UnitBlock, in_halves, sources
from seqbatch.simulation.trajectory import Trajectory, problem_of, too_short

# ----------------------------------------------------------------------
# Assigning units of all trials and summing their outcomes.


#: Units per partial sum of products; more partial sums keep the device busier.
PIECE = 2_048


@dataclass(frozen=True)
class TrialSums:
    """Sums over units, with a leading axis of trials.

    Parameters
    ----------
    lost, gained
        Regret and mean reward, shape (trials,).
    counts
        How often each action was chosen, shape (trials, K).
    evidence
        Gram matrix, moment, squares and count of each model, as in
        :class:`~seqbatch.core.statistics.Statistics`; None if the units are not learned from.
    """

    lost: Array
    gained: Array
    counts: Array
    evidence: tuple[Array, Array, Array, Array] | None


def outcome(
    units: UnitBlock,
    part: slice,
    rules: Rules,
    problem: Problem,
    *,
    learn: bool,
    known: Array | None = None,
) -> TrialSums:
    """Assign units of a block and sum their outcomes, in one fused kernel if possible.

    `known` are the actions of these units if they are already known.
    """
    if units.fused is not None and units.fused.serves(rules):
        lost, gained, counts, evidence = units.fused(part, rules, learn=learn)
        return TrialSums(lost, gained, counts, evidence)
    if known is None:
        x = units.contexts[:, part]
        known = rules.actions(x, lambda: units.draws[:, part], problem)
    return summed(units, part, known, problem, learn=learn)


def summed(
    units: UnitBlock, part: slice, actions: Array, problem: Problem, *, learn: bool
) -> TrialSums:
    """Sum the outcomes of given actions, with array operations."""
    x, means = units.contexts[:, part], units.means[:, part]
    xp = namespace(x)
    gained = xp.take_along_axis(means, actions[..., None], axis=-1)[..., 0]
    numbers = xp.arange(problem.actions, device=actions.device)
    evidence = None
    if learn:
        noise = units.noise[:, part]
        if noise.ndim == 3:
            noise = xp.take_along_axis(noise, actions[..., None], axis=-1)[..., 0]
        evidence = evidence_of(_chosen(x, actions), actions, gained + noise, problem)
    return TrialSums(
        lost=xp.sum(units.best[:, part] - gained, axis=1),
        gained=xp.sum(gained, axis=1),
        counts=xp.sum(xp.astype(actions[..., None] == numbers, xp.int8), axis=1, dtype=xp.int64),
        evidence=evidence,
    )


def evidence_of(
    vectors: Array, actions: Array, rewards: Array, problem: Problem
) -> tuple[Array, Array, Array, Array]:
    """Return the statistics of units: their vectors (trials, n, dim), actions and rewards."""
    xp = namespace(vectors)
    if problem.models == 1:
        every = xp.full(rewards.shape, True, dtype=xp.bool, device=rewards.device)
        cells = [_cell(vectors, rewards, every)]
    else:
        cells = []
        for model in range(problem.models):
            own = actions == model
            x, y = xp.where(own[..., None], vectors, 0.0), xp.where(own, rewards, 0.0)
            cells.append(_cell(x, y, own))
    gram, moment, squares, count = (
        xp.stack(list(columns), axis=1) for columns in zip(*cells, strict=True)
    )
    return gram, moment, squares, count


def added(parts: Sequence[tuple[Array, ...]]) -> list[Array]:
    """Add the evidence of several parts of the units."""
    return [sum(columns[1:], columns[0]) for columns in zip(*parts, strict=True)]


def statistics(sums: Sequence[AnyArray], shape: Floats) -> Statistics:
    """Return the statistics of all trials from evidence on the host and the source's `shape`."""
    gram, moment, squares, count = sums
    turned = np.swapaxes(shape, -1, -2)[:, None] @ gram @ shape[:, None]
    cells, dim = count.size, gram.shape[-1]
    return Statistics(
        ((turned + np.swapaxes(turned, -1, -2)) / 2).reshape(cells, dim, dim),
        (moment @ shape).reshape(cells, dim),
        squares.reshape(cells),
        count.reshape(cells),
    )


def _cell(vectors: Array, rewards: Array, own: Array) -> tuple[Array, Array, Array, Array]:
    """Sum the units of one model; those of other models are zeros."""
    xp, dim = namespace(vectors), vectors.shape[2]
    # With the reward as one more column, one pass gives all sums of products.
    products = _products(xp.concat([vectors, rewards[..., None]], axis=-1))
    count = xp.sum(xp.astype(own, xp.int8), axis=1, dtype=xp.int64)
    return products[:, :dim, :dim], products[:, dim, :dim], products[:, dim, dim], count


def _products(rows: Array) -> Array:
    """Return the sums of x x', as partial sums that are added at the end."""
    xp = namespace(rows)
    trials, units, dim = rows.shape
    whole = units - units % PIECE
    rest = rows[:, whole:]
    result = xp.matrix_transpose(rest) @ rest
    if whole:
        pieces = rows[:, :whole].reshape(-1, PIECE, dim)
        parts = xp.matrix_transpose(pieces) @ pieces
        result = result + xp.sum(parts.reshape(trials, -1, dim, dim), axis=1)
    return result


def _chosen(x: Array, actions: Array) -> Array:
    """Return each unit's vector under its action, shape (trials, n, dim)."""
    if x.shape[2] == 1:
        return x[:, :, 0]
    return namespace(x).take_along_axis(x, actions[:, :, None, None], axis=2)[:, :, 0]


# ----------------------------------------------------------------------
# Runs: many trials of policies on grids.
#
# The device draws units, assigns them by the frozen rules and sums their outcomes. Everything else
# is the policies' own code, as in every other simulation: `begin`, `absorb`, `close`, estimation.


#: What a rule may ask of a device beyond scores; see :data:`seqbatch.policies.rule.EXTRAS`.
READS = ("shares", "untried")
#: Runs whose scores are computed together; with more, scores would take more memory than contexts.
SCORED = 8
#: The maximum number of pending eigenvalue computations.
WAITING = 32


def simulate_trials(
    runs: Sequence[tuple[Policy, Grid]],
    environment: Environment,
    *,
    seeds: Sequence[SeedSequence],
    checkpoints: Integers,
    device: str,
    learn_last: bool = True,
) -> list[list[Trajectory]]:
    """Return one trajectory per run for every seed, all runs on the seed's instance.

    Parameters
    ----------
    runs
        The policies and their grids.
    environment
        The source of units.
    seeds
        The seed of each trial. A trial's units do not depend on the other trials.
    checkpoints
        The units at which to record the regret.
    device
        See :func:`~seqbatch.simulation.device.backend.backend`.
    learn_last
        Whether to learn from the last batch.
    """
    played = []
    for policy, grid in runs:
        problem = problem_of(environment, grid)
        played.append((require_readable(policy, problem), problem))
    place = backend(device)
    instances = [environment.instance(seed) for seed in seeds]
    done: list[list[Trajectory]] = []
    greedy = all(
        policy.greedy and policy.preference(policy.begin(problem)).ties == "lowest"
        for policy, problem in played
    )

    def finished(make: Maker, part: Sequence[Instance]) -> list[list[Trajectory]]:
        found = _trajectories(
            played,
            [instance.theta for instance in part],
            make(part),
            place,
            checkpoints=checkpoints,
            learn_last=learn_last,
        )
        return [list(one) for one in zip(*found, strict=True)]

    for make, part in sources(instances, environment, place, greedy=greedy):
        done += in_halves(partial(finished, make), part, place)
    return done


def require_readable(policy: Policy, problem: Problem) -> BasePolicy:
    """Refuse a policy whose rule a device cannot read; return the others."""
    if registry.is_own(policy):
        reasons = policy.preference(policy.begin(problem)).beyond(reads=READS)
        if not reasons:
            return policy
    else:
        reasons = ["it is not part of this package, so its rule may be incomplete"]
    raise InvalidArgumentError(
        "method",
        "'auto' or 'direct' if a device cannot read the policy's rule as plain numbers",
        f"'device' with {type(policy).__name__}: {'; '.join(reasons)}",
    )


def _trajectories(
    runs: Sequence[tuple[BasePolicy, Problem]],
    thetas: Sequence[Floats | None],
    source: BlockSource,
    place: Backend,
    *,
    checkpoints: Integers,
    learn_last: bool,
) -> list[list[Trajectory]]:
    """Return the trajectories of every run, one per trial of the source."""
    going: dict[int, _Run] = {}
    with ThreadPoolExecutor(1) as aside:

        def played(some: Sequence[int]) -> None:
            shared = (thetas, checkpoints, learn_last, source, place, aside)
            with place.queue():
                for number in some:
                    policy, problem = runs[number]
                    going[number] = _Run(policy, problem, *shared)
                _play([going[number] for number in some], source)

        _side_by_side(played, _parts([problem.units for _, problem in runs], source))
        return [going[number].trajectories() for number in range(len(runs))]


def _parts(horizons: Sequence[int], source: BlockSource) -> list[list[int]]:
    """Return groups of runs that share units; without sharing, the longest runs are separate."""
    longest, long, short = max(horizons), list[int](), list[int]()
    for number, units in enumerate(horizons):
        (long if source.shared or units == longest else short).append(number)
    return [part for part in (long, short) if part]


def _side_by_side(play: Callable[[Sequence[int]], None], parts: Sequence[Sequence[int]]) -> None:
    """Play groups of runs on threads: the device serves one while another closes batches."""
    with ThreadPoolExecutor(max(len(parts) - 1, 1)) as others:
        waiting = [others.submit(play, part) for part in parts[1:]]
        play(parts[0])
        for one in waiting:
            one.result()


def _play(runs: Sequence["_Run"], source: BlockSource) -> None:
    """Feed every run with blocks until all are finished."""
    index = 0
    while waiting := [run for run in runs if not run.finished]:
        units = source.block(index)
        together = SCORED if units.fused is None else len(waiting)
        for start in range(0, len(waiting), together):
            _feed(waiting[start : start + together], units)
        index += 1
        # Only the last block of an environment is short.
        if len(units) < source.size and (late := [run for run in waiting if not run.finished]):
            raise too_short(late[0].problem, late[0].seen, late[0].seen)


def _feed(runs: Sequence["_Run"], units: UnitBlock) -> None:
    """Feed some runs in turn: the device serves the others while one closes a batch."""
    going = [(run, run.feed(units)) for run in runs]
    while going:
        if units.fused is None:
            _score([run for run, _ in going], units)
        going = [(run, turns) for run, turns in going if next(turns, None) is not None]


def _score(runs: Sequence["_Run"], units: UnitBlock) -> None:
    """Score the units of greedy runs with new rules together."""
    if runs[0].problem.layout != "shared":
        return
    fresh = [run for run in runs if run.rules.greedy and run.ready is None]
    parts = [run.ahead(units) for run in fresh]
    if len(parts) < 2:
        return
    low, high = min(part.start for part in parts), max(part.stop for part in parts)
    # If their batches lie apart, each run reads fewer contexts by itself.
    if high - low > sum(part.stop - part.start for part in parts):
        return
    found = greedy_actions(units.contexts[:, low:high], [run.rules for run in fresh])
    for run, actions in zip(fresh, found, strict=True):
        run.ready, run.since = actions, low


class _Run:
    """One policy on one grid, in all trials."""

    def __init__(
        self,
        policy: BasePolicy,
        problem: Problem,
        thetas: Sequence[Floats | None],
        checkpoints: Integers,
        learn_last: bool,
        source: BlockSource,
        place: Backend,
        aside: Executor,
    ) -> None:
        self.policy, self.problem = policy, problem
        self.thetas = _stacked(thetas, problem)
        self.learning = problem.batches if learn_last else problem.batches - 1
        self.shape, self.place = source.shape, place
        self.state = assignment.gathered(policy.begin(problem), len(thetas))
        self.checkpoints = checkpoints[checkpoints <= problem.units]
        self.due = set(self.checkpoints.tolist())
        self.seen, self.batch, self.done = 0, 1, 0
        self.regret, self.reward = place.zeros((len(thetas),)), place.zeros((len(thetas),))
        self.marks: list[Array] = []
        self.aside = aside
        self.error = np.full(len(thetas), np.nan)
        self.least: list[Future[Floats]] = []
        self.closed: list[tuple[Any, ...]] = []
        # Units of the current block already used; actions computed ahead, and their first unit.
        self.used, self.ready, self.since = 0, cast(Array | None, None), 0
        self.open()

    @property
    def finished(self) -> bool:
        return self.batch > self.problem.batches

    def open(self) -> None:
        """Move the batch's rules to the device."""
        rule = self.policy.rule(self.state)
        self.rules = Rules.of(rule, self.problem.models, self.place, self.shape)
        self.intervals = rule.parts(self.problem.size(self.batch))
        if self.batch > self.learning:
            self.intervals = []
        self.evidence: dict[int, list[tuple[Array, ...]]] = {}
        self.counts: Array = 0

    def ahead(self, units: UnitBlock) -> slice:
        """Return the next units of the block for the open batch."""
        wanted = self.problem.size(self.batch) - self.done
        return slice(self.used, min(self.used + wanted, len(units)))

    def feed(self, units: UnitBlock) -> Iterator[int]:
        """Use the block's units; yield where a batch ends and where the next one begins."""
        while self.used < len(units) and not self.finished:
            part = self.ahead(units)
            self.take(units, part)
            self.used = part.stop
            if self.done == self.problem.size(self.batch):
                arrived = self.place.sending(self.sums())
                yield self.batch
                self.close(arrived())
                # Rules that start together are scored together; a fused kernel needs no pause.
                if units.fused is None and self.used < len(units) and not self.finished:
                    yield self.batch
        self.used, self.ready = 0, None

    def take(self, units: UnitBlock, part: slice) -> None:
        """Assign units of the open batch and sum their outcomes."""
        for piece in self.pieces(part):
            place = self.done + piece.start - part.start
            group = next((g for g, low, high in self.intervals if low <= place < high), None)
            learn = group is not None
            known = None
            if self.ready is not None:
                known = self.ready[:, piece.start - self.since : piece.stop - self.since]
            found = outcome(units, piece, self.rules, self.problem, learn=learn, known=known)
            if group is not None and found.evidence is not None:
                self.evidence.setdefault(group, []).append(found.evidence)
            self.regret, self.reward = self.regret + found.lost, self.reward + found.gained
            self.counts = self.counts + found.counts
            if self.seen + piece.stop - part.start in self.due:
                self.marks.append(self.regret)
        units_taken = part.stop - part.start
        self.seen, self.done = self.seen + units_taken, self.done + units_taken

    def pieces(self, part: slice) -> list[slice]:
        """Split units of a block where another group or a checkpoint begins."""
        bounds = [bound - self.done for _, *both in self.intervals for bound in both]
        bounds += [mark - self.seen for mark in self.due]
        units = part.stop - part.start
        cuts = sorted({0, units, *(bound for bound in bounds if 0 < bound < units)})
        return [slice(part.start + low, part.start + high) for low, high in pairwise(cuts)]

    def sums(self) -> list[Array]:
        """Return regret, reward and counts so far, and each group's evidence."""
        evidence = [each for parts in self.evidence.values() for each in added(parts)]
        return [self.regret, self.reward, self.counts, *evidence]

    def close(self, sums: Sequence[AnyArray]) -> None:
        """End the batch: pass every trial's sums to the policy, and record diagnostics."""
        sofar, evidence = sums[:3], sums[3:]
        if self.batch <= self.learning:
            for place, group in enumerate(self.evidence):
                learned = statistics(evidence[4 * place : 4 * place + 4], self.shape)
                self.state = self.policy.absorb(self.state, group, learned)
            self.state = self.policy.close(self.state)
            if self.thetas is not None:
                self.error = assignment.errors(self.state, self.policy, self.thetas)
            self.start_eigenvalues()
        self.closed.append((*sofar, self.error))
        self.batch, self.done = self.batch + 1, 0
        # Precomputed actions belong to the previous rule.
        self.ready = None
        if not self.finished:
            self.open()

    def start_eigenvalues(self) -> None:
        """Compute the smallest eigenvalues of the design in the background."""
        gram = np.sum([part.gram for part in self.state.evidence], axis=0)
        if len(self.least) >= WAITING:
            # Pending computations hold memory.
            self.least[-WAITING].result()
        self.least.append(
            self.aside.submit(assignment.least_eigenvalues, gram, self.problem.models)
        )

    def eigenvalues(self) -> Floats:
        """Return each trial's smallest eigenvalue after each batch, repeating the last known."""
        trials = len(self.error)
        found = [one.result() for one in self.least] or [np.full(trials, np.nan)]
        return np.stack([found[min(batch, len(found) - 1)] for batch in range(len(self.closed))], 1)

    def trajectories(self) -> list[Trajectory]:
        regret, reward, counts, error = (
            np.stack(column, axis=1) for column in zip(*self.closed, strict=True)
        )
        eigenvalue, trials = self.eigenvalues(), len(self.error)
        marks = np.zeros((trials, 0))
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
            for trial in range(trials)
        ]


def _stacked(thetas: Sequence[Floats | None], problem: Problem) -> Floats | None:
    """Return the trials' parameters as one array, or None if any is unknown."""
    known = [theta for theta in thetas if theta is not None]
    if len(known) < len(thetas):
        return None
    return np.stack(known).reshape(len(thetas), problem.models, problem.dim)
