"""The rule for units that may not get every action."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from seqbatch.checks.cases import ACTIONS, Case, Maker, PolicyCheckError, cases
from seqbatch.checks.report import rule
from seqbatch.core import Contexts
from seqbatch.core.arrays import Bools, Floats
from seqbatch.policies import Decision, Policy


@rule(PolicyCheckError)
def check_eligible_actions(policy: Policy | Maker) -> None:
    """A unit gets only what it may get, and the rest has probability 0; all true changes nothing.

    A policy that ignores `contexts.eligible` works wherever every unit may get every action. It
    must not be used elsewhere, and learners and simulations refuse what it decides there.
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
    # The second state is made only once the first decision was found in order.
    yield case.begin()
    yield case.played()


def _masks(units: int) -> Iterator[Bools]:
    """Return every set of actions that a unit may get, in as many batches of units as it takes."""
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
            "actions must be among contexts.eligible, and others of probability 0; returned action "
            f"{decision.actions[unit]} and probabilities {decision.probabilities[unit]} for a unit "
            f"that may get {np.flatnonzero(eligible[unit]).tolist()}",
        )


def _require_true_shares(case: Case, state: Any, eligible: Bools) -> None:
    """Ask for one unit many times, with draws spread evenly, and count."""
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
        f"where a unit may get {np.flatnonzero(eligible[0]).tolist()} its probabilities are "
        f"{decision.probabilities[0]}, but draws spread evenly over [0, 1) give shares {shares}",
    )
