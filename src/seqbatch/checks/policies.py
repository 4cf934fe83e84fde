"""The rules that every policy must keep, with or without eligibility, and check_policy."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from seqbatch.checks.cases import (
    ACTIONS,
    DIM,
    LAYOUTS,
    Case,
    Maker,
    PolicyCheckError,
    accepted,
    case_of,
    cases,
    made,
)
from seqbatch.checks.report import CheckReport, named, raised_text, rule
from seqbatch.core import Contexts, Layout, Problem, arguments
from seqbatch.core.arrays import Bools, Floats
from seqbatch.errors import InvalidArgumentError
from seqbatch.learner import Learner
from seqbatch.policies import Decision, Feedback, Oracle, Policy, registry
from seqbatch.policies.base import LinearPolicy

# ----------------------------------------------------------------------
# Eligibility.


@rule(PolicyCheckError)
def check_eligible_actions(policy: Policy | Maker) -> None:
    """Units get only eligible actions; others have probability 0. An all-true mask has no effect.

    A policy that ignores `contexts.eligible` works only if every unit may get every action.
    Otherwise learners and simulations refuse its decisions.
    """
    for case in cases(policy):
        for state in _states(case):
            rows = next(case.batches())
            draws = np.random.default_rng(3).random(rows.stop)
            for eligible in _masks(rows.stop):
                _require_among(case, _decided(case, state, eligible, draws), eligible)
            free, _ = case.decide(state, rows)
            same = _decided(case, state, np.ones_like(eligible), draws)
            for name in ("actions", "probabilities", "scores"):
                case.require(
                    np.array_equal(getattr(free, name), getattr(same, name)),
                    f"{name} must be the same with every action eligible as without a mask",
                )
            first_or_last = np.isin(np.arange(ACTIONS), (0, ACTIONS - 1))
            _require_true_shares(case, state, first_or_last[None, :])


def _states(case: Case) -> Iterator[Any]:
    # The second state is computed only after the first decision was found valid.
    yield case.begin()
    yield case.played()


def _masks(units: int) -> Iterator[Bools]:
    """Return every nonempty set of actions as a mask, in as many batches of units as needed."""
    sets = 2**ACTIONS - 1
    for start in range(0, sets, units):
        numbers = 1 + (start + np.arange(units)) % sets
        yield (numbers[:, None] >> np.arange(ACTIONS) & 1).astype(np.bool_)


def _decided(case: Case, state: Any, eligible: Bools, draws: Floats) -> Decision:
    contexts = Contexts.of(case.contexts[: len(eligible)], case.problem, eligible=eligible)
    return case.assign(state, contexts, draws, np.arange(len(eligible)))


def _require_among(case: Case, decision: Decision, eligible: Bools) -> None:
    taken = eligible[np.arange(len(decision)), decision.actions]
    wrong = ~taken | (np.where(eligible, 0.0, decision.probabilities) != 0).any(axis=1)
    if wrong.any():
        unit = int(wrong.argmax())
        case.require(
            False,
            "actions must be among contexts.eligible, others must have probability 0; got action "
            f"{decision.actions[unit]} and probabilities {decision.probabilities[unit]} for a unit "
            f"that may get {np.flatnonzero(eligible[unit]).tolist()}",
        )


def _require_true_shares(case: Case, state: Any, eligible: Bools) -> None:
    """Assign one unit with many evenly spread draws, and compare shares with probabilities."""
    draws = (np.arange(2_000) + 0.5) / 2_000
    one = Contexts.of(
        np.repeat(case.contexts[:1], len(draws), axis=0),
        case.problem,
        eligible=np.repeat(eligible, len(draws), axis=0),
    )
    decision = case.assign(state, one, draws, np.zeros(len(draws), dtype=np.int64))
    shares = np.bincount(decision.actions, minlength=ACTIONS) / len(draws)
    case.require(
        np.allclose(shares, decision.probabilities[0], atol=2 / len(draws)),
        f"for a unit that may get {np.flatnonzero(eligible[0]).tolist()} the probabilities are "
        f"{decision.probabilities[0]}, but evenly spread draws on [0, 1) give shares {shares}",
    )


# ----------------------------------------------------------------------
# The other rules. Each check takes a policy, or a function from a
# :class:`~seqbatch.core.problem.Problem` to a policy if its settings depend on the problem.


@rule(PolicyCheckError)
def check_actions_and_probabilities(policy: Policy | Maker) -> None:
    """Actions are among 0..K-1; probabilities are a distribution that allows the chosen action."""
    for case in cases(policy):
        # The second state is computed only after the first decision was found valid.
        for make in (case.begin, case.played):
            case.decide(make(), next(case.batches()))


@rule(PolicyCheckError)
def check_probabilities_are_true(policy: Policy | Maker) -> None:
    """Over evenly spread draws a unit gets each action as often as its probability says."""
    draws = (np.arange(2_000) + 0.5) / 2_000
    for case in cases(policy):
        state = case.played()
        one = Contexts.of(np.repeat(case.contexts[:1], len(draws), axis=0), case.problem)
        positions = np.zeros(len(draws), dtype=np.int64)
        decision = case.assign(state, one, draws, positions)
        shares = np.bincount(decision.actions, minlength=ACTIONS) / len(draws)
        case.require(
            np.allclose(shares, decision.probabilities[0], atol=2 / len(draws)),
            f"a unit's probabilities are {decision.probabilities[0]}, but evenly spread draws on "
            f"[0, 1) give shares {shares}",
        )


@rule(PolicyCheckError)
def check_frozen_within_a_batch(policy: Policy | Maker) -> None:
    """Feedback passed to `learn` changes no decision before `close`."""
    for case in cases(policy):
        rows = next(case.batches())
        state = case.begin()
        before, contexts = case.decide(state, rows)
        learned = case.learn(state, case.feedback(contexts, before, rows))
        after, _ = case.decide(learned, rows)
        _require_same(case, before, after, "decisions changed within a batch, after learn")


@rule(PolicyCheckError)
def check_determinism(policy: Policy | Maker) -> None:
    """The same seed gives the same decisions, in whatever pieces a batch is assigned."""
    for case in cases(policy):
        whole = case.run()
        for pieces in (1, 2, 7):
            again = case.run(pieces)
            case.require(
                all(
                    np.array_equal(
                        np.concatenate([getattr(d, name) for d in whole]),
                        np.concatenate([getattr(d, name) for d in again]),
                    )
                    for name in ("actions", "probabilities", "scores", "groups")
                ),
                f"decisions must not depend on splitting each batch into {pieces} pieces",
            )


@rule(PolicyCheckError)
def check_order_of_units(policy: Policy | Maker) -> None:
    """Reordering units together with their draws and positions gives the same decisions."""
    for case in cases(policy):
        state, rows = case.played(), next(case.batches())
        order = np.random.default_rng(2).permutation(rows.stop)
        draws = np.random.default_rng(3).random(rows.stop)
        positions = np.arange(rows.stop)
        contexts = Contexts.of(case.contexts[rows], case.problem)
        straight = case.assign(state, contexts, draws, positions)
        mixed = case.assign(state, contexts.take(order), draws[order], positions[order])
        for name in ("actions", "probabilities", "scores", "groups"):
            case.require(
                np.array_equal(getattr(straight, name)[order], getattr(mixed, name)),
                f"{name} must not depend on the order of units within a batch",
            )


@rule(PolicyCheckError)
def check_learning_in_pieces(policy: Policy | Maker) -> None:
    """Feedback in pieces leads to the same decisions as feedback at once, up to rounding."""
    for case in cases(policy):
        rows = next(case.batches())
        state = case.begin()
        decision, contexts = case.decide(state, rows)
        feedback = case.feedback(contexts, decision, rows)
        once = case.close(case.learn(state, feedback))
        for part in np.array_split(np.arange(len(decision)), 3):
            piece = Feedback(*(getattr(feedback, f.name)[part] for f in fields(feedback)))
            state = case.learn(state, piece)
        first, _ = case.decide(once, rows)
        second, _ = case.decide(case.close(state), rows)
        case.require(_close(first, second), "feedback in pieces led to different decisions")


@rule(PolicyCheckError)
def check_save_and_load(policy: Policy | Maker) -> None:
    """A learner saved in mid-batch and loaded continues bit for bit."""
    for case in cases(policy):
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
        case.require(_equal(state, state_loaded), "states differ after save and load")


@rule(PolicyCheckError)
def check_layouts_agree(policy: Policy | Maker) -> None:
    """The same contexts in block, disjoint or shared form lead to the same actions.

    Policies that pool actions are exempt: in the shared form they cannot tell actions apart. So is
    the shared form if the policy has a constant column, which that form lacks. The first batch is
    the published one where the policy states none, as the default depends on the layout.
    """
    if getattr(policy, "pooling", False):
        return
    if isinstance(policy, LinearPolicy) and policy.first is None:
        policy = replace(policy, first="fixed")
    results, layouts = {}, accepted(policy)
    if getattr(policy, "constant", None) is not None:
        layouts = tuple(layout for layout in layouts if layout != "shared")
    if len(layouts) <= 1:
        return
    vectors = np.random.default_rng(11).standard_normal((90, DIM)) / np.sqrt(DIM)
    for layout in layouts:
        problem_dim = DIM * ACTIONS if layout == "shared" else DIM
        contexts = vectors
        if layout == "disjoint":
            contexts = np.repeat(vectors[:, None, :], ACTIONS, axis=1)
        if layout == "shared":
            contexts = np.zeros((len(vectors), ACTIONS, problem_dim))
            for action in range(ACTIONS):
                contexts[:, action, action * DIM : (action + 1) * DIM] = vectors
        case = case_of(policy, layout, contexts, problem_dim)
        results[layout] = np.concatenate([decision.actions for decision in case.run()])
    last = layouts[-1]
    for layout in layouts[-2::-1]:
        differ = np.flatnonzero(results[layout] != results[last])
        if len(differ):
            raise PolicyCheckError(
                f"{named(policy)}: the {layout} form of a {last} problem must get the same "
                f"actions; {len(differ)} differ, first at unit {differ[0]}"
            )


@rule(PolicyCheckError)
def check_extreme_scales(policy: Policy | Maker) -> None:
    """Tiny and huge contexts and rewards give finite numbers."""
    for scale in (1e-9, 1e9):
        for case in cases(policy, scale=scale):
            case.run()


@rule(PolicyCheckError)
def check_no_mutation(policy: Policy | Maker) -> None:
    """No method modifies its arguments, including the state."""
    for case in cases(policy):
        rows = next(case.batches())
        state = case.begin()
        contexts = Contexts.of(case.contexts[rows].copy(), case.problem)
        draws, positions = np.random.default_rng(3).random(rows.stop), np.arange(rows.stop)
        arguments = (state, contexts, draws, positions)
        kept = copy.deepcopy(arguments)
        decision = case.assign(*arguments)
        case.require(_equal(arguments, kept), "assign must not modify its arguments")
        feedback = case.feedback(contexts, decision, rows)
        kept_feedback = copy.deepcopy(feedback)
        learned = case.learn(state, feedback)
        case.require(
            _equal((state, feedback), (kept[0], kept_feedback)),
            "learn must not modify its arguments",
        )
        kept_learned = copy.deepcopy(learned)
        case.close(learned)
        case.require(_equal(learned, kept_learned), "close must not modify its argument")


POLICY_CHECKS: tuple[Callable[[Policy | Maker], None], ...] = (
    # The basic checks come first: if they fail, the others would report misleading errors.
    check_actions_and_probabilities,
    check_no_mutation,
    check_probabilities_are_true,
    check_eligible_actions,
    check_frozen_within_a_batch,
    check_determinism,
    check_order_of_units,
    check_learning_in_pieces,
    check_save_and_load,
    check_layouts_agree,
    check_extreme_scales,
)


class _InLayouts:
    """A policy that refuses all layouts but some."""

    def __init__(self, policy: Policy | Maker, layouts: Sequence[Layout]) -> None:
        self.policy, self.layouts = policy, layouts
        self.__name__ = named(policy)
        self.pooling = getattr(policy, "pooling", False)

    def __call__(self, problem: Problem) -> Policy:
        arguments.choice("layout", problem.layout, self.layouts)
        policy = made(self.policy, problem)
        if len(self.layouts) > 1 and isinstance(policy, LinearPolicy) and policy.first is None:
            # The default depends on the layout, and layouts are compared.
            return replace(policy, first="fixed")
        return policy


def check_policy(policy: Policy | Maker, *, layouts: Sequence[Layout] | None = None) -> CheckReport:
    """Run every check on a policy in every layout, and on the `examples` of its class, if any.

    Parameters
    ----------
    policy
        An instance, or a function from a problem to an instance.
    layouts
        The layouts in which to check it, for example ``("block",)``; None for all that it does not
        refuse.

    Returns
    -------
    CheckReport
        The rules that it keeps, for printing.

    Raises
    ------
    PolicyCheckError
        If a rule is broken; the message says which one and what was returned.
    """
    if isinstance(policy, type):
        raise InvalidArgumentError(
            "policy", f"an instance, for example {policy.__name__}()", "a class"
        )
    settings: list[Policy | Maker] = [policy, *_examples(type(policy))]
    if layouts is not None:
        if isinstance(layouts, str) or not layouts:
            raise InvalidArgumentError("layouts", 'layouts, for example ("block",)', repr(layouts))
        wanted = [arguments.choice("layouts", layout, LAYOUTS) for layout in layouts]
        settings = [_InLayouts(setting, cast(list[Layout], wanted)) for setting in settings]
    for check in POLICY_CHECKS:
        for setting in settings:
            check(setting)
    more = f" and at {len(settings)} settings" if len(settings) > 1 else ""
    tried = accepted(settings[0])
    where = "in every layout" if len(tried) == len(LAYOUTS) else f"in {' and '.join(tried)}"
    return CheckReport.of(policy, POLICY_CHECKS, scope=f", {where}{more}")


def _examples(kind: Any) -> Iterator[Policy]:
    """Return the policies of a class's examples."""
    for parameters in getattr(kind, "examples", ()):
        try:
            yield kind(**parameters)
        except Exception as error:
            raise PolicyCheckError(
                f"{named(kind)}: each of its examples must make a policy; received {parameters}. "
                f"{raised_text(error)}."
            ) from error


