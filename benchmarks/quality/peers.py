"""Libraries in the quality study, as they ship; those that are not installed are left out."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.quality.players import Method, Other, Setting
from seqbatch.core.arrays import Floats, Integers


class Contextualbandits(Other):
    """A policy of contextualbandits, fitted anew to all outcomes after every wave."""

    def __init__(self, make: Callable[[Setting], Any], setting: Setting) -> None:
        super().__init__(setting)
        self.model = make(setting)
        self.seen: list[tuple[Floats, Integers, Floats]] = []

    def update(self, rows: Floats, actions: Integers, rewards: Floats) -> None:
        """Fit to all outcomes."""
        self.seen.append((rows[:, 1:], actions, rewards))
        self.model.fit(*(np.concatenate(parts) for parts in zip(*self.seen, strict=True)))

    def decide(self, rows: Floats) -> Integers:
        """Ask the model."""
        return np.asarray(self.model.predict(rows[:, 1:]))


def bootstrapped_ucb(setting: Setting) -> Any:
    """Make the library's BootstrappedUCB over logistic regressions."""
    from contextualbandits.online import BootstrappedUCB
    from sklearn.linear_model import LogisticRegression

    base = LogisticRegression(max_iter=1_000)
    return BootstrappedUCB(base, setting.actions, random_state=setting.seed, njobs_arms=1)


def contextualbandits_linucb(setting: Setting) -> Any:
    """Make the library's LinUCB."""
    from contextualbandits.online import LinUCB

    return LinUCB(setting.actions, random_state=setting.seed, njobs=1)


class Mabwiser(Other):
    """A policy of MABWiser."""

    def __init__(self, policy: str, setting: Setting) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        super().__init__(setting)
        learning = getattr(LearningPolicy, policy)()
        self.model = MAB(list(range(setting.actions)), learning, seed=setting.seed)

    def update(self, rows: Floats, actions: Integers, rewards: Floats) -> None:
        """Fit, then add to the fit."""
        learn = self.model.fit if self.waves == 1 else self.model.partial_fit
        learn(actions, rewards, rows)

    def decide(self, rows: Floats) -> Integers:
        """Ask the model."""
        return np.asarray(self.model.predict(rows))


class Bayesianbandits(Other):
    """A contextual agent of bayesianbandits with Thompson sampling, as its manual makes one."""

    def __init__(self, setting: Setting) -> None:
        from bayesianbandits import Arm, ContextualAgent, NormalInverseGammaRegressor
        from bayesianbandits import ThompsonSampling as Thompson

        super().__init__(setting)
        arms = [Arm(n, learner=NormalInverseGammaRegressor()) for n in range(setting.actions)]
        self.agent = ContextualAgent(arms, Thompson(), random_seed=setting.seed)

    def update(self, rows: Floats, actions: Integers, rewards: Floats) -> None:
        """Update each arm."""
        for action in np.unique(actions):
            own = actions == action
            self.agent.select_for_update(int(action)).update(rows[own], rewards[own])

    def decide(self, rows: Floats) -> Integers:
        """Ask the agent."""
        return np.asarray(self.agent.pull(rows))


class VowpalWabbit(Other):
    """Vowpal Wabbit with features of each action (adf), online, one pass."""

    def __init__(self, options: str, setting: Setting) -> None:
        from vowpalwabbit import Workspace

        super().__init__(setting)
        # Products of features and action: otherwise no action could differ by features.
        self.model = Workspace(f"--cb_explore_adf {options} -q sa --quiet")
        self.random = np.random.default_rng(setting.seed)

    def update(self, rows: Floats, actions: Integers, rewards: Floats) -> None:
        """Learn unit by unit, from minus the outcome as the cost."""
        # The model is the same as when the wave was assigned: nothing was learned since.
        uniform = np.full((len(rows), self.setting.actions), 1 / self.setting.actions)
        chances = uniform if self.waves == 1 else self._chances(rows)
        for row, action, reward, chance in zip(rows, actions, rewards, chances, strict=True):
            label = f"0:{-reward:.6g}:{chance[action]:.6g} "
            self.model.learn(_lines(row, len(chance), int(action), label))

    def decide(self, rows: Floats) -> Integers:
        """Draw from the model's probabilities."""
        chances = self._chances(rows).cumsum(axis=1)
        drawn = self.random.random((len(rows), 1)) * chances[:, -1:]
        picked: Integers = (drawn > chances).sum(axis=1)
        return picked

    def _chances(self, rows: Floats) -> Floats:
        actions = self.setting.actions
        return np.array([self.model.predict(_lines(row, actions)) for row in rows])


def _lines(row: Floats, actions: int, given: int = -1, label: str = "") -> list[str]:
    """Return a unit's example: its features, then a line for each action."""
    features = " ".join(f"f{place}:{value:.5g}" for place, value in enumerate(row))
    labels = [label if action == given else "" for action in range(actions)]
    return [f"shared |s {features}", *(f"{one}|a a{n}" for n, one in enumerate(labels))]


class Coba(Other):
    """Coba's LinUCB, unit by unit, frozen within a wave."""

    def __init__(self, setting: Setting) -> None:
        from coba.learners import LinUCBLearner

        super().__init__(setting)
        self.model = LinUCBLearner(seed=setting.seed)
        self.actions = [tuple(row) for row in np.eye(setting.actions, dtype=int).tolist()]

    def update(self, rows: Floats, actions: Integers, rewards: Floats) -> None:
        """Learn unit by unit."""
        for row, action, reward in zip(rows[:, 1:].tolist(), actions, rewards, strict=True):
            self.model.learn(row, self.actions[action], float(reward), 1.0)

    def decide(self, rows: Floats) -> Integers:
        """Ask the model for each unit."""
        places = {action: place for place, action in enumerate(self.actions)}
        chosen = [self.model.predict(row, self.actions)[0] for row in rows[:, 1:].tolist()]
        return np.array([places[tuple(action)] for action in chosen])


def _peer(library: str, name: str, make: Callable[[Setting], Other], **more: Any) -> Method:
    return Method(f"{library} {name}", make, library, **more)


ALL = (
    _peer(
        "contextualbandits", "BootstrappedUCB",
        lambda s: Contextualbandits(bootstrapped_ucb, s), yes_or_no=True,
    ),
    _peer(
        "contextualbandits", "LinUCB",
        lambda s: Contextualbandits(contextualbandits_linucb, s),
    ),
    _peer("mabwiser", "LinUCB", lambda s: Mabwiser("LinUCB", s)),
    _peer("mabwiser", "LinTS", lambda s: Mabwiser("LinTS", s)),
    _peer("mabwiser", "LinGreedy", lambda s: Mabwiser("LinGreedy", s)),
    _peer("bayesianbandits", "Thompson", Bayesianbandits),
    _peer("vowpalwabbit", "epsilon-greedy", lambda s: VowpalWabbit("", s), seeds=4),
    _peer("vowpalwabbit", "squarecb", lambda s: VowpalWabbit("--squarecb", s), seeds=4),
    _peer("coba", "LinUCB", Coba, seeds=2),
)  # fmt: skip
#: A library that pip does not install as it is.
BROKEN = {
    "obp": "it asks for PyYAML below 6, which does not build on Python 3.11 (with `--no-deps` and "
    "torch version 0.4.1 runs; its estimators are in [off-policy evaluation](off-policy.md))"
}
ABSENT = tuple(sorted(name for name in {one.kind for one in ALL} if find_spec(name) is None))
PEERS = tuple(method for method in ALL if method.kind not in ABSENT)
