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

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import Contexts, Estimate, Problem, Statistics, arguments
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.choice import Ties
from seqbatch.policies.design import checked, root_of
from seqbatch.policies.rule import Decision, Intervals, Ranking, Rule

First = Literal["fixed", "uniform", "design"]
Last = Literal["same", "greedy"]
Unknown = Literal["zero", "avoid"]


@dataclass(frozen=True)
class Feedback:
    """Outcomes of units of one batch: each unit's chosen vector, action, group and reward."""

    vectors: Floats
    actions: Integers
    groups: Integers
    rewards: Floats

    def take(self, units: Bools | Integers) -> Feedback:
        """Return the outcomes of some of the units."""
        return Feedback(
            self.vectors[units], self.actions[units], self.groups[units], self.rewards[units]
        )


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


@dataclass(frozen=True)
class TryingState(State):
    """The state of a policy that tries, or avoids, the actions without an outcome.

    Parameters
    ----------
    untried
        For each model, whether the estimates have no outcome of it; frozen while a batch is open.
    """

    untried: Bools = field(default_factory=lambda: np.ones(0, dtype=np.bool_))


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


@dataclass(frozen=True, kw_only=True)
class BasePolicy:
    """What all policies of this package share: evidence kept in groups, and a rule for each batch.

    A subclass says how it estimates (`refit`) and by which rule it assigns (`preference`).
    """

    #: Non-default settings that the conformance checks run in addition to the default.
    examples: ClassVar[tuple[dict[str, Any], ...]] = ()
    #: Whether every batch after the first takes the highest estimated mean, and nothing else.
    greedy: ClassVar[bool] = False
    #: How later batches share units out: "greedy" prefers one action to all others, "thompson"
    #: gives each as often as it is likely to be best. Plans of experiments ask.
    sharing: ClassVar[Literal["greedy", "thompson"]] = "greedy"
    #: Whether scores are optimistic bounds on the reward, not estimates of it.
    optimistic: ClassVar[bool] = False

    def _plain(self, name: str, **bounds: float) -> None:
        """Check a hyper-parameter and store it as a plain float, whatever type was passed."""
        checked = arguments.number(name, getattr(self, name), **bounds)
        object.__setattr__(self, name, checked)

    def _plain_unless(self, name: str, word: str, **bounds: float) -> None:
        """Check and store a hyper-parameter that may also be a word."""
        given = getattr(self, name)
        if not isinstance(given, str) or given != word:
            self._plain(name, **bounds)

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
        rule, own = self.rule(state), type(self)
        # Batches may be of one unit: without an override the rule is made once, not three times.
        if own.rank is BasePolicy.rank and own.choose is BasePolicy.choose:
            return rule.decide(contexts, draws, positions)
        ranking = self.rank(state, contexts)
        actions, probabilities = self.choose(state, contexts, ranking, draws)
        return rule.decision(contexts, ranking, actions, probabilities, positions)

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
        estimated = self.refit(state)
        fresh = tuple(np.zeros_like(stale) for stale in state.stale)
        return replace(estimated, batch=state.batch + 1, stale=fresh)

    def groups(self, problem: Problem) -> int:  # noqa: ARG002
        """Return the number of groups into which the evidence is divided."""
        return 1

    def numbers_kept(self, problem: Problem) -> int:
        """Return roughly how many numbers a state holds: the sums of products dominate."""
        return self.groups(problem) * problem.models * problem.dim**2

    def intervals(self, state: State) -> Intervals | None:  # noqa: ARG002
        """Return which groups the open batch's outcomes enter; None where all enter group 0."""
        return None

    def still_used(self, state: State, groups: Integers) -> Bools:
        """Return for each group whether an outcome that enters it now affects any estimate."""
        return (groups >= 0) & (groups < len(state.evidence))

    def evidence_used(self, state: State) -> Statistics:
        """Return the evidence that the current estimates were fitted to."""
        return state.evidence[0]

    def known(self, state: State) -> Bools:
        """Return for which models the current estimates have evidence, shape (models,)."""
        return self.evidence_used(state).count > 0

    def prior(self, problem: Problem) -> tuple[Estimate, ...]:
        """Return the estimates before any data."""
        return (Estimate.zero(problem.models, problem.dim),)

    def refit(self, state: State) -> State:
        """Return the state with new estimates, as its batch closes; unchanged if there are none."""
        return state

    def rule(self, state: State) -> Rule:
        """Return what decides in the open batch, for everyone who assigns its units."""
        return self.preference(state)

    def preference(self, state: State) -> Rule:
        """Return the rule of the open batch, were it no uniform first one."""
        raise NotImplementedError

    # A subclass may override these two. Its rule then no longer tells how it assigns, so that
    # readers of rules ask `registry.is_own` first.
    def rank(self, state: State, contexts: Contexts) -> Ranking:
        """Score every action, by the rule."""
        return self.rule(state).rank(contexts)

    def choose(
        self, state: State, contexts: Contexts, ranking: Ranking, draws: Floats
    ) -> tuple[Integers, Floats]:
        """Return each unit's action and every action's probability, by the rule."""
        return self.rule(state).choose(contexts, ranking, draws)

    @property
    def starts_blind(self) -> bool:
        """Whether the first batch is assigned without looking at contexts."""
        return True

    @property
    def ends_greedily(self) -> bool:
        """Whether the last batch prefers one action to all others, whatever those before do."""
        return False

    @property
    def explored(self) -> float:
        """The share of every batch's units that get any of their actions, equally likely."""
        return 0.0

    def determined(self, state: State) -> Integers | None:  # noqa: ARG002
        """Return the rank of each model's data; None if the policy does not need full rank."""
        return None

    def summary(self, state: State) -> Estimate:
        """Return the one estimate to report."""
        return state.estimates[0]

    def final(self, state: State) -> Rule:
        """Return the rule for units after the last batch: the highest estimated mean."""
        return Rule(kind="highest", theta=self.summary(state).theta, ties="random")

    def recommended(self, state: State, contexts: Contexts) -> Floats:
        """Return what units after the last batch would get: each action's probability (n, K)."""
        rule = self.final(state)
        return rule.choose(contexts, rule.rank(contexts), np.zeros(len(contexts)))[1]


