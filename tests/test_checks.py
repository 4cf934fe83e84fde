"""The package's policies pass the conformance checks, and each check fails where it should."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from seqbatch import checks, policies
from seqbatch.checks import PolicyCheckError
from seqbatch.checks import policies as rules
from seqbatch.checks.cases import cases
from seqbatch.policies import RBGL, SBUCB, Decision
from seqbatch.policies.base import BasePolicy
from seqbatch.policies.choice import pick
from seqbatch.policies.rule import Ranking

pytestmark = pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")
OWN = list(checks.own_policies())


@pytest.mark.slow
@pytest.mark.parametrize("check", checks.POLICY_CHECKS, ids=lambda check: check.__name__)
# Without a function's address, which differs from one worker to the next.
@pytest.mark.parametrize("policy", OWN, ids=lambda policy: str(policy).partition(" at 0x")[0])
def test_own_policies_pass(policy, check):
    check(policy)


#: Settings that need a constant column, or that no example has.
OPTIONS = [
    policies.SBPE(first="uniform", waves="own level", constant=0),
    policies.RBGL(ridge=2.0, first="uniform", estimate="pooled", last="greedy"),
    SBUCB(gamma=0.5, first="uniform", waves="own level", constant=0, last="greedy"),
    policies.ThompsonSampling(
        samples=16, objective="choose", waves="own level", constant=0, last="greedy"
    ),
    policies.JointRidge(waves="own level", constant=2, estimate="averaged"),
    policies.EpsilonGreedy(epsilon=0.2, estimate="pooled", waves="own level", constant=0),
]


@pytest.mark.slow
@pytest.mark.parametrize("policy", OPTIONS, ids=str)
def test_options_pass(policy):
    for check in checks.POLICY_CHECKS:
        check(policy)


def test_a_declared_constant_is_a_column_of_ones():
    for case in cases(OPTIONS[4]):
        assert (case.contexts[..., 2] == 1).all()
        assert not (case.contexts[..., 0] == 1).any()


def test_every_policy_of_the_package_is_discovered_with_non_default_settings():
    names = [
        name
        for name in policies.__all__
        if isinstance(getattr(policies, name), type)
        and issubclass(getattr(policies, name), BasePolicy)
    ]
    assert len(names) == 14
    for name in set(names) - {"Oracle", "UniformRandom"}:
        found = [policy for policy in OWN if type(policy).__name__ == name]
        assert len(found) >= 2
        assert len(set(found)) == len(found)


@pytest.mark.slow
def test_check_policy_runs_everything():
    checks.check_policy(SBUCB())


@dataclass(frozen=True, kw_only=True)
class OutOfRange(RBGL):
    def assign(self, state, contexts, draws, positions):
        decision = super().assign(state, contexts, draws, positions)
        return replace(decision, actions=decision.actions + rules.ACTIONS)


@dataclass(frozen=True, kw_only=True)
class Unaware(RBGL):
    """Has never heard of units that may not get every action."""

    def assign(self, state, contexts, draws, positions):
        return super().assign(state, replace(contexts, eligible=None), draws, positions)


@dataclass(frozen=True, kw_only=True)
class Leaky(RBGL):
    """Chooses well, but says that it might have chosen anything."""

    def assign(self, state, contexts, draws, positions):
        decision = super().assign(state, contexts, draws, positions)
        return replace(decision, probabilities=decision.probabilities * 0.7 + 0.1)


@dataclass(frozen=True, kw_only=True)
class Wavering(RBGL):
    """Decides anew whenever it is told that all is allowed."""

    def assign(self, state, contexts, draws, positions):
        decision = super().assign(state, contexts, draws, positions)
        if contexts.eligible is None or not contexts.eligible.all():
            return decision
        last = np.full(len(contexts), rules.ACTIONS - 1)
        return replace(decision, actions=last, probabilities=np.eye(rules.ACTIONS)[last])


@dataclass(frozen=True, kw_only=True)
class Rash(RBGL):
    """Sure of the lowest action where some are forbidden, and says that all the rest are alike."""

    def assign(self, state, contexts, draws, positions):
        decision = super().assign(state, contexts, draws, positions)
        if contexts.eligible is None or contexts.eligible.all():
            return decision
        shares = contexts.eligible / contexts.eligible.sum(axis=1, keepdims=True)
        return replace(decision, actions=contexts.eligible.argmax(axis=1), probabilities=shares)


@dataclass(frozen=True, kw_only=True)
class Boastful(RBGL):
    """Says that it is sure where it is not."""

    def assign(self, state, contexts, draws, positions):
        decision = super().assign(state, contexts, draws, positions)
        actions = np.where(draws < 0.3, 0, decision.actions)
        sure = np.eye(rules.ACTIONS)[actions] * 0.9 + 0.1 / rules.ACTIONS
        return replace(decision, actions=actions, probabilities=sure)


@dataclass(frozen=True, kw_only=True)
class Impatient(RBGL):
    """Uses outcomes before the batch ends."""

    def learn(self, state, feedback):
        return self.refit(super().learn(state, feedback))


@dataclass(frozen=True, kw_only=True)
class Forgetful(RBGL):
    """Draws its own random numbers."""

    def rank(self, state, contexts):
        scores = np.random.default_rng().random((len(contexts), state.problem.actions))
        return Ranking(scores=scores, means=scores)


@dataclass(frozen=True, kw_only=True)
class Crowded(RBGL):
    """Lets a unit's neighbours decide."""

    def rank(self, state, contexts):
        ranking = super().rank(state, contexts)
        shifted = ranking.scores + np.arange(len(contexts))[:, None] * [1.0, -1.0, 0.5]
        return replace(ranking, scores=shifted)


