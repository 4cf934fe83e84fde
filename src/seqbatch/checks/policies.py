"""Rules that every policy keeps.

Policies are handed over as an instance, or as a function from a
:class:`~seqbatch.core.problem.Problem` to an instance where the settings depend on it.
"""

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqbatch import grids
from seqbatch.core import Contexts, Layout, Problem
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError, RankDeficiencyWarning, SeqbatchError
from seqbatch.learner import Learner
from seqbatch.policies import Decision, Feedback, Oracle, Policy, registry

Maker = Callable[[Problem], Policy]
LAYOUTS: tuple[Layout, ...] = ("shared", "disjoint", "block")
ACTIONS, DIM = 3, 4


class PolicyCheckError(SeqbatchError, AssertionError):
    """A policy broke a rule that every policy keeps."""


@dataclass(frozen=True)
class _Case:
    """One problem with contexts and every action's rewards, and a policy to run on it."""

    policy: Policy
    grid: grids.Grid
    layout: Layout
    dim: int
    contexts: Floats
    rewards: Floats

    @property
    def problem(self) -> Problem:
        return Problem(ends=self.grid.ends, actions=ACTIONS, dim=self.dim, layout=self.layout)

    def learner(self, seed: int = 5) -> Learner:
        return Learner(
            self.policy,
            self.grid,
            actions=ACTIONS,
            dim=self.dim,
            layout=self.layout,
            seed=seed,
        )

    def batches(self) -> Iterator[slice]:
        start = 0
        for end in self.grid.ends:
            yield slice(start, end)
            start = end

    def outcomes(self, rows: slice, decision: Decision) -> Floats:
        return self.rewards[rows][np.arange(len(decision)), decision.actions]

    def run(self, pieces: int = 1) -> list[Decision]:
        """Play the whole grid, each batch handed over in pieces."""
        learner, decisions = self.learner(), []
        for rows in self.batches():
            parts = np.array_split(np.arange(rows.start, rows.stop), pieces)
            batch = [learner.assign(self.contexts[part]) for part in parts]
            chosen = np.concatenate([decision.actions for decision in batch])
            learner.observe(self.rewards[rows][np.arange(len(chosen)), chosen])
            decisions += batch
        return decisions


def check_actions_and_probabilities(policy: Policy | Maker) -> None:
    """Actions are among 0..K-1; probabilities are a distribution that allows the action taken."""
    for case in _cases(policy):
        # The second state is made only once the first decision was found in order.
        for make in (lambda case: case.policy.begin(case.problem), _played):
            decision, _ = _assign(case, make(case), next(case.batches()))
            _require(
                decision.actions.dtype == np.int64
                and decision.actions.min() >= 0
                and decision.actions.max() < ACTIONS,
                case,
                f"actions must be int64 between 0 and {ACTIONS - 1}; received "
                f"{decision.actions.dtype} from {decision.actions.min()} to "
                f"{decision.actions.max()}",
            )
            shape = (len(decision), ACTIONS)
            for name in ("probabilities", "scores", "means"):
                actual = getattr(decision, name).shape
                _require(actual == shape, case, f"{name} must have shape {shape}; has {actual}")
            total = decision.probabilities.sum(axis=1)
            taken = decision.probabilities[np.arange(len(decision)), decision.actions]
            _require(
                np.allclose(total, 1.0) and decision.probabilities.min() >= 0 and taken.min() > 0,
                case,
                "probabilities must be at least 0, sum to 1 and allow the action taken",
            )


def check_probabilities_are_true(policy: Policy | Maker) -> None:
    """Over evenly spread draws a unit gets each action as often as its probability says."""
    draws = (np.arange(2_000) + 0.5) / 2_000
    for case in _cases(policy):
        state = _played(case)
        one = Contexts.of(np.repeat(case.contexts[:1], len(draws), axis=0), case.problem)
        positions = np.zeros(len(draws), dtype=np.int64)
        decision = case.policy.assign(state, one, draws, positions)
        shares = np.bincount(decision.actions, minlength=ACTIONS) / len(draws)
        _require(
            np.allclose(shares, decision.probabilities[0], atol=2 / len(draws)),
            case,
            f"a unit's probabilities are {decision.probabilities[0]}, but draws spread evenly over "
            f"[0, 1) give shares {shares}",
        )


def check_frozen_within_a_batch(policy: Policy | Maker) -> None:
    """What `learn` takes in changes no decision before `close`."""
    for case in _cases(policy):
        rows = next(case.batches())
        state = case.policy.begin(case.problem)
        before, contexts = _assign(case, state, rows)
        learned = case.policy.learn(state, _feedback(case, contexts, before, rows))
        after, _ = _assign(case, learned, rows)
        _require_same(case, before, after, "decisions changed within a batch, after learn")


