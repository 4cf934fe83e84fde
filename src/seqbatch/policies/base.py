"""The interface of every policy, and the base classes of the linear ones.

A policy is a frozen set of hyper-parameters with four pure functions::

    begin(problem)                                   -> state, before the first unit
    assign(state, contexts, draws, positions)        -> decision, for any units of the open batch
    learn(state, feedback)                           -> state, with outcomes of the open batch added
    close(state)                                     -> state, after the batch: re-estimated

`learn` accepts a batch's feedback in any pieces, and `assign` does not depend on it before `close`.
A simulation can therefore stream, and a real campaign calls the same functions.

Randomness comes from outside, as one uniform draw per unit: the policy turns a context into the
probability of every action, and the draw picks one. The same unit with the same draw always gets
the same action, and the logged probabilities are exact.

`contexts.eligible` says which actions each unit may get. Choice, random draws and probabilities are
then restricted to these: an ineligible action has probability exactly 0. Learning does not depend
on eligibility. If every action is eligible, the results are bit-identical to those without a mask.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from seqbatch.core import Contexts, Estimate, Problem, Statistics, arguments
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.policies.choice import Ties, highest, uniformly
from seqbatch.policies.rule import Rule

First = Literal["fixed", "uniform"]
Unknown = Literal["zero", "avoid"]


@dataclass(frozen=True)
class Decision:
    """The decision for some units: actions, their probabilities and the scores behind them.

    Parameters
    ----------
    actions
        The action of each unit, numbered from 0, shape (n,).
    probabilities
        The probability that the policy gave to every action, shape (n, K); 0 for ineligible
        actions.
    scores
        The scores that the policy compared, shape (n, K); means plus a multiple of widths for UCB.
    means
        Estimated mean rewards, shape (n, K).
    widths
        sqrt(x' A^-1 x) before any multiplier, shape (n, K); None if the policy computes no widths.
    groups
        The group of evidence that each unit's outcome enters, shape (n,); -1 for no group.
    stages
        The stage at which SupSBUCB decided, counted from 1, shape (n,); None for other policies.
    rules
        The rule by which SupSBUCB decided, ``"a"`` or ``"c"``, shape (n,); None for other policies.
    candidates
        Which actions the policy considered, shape (n, K), if it passed over some eligible ones:
        eliminated actions, or actions without outcomes. None otherwise.
    prices
        The value of one more unit of each action under limits, in units of scores, shape (K,);
        None without limits, or if the policy draws actions at random.
    """

    actions: Integers
    probabilities: Floats
    scores: Floats
    means: Floats
    widths: Floats | None
    groups: Integers
    stages: Integers | None = None
    rules: NDArray[np.str_] | None = None
    candidates: Bools | None = None
    prices: Floats | None = None

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class Feedback:
    """Outcomes of units of one batch: each unit's chosen vector, action, group and reward."""

    vectors: Floats
    actions: Integers
    groups: Integers
    rewards: Floats


@dataclass(frozen=True)
class State:
    """The state that a linear policy carries from batch to batch.

    Parameters
    ----------
    problem
        The problem that the policy was started with.
    batch
        The number of the open batch, from 1; M + 1 when all are closed.
    evidence
        Statistics of all feedback so far, one per group.
    stale
        For each group, which models have feedback that their estimate does not include yet.
    estimates
        The estimates that `assign` uses; frozen while a batch is open.
    warned
        Whether a rank deficiency has already been reported.
    """

    problem: Problem
    batch: int
    evidence: tuple[Statistics, ...]
    stale: tuple[Bools, ...]
    estimates: tuple[Estimate, ...]
    warned: bool = False


@runtime_checkable
class Policy(Protocol):
    """The protocol of policies: any class with these four methods is one; see the module docstring.

    A state is a dataclass of arrays, numbers, tuples and further such dataclasses. It is never
    modified in place.
    """

    def begin(self, problem: Problem) -> Any:
        """Return the state before the first unit."""

    def assign(
        self, state: Any, contexts: Contexts, draws: Floats, positions: Integers
    ) -> Decision:
        """Decide for units of the open batch.

        Parameters
        ----------
        state
            The state after the last `close`.
        contexts
            The units' contexts and eligible actions; see :class:`Contexts`.
        draws
            One number in [0, 1) per unit, the only source of randomness.
        positions
            Each unit's position in the batch, from 0.
        """

    def learn(self, state: Any, feedback: Feedback) -> Any:
        """Return the state with outcomes of the open batch added."""

    def close(self, state: Any) -> Any:
        """Return the state after the open batch ended."""


@dataclass(frozen=True)
class Ranking:
    """Scores of every action for every unit, and the criterion that the choice maximises."""

    scores: Floats
    means: Floats
    widths: Floats | None = None
    criterion: Floats | None = None
    groups: Integers | None = None
    stages: Integers | None = None
    rules: NDArray[np.str_] | None = None


@dataclass(frozen=True, kw_only=True)
class BasePolicy:
    """What all policies of this package share: evidence in groups, a ranking and a choice."""

    #: Non-default settings that the conformance checks run in addition to the default.
    examples: ClassVar[tuple[dict[str, Any], ...]] = ()

    def _plain(self, name: str, **bounds: float) -> None:
        """Check a hyper-parameter and store it as a plain float, whatever type was passed."""
        checked = arguments.number(name, getattr(self, name), **bounds)
        object.__setattr__(self, name, checked)

    def begin(self, problem: Problem) -> State:
        """Return the state before the first unit: no evidence."""
        groups = self.groups(problem)
        return State(
            problem=problem,
            batch=1,
            evidence=tuple(Statistics.zero(problem.models, problem.dim) for _ in range(groups)),
            stale=tuple(np.zeros(problem.models, dtype=np.bool_) for _ in range(groups)),
            estimates=self.prior(problem),
        )

    def assign(
        self, state: State, contexts: Contexts, draws: Floats, positions: Integers
    ) -> Decision:
        """Rank the actions of each unit and choose."""
        ranking = self.rank(state, contexts)
        actions, probabilities = self.choose(state, contexts, ranking, draws)
        groups = ranking.groups
        if groups is None:
            groups = self.group_of(state, positions)
        return Decision(
            actions=actions,
            probabilities=probabilities,
            scores=ranking.scores,
            means=ranking.means,
            widths=ranking.widths,
            groups=groups,
            stages=ranking.stages,
            rules=ranking.rules,
            candidates=self.candidates(state, contexts, ranking),
        )

    def learn(self, state: State, feedback: Feedback) -> State:
        """Add the feedback to the evidence of its groups; the estimates stay."""
        models = feedback.actions
        if state.problem.models == 1:
            models = np.zeros_like(models)
        present = np.bincount(feedback.groups + 1, minlength=len(state.evidence) + 1)[1:]
        for group in np.flatnonzero(present):
            cells = np.where(feedback.groups == group, models, -1)
            # Rows are added to the running sums, not summed first and then merged: this way the
            # bits do not depend on the pieces in which a batch's feedback arrives.
            grown = state.evidence[group].add(feedback.vectors, feedback.rewards, cells)
            state = _with_evidence(state, int(group), grown)
        return state

    def absorb(self, state: State, group: int, statistics: Statistics) -> State:
        """Merge sums that were computed elsewhere into one group's evidence; the estimates stay.

        Use it to teach a policy from simulators that draw sums instead of units, or from
        reductions over many machines.
        """
        return _with_evidence(state, group, state.evidence[group].merge(statistics))

    def close(self, state: State) -> State:
        """End the batch and re-estimate from the evidence."""
        estimated = self.estimate(state)
        fresh = tuple(np.zeros_like(stale) for stale in state.stale)
        return replace(estimated, batch=state.batch + 1, stale=fresh)

    def groups(self, problem: Problem) -> int:  # noqa: ARG002
        """Return the number of groups into which the evidence is divided."""
        return 1

    def numbers_kept(self, problem: Problem) -> int:
        """Return roughly how many numbers a state holds: the sums of products dominate."""
        return self.groups(problem) * problem.models * problem.dim**2

    def group_of(self, state: State, positions: Integers) -> Integers:  # noqa: ARG002
        """Return the group of evidence that each unit's outcome will enter."""
        return np.zeros(len(positions), dtype=np.int64)

    def intervals(self, state: State) -> list[tuple[int, int, int]]:
        """Return (group, start, stop) for each group that outcomes of the open batch enter.

        Units start to stop - 1 of the batch enter the group; units in no interval enter no group.
        """
        return [(0, 0, state.problem.size(state.batch))]

    def still_used(self, state: State, groups: Integers) -> Bools:
        """Return for each group whether an outcome that enters it now affects any estimate."""
        return (groups >= 0) & (groups < len(state.evidence))

    def known(self, state: State) -> Bools:
        """Return for which models the current estimates have evidence, shape (models,)."""
        return state.evidence[0].count > 0

    def prior(self, problem: Problem) -> tuple[Estimate, ...]:
        """Return the estimates before any data."""
        return (Estimate.zero(problem.models, problem.dim),)

    def estimate(self, state: State) -> State:
        """Return the state with new estimates, as its batch closes; unchanged if there are none."""
        return state

    def rank(self, state: State, contexts: Contexts) -> Ranking:
        """Score every action: by estimated means."""
        means = contexts.means(state.estimates[0].theta)
        return Ranking(scores=means, means=means)

    def candidates(
        self,
        state: State,  # noqa: ARG002
        contexts: Contexts,  # noqa: ARG002
        ranking: Ranking,
    ) -> Bools | None:
        """Return which actions the policy considers; None if all eligible ones."""
        return None if ranking.criterion is None else ranking.criterion > -np.inf

    def choose(
        self, state: State, contexts: Contexts, ranking: Ranking, draws: Floats
    ) -> tuple[Integers, Floats]:
        """Return each unit's action and every action's probability."""
        raise NotImplementedError

    def rule(self, state: State) -> Rule:
        """Return the rule of the open batch, for code that assigns its units elsewhere."""
        raise NotImplementedError

    @property
    def starts_blind(self) -> bool:
        """Whether the first batch is assigned without looking at contexts."""
        return True

    def determined(self, state: State) -> Integers | None:  # noqa: ARG002
        """Return the rank of each model's data; None if the policy does not need full rank."""
        return None

    def summary(self, state: State) -> Estimate:
        """Return the one estimate to report."""
        return state.estimates[0]


@dataclass(frozen=True, kw_only=True)
class LinearPolicy(BasePolicy):
    """Policies that estimate linear rewards and prefer the action that ranks highest.

    A subclass defines its estimator (`estimate`) and, unless it is greedy, how it ranks (`rank`)
    or prefers (`prefer`).

    Parameters
    ----------
    first
        ``"fixed"``: the first batch follows the published algorithm. ``"uniform"``: every unit of
        the first batch gets a uniformly random action. Use it if the outcomes of one action teach
        nothing about the others (block layout).
    ties
        ``"lowest"``: among equal scores the lowest action wins. ``"random"``: all are equally
        likely.
    """

    first: First = "fixed"
    ties: Ties = "lowest"

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"first": "uniform", "ties": "random"},)

    def __post_init__(self) -> None:
        arguments.choice("first", self.first, ("fixed", "uniform"))
        arguments.choice("ties", self.ties, ("lowest", "random"))

    @property
    def starts_blind(self) -> bool:
        """Whether the first batch is assigned without looking at contexts."""
        return self.first == "uniform"

    def determined(self, state: State) -> Integers | None:
        """Return the rank of each model's evidence in the estimate in use."""
        return self.summary(state).rank

    def choose(
        self, state: State, contexts: Contexts, ranking: Ranking, draws: Floats
    ) -> tuple[Integers, Floats]:
        """Choose uniformly in a uniform first batch, otherwise by preference."""
        if state.batch == 1 and self.first == "uniform":
            return uniformly(len(contexts), state.problem.actions, draws, contexts.eligible)
        return self.prefer(state, contexts, ranking, draws)

    def rule(self, state: State) -> Rule:
        """Return the uniform rule in a uniform first batch, otherwise the preference."""
        if state.batch == 1 and self.first == "uniform":
            return Rule(kind="uniform")
        return self.preference(state)

    def preference(self, state: State) -> Rule:
        """Return `prefer` as a rule: the highest estimated mean."""
        return Rule(kind="highest", theta=state.estimates[0].theta[None], ties=self.ties)

    def prefer(
        self,
        state: State,  # noqa: ARG002
        contexts: Contexts,
        ranking: Ranking,
        draws: Floats,
    ) -> tuple[Integers, Floats]:
        """Choose the highest criterion."""
        criterion = ranking.scores if ranking.criterion is None else ranking.criterion
        return highest(criterion, self.ties, draws, contexts.eligible)