@dataclass(frozen=True, kw_only=True)
class LastPieceOnly(RBGL):
    """Learns from the latest piece of feedback alone."""

    def learn(self, state, feedback):
        fresh = self.begin(state.problem)
        return super().learn(replace(state, evidence=fresh.evidence), feedback)


@dataclass(frozen=True, kw_only=True)
class Secretive(RBGL):
    """Keeps what it learned outside its state."""

    def begin(self, problem):
        object.__setattr__(self, "memory", [])
        return super().begin(problem)

    def close(self, state):
        self.memory.append(state.batch)
        return super().close(state)

    def rank(self, state, contexts):
        ranking = super().rank(state, contexts)
        return replace(ranking, scores=ranking.scores * (-1.0) ** len(self.memory))


@dataclass(frozen=True, kw_only=True)
class Blocky(RBGL):
    """Treats the layouts differently."""

    def rank(self, state, contexts):
        ranking = super().rank(state, contexts)
        sign = -1.0 if state.problem.layout == "block" else 1.0
        return replace(ranking, scores=sign * ranking.scores)


@dataclass(frozen=True, kw_only=True)
class Fragile(RBGL):
    def rank(self, state, contexts):
        ranking = super().rank(state, contexts)
        return replace(ranking, scores=np.exp(ranking.scores), means=np.exp(ranking.means))


@dataclass(frozen=True, kw_only=True)
class Careless(RBGL):
    def rank(self, state, contexts):
        contexts.values[:] = 0
        return super().rank(state, contexts)


@dataclass(frozen=True, kw_only=True)
class InPlace(RBGL):
    def learn(self, state, feedback):
        state.evidence[0].count[:] += 1
        return super().learn(state, feedback)


@dataclass(frozen=True)
class Sums:
    """What a policy without a model knows: a count and a sum for each action."""

    actions: int
    counts: np.ndarray
    totals: np.ndarray
    heard: np.ndarray