def check_determinism(policy: Policy | Maker) -> None:
    """The same seed gives the same decisions, however the units of a batch are handed over."""
    for case in _cases(policy):
        whole = case.run()
        for pieces in (1, 2, 7):
            again = case.run(pieces)
            _require(
                all(
                    np.array_equal(
                        np.concatenate([getattr(d, name) for d in whole]),
                        np.concatenate([getattr(d, name) for d in again]),
                    )
                    for name in ("actions", "probabilities", "scores", "groups")
                ),
                case,
                f"decisions must not depend on cutting each batch into {pieces} pieces",
            )


def check_order_of_units(policy: Policy | Maker) -> None:
    """Units that come in another order, with their draws and positions, get the same decisions."""
    for case in _cases(policy):
        state, rows = _played(case), next(case.batches())
        order = np.random.default_rng(2).permutation(rows.stop)
        draws = np.random.default_rng(3).random(rows.stop)
        positions = np.arange(rows.stop)
        contexts = Contexts.of(case.contexts[rows], case.problem)
        straight = case.policy.assign(state, contexts, draws, positions)
        mixed = case.policy.assign(state, contexts.take(order), draws[order], positions[order])
        for name in ("actions", "probabilities", "scores", "groups"):
            _require(
                np.array_equal(getattr(straight, name)[order], getattr(mixed, name)),
                case,
                f"{name} must not depend on the order of units within a batch",
            )


def check_learning_in_pieces(policy: Policy | Maker) -> None:
    """Feedback in pieces leads to the same decisions as feedback at once."""
    for case in _cases(policy):
        rows = next(case.batches())
        state = case.policy.begin(case.problem)
        decision, contexts = _assign(case, state, rows)
        feedback = _feedback(case, contexts, decision, rows)
        once = case.policy.close(case.policy.learn(state, feedback))
        for part in np.array_split(np.arange(len(decision)), 3):
            piece = Feedback(*(getattr(feedback, f.name)[part] for f in fields(feedback)))
            state = case.policy.learn(state, piece)
        first, _ = _assign(case, once, rows)
        second, _ = _assign(case, case.policy.close(state), rows)
        _require_same(case, first, second, "feedback in pieces led to other decisions")


def check_save_and_load(policy: Policy | Maker) -> None:
    """A learner saved in mid-batch and loaded goes on bit for bit."""
    for case in _cases(policy):
        learner = case.learner()
        first, second = list(case.batches())[:2]
        decision = learner.assign(case.contexts[first])
        learner.observe(case.outcomes(first, decision))
        middle = (second.start + second.stop) // 2
        before = learner.assign(case.contexts[second.start : middle])
        with tempfile.TemporaryDirectory() as folder:
            learner.save(Path(folder) / "learner")
            loaded = Learner.load(Path(folder) / "learner", policy=case.policy)
        results = []
        for other in (learner, loaded):
            after = other.assign(case.contexts[middle : second.stop])
            chosen = np.concatenate([before.actions, after.actions])
            other.observe(case.rewards[second][np.arange(len(chosen)), chosen])
            results.append((after, other.state))
        (after, state), (after_loaded, state_loaded) = results
        _require_same(case, after, after_loaded, "decisions differ after save and load")
        _require(_equal(state, state_loaded), case, "states differ after save and load")


def check_layouts_agree(policy: Policy | Maker) -> None:
    """One vector a unit, repeated for each action, or in the paper's long form: same actions."""
    results = {}
    vectors = np.random.default_rng(11).standard_normal((90, DIM)) / np.sqrt(DIM)
    for layout in LAYOUTS:
        problem_dim = DIM * ACTIONS if layout == "shared" else DIM
        contexts = vectors
        if layout == "disjoint":
            contexts = np.repeat(vectors[:, None, :], ACTIONS, axis=1)
        if layout == "shared":
            contexts = np.zeros((len(vectors), ACTIONS, problem_dim))
            for action in range(ACTIONS):
                contexts[:, action, action * DIM : (action + 1) * DIM] = vectors
        case = _case(policy, layout, contexts, problem_dim)
        results[layout] = np.concatenate([decision.actions for decision in case.run()])
    for layout in ("disjoint", "shared"):
        differ = np.flatnonzero(results[layout] != results["block"])
        if len(differ):
            raise PolicyCheckError(
                f"{policy}: the {layout} form of a block problem must get the same actions; "
                f"{len(differ)} differ, first at unit {differ[0]}"
            )


def check_extreme_scales(policy: Policy | Maker) -> None:
    """Tiny and huge contexts and rewards give finite numbers."""
    for scale in (1e-9, 1e9):
        for case in _cases(policy, scale=scale):
            for decision in case.run():
                numbers = [decision.scores, decision.means, decision.probabilities]
                _require(
                    all(np.isfinite(array).all() for array in numbers),
                    case,
                    f"scores and probabilities must be finite at contexts and rewards of {scale:g}",
                )


