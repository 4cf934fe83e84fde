"""The object that a user holds: a policy on a grid, with the batch rule enforced."""

import copy
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.archive import comes_back, flatten, unflatten
from seqbatch.core import Contexts, Estimate, Layout, Problem, arguments
from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.display import counted
from seqbatch.document import Table, shown
from seqbatch.errors import BatchRuleError, InvalidArgumentError, LearnerFileError
from seqbatch.grids import Grid
from seqbatch.output_files import atomically
from seqbatch.policies import Decision, Feedback, Policy, registry
from seqbatch.policies.choice import require_eligible

if TYPE_CHECKING:
    from seqbatch.allocation import Limits

FORMAT = 1
#: The learner's place in a seed's tree.
LEARNER = 0x5EB
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class _Pending:
    """Units of the open batch that were assigned and wait for their outcomes."""

    vectors: Floats
    actions: Integers
    groups: Integers


def draws_from(seed: int) -> np.random.Generator:
    """Return the generator of a learner's draws.

    It is a separate branch of the seed: contexts that a user draws from ``default_rng(seed)``
    must not be those that decide the actions.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(LEARNER,)))


def require_playable(policy: object, grid: object) -> None:
    """Refuse what is not a policy, or not a grid."""
    if isinstance(policy, type):
        raise InvalidArgumentError(
            "policy", f"an instance, as in {policy.__name__}()", f"the class {policy.__name__}"
        )
    if not isinstance(policy, Policy):
        raise InvalidArgumentError(
            "policy", "an object with begin, assign, learn and close", repr(policy)
        )
    if not isinstance(grid, Grid):
        raise InvalidArgumentError(
            "grid", "a Grid", repr(grid), "Use grids.explicit(ends) for ends of your own."
        )


class Learner:
    """Assign units batch by batch; learn when a batch's outcomes are all in.

    Everyone in a batch is assigned before any of its outcomes is seen. The learner enforces that:
    outcomes shown early, units past the batch's end and batches observed twice raise
    :class:`~seqbatch.errors.BatchRuleError`, and any call that raises changes nothing.

    Parameters
    ----------
    policy
        Which action a unit gets; see :mod:`seqbatch.policies`.
    grid
        When batches end; see :mod:`seqbatch.grids`.
    actions
        K, how many actions there are; they are numbered from 0.
    dim
        The length of one context vector: d in the shared layout, p in the other two.
    layout
        ``"shared"``: contexts (n, K, d), one parameter. ``"disjoint"``: contexts (n, K, p), one
        parameter per action. ``"block"``: contexts (n, p), one parameter per action.
    seed
        Where the policy's random draws start. The same seed gives the same decisions, however the
        units of a batch are handed over.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> from seqbatch.policies import RBGL
    >>> learner = Learner(
    ...     RBGL(first="uniform"), grids.explicit([4, 8]), actions=2, dim=1, layout="block", seed=6
    ... )
    >>> decision = learner.assign(np.ones((4, 1)))
    >>> decision.actions
    array([1, 1, 0, 1])
    >>> learner.observe([0.0, 0.0, 1.0, 0.0])
    >>> learner.batch, learner.units_left
    (2, 4)
    >>> learner  # doctest: +NORMALIZE_WHITESPACE
    <Learner: RBGL(first = uniform, ties = lowest, unknown = zero, ridge = 1.0), 2 actions;
    batch 2 of 2, 4 units left>
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
    ) -> None:
        require_playable(policy, grid)
        self.policy = policy
        self.grid = grid
        self.problem = Problem(ends=grid.ends, actions=actions, dim=dim, layout=layout)
        self.state: Any = policy.begin(self.problem)
        self._batch = 1
        self._pending: list[_Pending] = []
        self._waiting = 0
        self._random = draws_from(arguments.integer("seed", seed, at_least=0))

    def __repr__(self) -> str:
        where = "finished"
        if not self.finished:
            left = counted(self.units_left, "unit")
            where = f"batch {self.batch} of {self.grid.batches}, {left} left"
        policy = registry.text(registry.describe(self.policy))
        return f"<Learner: {policy}, {self.problem.actions} actions; {where}>"

    def tables(self) -> list[Table]:
        """Return the batches: their sizes, how many units are assigned, and which are closed."""
        rows = [
            (batch, size, self._assigned(batch), self._stage(batch))
            for batch, size in enumerate(self.grid.sizes, start=1)
        ]
        return [Table("Batches", ("batch", "size", "assigned", "state"), rows, words=("state",))]

    def _repr_html_(self) -> str:
        return shown(repr(self), self.tables())

    def _assigned(self, batch: int) -> int:
        whole = self.problem.size(batch) if batch < self._batch else 0
        return self._waiting if batch == self._batch else whole

    def _stage(self, batch: int) -> str:
        if batch == self._batch:
            return "open" if self.units_left else "waits for outcomes"
        return "closed" if batch < self._batch else "to come"

    @property
    def batch(self) -> int:
        """The number of the open batch, from 1; M + 1 when all are closed."""
        return self._batch

    @property
    def finished(self) -> bool:
        """Whether every batch was observed."""
        return self._batch > self.grid.batches

    @property
    def units_left(self) -> int:
        """How many units the open batch still takes; 0 when it waits for its outcomes."""
        return 0 if self.finished else self.problem.size(self._batch) - self._waiting

    @property
    def estimate(self) -> Estimate:
        """What the policy believes after the batches closed so far; a copy.

        Decisions use it as it is, except in SupSBUCB, whose stages each use their own.
        """
        summary = getattr(self.policy, "summary", None)
        if summary is None:
            raise InvalidArgumentError(
                "policy", "one that has summary(state)", type(self.policy).__name__
            )
        estimate: Estimate = summary(self.state)
        # Arrays can be written to, and the learner's own must not change from outside.
        return copy.deepcopy(estimate)

    def assign(
        self,
        contexts: ArrayLike,
        *,
        eligible: ArrayLike | None = None,
        capacity: "Limits | Mapping[int, int] | None" = None,
    ) -> Decision:
        """Decide for some units of the open batch, however many are there.

        Parameters
        ----------
        contexts
            (n, K, d), (n, K, p) or (n, p), according to the layout.
        eligible
            Which actions each unit may get: booleans (n, K), at least one True in each row. Choices
            and random draws are among these, and the others have probability 0. None: all of them.
        capacity
            How many of these units may get each action at most, as in ``{1: 500}``; or
            :class:`~seqbatch.allocation.Limits`, with lower limits and a budget. The limits hold
            surely, for the units of this call: a batch in several calls has limits for each. The
            probabilities are those by which actions were drawn under the limits, and the decision
            depends on which units are handed over together.

        Examples
        --------
        The second unit must not get action 1:

        >>> import numpy as np
        >>> from seqbatch import Learner, grids
        >>> from seqbatch.policies import UniformRandom
        >>> grid = grids.explicit([2])
        >>> learner = Learner(UniformRandom(), grid, actions=3, dim=1, layout="block")
        >>> may = np.array([[True, True, True], [True, False, True]])
        >>> learner.assign(np.ones((2, 1)), eligible=may).probabilities.round(2)
        array([[0.33, 0.33, 0.33],
               [0.5 , 0.  , 0.5 ]])

        One call can be made, and is made where it is worth most:

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
        # Brought in when first needed, as the rooms of the library are.
        from seqbatch.policies.capacity import limits_of, within

        limits = limits_of(capacity, self.problem.actions)
        return self._assign(checked, partial(within, limits=limits, eligible=checked.eligible))

    def _assign(
        self, checked: Contexts, limited: Callable[..., Decision] | None = None
    ) -> Decision:
        if self.finished:
            raise BatchRuleError(
                f"contexts: all {self.grid.batches} batches are closed; received {len(checked)} "
                "more units. Start a new learner to continue."
            )
        if len(checked) > self.units_left:
            raise BatchRuleError(
                f"contexts: batch {self._batch} has room for {self.units_left} more units; "
                f"received {len(checked)}. Assign the first {self.units_left}, observe the batch's "
                "outcomes, then continue with the rest."
            )
        positions = np.arange(self._waiting, self._waiting + len(checked))

        def decide(draws: Floats) -> tuple[Decision, _Pending]:
            made = self.policy.assign(self.state, checked, draws, positions)
            self._check_decision(made, checked)
            if limited is not None:
                made = limited(made, key=draws.tobytes())
            vectors = checked.chosen(made.actions)
            # Copies, because the decision is the caller's to change.
            return made, _Pending(vectors, made.actions.copy(), made.groups.copy())

        decision, waiting = self._with_draws(len(checked), decide)
        self._pending.append(waiting)
        self._waiting += len(checked)
        return decision

    def observe(self, rewards: ArrayLike) -> None:
        """Take the outcomes of the whole batch, in the order assigned, and close it.

        Parameters
        ----------
        rewards
            One number for each unit of the batch.
        """
        if self.finished:
            raise BatchRuleError(f"rewards: all {self.grid.batches} batches were observed already.")
        if self._waiting == 0:
            past = f"; batch {self._batch - 1} was observed already" if self._batch > 1 else ""
            raise BatchRuleError(
                f"rewards: no unit of batch {self._batch} is assigned yet{past}. Assign its "
                f"{self.units_left} units first."
            )
        if self.units_left:
            raise BatchRuleError(
                f"rewards: batch {self._batch} ends after {self.problem.size(self._batch)} units "
                f"and {self._waiting} are assigned. Assign the remaining {self.units_left} before "
                "showing any outcome."
            )
        checked = arguments.floats("rewards", rewards, (self._waiting,))
        waiting = self._joined()
        feedback = Feedback(waiting.vectors, waiting.actions, waiting.groups, checked)
        self.state = self.policy.close(self.policy.learn(self.state, feedback))
        self._pending, self._waiting = [], 0
        self._batch += 1

    def replay(
        self, contexts: ArrayLike, rewards: ArrayLike, *, eligible: ArrayLike | None = None
    ) -> Integers:
        """Play whole batches at once against the rewards of every action; return the actions.

        For data where every action's reward is known, such as labelled data. The learner sees only
        the chosen actions' rewards, at each batch's end, as if `assign` and `observe` were
        called batch by batch. SBUCB, SupSBUCB and LinUCB run as one compiled loop, which
        needs memory for one draw and one action per unit besides the arrays given.

        Parameters
        ----------
        contexts
            As for :meth:`assign`, for the open batch and any number of whole batches after it.
        rewards
            (n, K), the reward of every unit under every action.
        eligible
            As for :meth:`assign`.

        Examples
        --------
        >>> import numpy as np
        >>> from seqbatch import Learner, grids
        >>> from seqbatch.policies import LinUCB
        >>> learner = Learner(
        ...     LinUCB(gamma=1.0), grids.online(units=6), actions=2, dim=1, layout="block"
        ... )
        >>> learner.replay(np.ones((6, 1)), np.tile([0.0, 1.0], (6, 1)))
        array([0, 1, 1, 1, 1, 1])
        """
        checked = Contexts.of(contexts, self.problem, eligible=eligible)
        table = arguments.floats("rewards", rewards, (len(checked), self.problem.actions))
        if self._waiting:
            raise BatchRuleError(
                f"contexts: {self._waiting} units of batch {self._batch} still wait for their "
                "outcomes. Observe them first; a replay starts at the start of a batch."
            )
        seen = self.grid.ends[self._batch - 2] if self._batch > 1 else 0
        last = seen + len(checked)
        if (
            not len(checked)
            or last > self.grid.units
            or last != self.grid.ends[(final := self.grid.batch_of(last)) - 1]
        ):
            raise BatchRuleError(
                f"contexts: a replay must hold one or more whole batches; received "
                f"{len(checked)} units after {seen} of {self.grid.units}."
            )
        before = (self.state, self._batch, self._random.bit_generator.state)
        try:
            return self._replayed(checked, table, seen, final)
        except BaseException:
            self.state, self._batch, self._random.bit_generator.state = before
            self._pending, self._waiting = [], 0
            raise

    def _replayed(self, checked: Contexts, table: Floats, seen: int, final: int) -> Integers:
        # A subclass that changes a rule must not inherit a loop that does not know of it.
        compiled = vars(type(self.policy)).get("replay")
        if compiled is not None:
            self.state, actions = self._with_draws(
                len(checked), lambda draws: compiled(self.policy, self.state, checked, table, draws)
            )
            chances = np.zeros((len(checked), self.problem.actions))
            require_eligible(type(self.policy).__name__, actions, chances, checked.eligible)
            self._batch = final + 1
            return cast(Integers, actions)
        pieces = []
        for batch in range(self._batch, final + 1):
            start = self.grid.ends[batch - 1] - self.problem.size(batch) - seen
            rows = np.arange(start, self.grid.ends[batch - 1] - seen)
            decision = self._assign(checked.take(rows))
            self.observe(table[rows][np.arange(len(decision)), decision.actions])
            pieces.append(decision.actions)
        return np.concatenate(pieces)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to `path`, complete or not at all.

        The file is a NumPy archive of plain arrays and a JSON header. :meth:`load` continues bit
        for bit, also in the middle of a batch.
        """
        arrays: dict[str, AnyArray] = {}
        values: dict[str, Any] = {}
        flatten("state", self.state, arrays, values)
        if not comes_back("state", self.policy.begin(self.problem), arrays, values):
            raise InvalidArgumentError(
                "state",
                "of the same structure as the state that begin returned",
                type(self.state).__name__,
            )
        arrays["ends"] = np.asarray(self.grid.ends, dtype=np.int64)
        flatten("waiting", self._joined(), arrays, values)
        header = {
            "format": FORMAT,
            **_identity(self.policy),
            "actions": self.problem.actions,
            "dim": self.problem.dim,
            "layout": self.problem.layout,
            "batch": self._batch,
            "random": self._random.bit_generator.state,
            "values": values,
        }
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        # Through an open file, because NumPy would add .npz to a bare path.
        with atomically(path) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, policy: Policy | None = None) -> "Learner":
        """Read a learner that :meth:`save` wrote.

        Parameters
        ----------
        path
            The file.
        policy
            Needed for a policy that is not part of seqbatch: the same one that was saved.
        """
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(arrays.pop("header").tobytes())
            if header["format"] != FORMAT:
                raise LearnerFileError(
                    f"{path}: must be of format {FORMAT}; received format {header['format']}. "
                    "Read it with the version of seqbatch that wrote it."
                )
            return cls._restored(header, arrays, policy or _saved_policy(header, path), path)
        # The last of them where damage names a compression that there is not.
        except (
            OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError,
            NotImplementedError,
        ) as error:  # fmt: skip
            if isinstance(error, FileNotFoundError | PermissionError | LearnerFileError):
                raise
            raise LearnerFileError(
                f"{path}: must be a file that Learner.save wrote; reading it failed with "
                f"{type(error).__name__}: {error}."
            ) from error

    @classmethod
    def _restored(
        cls,
        header: dict[str, Any],
        arrays: dict[str, AnyArray],
        policy: Policy,
        path: str | os.PathLike[str],
    ) -> "Learner":
        identity = json.loads(json.dumps(_identity(policy)))
        if any(identity[name] != header[name] for name in identity):
            raise LearnerFileError(
                f"{path}: must be loaded with the policy it was saved with, "
                f"{header['policy']} with {header['parameters']}; received {policy!r}."
            )
        learner = cls(
            policy,
            Grid(tuple(arrays.pop("ends").tolist())),
            actions=header["actions"],
            dim=header["dim"],
            layout=header["layout"],
        )
        learner.state = unflatten("state", learner.state, arrays, header["values"])
        waiting = unflatten("waiting", learner._joined(), arrays, header["values"])
        learner._waiting = len(waiting.actions)
        learner._pending = [waiting] if learner._waiting else []
        learner._batch = header["batch"]
        learner._random.bit_generator.state = header["random"]
        return learner

    def _check_decision(self, decision: Decision, contexts: Contexts) -> None:
        """Refuse what a policy must not return, before any of it is kept."""
        units, actions, groups = len(contexts), decision.actions, decision.groups
        for name, array in (("actions", actions), ("groups", groups)):
            if array.shape != (units,) or array.dtype.kind != "i":
                raise InvalidArgumentError(
                    f"{type(self.policy).__name__}'s {name}",
                    f"{units} whole numbers",
                    f"{array.dtype} of shape {array.shape}",
                )
        if units and not (actions.min() >= 0 and actions.max() < self.problem.actions):
            raise InvalidArgumentError(
                f"{type(self.policy).__name__}'s actions",
                f"between 0 and {self.problem.actions - 1}",
                f"{actions.min()} to {actions.max()}",
            )
        require_eligible(
            type(self.policy).__name__, actions, decision.probabilities, contexts.eligible
        )

    def _with_draws(self, units: int, call: Callable[[Floats], _Result]) -> _Result:
        """Call with fresh draws; a call that fails uses none of them up."""
        before = self._random.bit_generator.state
        try:
            return call(self._random.random(units))
        except BaseException:
            self._random.bit_generator.state = before
            raise

    def _joined(self) -> _Pending:
        if len(self._pending) == 1:
            return self._pending[0]
        empty = _Pending(
            np.empty((0, self.problem.dim)), np.empty(0, np.int64), np.empty(0, np.int64)
        )
        pieces = [empty, *self._pending]
        return _Pending(
            np.concatenate([piece.vectors for piece in pieces]),
            np.concatenate([piece.actions for piece in pieces]),
            np.concatenate([piece.groups for piece in pieces]),
        )


def _identity(policy: Policy) -> dict[str, Any]:
    """Return what tells one policy from another, as it goes into a file's header."""
    parameters = registry.describe(policy)
    kind = parameters.pop("kind")
    try:
        json.dumps(parameters)
    except TypeError as error:
        raise InvalidArgumentError(
            "policy", "one whose parameters are numbers, strings or tuples of these", str(error)
        ) from None
    return {"module": type(policy).__module__, "policy": kind, "parameters": parameters}


def _saved_policy(header: dict[str, Any], path: str | os.PathLike[str]) -> Policy:
    name = header["policy"]
    ours = header["module"].startswith("seqbatch.policies.")
    if not ours or name not in registry.kinds():
        raise LearnerFileError(
            f"{path}: was saved with the policy {name}, which is not one of seqbatch's. Pass it: "
            f"Learner.load(path, policy={name}(...))."
        )
    return registry.make(name, **header["parameters"])
