"""The Learner: assigns units and learns batch by batch, and enforces the batch rule."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.awaited_units import AwaitedUnits, LateOutcomes, OutcomeRecord
from seqbatch.batch_progress import BatchProgress
from seqbatch.core import Contexts, Estimate, Layout, Problem, arguments
from seqbatch.core.arrays import Floats, Integers
from seqbatch.display import counted
from seqbatch.document import Table, shown
from seqbatch.errors import BatchRuleError, InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.learner_file import LearnerFile, refusing_others
from seqbatch.policies import Decision, Feedback, Policy, registry
from seqbatch.policies.choice import require_eligible
from seqbatch.unit_log import UnitLog

if TYPE_CHECKING:
    from seqbatch.allocation import Limits
    from seqbatch.inference import Rows

#: The learner's branch of the seed tree.
LEARNER = 0x5EB
_Result = TypeVar("_Result")


def draws_from(seed: int) -> np.random.Generator:
    """Return the random number generator of a learner's draws.

    It uses a separate branch of the seed: contexts that you draw from ``default_rng(seed)`` must
    not coincide with the draws that decide the actions.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(LEARNER,)))


def require_playable(policy: object, grid: object) -> None:
    """Check that the arguments are a policy and a grid."""
    if isinstance(policy, type):
        raise InvalidArgumentError(
            "policy",
            f"an instance, for example {policy.__name__}()",
            f"the class {policy.__name__}",
        )
    if not isinstance(policy, Policy):
        raise InvalidArgumentError(
            "policy", "an object with begin, assign, learn and close", repr(policy)
        )
    if not isinstance(grid, Grid):
        raise InvalidArgumentError(
            "grid", "a Grid", repr(grid), "Use grids.explicit(ends) for a list of ends."
        )


