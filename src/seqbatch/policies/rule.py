"""The rule of a batch: a policy frozen as plain numbers, which assigns units wherever they are.

While a batch is open, nothing changes that decides. A policy therefore makes one :class:`Rule` for
the batch, and every reader starts from it: NumPy (:meth:`Rule.decide`, by which the policies
themselves assign), trials on a device, SQL statements and Arrow batches. Readers that cannot do all
of it refuse a rule by :meth:`Rule.beyond`. Sums that they bring back enter the evidence by
:meth:`~seqbatch.policies.base.BasePolicy.absorb`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from seqbatch.core import Contexts, Estimate, kernels
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.choice import (
    Ties,
    contested,
    highest,
    pick,
    require_eligible,
    surely,
    uniformly,
)

#: What a rule may ask of its reader beyond a score for each action and the highest of them.
EXTRAS = {
    "shares": "each action has the share of posterior draws under which it is best",
    "mixture": "each unit follows one of several rules, drawn with fixed weights",
    "exploration": "a share of the units explores at random",
    "stages": "units pass through stages until one of them decides",
    "untried": "units that may get an action without outcomes get any of their actions",
}


@dataclass(frozen=True)
class Decision:
    """What was decided for some units, and why.

    Parameters
    ----------
    actions
        The action of each unit, numbered from 0, shape (n,).
    probabilities
        The probability that the policy gave to every action, shape (n, K); 0 where the unit may not
        get it.
    scores
        What the policy compared, shape (n, K); means plus a multiple of widths for UCB.
    means
        Estimated mean rewards, shape (n, K).
    widths
        sqrt(x' A^-1 x) before any multiplier, shape (n, K); None where the policy has none.
    groups
        The part of the evidence that each unit's outcome enters, shape (n,); -1 for none.
    stages
        SupSBUCB's stage of decision, counted from 1, shape (n,); None elsewhere.
    rules
        SupSBUCB's rule of decision, ``"a"`` or ``"c"``, shape (n,); None elsewhere.
    candidates
        Which actions the choice was among, shape (n, K), where the policy passed some over that the
        unit may get: eliminated ones, or those without outcomes. None elsewhere.
    prices
        What one more unit of each action would be worth under limits, in units of scores, shape
        (K,); None without limits, and where the policy draws actions at random.
    samples
        The number of posterior draws or bootstrap models behind the probabilities; None where none
        are drawn, and under limits. Actions are drawn with exactly these probabilities in any case.

    Examples
    --------
    >>> shares, one = np.array([[0.25, 0.75]]), np.ones((1, 2))
    >>> decision = Decision(np.array([1]), shares, one, one, None, np.array([0]), samples=100)
    >>> decision.errors.round(3)
    array([[0.043, 0.043]])
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
    samples: int | None = None

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def errors(self) -> Floats:
        """Standard errors of the probabilities, as estimates of those that an action is best.

        Infinitely many draws would give the latter. 0 where nothing is drawn.
        """
        p = self.probabilities
        return np.zeros_like(p) if self.samples is None else np.sqrt(p * (1 - p) / self.samples)

    def require_sound(self, policy: str, contexts: Contexts) -> None:
        """Refuse what no policy may decide: other shapes, unknown or ineligible actions."""
        units, K = len(contexts), contexts.problem.actions
        for name, array in (("actions", self.actions), ("groups", self.groups)):
            if array.shape != (units,) or array.dtype.kind != "i":
                raise InvalidArgumentError(
                    f"{policy}'s {name}",
                    f"{units} whole numbers",
                    f"{array.dtype} of shape {array.shape}",
                )
        if units and not (self.actions.min() >= 0 and self.actions.max() < K):
            received = f"{self.actions.min()} to {self.actions.max()}"
            raise InvalidArgumentError(f"{policy}'s actions", f"between 0 and {K - 1}", received)
        require_eligible(policy, self.actions, self.probabilities, contexts.eligible)


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


@dataclass(frozen=True)
class Intervals:
    """How the places of a batch are split between parts of the evidence.

    Parameters
    ----------
    size
        Units in the batch.
    pieces
        How many intervals the batch is cut into, at floor(j size / pieces); 0 where no outcome
        enters any part.
    first
        The part of the first interval; the next interval enters the next part.
    used
        The parts that an estimate will use: from the first number to before the second.
    """

    size: int
    pieces: int
    first: int
    used: tuple[int, int]

    def groups(self, positions: Integers) -> Integers:
        """Return the part of the evidence of each place, or -1 where no estimate will use it.

        Interval j of n units, from 0, starts at floor(j n / pieces): the last j with
        floor(j n / pieces) <= i is ceil((i + 1) pieces / n) - 1.
        """
        if self.pieces == 0:
            return np.full(len(positions), -1, dtype=np.int64)
        groups = ((positions + 1) * self.pieces - 1) // self.size + self.first
        return np.where((groups >= self.used[0]) & (groups < self.used[1]), groups, -1)

    def parts(self) -> list[tuple[int, int, int]]:
        """Return each part that is used with its units: from start to before stop."""
        pieces = self.pieces
        cuts = [j * self.size // pieces for j in range(pieces + 1)] if pieces else []
        parts = [(low, high) for low, high in pairwise(cuts) if high > low]
        groups = self.groups(np.array([low for low, _ in parts], dtype=np.int64))
        return [(int(g), *part) for g, part in zip(groups, parts, strict=True) if g >= 0]


@dataclass(frozen=True)
class Staging:
    """The stages that units pass through, one after another, until one of them decides (SupSBUCB).

    Parameters
    ----------
    estimates
        The ridge regression of each stage.
    enough
        The width at which nothing is left to explore, 1/sqrt(T).
    explore
        What exploring units get: 0 the highest score, 1 the widest action, 2 the first.
    """

    estimates: tuple[Estimate, ...]
    enough: float
    explore: int

    def rank(self, contexts: Contexts, gamma: float) -> Ranking:
        """Pass all units through the stages, together."""
        shape = (len(contexts), contexts.problem.actions)
        means, widths, criterion = np.empty(shape), np.empty(shape), np.empty(shape)
        stages = np.empty(len(contexts), dtype=np.int64)
        explored = np.zeros(len(contexts), dtype=np.bool_)
        units, waiting = np.arange(len(contexts)), contexts
        candidates = np.ones(shape, dtype=np.bool_)
        if contexts.eligible is not None:
            candidates &= contexts.eligible
        for stage, estimate in enumerate(self.estimates, start=1):
            mean, width = waiting.means_and_widths(estimate.theta, estimate.root)
            means[units], widths[units] = mean, width
            rows = kernels.pass_stage(
                mean,
                width,
                gamma,
                stage,
                self.enough,
                self.explore,
                candidates,
                units,
                criterion,
                stages,
                explored,
            )
            if not len(rows):
                break
            # Contexts are copied only if some unit was decided.
            if len(rows) < len(units):
                units, waiting, candidates = units[rows], waiting.take(rows), candidates[rows]
        return Ranking(
            scores=means + gamma * widths,
            means=means,
            widths=widths,
            criterion=criterion,
            groups=np.where(explored, stages - 1, -1),
            stages=stages,
            rules=np.where(explored, "c", "a"),
        )


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How the units of an open batch are assigned, and which evidence their outcomes enter.

    Parameters
    ----------
    kind
        ``"fixed"``: one action for all units; a unit that may not get it gets the lowest action
        that it may get. ``"uniform"``: each action is equally likely. ``"highest"``: the action of
        highest score, <x, theta> + gamma |root x|. ``"shares"``: each action with the share of
        `samples` under which it is best. ``"mixture"``: one of several rules, drawn with the
        probabilities `weights`; rule r takes the action of highest <x, theta> + x' Q_r x.
    theta
        The parameters of the scores, shape (models, dim). Scores are reported for every kind.
    root, gamma
        Widths and their multiplier, shape (models, dim, dim); None and 0 where scores are means.
    action
        The action of ``"fixed"``.
    samples
        The parameters of ``"shares"``, shape (samples, models, dim); None elsewhere.
    contested
        Whether shares p become p (1 - p), divided by their sum: exploration sampling.
    quadratic, weights
        Q and the weight of each rule of ``"mixture"``, shapes (rules, models, dim, dim) and
        (rules,). Without Q, rule a takes action a for every unit; a unit that may not get it gets
        the highest mean among its own. None elsewhere.
    among
        The actions with outcomes, shape (K,), where ``"highest"`` chooses among these alone. A unit
        that may get none of them gets any of its actions, each equally likely. None for all.
    ties
        Which of several equal scores wins: the ``"lowest"`` action, or each with equal probability.
    epsilon
        The share of units that get any of their actions, each equally likely, whatever the kind;
        None where the kind decides alone.
    untried
        The actions without outcomes, shape (K,): a unit that may get one of them gets any of its
        actions, each equally likely, whatever the kind. None where every unit follows the kind.
    intervals
        The parts of the evidence that outcomes enter; None where all enter part 0.
    staging
        Stages that score in place of theta and root, and set the part of the evidence; None where
        there are none.
    """

    kind: Literal["fixed", "uniform", "highest", "shares", "mixture"]
    theta: Floats
    root: Floats | None = None
    gamma: float = 0.0
    action: int = 0
    samples: Floats | None = None
    contested: bool = False
    quadratic: Floats | None = None
    weights: Floats | None = None
    among: Bools | None = None
    ties: Ties = "lowest"
    epsilon: float | None = None
    untried: Bools | None = None
    intervals: Intervals | None = None
    staging: Staging | None = None

    def decide(self, contexts: Contexts, draws: Floats, positions: Integers) -> Decision:
        """Assign units; see :meth:`seqbatch.policies.base.Policy.assign` for the arguments."""
        ranking = self.rank(contexts)
        actions, probabilities = self.choose(contexts, ranking, draws)
        return self.decision(contexts, ranking, actions, probabilities, positions)

    def decision(
        self,
        contexts: Contexts,
        ranking: Ranking,
        actions: Integers,
        probabilities: Floats,
        positions: Integers,
    ) -> Decision:
        """Return what was chosen, with its reasons and the evidence that outcomes will enter."""
        return Decision(
            actions=actions,
            probabilities=probabilities,
            scores=ranking.scores,
            means=ranking.means,
            widths=ranking.widths,
            groups=self.groups(positions) if ranking.groups is None else ranking.groups,
            stages=ranking.stages,
            rules=ranking.rules,
            candidates=self.candidates(contexts, ranking),
            samples=None if self.samples is None else len(self.samples),
        )

    def rank(self, contexts: Contexts) -> Ranking:
        """Score every action for every unit."""
        if self.staging is not None:
            return self.staging.rank(contexts, self.gamma)
        if self.root is None:
            means = contexts.means(self.theta)
            return Ranking(scores=means, means=means)
        means, widths = contexts.means_and_widths(self.theta, self.root)
        return Ranking(scores=means + self.gamma * widths, means=means, widths=widths)

    def choose(
        self, contexts: Contexts, ranking: Ranking, draws: Floats
    ) -> tuple[Integers, Floats]:
        """Return each unit's action and every action's probability."""
        actions, probabilities = self._choose_by_kind(contexts, ranking, draws)
        K, eligible = contexts.problem.actions, contexts.eligible
        if self.epsilon is not None:
            # Only the probabilities are used: the draw decides once, on the mixture.
            share: float | Floats = self.epsilon / K
            if eligible is not None:
                share = eligible * (self.epsilon / eligible.sum(axis=1, keepdims=True))
            actions, probabilities = pick((1 - self.epsilon) * probabilities + share, draws)
        if self.untried is None:
            return actions, probabilities
        blind, even = uniformly(len(contexts), K, draws, eligible)
        if eligible is None:
            return blind, even
        tries = (eligible & self.untried).sum(axis=1) > 0
        return np.where(tries, blind, actions), np.where(tries[:, None], even, probabilities)

    def _choose_by_kind(
        self, contexts: Contexts, ranking: Ranking, draws: Floats
    ) -> tuple[Integers, Floats]:
        eligible, K = contexts.eligible, contexts.problem.actions
        if self.kind == "fixed":
            chosen = np.full(len(contexts), self.action, dtype=np.int64)
            if eligible is not None:
                chosen = np.where(eligible[:, self.action], chosen, eligible.argmax(axis=1))
            return surely(chosen, K)
        if self.kind == "uniform":
            return uniformly(len(contexts), K, draws, eligible)
        if self.kind == "shares":
            assert self.samples is not None
            shares = contexts.best_shares(self.samples, split_ties=self.ties == "random")
            return pick(contested(shares) if self.contested else shares, draws)
        if self.kind == "mixture":
            return pick(self._mixed(contexts, ranking), draws)
        criterion = ranking.scores if ranking.criterion is None else ranking.criterion
        if self.among is None:
            return highest(criterion, self.ties, draws, eligible)
        familiar = self._familiar(contexts, self.among)
        lost: Bools = (familiar & self.among).sum(axis=1) == 0
        blind, shares = uniformly(len(contexts), K, draws, familiar)
        actions, probabilities = highest(criterion, self.ties, draws, familiar)
        return np.where(lost, blind, actions), np.where(lost[:, None], shares, probabilities)

    def _mixed(self, contexts: Contexts, ranking: Ranking) -> Floats:
        """Return the probability of each action under a mixture of rules."""
        assert self.weights is not None
        if self.quadratic is not None:
            split = self.ties == "random"
            return contexts.mixture_shares(
                self.theta, self.quadratic, self.weights, split_ties=split
            )
        if (eligible := contexts.eligible) is None:
            return np.tile(self.weights, (len(contexts), 1))
        kept: Floats = eligible * self.weights
        _, best = highest(ranking.scores, self.ties, np.zeros(len(contexts)), eligible)
        lost = np.where(eligible.all(axis=1), 0.0, np.maximum(1 - kept.sum(axis=1), 0.0))
        mixed: Floats = kept + lost[:, None] * best
        return mixed

    def candidates(self, contexts: Contexts, ranking: Ranking) -> Bools | None:
        """Return which actions the choice is among; None where it is all that a unit may get."""
        if self.among is not None:
            return self._familiar(contexts, self.among)
        return None if ranking.criterion is None else ranking.criterion > -np.inf

    def _familiar(self, contexts: Contexts, among: Bools) -> Bools:
        """Return which of a unit's actions have outcomes, or all of them where none has."""
        eligible = contexts.eligible
        if eligible is None:
            eligible = np.ones((len(contexts), contexts.problem.actions), dtype=np.bool_)
        familiar = eligible & among
        return np.where(familiar.any(axis=1, keepdims=True), familiar, eligible)

    def groups(self, positions: Integers) -> Integers:
        """Return the part of the evidence that the outcome at each place of the batch enters."""
        if self.intervals is None:
            return np.zeros(len(positions), dtype=np.int64)
        return self.intervals.groups(positions)

    def parts(self, size: int) -> list[tuple[int, int, int]]:
        """Return the parts of the evidence that outcomes of a batch enter, each with its units.

        Units start to stop - 1 of the batch enter the part; units in no interval enter none.
        """
        return [(0, 0, size)] if self.intervals is None else self.intervals.parts()

    def constant(self, actions: int) -> tuple[float, ...] | None:
        """Return the probability of each action where all units that may get all have the same.

        None where probabilities depend on the unit.
        """
        if self.untried is not None:
            return (1 / actions,) * actions
        if self.kind == "fixed":
            return tuple(float(action == self.action) for action in range(actions))
        if self.kind == "mixture" and self.quadratic is None and self.weights is not None:
            return tuple(self.weights.tolist())
        return (1 / actions,) * actions if self.kind == "uniform" else None

    @property
    def extras(self) -> tuple[str, ...]:
        """What the rule asks of its reader, of :data:`EXTRAS`."""
        asked = {
            "shares": self.kind == "shares",
            "mixture": self.kind == "mixture",
            "exploration": self.epsilon is not None,
            "stages": self.staging is not None,
            "untried": self.untried is not None,
        }
        return tuple(name for name, there in asked.items() if there)

    def beyond(self, *, reads: Collection[str] = ()) -> list[str]:
        """Return why a reader that can do no more than these extras must refuse the rule."""
        return [EXTRAS[name] for name in self.extras if name not in reads]
