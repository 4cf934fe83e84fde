"""The test problems of the policy checks, and calls that validate everything a policy returns.

Every call of a policy goes through a :class:`Case`, which validates the result. An error therefore
names the method that returned a wrong value, not the line that failed on it later.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqbatch import grids
from seqbatch.archive import comes_back, flatten
from seqbatch.checks.report import brief, named, raised_text
from seqbatch.core import Contexts, Layout, Problem
from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.errors import InvalidArgumentError, SeqbatchError
from seqbatch.learner import Learner
from seqbatch.policies import Decision, Feedback, Policy

Maker = Callable[[Problem], Policy]
LAYOUTS: tuple[Layout, ...] = ("shared", "disjoint", "block")
ACTIONS, DIM = 3, 4
FUNCTIONS = ("begin", "assign", "learn", "close")


class PolicyCheckError(SeqbatchError, AssertionError):
    """A policy broke a rule that every policy must keep."""


@dataclass(frozen=True)
class Case:
    """A problem with contexts and every action's rewards, and the policy to run on it."""

    policy: Policy
    grid: grids.Grid
    layout: Layout
    dim: int
    contexts: Floats
    rewards: Floats
    scale: float = 1.0

    @property
    def problem(self) -> Problem:
        """The problem."""
        return Problem(ends=self.grid.ends, actions=ACTIONS, dim=self.dim, layout=self.layout)

    def begin(self) -> Any:
        """Return the state before the first unit."""
        state = self._call("begin", self.problem)
        arrays, values = self._parts("begin", state)
        self.require(
            comes_back("state", state, arrays, values),
            f"begin must return a state that can be restored; returned {brief(state)}",
        )
        return state

    def assign(
        self, state: Any, contexts: Contexts, draws: Floats, positions: Integers
    ) -> Decision:
        """Decide, and validate every part of the decision."""
        decision = self._call("assign", state, contexts, draws, positions)
        self._validate(decision, len(contexts))
        return decision  # type: ignore[no-any-return]

    def decide(self, state: Any, rows: slice) -> tuple[Decision, Contexts]:
        """Decide for the given units of the case."""
        contexts = Contexts.of(self.contexts[rows], self.problem)
        draws = np.random.default_rng(3).random(len(contexts))
        return self.assign(state, contexts, draws, np.arange(len(contexts))), contexts

    def learn(self, state: Any, feedback: Feedback) -> Any:
        """Add feedback."""
        return self._next("learn", state, feedback)

    def close(self, state: Any) -> Any:
        """End the batch."""
        return self._next("close", state)

    def played(self) -> Any:
        """Return the state after one batch."""
        rows = next(self.batches())
        state = self.begin()
        decision, contexts = self.decide(state, rows)
        return self.close(self.learn(state, self.feedback(contexts, decision, rows)))

    def feedback(self, contexts: Contexts, decision: Decision, rows: slice) -> Feedback:
        """Return the feedback on a decision."""
        vectors = contexts.chosen(decision.actions)
        return Feedback(vectors, decision.actions, decision.groups, self.outcomes(rows, decision))

    def learner(self, seed: int = 5) -> Learner:
        """Return a new learner."""
        return Learner(
            self.policy, self.grid, actions=ACTIONS, dim=self.dim, layout=self.layout, seed=seed
        )

    def batches(self) -> Iterator[slice]:
        """Return the rows of each batch."""
        start = 0
        for end in self.grid.ends:
            yield slice(start, end)
            start = end

    def outcomes(self, rows: slice, decision: Decision) -> Floats:
        """Return the rewards of the chosen actions."""
        return self.rewards[rows][np.arange(len(decision)), decision.actions]

    def run(self, pieces: int = 1) -> list[Decision]:
        """Play the whole grid, passing each batch in `pieces` pieces."""
        learner, decisions = self.learner(), []
        for rows in self.batches():
            parts = np.array_split(np.arange(rows.start, rows.stop), pieces)
            batch = [learner.assign(self.contexts[part]) for part in parts]
            for part, decision in zip(parts, batch, strict=True):
                self._validate(decision, len(part))
            chosen = np.concatenate([decision.actions for decision in batch])
            learner.observe(self.rewards[rows][np.arange(len(chosen)), chosen])
            decisions += batch
        return decisions

    def require(self, condition: Any, complaint: str) -> None:
        """Raise an error unless the condition holds."""
        if not condition:
            raise self._broken(complaint)

    def _broken(self, complaint: str) -> PolicyCheckError:
        size = f", contexts and rewards of magnitude {self.scale:g}" if self.scale != 1 else ""
        return PolicyCheckError(f"{named(self.policy)} ({self.layout} layout{size}): {complaint}")

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self.policy, name)(*arguments)
        except Exception as error:
            raise self._broken(
                f"{name} must accept the arguments of every policy and raise nothing. "
                f"{raised_text(error)}."
            ) from error

    def _next(self, name: str, state: Any, *arguments: Any) -> Any:
        """Return the following state, which must have the same type and parts."""
        after = self._call(name, state, *arguments)
        self.require(
            type(after) is type(state),
            f"{name} must return the type that begin returns ({type(state).__name__}); returned "
            f"{brief(after)}",
        )
        arrays, values = self._parts(name, after)
        self.require(
            comes_back("state", state, arrays, values),
            f"{name} must return a state with the same parts; returned {brief(after)}",
        )
        return after

    def _parts(self, name: str, state: Any) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        arrays: dict[str, AnyArray] = {}
        values: dict[str, Any] = {}
        try:
            flatten("state", state, arrays, values)
        except InvalidArgumentError as error:
            raise self._broken(f"{name} must return a state that can be saved: {error}") from None
        return arrays, values

    def _validate(self, decision: Any, units: int) -> None:
        self.require(
            isinstance(decision, Decision),
            f"assign must return a Decision; returned {brief(decision)}",
        )
        for name in ("actions", "groups"):
            self._array(name, getattr(decision, name), "i", (units,))
        for name in ("probabilities", "scores", "means"):
            self._array(name, getattr(decision, name), "f", (units, ACTIONS))
        if decision.widths is not None:
            self._array("widths", decision.widths, "f", (units, ACTIONS))
        if not units:
            return
        lowest, highest = decision.actions.min(), decision.actions.max()
        self.require(
            lowest >= 0 and highest < ACTIONS,
            f"actions must be int64 between 0 and {ACTIONS - 1}; returned {lowest} to {highest}",
        )
        self._distribution(decision)

    def _array(self, name: str, value: Any, kind: str, shape: tuple[int, ...]) -> None:
        wanted = np.dtype(np.int64 if kind == "i" else np.float64)
        self.require(
            isinstance(value, np.ndarray) and value.dtype == wanted and value.shape == shape,
            f"{name} must be {wanted} of shape {shape}; returned {brief(value)}",
        )
        unknown = np.argwhere(~np.isfinite(value))
        if len(unknown):
            first = int(unknown[0, 0])
            raise self._broken(
                f"{name} must be finite; returned {value[first]} for unit {first} of a batch"
            )

    def _distribution(self, decision: Decision) -> None:
        shares = decision.probabilities
        taken = shares[np.arange(len(decision)), decision.actions]
        wrong = (shares < 0).any(axis=1) | ~np.isclose(shares.sum(axis=1), 1.0) | (taken <= 0)
        if wrong.any():
            unit = int(np.flatnonzero(wrong)[0])
            raise self._broken(
                "probabilities must be at least 0, sum to 1 and allow the chosen action; returned "
                f"{shares[unit]} with action {decision.actions[unit]} for unit {unit} of a batch",
            )


