"""Learning by sums that are the same in any order and on any machine (sums = "exact")."""

import numpy as np

from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.tables.features.largest import largest
from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.fixed_point import ExactSums, Scale
from seqbatch.policies import Feedback
from seqbatch.policies.base import BasePolicy, State


def scale_of(now: Situation) -> Scale:
    """Return what numbers are rounded to: by what is declared and frozen, and by no unit."""
    sizes = largest(now.encoder())
    assert now.spec.reward.range is not None
    costs = max(abs(action.cost) for action in now.actions)
    reward = max(abs(end) for end in now.spec.reward.range) + costs
    return Scale.of([size for size, _ in sizes], reward, whole=[whole for _, whole in sizes])


class GroupSums:
    """What the outcomes of one wave sum to, in each part of the evidence."""

    def __init__(self, now: Situation, state: State) -> None:
        self._models = state.problem.models
        zero = ExactSums.zero(self._models, scale_of(now))
        self.groups = [zero for _ in state.evidence]

    def add(self, feedback: Feedback) -> None:
        """Take outcomes in."""
        self._add(feedback.vectors, feedback.rewards, feedback.actions, feedback.groups, 1)

    def replace(
        self, vectors: Floats, actions: Integers, groups: Integers, before: Floats, after: Floats
    ) -> None:
        """Put outcomes in the place of others; the units' own sums cancel."""
        self._add(vectors, before, actions, groups, -1)
        self._add(vectors, after, actions, groups, 1)

    def _add(
        self, vectors: Floats, rewards: Floats, actions: Integers, groups: Integers, times: int
    ) -> None:
        models = actions if self._models > 1 else np.zeros_like(actions)
        for group in np.unique(groups[groups >= 0]).tolist():
            cells = np.where(groups == group, models, -1)
            self.groups[group] = self.groups[group].added(vectors, rewards, cells, times=times)

    def absorbed(self, policy: BasePolicy, state: State) -> State:
        """Return the state with all of it taken in, rounded once."""
        for group, sums in enumerate(self.groups):
            state = policy.absorb(state, group, sums.statistics())
        return state