class Learner:
    """Assign units batch by batch; learn when a batch is over.

    All units of a batch are assigned before any of its outcomes is seen, and the learner enforces
    this: early outcomes, units beyond the batch's end and batches observed twice raise
    :class:`~seqbatch.errors.BatchRuleError`. A call that raises changes nothing.

    Parameters
    ----------
    policy
        The policy, which decides the action of each unit; see :mod:`seqbatch.policies`.
    grid
        The grid, which determines when batches end; see :mod:`seqbatch.grids`.
    actions
        K, the number of actions, which are numbered from 0.
    dim
        The length of one context vector: d in the shared layout, p in the other two.
    layout
        ``"shared"``: contexts (n, K, d), one parameter. ``"disjoint"``: contexts (n, K, p), one
        parameter per action. ``"block"``: contexts (n, p), one parameter per action.
    seed
        The seed of the policy's random draws. The same seed gives the same decisions, in whatever
        pieces you assign a batch.
    keep_log
        Whether to keep contexts, probabilities and outcomes of all units, for :meth:`log`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> from seqbatch.policies import RBGL
    >>> learner = Learner(
    ...     RBGL(), grids.explicit([4, 8]), actions=2, dim=1, layout="block", seed=6
    ... )
    >>> decision = learner.assign(np.ones((4, 1)))
    >>> decision.actions
    array([1, 1, 0, 1])
    >>> learner.observe([0.0, 0.0, 1.0, 0.0])
    >>> learner.batch, learner.units_left
    (2, 4)
    >>> learner
    <Learner: RBGL, 2 actions; batch 2 of 2, 4 units left>
    >>> learner.assign(np.ones((4, 1))).actions
    array([0, 0, 0, 0])
    """

    def __init__(
        self,
        policy: Policy,
        grid: Grid,
        *,
        actions: int,
        dim: int,
        layout: Layout = "shared",
        seed: int = 0,
        keep_log: bool = False,
    ) -> None:
        require_playable(policy, grid)
        self.policy = policy
        self.grid = grid
        self.problem = Problem(ends=grid.ends, actions=actions, dim=dim, layout=layout)
        self.state: Any = policy.begin(self.problem)
        self._at = BatchProgress(grid)
        #: Units of batches that are not observed, and those of observed batches whose outcomes are
        #: missing.
        self._pending: list[AwaitedUnits] = []
        self._missing = AwaitedUnits.none(dim)
        nothing = np.empty(0, dtype=np.int64)
        self._late = LateOutcomes(nothing, nothing)
        if not isinstance(keep_log, bool):
            raise InvalidArgumentError("keep_log", "True or False", repr(keep_log))
        self._log = UnitLog(policy, self.problem) if keep_log else None
        self._open()
        self._random = draws_from(arguments.integer("seed", seed, at_least=0))

    def __repr__(self) -> str:
        where = "finished"
        if not self.finished:
            left = counted(self.units_left, "unit")
            where = f"batch {self.batch} of {self.grid.batches}, {left} left"
        policy = registry.text(registry.describe(self.policy))
        return f"<Learner: {policy}, {self.problem.actions} actions; {where}>"

    def tables(self) -> list[Table]:
        """Return the batches as a table: size, number of assigned units, and state."""
        return self._at.tables()

    def _repr_html_(self) -> str:
        return shown(repr(self), self.tables())

    @property
    def batch(self) -> int:
        """The number of the open batch, from 1; M + 1 when all are closed."""
        return self._at.batch

    @property
    def finished(self) -> bool:
        """Whether every batch has been observed."""
        return self._at.finished

    @property
    def units_left(self) -> int:
        """The number of units that the open batch still accepts; 0 while it awaits outcomes."""
        return self._at.units_left

    @property
    def estimate(self) -> Estimate:
        """The policy's estimate after the batches closed so far, as a copy.

        Decisions use this estimate, except in SupSBUCB, where each stage has its own.
        """
        summary = getattr(self.policy, "summary", None)
        if summary is None:
            raise InvalidArgumentError(
                "policy", "one that has summary(state)", type(self.policy).__name__
            )
        estimate: Estimate = summary(self.state)
        # A copy: the caller may write to its arrays.
        return copy.deepcopy(estimate)

    @property
    def record(self) -> OutcomeRecord:
        """When each unit was assigned, and at the end of which batch its outcome was used."""
        return OutcomeRecord.of(self._at.sizes, self._at.used, self._missing, self._late)

    def log(self) -> Rows:
        """Return all units so far as rows for :mod:`seqbatch.inference`, with their batches.

        Features are a constant and the contexts, standardised; in the shared and disjoint layouts
        those of all actions. Outcomes that are not known are NaN.

        Examples
        --------
        >>> from seqbatch import Learner, grids
        >>> from seqbatch.inference import evaluate
        >>> from seqbatch.policies import UniformRandom
        >>> learner = Learner(
        ...     UniformRandom(), grids.explicit([60, 120]), actions=2, dim=1, layout="block",
        ...     keep_log=True,
        ... )
        >>> for _ in range(2):
        ...     learner.observe(learner.assign(np.ones((60, 1))).actions * 2.0)
        >>> round(evaluate(learner.log(), 1).doubly_robust.estimate, 2)
        2.0
        """
        if self._log is None or not len(self._log):
            received = "a learner without one" if self._log is None else "no unit so far"
            raise InvalidArgumentError(
                "log", "of a Learner(..., keep_log=True) that has assigned units", received
            )
        return self._log.rows()

    def assign(
        self,
        contexts: ArrayLike,
        *,
        eligible: ArrayLike | None = None,
        capacity: Limits | Mapping[int, int] | None = None,
    ) -> Decision:
        """Decide for any number of units of the open batch.

        Parameters
        ----------
        contexts
            (n, K, d), (n, K, p) or (n, p), according to the layout.
        eligible
            Which actions each unit may get: booleans (n, K), at least one True per row. Choices and
            random draws are restricted to these; the others have probability 0. None means all.
        capacity
            The maximum number of these units that may get each action, for example ``{1: 500}``; or
            :class:`~seqbatch.allocation.Limits`, with minimum numbers and a budget. The limits
            always hold, for the units of this call: if you assign a batch in several calls, each
            has its own limits. The decision's probabilities are those under the limits, and
            depend on which units are assigned together.

        Examples
        --------
        The second unit may not get action 1:

        >>> import numpy as np
        >>> from seqbatch import Learner, grids
        >>> from seqbatch.policies import UniformRandom
        >>> grid = grids.explicit([2])
        >>> learner = Learner(UniformRandom(), grid, actions=3, dim=1, layout="block")
        >>> may = np.array([[True, True, True], [True, False, True]])
        >>> learner.assign(np.ones((2, 1)), eligible=may).probabilities.round(2)
        array([[0.33, 0.33, 0.33],
               [0.5 , 0.  , 0.5 ]])

        Only one unit can get action 1; it goes to the unit with the highest gain:

        >>> from seqbatch.policies import Oracle
        >>> oracle = Oracle(theta=[[0.0], [1.0]])
        >>> learner = Learner(oracle, grids.explicit([3]), actions=2, dim=1, layout="block")
        >>> decision = learner.assign([[1.0], [5.0], [2.0]], capacity={1: 1})
        >>> decision.actions
        array([0, 1, 0])
        >>> bool(2 <= decision.prices[1] <= 5)
        True
        """
        checked = Contexts.of(contexts, self.problem, eligible=eligible)
        if capacity is None:
            return self._assign(checked)
        # Imported on first use, like the other subpackages.
        from seqbatch.policies.capacity import limits_of, within

        limits = limits_of(capacity, self.problem.actions)
        return self._assign(checked, partial(within, limits=limits, eligible=checked.eligible))

    def _assign(
        self, checked: Contexts, limited: Callable[..., Decision] | None = None
    ) -> Decision:
        self._at.require_room(len(checked))
        positions = np.arange(self._at.waiting, self._at.waiting + len(checked))

        def decide(draws: Floats) -> tuple[Decision, AwaitedUnits]:
            decision = self.policy.assign(self.state, checked, draws, positions)
            decision.require_sound(type(self.policy).__name__, checked)
            if limited is not None:
                decision = limited(decision, key=draws.tobytes())
            vectors = checked.chosen(decision.actions)
            # Copies, because the caller may modify the decision.
            kept = (vectors, decision.actions.copy(), decision.groups.copy())
            return decision, AwaitedUnits(self._at.before(self._at.batch) + positions, *kept)

        decision, waiting = self._with_draws(len(checked), decide)
        count = self._at.waiting + len(checked)
        state, closes = self.state, self._at.closes(assigned=count, observed=self._at.observed)
        if closes:
            state = self.policy.close(state)
        self._pending.append(waiting)
        if self._log is not None:
            self._log.add(checked, decision, wave=self._at.batch, limited=limited is not None)
        self.state = state
        self._at.move(assigned=count, closes=closes)
        if closes:
            self._open()
        return decision

    def _open(self) -> None:
        """Log the state in which a batch opens."""
        if self._log is not None:
            self._log.open(self.state)

    def recommend(self, contexts: ArrayLike, *, eligible: ArrayLike | None = None) -> Floats:
        """Return what units after the last batch would get: the probability of each action (n, K).

        The rule is the policy's last one: the highest estimated mean, without exploration.

        Parameters
        ----------
        contexts, eligible
            As for :meth:`assign`, for any number of units.

        Examples
        --------
        >>> import numpy as np
        >>> from seqbatch import Learner, grids
        >>> from seqbatch.policies import UniformRandom
        >>> grid = grids.explicit([60])
        >>> learner = Learner(UniformRandom(), grid, actions=2, dim=1, layout="block")
        >>> learner.observe(learner.assign(np.ones((60, 1))).actions * 2.0)
        >>> learner.recommend([[1.0], [-1.0]])
        array([[0., 1.],
               [1., 0.]])
        """
        recommended = getattr(self.policy, "recommended", None)
        if recommended is None:
            rule = "one that has recommended(state, contexts)"
            raise InvalidArgumentError("policy", rule, type(self.policy).__name__)
        checked = Contexts.of(contexts, self.problem, eligible=eligible)
        shares: Floats = recommended(self.state, checked)
        return shares

    def observe(
        self, rewards: ArrayLike | None = None, *, late: Mapping[int, float] | None = None
    ) -> None:
        """Observe the outcomes of the whole batch, in the order of assignment, and close it.

        With a grid whose outcomes come batches later, these are the outcomes of the earliest batch
        that is not observed, and the open batch may be another one. They are used at its end.

        Parameters
        ----------
        rewards
            One number per unit of the batch; NaN, or None in a list, where the outcome is not known
            yet, or never will be.
        late
            Outcomes of units of earlier batches that are known only now, by the unit's number in
            the order of assignment over all batches, from 0. With `rewards` they are used at the
            end of this batch; alone, at the end of the open batch, which stays open.

        Examples
        --------
        >>> import numpy as np
        >>> from seqbatch import Learner, grids
        >>> from seqbatch.policies import RBGL
        >>> grid = grids.explicit([3, 6])
        >>> learner = Learner(RBGL(), grid, actions=2, dim=1, layout="block")
        >>> decision = learner.assign(np.ones((3, 1)))
        >>> learner.observe([1.0, np.nan, np.nan])
        >>> learner.record.awaited
        array([1, 2])
        >>> learner.observe(late={2: 0.5})
        >>> learner.record.used
        array([1, 0, 2])
        """
        if rewards is None and late is None:
            raise InvalidArgumentError("rewards", "given, or late outcomes, or both", "neither")
        if rewards is None:
            self.state, self._missing, self._late = self._with_late(late or {})
            self._log_late(late or {})
            return
        batch = self._at.next_observed()
        if isinstance(rewards, list | tuple):
            rewards = [np.nan if reward is None else reward for reward in rewards]
        size = self.problem.size(batch)
        values = arguments.numeric("rewards", rewards)
        missing = np.isnan(values)
        some = bool(missing.any())
        checked = arguments.floats(
            "rewards", np.where(missing, 0.0, values) if some else values, (size,)
        )
        pending = self._joined()
        waiting, rest = pending.take(slice(size)), pending.take(slice(size, None))
        state, awaited, known_late = self._with_late(late or {})
        if some:
            awaited = AwaitedUnits.joined([awaited, waiting.take(missing)])
            waiting, checked = waiting.take(~missing), checked[~missing]
        state = self._learned(state, waiting, checked)
        closes = self._at.closes(assigned=self._at.waiting, observed=batch)
        self.state = self.policy.close(state) if closes else state
        self._missing, self._late = awaited, known_late
        self._pending = [rest] if len(rest) else []
        self._at.used.append(self._at.batch)
        if self._log is not None:
            self._log.know(waiting.units, checked)
        self._log_late(late or {})
        if closes:
            self._at.move(assigned=0, closes=True)
            self._open()

    def _log_late(self, late: Mapping[int, float]) -> None:
        if self._log is not None and late:
            self._log.know(np.array(list(late)), np.array(list(late.values()), dtype=np.float64))

    def _learned(self, state: Any, units: AwaitedUnits, rewards: Floats) -> Any:
        """Return the state with the outcomes of these units."""
        if not len(units):
            return state
        return self.policy.learn(
            state, Feedback(units.vectors, units.actions, units.groups, rewards)
        )

    def _with_late(self, late: Mapping[int, float]) -> tuple[Any, AwaitedUnits, LateOutcomes]:
        """Return the state with late outcomes, and what is still missing and was late with them."""
        if not late:
            return self.state, self._missing, self._late
        if self.finished:
            raise BatchRuleError(
                f"late: all {self.grid.batches} batches are closed, and no decision would use "
                f"these outcomes; received {len(late)}. Pass them with the last batch's rewards.",
                code="finished",
                field="late",
            )
        units = np.array([arguments.integer("late", unit, at_least=0) for unit in late])
        rewards = arguments.floats("late", list(late.values()), (len(units),))
        unknown = units[~np.isin(units, self._missing.units)]
        if len(unknown):
            raise InvalidArgumentError(
                "late",
                "outcomes of units of closed batches that were NaN until now",
                f"one of unit {unknown[0]}",
                "learner.record.awaited are their numbers.",
            )
        order = np.argsort(self._missing.units)
        rows = order[np.searchsorted(self._missing.units, units, sorter=order)]
        state = self._learned(self.state, self._missing.take(rows), rewards)
        rest = np.delete(np.arange(len(self._missing)), rows)
        return state, self._missing.take(rest), self._late.plus(units, self._at.batch)

    def replay(
        self, contexts: ArrayLike, rewards: ArrayLike, *, eligible: ArrayLike | None = None
    ) -> Integers:
        """Play whole batches at once against the rewards of every action; return the actions.

        Use it on data in which every action's reward is known, such as labelled data. The learner
        sees only the rewards of the chosen actions, at the end of each batch, as if you called
        `assign` and `observe` batch by batch. SBUCB, SupSBUCB and LinUCB run as one compiled loop,
        which needs memory for one draw and one action per unit besides the given arrays.

        Parameters
        ----------
        contexts
            As for :meth:`assign`: the open batch and any number of whole batches after it.
        rewards
            The reward of every unit under every action, (n, K).
        eligible
            As for :meth:`assign`.

        Examples
        --------
        >>> import numpy as np
        >>> from seqbatch import Learner, grids
        >>> from seqbatch.policies import LinUCB
        >>> learner = Learner(
        ...     LinUCB(gamma=1.0, first="fixed"), grids.online(units=6), actions=2, dim=1,
        ...     layout="block",
        ... )
        >>> learner.replay(np.ones((6, 1)), np.tile([0.0, 1.0], (6, 1)))
        array([0, 1, 1, 1, 1, 1])
        """
        checked = Contexts.of(contexts, self.problem, eligible=eligible)
        table = arguments.floats("rewards", rewards, (len(checked), self.problem.actions))
        if awaited := len(self._joined()):
            raise BatchRuleError(
                f"contexts: {awaited} units up to batch {self._at.batch} still await their "
                "outcomes. Observe them first; a replay begins at the start of a batch.",
                code="awaiting-outcomes",
                field="contexts",
            )
        seen, final = self._at.before(self._at.batch), self._at.last_of(len(checked))
        before = (self.state, self._at.batch, self._random.bit_generator.state)
        observed, log = self._at.observed, None if self._log is None else self._log.copy()
        try:
            return self._replayed(checked, table, seen, final)
        except BaseException:
            self.state, self._at.batch, self._random.bit_generator.state = before
            del self._at.used[observed:]
            self._log = log
            self._pending, self._at.waiting = [], 0
            raise

    def _replayed(self, checked: Contexts, table: Floats, seen: int, final: int) -> Integers:
        # A subclass that changes a rule must not inherit a compiled loop without that change, and
        # loops know the published estimates alone.
        published = getattr(self.policy, "published", True)
        plain = published and not self.grid.delay and self._log is None
        compiled = vars(type(self.policy)).get("replay") if plain else None
        if compiled is not None:
            self.state, actions = self._with_draws(
                len(checked), lambda draws: compiled(self.policy, self.state, checked, table, draws)
            )
            chances = np.zeros((len(checked), self.problem.actions))
            require_eligible(type(self.policy).__name__, actions, chances, checked.eligible)
            self._at.used += range(self._at.batch, final + 1)
            self._at.batch = final + 1
            return cast(Integers, actions)
        actions = np.empty(len(checked), dtype=np.int64)
        for batch in range(self._at.batch, final + 1):
            rows = self._rows(batch, seen)
            actions[rows] = self._assign(checked.take(rows)).actions
            for known in range(self._at.observed + 1, batch + 1):
                if self.grid.known(known) <= batch:
                    due = self._rows(known, seen)
                    self.observe(table[due, actions[due]])
        return actions

    def _rows(self, batch: int, seen: int) -> Integers:
        """Return the numbers of a batch's units, after the `seen` first units."""
        return np.arange(self._at.before(batch), self.grid.ends[batch - 1]) - seen

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to `path`, completely or not at all.

        The file is a NumPy archive of plain arrays with a JSON header. After :meth:`load` the
        learner continues bit for bit, even in the middle of a batch.
        """
        place = {
            "actions": self.problem.actions,
            "dim": self.problem.dim,
            "layout": self.problem.layout,
            "ends": self.grid.ends,
            "delay": self.grid.delay,
            "batch": self._at.batch,
            "used": self._at.used,
            "waiting": self._at.waiting,
            "log": self._log is not None,
            "opened": self._log and self._log.opened and len(self._log.opened),
            "random": self._random.bit_generator.state,
        }
        begun = self.policy.begin(self.problem)
        LearnerFile.of(self.policy, place, self._kept(), begun=begun).write(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, policy: Policy | None = None) -> Learner:
        """Read a learner that :meth:`save` wrote.

        Parameters
        ----------
        path
            The file.
        policy
            The saved policy; required if it is not part of seqbatch.
        """
        with refusing_others(path):
            file = LearnerFile.read(path)
            return cls._restored(file, file.policy(path, policy))

    @classmethod
    def _restored(cls, file: LearnerFile, policy: Policy) -> Learner:
        header = file.header
        learner = cls(
            policy,
            Grid(tuple(header["ends"]), header["delay"]),
            actions=header["actions"],
            dim=header["dim"],
            layout=header["layout"],
            keep_log=header["log"],
        )
        if learner._log is not None:
            opened = header["opened"]
            learner._log.opened = None if opened is None else (learner.state,) * opened
        kept = file.kept(learner._kept())
        learner.state, waiting = kept["state"], kept["waiting"]
        learner._missing, learner._late = kept["missing"], kept["late"]
        if learner._log is not None:
            learner._log.opened = kept["opened"]
            learner._log.pieces = [kept["log"]] if len(kept["log"].actions) else []
        learner._pending = [waiting] if len(waiting) else []
        learner._at = BatchProgress(
            learner.grid, header["batch"], header["waiting"], header["used"]
        )
        learner._random.bit_generator.state = header["random"]
        return learner

    def _with_draws(self, units: int, call: Callable[[Floats], _Result]) -> _Result:
        """Call with new random draws; if the call fails, restore the generator."""
        before = self._random.bit_generator.state
        try:
            return call(self._random.random(units))
        except BaseException:
            self._random.bit_generator.state = before
            raise

    def _joined(self) -> AwaitedUnits:
        return AwaitedUnits.joined(self._pending or [AwaitedUnits.none(self.problem.dim)])

    def _kept(self) -> dict[str, Any]:
        """Return what a file keeps."""
        kept = {
            "state": self.state,
            "waiting": self._joined(),
            "missing": self._missing,
            "late": self._late,
        }
        if self._log is None:
            return kept
        return {**kept, "log": self._log.units, "opened": self._log.opened}