@dataclass(frozen=True, kw_only=True)
class LinearPolicy(BasePolicy):
    """Policies that estimate linear rewards and prefer the action that ranks highest.

    A subclass says how it estimates (`refit`) and, unless it takes the highest estimated mean,
    by which rule it assigns (`preference`).

    Parameters
    ----------
    first
        How the first batch is assigned. ``"fixed"``: as published, from theta = 0. ``"uniform"``:
        every unit gets a uniformly random action. ``"design"``: every unit gets the action that
        teaches most (shared layout). None: ``"fixed"`` in the shared layout, and ``"uniform"`` in
        the others, where the outcomes of one action teach nothing about the others: a policy that
        starts from theta = 0 may never try most of them. With None, later batches are uniform as
        well for units that may get an action which has no outcome yet.
    design
        The matrix of ``first="design"``, from :func:`~seqbatch.policies.design.design_of`.
    ties
        ``"lowest"``: among equal scores the lowest action wins. ``"random"``: all are equally
        likely.
    last
        ``"same"``: the last batch is assigned like those before. ``"greedy"``: its units get the
        action with the highest estimated mean, since nothing can be learned any more.
    """

    first: First | None = None
    design: ArrayLike | None = field(default=None, repr=False)
    ties: Ties = "lowest"
    last: Last = "same"

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"first": "uniform", "ties": "random"},)

    def __post_init__(self) -> None:
        if self.first is not None:
            arguments.choice("first", self.first, ("fixed", "uniform", "design"))
        arguments.choice("ties", self.ties, ("lowest", "random"))
        arguments.choice("last", self.last, ("same", "greedy"))
        # Stored as plain tuples: policies compare, hash and serialise.
        object.__setattr__(self, "design", checked(self.design))
        if (self.first == "design") != (self.design is not None):
            given = "none" if self.design is None else f"a design with first = {self.first!r}"
            raise InvalidArgumentError(
                "design", 'given with first = "design", and left out without it', given
            )

    def begin(self, problem: Problem) -> State:
        """Refuse a design that does not fit the problem; return the state before the first unit."""
        if self.design is not None:
            if problem.layout != "shared":
                raise InvalidArgumentError(
                    "layout",
                    "'shared' with first = \"design\", which compares vectors of actions",
                    repr(problem.layout),
                    'Use first = "uniform" where each action has its own model.',
                )
            arguments.floats("design", self.design, (problem.dim, problem.dim))
        state = super().begin(problem)
        if not self.tells_untried(problem):
            return state
        parts = {part.name: getattr(state, part.name) for part in fields(state)}
        return self.told_untried(TryingState(**parts))

    def close(self, state: State) -> State:
        """End the batch: re-estimate, and see which actions have no outcome yet."""
        return self.told_untried(super().close(state))

    def told_untried(self, state: State) -> State:
        """Return the state with the actions that have no outcome now, if it keeps them."""
        if not isinstance(state, TryingState):
            return state
        return replace(state, untried=self.untried(state))

    def untried(self, state: State) -> Bools:
        """Return for which models there is no outcome, shape (models,)."""
        counts = np.array([part.count for part in state.evidence])
        untried: Bools = counts.sum(axis=0) == 0
        return untried

    def tells_untried(self, problem: Problem) -> bool:
        """Return whether the actions without an outcome are treated differently from others."""
        return self.tries_all(problem)

    @property
    def starts_blind(self) -> bool:
        """Whether the first batch is stated to be assigned without looking at contexts."""
        return self.first == "uniform"

    def opening(self, problem: Problem) -> First:
        """Return how the first batch is assigned: as stated, or else by the layout."""
        if self.first is not None:
            return self.first
        return "fixed" if problem.models == 1 else "uniform"

    def tries_all(self, problem: Problem) -> bool:
        """Return whether units are assigned at random until every action has an outcome."""
        return self.first is None and self.opening(problem) == "uniform"

    @property
    def published(self) -> bool:
        """Whether the policy estimates and assigns as published; compiled loops know no more."""
        return self.last == "same" and self.design is None

    @property
    def pooling(self) -> bool:
        """Whether actions learn from one another, if each has its own model."""
        return False

    @property
    def ends_greedily(self) -> bool:
        """Whether the last batch prefers one action to all others."""
        return self.last == "greedy"

    def pools(self, problem: Problem) -> bool:
        """Return whether an action without outcomes is known from the others."""
        return self.pooling and problem.models > 1

    def determined(self, state: State) -> Integers | None:
        """Return the rank of each model's evidence in the estimate in use."""
        return self.summary(state).rank

    def rule(self, state: State) -> Rule:
        """Return the rule that `first` asks for at first, and the preference elsewhere."""
        preferred = self.preference(state)
        if state.batch == 1 and self.opening(state.problem) == "uniform":
            return replace(preferred, kind="uniform", epsilon=None)
        if self.last == "greedy" and 1 < state.batch == state.problem.batches:
            return self.highest(state)
        trying = state.batch > 1 and self.tries_all(state.problem)
        if trying and isinstance(state, TryingState) and state.untried.any():
            return replace(preferred, untried=state.untried)
        return self._by_design(preferred) if state.batch == 1 and self.design else preferred

    def _by_design(self, preferred: Rule) -> Rule:
        """Return the rule of the action that teaches most, |root x|, whatever the estimates."""
        cells = len(preferred.theta)
        return Rule(
            kind="highest",
            theta=np.zeros_like(preferred.theta),
            root=np.repeat(root_of(np.array(self.design))[None], cells, axis=0),
            gamma=1.0,
            ties=self.ties,
            intervals=preferred.intervals,
        )

    def preference(self, state: State) -> Rule:
        """Return the rule by which units are assigned, unless the batch is a special one."""
        return self.highest(state)

    def highest(self, state: State) -> Rule:
        """Return the rule of the highest estimated mean."""
        return Rule(
            kind="highest",
            theta=self.summary(state).theta,
            ties=self.ties,
            intervals=self.intervals(state),
        )


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

    greedy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice("unknown", self.unknown, ("zero", "avoid"))

    def highest(self, state: State) -> Rule:
        """Return the rule of the highest estimated mean, among the actions with evidence."""
        preferred = super().highest(state)
        if (known := self.familiar(state)) is None:
            return preferred
        return replace(preferred, kind="highest" if known.any() else "uniform", among=known)

    def tries_all(self, problem: Problem) -> bool:
        """Return whether units try every action: not if they are to avoid unknown ones."""
        return self.unknown == "zero" and super().tries_all(problem)

    def tells_untried(self, problem: Problem) -> bool:
        """Return whether units try or avoid actions without an outcome.

        A shared model has evidence on all actions or on none.
        """
        apart = problem.models > 1 and not self.pools(problem)
        return super().tells_untried(problem) or (self.unknown == "avoid" and apart)

    def untried(self, state: State) -> Bools:
        """Return which models' estimates have no evidence, or none at all if these are tried."""
        return ~self.known(state) if self.unknown == "avoid" else super().untried(state)

    def familiar(self, state: State) -> Bools | None:
        """Return which actions have evidence; None if the distinction does not matter."""
        if self.unknown == "zero" or not isinstance(state, TryingState):
            return None
        return None if state.batch == 1 or not state.untried.any() else ~state.untried


def _with_evidence(state: State, group: int, statistics: Statistics) -> State:
    """Return the state with one group's evidence replaced and its changed models marked stale."""
    evidence, stale = list(state.evidence), list(state.stale)
    before = evidence[group]
    # A corrected outcome changes only the moment, not the count.
    moved = (statistics.moment != before.moment).any(axis=1)
    stale[group] = stale[group] | (statistics.count != before.count) | moved
    evidence[group] = statistics
    return replace(state, evidence=tuple(evidence), stale=tuple(stale))
