"""The problem that a policy solves: horizon, batch ends, number of actions, context layout."""

from dataclasses import dataclass
from typing import Literal, get_args

from seqbatch.core import arguments
from seqbatch.errors import InvalidArgumentError

Layout = Literal["shared", "disjoint", "block"]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The horizon, batches, actions and layout of the contexts.

    Parameters
    ----------
    ends
        Number of units by the end of each batch, t_1 < ... < t_M = T.
    actions
        K, the number of actions, which are numbered from 0.
    dim
        The length of one context vector: d in the shared layout, p in the other two.
    layout
        ``"shared"``: one vector per unit and action, one parameter. ``"disjoint"``: one vector per
        unit and action, one parameter per action. ``"block"``: one vector per unit, one parameter
        per action.
    """

    ends: tuple[int, ...]
    actions: int
    dim: int
    layout: Layout

    def __post_init__(self) -> None:
        if not self.ends:
            raise InvalidArgumentError("ends", "at least one batch end", "none")
        object.__setattr__(self, "actions", arguments.integer("actions", self.actions, at_least=2))
        object.__setattr__(self, "dim", arguments.integer("dim", self.dim))
        arguments.choice("layout", self.layout, get_args(Layout))

    @property
    def units(self) -> int:
        """T, the number of units."""
        return self.ends[-1]

    @property
    def batches(self) -> int:
        """M, the number of batches."""
        return len(self.ends)

    @property
    def models(self) -> int:
        """The number of parameter vectors to estimate: one, or one per action."""
        return 1 if self.layout == "shared" else self.actions

    @property
    def parameters(self) -> int:
        """The number of scalars to estimate: the paper's d, which is p K unless shared."""
        return self.models * self.dim

    def size(self, batch: int) -> int:
        """Return the number of units in batch number `batch`, counted from 1."""
        start = self.ends[batch - 2] if batch > 1 else 0
        return self.ends[batch - 1] - start