def own_policies() -> Iterator[Policy | Maker]:
    """Yield the package's policies, each with its defaults and with its non-default examples."""
    for name, kind in registry.kinds().items():
        for parameters in ({}, *kind.examples):
            yield _with_truth(parameters) if kind is Oracle else registry.make(name, **parameters)


def _with_truth(parameters: dict[str, Any]) -> Maker:
    def make(problem: Problem) -> Policy:
        theta = np.linspace(-1.0, 1.0, problem.parameters)
        shape = (-1,) if problem.layout == "shared" else (problem.actions, problem.dim)
        return Oracle(theta=theta.reshape(shape), **parameters)

    return make


def _equal(left: Any, right: Any) -> bool:
    if is_dataclass(left) and not isinstance(left, type):
        return type(left) is type(right) and all(
            _equal(getattr(left, f.name), getattr(right, f.name)) for f in fields(left)
        )
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    return np.array_equal(left, right, equal_nan=np.asarray(left).dtype.kind == "f")


def _close(left: Decision, right: Decision) -> bool:
    """Return whether decisions agree up to rounding: sums in pieces differ in their last bits."""
    near = all(
        np.allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(one).max(initial=0.0))
        for one, other in ((left.probabilities, right.probabilities), (left.scores, right.scores))
    )
    return near and _equal((left.actions, left.groups), (right.actions, right.groups))


def _require_same(case: Case, left: Decision, right: Decision, complaint: str) -> None:
    case.require(_equal(left, right), complaint)
