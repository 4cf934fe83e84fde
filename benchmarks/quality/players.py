"""What plays the campaigns of the quality study: policies, and what one would write by hand."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from seqbatch.core import Contexts, Problem
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.policies import Feedback, Policy, UniformRandom

# ----------------------------------------------------------------------
# What plays a campaign.


@dataclass(frozen=True)
class Setting:
    """What a method is told before the first unit.

    Parameters
    ----------
    ends
        Number of units with an outcome by the end of each wave.
    actions, dim
        K, and the length of a row.
    yes_or_no
        Whether outcomes are 0 or 1.
    noise
        The standard deviation of outcomes around linear models: only methods named so use it.
    seed
        A seed for methods with draws of their own.
    """

    ends: tuple[int, ...]
    actions: int
    dim: int
    yes_or_no: bool
    noise: float
    seed: int

    @property
    def problem(self) -> Problem:
        """The problem as policies see it."""
        return Problem(ends=self.ends, actions=self.actions, dim=self.dim, layout="block")


class Player(Protocol):
    """Chooses all actions of a wave, then learns its outcomes."""

    def choose(self, rows: Floats, draws: Floats) -> Integers:
        """Return an action for each row, from one number in [0, 1) a row."""

    def learn(self, rows: Floats, actions: Integers, rewards: Floats, kept: Bools) -> None:
        """Learn the outcomes of the rows kept; the arguments are those of the whole wave."""


@dataclass(frozen=True)
class Method:
    """A method of the study.

    Parameters
    ----------
    name
        Its name on the page.
    make
        Begins a campaign.
    kind
        ``"seqbatch"``, ``"by hand"`` or the name of a library.
    linear
        Whether it is a linear default: one setting for all worlds, told nothing of the noise.
    yes_or_no
        Whether it takes outcomes of 0 or 1 only.
    seeds
        The most seeds that it runs, or all; for slow ones.
    """

    name: str
    make: Callable[[Setting], Player]
    kind: str
    linear: bool = False
    yes_or_no: bool = False
    seeds: int | None = None


class PolicyPlayer:
    """A policy of this package, or one with the same four functions."""

    def __init__(self, policy: Policy, setting: Setting) -> None:
        self.policy, self.problem = policy, setting.problem
        self.state = policy.begin(self.problem)
        self.groups = np.zeros(0, dtype=np.int64)

    def choose(self, rows: Floats, draws: Floats) -> Integers:
        """Assign the wave."""
        contexts = Contexts.of(rows, self.problem)
        decision = self.policy.assign(self.state, contexts, draws, np.arange(len(rows)))
        self.groups = decision.groups
        return decision.actions

    def learn(self, rows: Floats, actions: Integers, rewards: Floats, kept: Bools) -> None:
        """Close the wave."""
        feedback = Feedback(rows[kept], actions[kept], self.groups[kept], rewards[kept])
        with warnings.catch_warnings():
            # A first wave that leaves directions open is part of what is measured.
            warnings.simplefilter("ignore", RankDeficiencyWarning)
            self.state = self.policy.close(self.policy.learn(self.state, feedback))


class Other:
    """The base of all others: their first wave is the policies' uniform one."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.waves = setting, 0
        self.uniform = PolicyPlayer(UniformRandom(), setting)

    def choose(self, rows: Floats, draws: Floats) -> Integers:
        """Assign the wave."""
        if not self.waves:
            return self.uniform.choose(rows, draws)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(self.decide(rows), dtype=np.int64)

    def learn(self, rows: Floats, actions: Integers, rewards: Floats, kept: Bools) -> None:
        """Close the wave."""
        self.waves += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.update(rows[kept], actions[kept], rewards[kept])

    def decide(self, rows: Floats) -> Integers:
        """Return the actions of a wave after the first."""
        raise NotImplementedError

    def update(self, rows: Floats, actions: Integers, rewards: Floats) -> None:
        """Learn the outcomes of a wave."""
        raise NotImplementedError


# ----------------------------------------------------------------------
# By hand.


#: A fitted model: rows to means.
Model = Callable[[Floats], Floats]


class ByHand(Other):
    """One model for each action, fitted to all outcomes so far; the highest prediction wins."""

    def __init__(self, fit: Callable[[Setting, Floats, Floats], Model], setting: Setting) -> None:
        super().__init__(setting)
        self.fit = fit
        self.seen: list[tuple[Floats, Integers, Floats]] = []

    def update(self, rows: Floats, actions: Integers, rewards: Floats) -> None:
        """Keep the outcomes."""
        self.seen.append((rows, actions, rewards))

    def decide(self, rows: Floats) -> Integers:
        """Fit, predict, and take the highest."""
        known, actions, rewards = (np.concatenate(parts) for parts in zip(*self.seen, strict=True))
        predicted = [
            self._model(known[actions == one], rewards[actions == one])(rows)
            for one in range(self.setting.actions)
        ]
        best: Integers = np.column_stack(predicted).argmax(axis=1)
        return best

    def _model(self, rows: Floats, rewards: Floats) -> Model:
        """Fit an action's model; its mean where its outcomes are alike or hardly any."""
        if len(rewards) < 5 or np.ptp(rewards) == 0:
            value = float(rewards.mean()) if len(rewards) else 0.0
            return lambda rows: np.full(len(rows), value)
        return self.fit(self.setting, rows, rewards)


def logistic(setting: Setting, rows: Floats, rewards: Floats) -> Model:
    """Fit scikit-learn's logistic regression; ridge where outcomes are numbers."""
    from sklearn.linear_model import LogisticRegression, Ridge

    if not setting.yes_or_no:
        ridge = Ridge().fit(rows[:, 1:], rewards)
        return lambda new: np.asarray(ridge.predict(new[:, 1:]))
    model = LogisticRegression(max_iter=1_000).fit(rows[:, 1:], rewards)
    return lambda new: np.asarray(model.predict_proba(new[:, 1:])[:, 1])


def ridge_by_cv(_: Setting, rows: Floats, rewards: Floats) -> Model:
    """Fit a ridge regression whose penalty leaves single outcomes out."""
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(alphas=np.geomspace(0.01, 10_000, 13)).fit(rows[:, 1:], rewards)
    return lambda new: np.asarray(model.predict(new[:, 1:]))


def boosted(setting: Setting, rows: Floats, rewards: Floats) -> Model:
    """Fit scikit-learn's boosted trees, as they ship."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if setting.yes_or_no:
        chances = HistGradientBoostingClassifier(random_state=0).fit(rows[:, 1:], rewards)
        return lambda new: np.asarray(chances.predict_proba(new[:, 1:])[:, 1])
    model = HistGradientBoostingRegressor(random_state=0).fit(rows[:, 1:], rewards)
    return lambda new: np.asarray(model.predict(new[:, 1:]))


class BestArm(ByHand):
    """An A/B test in the first wave; then everybody gets the action with the highest mean."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(mean, setting)

    def update(self, rows: Floats, actions: Integers, rewards: Floats) -> None:
        """Keep the outcomes of the test alone."""
        if not self.seen:
            super().update(rows, actions, rewards)


def mean(_: Setting, rows: Floats, rewards: Floats) -> Model:  # noqa: ARG001
    """Predict the mean outcome."""
    value = float(rewards.mean())
    return lambda rows: np.full(len(rows), value)