@dataclass(frozen=True)
class HighestMean:
    """A policy from scratch: at random first, then the highest mean, by plain sums of floats."""

    def begin(self, problem):
        zeros = np.zeros((2, problem.actions))
        return Sums(problem.actions, zeros[0], zeros[1], zeros)

    def assign(self, state, contexts, draws, positions):  # noqa: ARG002
        means = np.tile(state.totals / np.maximum(state.counts, 1), (len(contexts), 1))
        may = np.ones(means.shape) if contexts.eligible is None else contexts.eligible
        best = np.where(may, means, -np.inf).argmax(axis=1)
        shares = (
            np.eye(state.actions)[best] if state.counts.any() else may / may.sum(axis=1)[:, None]
        )
        actions, probabilities = pick(shares, draws)
        return Decision(
            actions=actions,
            probabilities=probabilities,
            scores=means,
            means=means,
            widths=None,
            groups=np.zeros(len(contexts), dtype=np.int64),
        )

    def learn(self, state, feedback):
        sums = [np.bincount(feedback.actions, weights, minlength=state.actions)
                for weights in (np.ones(len(feedback.actions)), feedback.rewards)]  # fmt: skip
        return replace(state, heard=state.heard + sums)

    def close(self, state):
        counts, totals = state.counts + state.heard[0], state.totals + state.heard[1]
        return replace(state, counts=counts, totals=totals, heard=np.zeros_like(state.heard))


def test_a_policy_that_adds_plain_floats_keeps_the_rules():
    assert len(checks.check_policy(HighestMean()).rules) == len(checks.POLICY_CHECKS)


@pytest.mark.parametrize(
    ("check", "policy", "message"),
    [
        (rules.check_actions_and_probabilities, OutOfRange(), "actions must be int64"),
        (rules.check_probabilities_are_true, Boastful(), "probabilities are"),
        (rules.check_frozen_within_a_batch, Impatient(), "changed within a batch"),
        (rules.check_determinism, Forgetful(), "must not depend on splitting"),
        (rules.check_determinism, Crowded(), "must not depend on splitting"),
        (rules.check_order_of_units, Crowded(), "must not depend on the order"),
        (rules.check_learning_in_pieces, LastPieceOnly(), "feedback in pieces"),
        (rules.check_save_and_load, Secretive(), "after save and load"),
        (rules.check_layouts_agree, Blocky(), "form of a block problem"),
        (rules.check_extreme_scales, Fragile(), "must be finite"),
        (rules.check_eligible_actions, Unaware(), "action 0 and .* for a unit that may get .1.$"),
        (rules.check_eligible_actions, Leaky(), "others must have probability 0"),
        (rules.check_eligible_actions, Wavering(), "the same with every action eligible"),
        (rules.check_eligible_actions, Rash(), "may get .0, 2. the probabilities are"),
        (rules.check_no_mutation, Careless(), "assign must not modify"),
        (rules.check_no_mutation, InPlace(), "learn must not modify"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_each_check_catches_its_offender(check, policy, message):
    with pytest.raises(PolicyCheckError, match=message):
        check(policy)


def test_a_policy_that_is_not_of_the_package_passes():
    """Written from the protocol alone, without the base classes."""

    @dataclass(frozen=True)
    class Count:
        problem: object
        batch: int
        totals: np.ndarray
        last: np.ndarray

    class BestMeanSoFar:
        def begin(self, problem):
            return Count(problem, 1, np.zeros(problem.actions), np.zeros(problem.actions))

        def assign(self, state, contexts, draws, positions):  # noqa: ARG002
            n = len(contexts)
            scores = np.tile(state.last, (n, 1))
            eligible = np.ones(scores.shape) if contexts.eligible is None else contexts.eligible
            best = np.where(eligible, scores, -np.inf).argmax(axis=1)
            shares = np.eye(len(state.last))[best]
            return policies.Decision(
                best, shares, scores, scores, None, np.zeros(n, dtype=np.int64)
            )

        def learn(self, state, feedback):
            gained = np.bincount(feedback.actions, feedback.rewards, len(state.totals))
            return replace(state, totals=state.totals + gained)

        def close(self, state):
            return replace(state, batch=state.batch + 1, last=state.totals)

    checks.check_policy(BestMeanSoFar())