@dataclass(frozen=True, kw_only=True)
class GreedyPolicy(LinearPolicy):
    """Policies that always choose the action with the highest estimated mean.

    Parameters
    ----------
    first, ties
        See :class:`LinearPolicy`.
    unknown
        How to treat an action without outcomes if each action has its own model. ``"zero"``: its
        estimated mean is 0, as published; if all rewards are negative, that makes it the best.
        ``"avoid"``: choose among the actions with outcomes, and uniformly at random for units none
        of whose eligible actions has any.
    """

    unknown: Unknown = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice("unknown", self.unknown, ("zero", "avoid"))

    def prefer(
        self, state: State, contexts: Contexts, ranking: Ranking, draws: Floats
    ) -> tuple[Integers, Floats]:
        """Choose the highest estimated mean among the actions with evidence."""
        familiar = self.candidates(state, contexts, ranking)
        if familiar is None:
            return super().prefer(state, contexts, ranking, draws)
        lost: Bools = (familiar & self.known(state)).sum(axis=1) == 0
        blind, shares = uniformly(len(contexts), state.problem.actions, draws, familiar)
        actions, probabilities = highest(ranking.scores, self.ties, draws, familiar)
        return np.where(lost, blind, actions), np.where(lost[:, None], shares, probabilities)

    def candidates(self, state: State, contexts: Contexts, ranking: Ranking) -> Bools | None:
        """Return the eligible actions with evidence, or all eligible ones if none has any."""
        if (known := self.familiar(state)) is None:
            return super().candidates(state, contexts, ranking)
        eligible = contexts.eligible
        if eligible is None:
            eligible = np.ones_like(ranking.scores, dtype=np.bool_)
        familiar = eligible & known
        return np.where(familiar.any(axis=1, keepdims=True), familiar, eligible)

    def preference(self, state: State) -> Rule:
        """Return `prefer` as a rule for units that may get every action."""
        known = self.familiar(state)
        if known is not None and not known.any():
            return Rule(kind="uniform")
        return replace(super().preference(state), among=known)

    def familiar(self, state: State) -> Bools | None:
        """Return which actions have evidence; None if the distinction does not matter."""
        known = self.known(state)
        # A shared model has evidence on all actions or on none, and the first batch has no
        # outcomes.
        same = state.problem.models == 1 or state.batch == 1 or known.all()
        return None if self.unknown == "zero" or same else known


def _with_evidence(state: State, group: int, statistics: Statistics) -> State:
    """Return the state with one group's evidence replaced and its changed models marked stale."""
    evidence, stale = list(state.evidence), list(state.stale)
    before = evidence[group]
    # A corrected outcome changes only the moment, not the count.
    moved = (statistics.moment != before.moment).any(axis=1)
    stale[group] = stale[group] | (statistics.count != before.count) | moved
    evidence[group] = statistics
    return replace(state, evidence=tuple(evidence), stale=tuple(stale))