def cases(policy: Policy | Maker, scale: float = 1.0) -> Iterator[Case]:
    """Return a case in every layout that the policy does not refuse."""
    for layout in accepted(policy):
        random = np.random.default_rng(7)
        shape = (90, DIM) if layout == "block" else (90, ACTIONS, DIM)
        contexts = scale * random.standard_normal(shape) / np.sqrt(DIM)
        yield case_of(policy, layout, contexts, DIM, scale=scale)


def accepted(policy: Policy | Maker) -> tuple[Layout, ...]:
    """Return the layouts that `begin` does not refuse by name; all of them if it refuses all."""
    kept = tuple(layout for layout in LAYOUTS if not _refuses(policy, layout))
    return kept or LAYOUTS


def _refuses(policy: Policy | Maker, layout: Layout) -> bool:
    problem = Problem(ends=tuple(range(1, 91)), actions=ACTIONS, dim=DIM, layout=layout)
    try:
        made(policy, problem).begin(problem)
    except InvalidArgumentError as error:
        return error.name == "layout"
    except Exception:
        # Whatever else is wrong, the checks themselves say it.
        return False
    return False


def case_of(
    policy: Policy | Maker,
    layout: Layout,
    contexts: Floats,
    dim: int,
    scale: float = 1.0,
) -> Case:
    """Return a case with these contexts, on a grid that the policy accepts.

    Rewards are 0 or 1 if the policy has a true attribute `yes_no`.
    """
    numbers = np.random.default_rng(13).standard_normal((len(contexts), ACTIONS))
    for grid in (grids.explicit([40, 60, 90]), grids.online(units=90)):
        problem = Problem(ends=grid.ends, actions=ACTIONS, dim=dim, layout=layout)
        own = made(policy, problem)
        yes_no = getattr(own, "yes_no", False)
        rewards = (numbers > 0).astype(np.float64) if yes_no else scale * numbers
        case = Case(own, grid, layout, dim, _with_constant(own, contexts), rewards, scale)
        try:
            case.begin()
        except PolicyCheckError as error:
            # An online policy refuses the first grid and must accept the second.
            refused = getattr(error.__cause__, "name", None) == "grid"
            if not refused or grid.batches == grid.units:
                raise
            continue
        break
    return case


def _with_constant(policy: Policy, contexts: Floats) -> Floats:
    """Return the contexts, with ones in the column that the policy declares as constant."""
    column = getattr(policy, "constant", None)
    if not isinstance(column, int) or column >= contexts.shape[-1]:
        return contexts
    contexts = contexts.copy()
    contexts[..., column] = 1.0
    return contexts


def made(policy: Any, problem: Problem) -> Policy:
    """Return the policy, or the one that a function returns for the problem."""
    if not isinstance(policy, Policy) and callable(policy):
        policy = policy(problem)
    if not isinstance(policy, Policy):
        lacking = [name for name in FUNCTIONS if not hasattr(policy, name)]
        raise PolicyCheckError(
            f"{brief(policy)}: a policy must have begin, assign, learn and close, or be a function "
            f"that returns one; it lacks {' and '.join(lacking)}"
        )
    return policy