def check_no_mutation(policy: Policy | Maker) -> None:
    """No function changes its arguments, the state included."""
    for case in _cases(policy):
        rows = next(case.batches())
        state = case.policy.begin(case.problem)
        contexts = Contexts.of(case.contexts[rows].copy(), case.problem)
        draws, positions = np.random.default_rng(3).random(rows.stop), np.arange(rows.stop)
        arguments = (state, contexts, draws, positions)
        kept = copy.deepcopy(arguments)
        decision = case.policy.assign(*arguments)
        _require(_equal(arguments, kept), case, "assign must not change its arguments")
        feedback = _feedback(case, contexts, decision, rows)
        kept_feedback = copy.deepcopy(feedback)
        learned = case.policy.learn(state, feedback)
        _require(
            _equal((state, feedback), (kept[0], kept_feedback)),
            case,
            "learn must not change its arguments",
        )
        kept_learned = copy.deepcopy(learned)
        case.policy.close(learned)
        _require(_equal(learned, kept_learned), case, "close must not change its argument")


POLICY_CHECKS: tuple[Callable[[Policy | Maker], None], ...] = (
    check_actions_and_probabilities,
    check_probabilities_are_true,
    check_frozen_within_a_batch,
    check_determinism,
    check_order_of_units,
    check_learning_in_pieces,
    check_save_and_load,
    check_layouts_agree,
    check_extreme_scales,
    check_no_mutation,
)


def check_policy(policy: Policy | Maker) -> None:
    """Run every check on a policy, in every layout; also at its class's `examples`, if it has any.

    Parameters
    ----------
    policy
        An instance, or a function from a problem to an instance.
    """
    if isinstance(policy, type):
        raise InvalidArgumentError("policy", f"an instance, as in {policy.__name__}()", "a class")
    kind: Any = type(policy)
    with warnings.catch_warnings():
        # Forty units cannot determine every model in every layout; that is not what is checked.
        warnings.simplefilter("ignore", RankDeficiencyWarning)
        for check in POLICY_CHECKS:
            check(policy)
            for parameters in getattr(kind, "examples", ()):
                check(kind(**parameters))


def own_policies() -> Iterator[Policy | Maker]:
    """Find the package's policies, each at its default and at its non-default examples."""
    for name, kind in registry.kinds().items():
        for parameters in ({}, *kind.examples):
            yield _with_truth(parameters) if kind is Oracle else registry.make(name, **parameters)


def _with_truth(parameters: dict[str, Any]) -> Maker:
    def make(problem: Problem) -> Policy:
        theta = np.linspace(-1.0, 1.0, problem.parameters)
        shape = (-1,) if problem.layout == "shared" else (problem.actions, problem.dim)
        return Oracle(theta=theta.reshape(shape), **parameters)

    return make


def _cases(policy: Policy | Maker, scale: float = 1.0) -> Iterator[_Case]:
    for layout in LAYOUTS:
        random = np.random.default_rng(7)
        shape = (90, DIM) if layout == "block" else (90, ACTIONS, DIM)
        contexts = scale * random.standard_normal(shape) / np.sqrt(DIM)
        yield _case(policy, layout, contexts, DIM, scale=scale)


def _case(
    policy: Policy | Maker,
    layout: Layout,
    contexts: Floats,
    dim: int,
    scale: float = 1.0,
) -> _Case:
    rewards = scale * np.random.default_rng(13).standard_normal((len(contexts), ACTIONS))
    for grid in (grids.explicit([40, 60, 90]), grids.online(units=90)):
        problem = Problem(ends=grid.ends, actions=ACTIONS, dim=dim, layout=layout)
        made = policy if isinstance(policy, Policy) else policy(problem)
        try:
            made.begin(problem)
        except InvalidArgumentError as error:
            # A policy for single units refuses the first grid and must take the second.
            if error.name != "grid" or grid.batches == grid.units:
                raise
            continue
        break
    return _Case(made, grid, layout, dim, contexts, rewards)


def _assign(case: _Case, state: Any, rows: slice) -> tuple[Decision, Contexts]:
    contexts = Contexts.of(case.contexts[rows], case.problem)
    draws = np.random.default_rng(3).random(len(contexts))
    return case.policy.assign(state, contexts, draws, np.arange(len(contexts))), contexts


def _feedback(case: _Case, contexts: Contexts, decision: Decision, rows: slice) -> Feedback:
    return Feedback(
        contexts.chosen(decision.actions),
        decision.actions,
        decision.groups,
        case.outcomes(rows, decision),
    )


def _played(case: _Case) -> Any:
    """Return the state after one batch."""
    rows = next(case.batches())
    state = case.policy.begin(case.problem)
    decision, contexts = _assign(case, state, rows)
    return case.policy.close(case.policy.learn(state, _feedback(case, contexts, decision, rows)))


def _equal(left: Any, right: Any) -> bool:
    if is_dataclass(left) and not isinstance(left, type):
        return type(left) is type(right) and all(
            _equal(getattr(left, f.name), getattr(right, f.name)) for f in fields(left)
        )
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    return np.array_equal(left, right, equal_nan=np.asarray(left).dtype.kind == "f")


def _require_same(case: _Case, left: Decision, right: Decision, complaint: str) -> None:
    _require(_equal(left, right), case, complaint)


def _require(condition: Any, case: _Case, complaint: str) -> None:
    if not condition:
        raise PolicyCheckError(f"{case.policy} ({case.layout} layout): {complaint}")
