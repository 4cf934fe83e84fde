"""What a person says of a campaign before there is a spec."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from seqbatch.campaign.design.proposing import Became
from seqbatch.campaign.design.toml import check_spec
from seqbatch.core import arguments

NAME, ACTIONS, REWARD = "my-campaign", ("nothing", "offer A", "offer B"), "outcome"


def fresh_seed() -> int:
    """Return a seed from the operating system's randomness: who knows it can foresee actions.

    It has 53 bits, which every reader of JSON keeps.
    """
    return secrets.randbelow(1 << 53)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a person says of a campaign before there is a spec.

    Parameters
    ----------
    name, actions, control, reward
        As in a spec; `control` is the first action where None.
    seed
        As in a spec; a fresh one, which nobody guesses, where none is given.
    costs
        What actions cost, those that cost anything.
    direction, range
        Of the reward, as in a spec.
    randomised, floor, required_outcomes
        As in a spec; None for a floor that suits the number of actions.
    waves
        How many waves there are; None: 3, or as many as the plan recommends.
    sizes
        The waves' sizes, in place of all other ways to find them.
    units_in_all
        How many units there will be; None: the rows of the file.
    plan
        Whether the planner finds the sizes; else the waves are of equal size.
    unit, kinds
        The columns that tell units apart, and what becomes of some of the others, where that is
        not what would be proposed.
    today
        The campaign's start, if a feature needs it.
    """

    name: str = NAME
    seed: int = field(default_factory=fresh_seed)
    actions: Sequence[str] = ACTIONS
    control: str | None = None
    reward: str = REWARD
    costs: Mapping[str, float] = field(default_factory=dict)
    direction: str = "max"
    range: tuple[float, float] | None = None
    randomised: float = 0.1
    floor: float | None = None
    required_outcomes: float = 0.9
    waves: int | None = None
    sizes: Sequence[int] | None = None
    units_in_all: int | None = None
    plan: bool = False
    unit: Sequence[str] | None = None
    kinds: Mapping[str, Became] = field(default_factory=dict)
    today: date | None = None

    def check(self) -> None:
        """Refuse what a spec would refuse, in its words, before a file is read."""
        for name, given in (("waves", self.waves), ("units", self.units_in_all)):
            if given is not None:
                arguments.integer(name, given, at_least=1)
        check_spec(
            {
                "name": self.name, "seed": self.seed, "actions": self.declared,
                "control": self.controlled, "randomised": self.randomised, "floor": self.least,
                "required_outcomes": self.required_outcomes,
                "reward": {"column": self.reward, "direction": self.direction, "range": self.range},
                "grid": {"sizes": list(self.sizes or [1] * (self.waves or 1))},
            },
            name="the spec to be written",
        )  # fmt: skip

    @property
    def controlled(self) -> str | None:
        """The action that others are compared with."""
        return self.control or next(iter(self.actions), None)

    @property
    def declared(self) -> list[Any]:
        """The actions as in a spec: by name, and with a cost where they have one."""
        return [
            {"name": name, "cost": cost} if (cost := self.costs.get(name)) else name
            for name in self.actions
        ]

    @property
    def least(self) -> float:
        """The least probability of each action."""
        return min(0.01, 0.5 / max(len(self.actions), 1)) if self.floor is None else self.floor
