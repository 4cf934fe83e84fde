"""Learning by sums that are the same in any order and on any machine (sums = "exact")."""

from collections.abc import Sequence
from copy import copy

import numpy as np

from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.tables.features.largest import largest
from seqbatch.campaign.tables.vectors import Room
from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.fixed_point import ExactSums, Scale, Vectors
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
        self._groups = len(state.evidence)
        #: Where threads put the vectors that they add up.
        self.room = Room()
        # A cell for each model in each part.
        self._sums = ExactSums.zero(self._groups * self._models, scale_of(now))

    @property
    def groups(self) -> list[ExactSums]:
        """The sums of each part, which may be replaced all at once."""
        every = self._sums
        parts = [
            slice(group * self._models, (group + 1) * self._models) for group in range(self._groups)
        ]
        return [
            ExactSums(every.scale, every.high[part], every.low[part], every.count[part])
            for part in parts
        ]

    @groups.setter
    def groups(self, made: Sequence[ExactSums]) -> None:
        high, low, count = (
            np.concatenate([getattr(each, name) for each in made])
            for name in ("high", "low", "count")
        )
        self._sums = ExactSums(self._sums.scale, high, low, count)

    def empty(self) -> "GroupSums":
        """Return the sums of nobody, to be added to."""
        made = copy(self)
        made._sums = ExactSums.zero(self._groups * self._models, self._sums.scale)
        return made

    def merge(self, other: "GroupSums") -> None:
        """Take in what others were summed up to."""
        self._sums = self._sums.merged(other._sums)

    def add(
        self,
        vectors: Vectors,
        actions: Integers,
        groups: Integers,
        rewards: Floats,
        *,
        times: int = 1,
    ) -> None:
        """Take outcomes in, or out again (times = -1)."""
        models = actions if self._models > 1 else np.zeros_like(actions)
        cells = np.where(groups >= 0, groups * self._models + models, -1)
        self._sums = self._sums.added(vectors, rewards, cells, times=times)

    def absorbed(self, policy: BasePolicy, state: State) -> State:
        """Return the state with all of it taken in, rounded once."""
        for group, sums in enumerate(self.groups):
            state = policy.absorb(state, group, sums.statistics())
        return state
