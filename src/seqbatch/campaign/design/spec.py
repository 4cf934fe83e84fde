"""A campaign's spec: what a person writes down before the first unit is assigned."""

from collections.abc import Iterable
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from seqbatch.campaign.design.features import Features
from seqbatch.campaign.design.limits import MOST_ACTIONS, MOST_UNITS, MOST_WAVES
from seqbatch.campaign.design.parts import Name, Number, Part, Share, Whole, distinct

#: What columns of answers and exports are called.
RESERVED = (
    "action", "wave", "score", "probability", "randomised", "event", "line", "version", "verdict",
    "reason",
)  # fmt: skip
#: Settings that were called otherwise once, and what they are called now.
RENAMED = {"holdout": "randomised", "missing": "required_outcomes"}


class Action(Part):
    """One thing that can be done to a unit, with its own features where the model is shared."""

    name: Name
    features: dict[Name, Number] = Field(default={})


class Reward(Part):
    """Which column of the outcome file is learned from, and what it may hold."""

    column: Name
    direction: Literal["max", "min"] = "max"
    range: tuple[Number, Number] | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "Reward":
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError(f"range must be [low, high] with low below high, not {self.range}")
        return self


class Grid(Part):
    """When waves end: given sizes, a plan, or whenever they are closed."""

    sizes: tuple[Annotated[Whole, Field(ge=1, le=MOST_UNITS)], ...] | None = Field(
        default=None, max_length=MOST_WAVES
    )
    calendar: bool = False
    waves: Whole | None = Field(default=None, ge=1, le=MOST_WAVES)
    units: Whole | None = Field(default=None, ge=1, le=MOST_UNITS)
    plan: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "Grid":
        if (self.sizes is not None) + self.calendar + (self.plan is not None) != 1:
            raise ValueError("exactly one of sizes, calendar = true and plan is needed")
        if self.sizes == ():
            raise ValueError("sizes must name at least one wave")
        if self.sizes is not None and sum(self.sizes) > MOST_UNITS:
            raise ValueError(
                f"sizes must sum to at most {MOST_UNITS:,} units; received {sum(self.sizes):,}"
            )
        if self.calendar and (self.waves is None or self.units is None):
            raise ValueError(
                "calendar waves need waves (how many there may be) and units (how many units are "
                "expected in all; policies use it, the waves may be of any size)"
            )
        if not self.calendar and (self.waves is not None or self.units is not None):
            raise ValueError("waves and units go with calendar = true alone")
        return self


class PolicyChoice(Part):
    """A policy by its name, and its parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Name


class Spec(Part):
    """Everything that is fixed when a campaign is created."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    seed: Whole = Field(default=0, ge=0, lt=2**63)
    unit: Name = "unit"
    actions: tuple[Annotated[Action, BeforeValidator(lambda v: _action(v))], ...] = Field(
        min_length=2, max_length=MOST_ACTIONS
    )
    control: str | None = None
    start: date | None = None
    model: Literal["per-action", "shared"] = "per-action"
    features: Features = Features()
    reward: Reward
    outcome: Name | None = None
    grid: Grid
    policy: PolicyChoice | None = None
    randomised: Share = 0.0
    floor: Number = Field(default=0.0, ge=0)
    required_outcomes: Share = 0.9
    on_unseen_category: Literal["error", "other"] = "error"

    @field_validator("actions")
    @classmethod
    def _named_once(cls, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        distinct(tuple(action.name for action in actions), "actions")
        return actions

    @model_validator(mode="after")
    def _consistent(self) -> "Spec":
        names = [action.name for action in self.actions]
        if self.control is not None and self.control not in names:
            raise ValueError(f"control must be one of the actions ({', '.join(names)})")
        if self.floor * len(names) > 1:
            raise ValueError(
                f"floor must be at most 1 / {len(names)} with {len(names)} actions, since every "
                "action has at least that probability"
            )
        kinds = {tuple(action.features) for action in self.actions}
        if self.model == "shared" and (kinds == {()} or len(kinds) > 1):
            raise ValueError(
                'model = "shared" needs the same features, in the same order, for every action'
            )
        if self.model == "per-action" and kinds != {()}:
            raise ValueError('actions have features where model = "shared" alone')
        if self.unit in answer_columns(names):
            raise ValueError(
                f"the unit column cannot be called {self.unit!r}, as a column of the answers or of "
                f"an export is; nor {', '.join(RESERVED)}"
            )
        own = [self.unit, self.reward.column, *([self.outcome] if self.outcome else [])]
        distinct(tuple(own), "unit, reward.column and outcome")
        if self.unit in self.features.columns:
            raise ValueError(f"the unit column {self.unit!r} cannot be a feature")
        if self.start is None and any("days" in r.parts for r in self.features.date.values()):
            raise ValueError(
                "start is needed where a date's days are a feature: they are counted from it, as "
                "in start = 2026-03-01"
            )
        if self.reward.column in self.features.columns:
            raise ValueError(
                f"reward.column {self.reward.column!r} is also a feature: an outcome cannot be "
                "known before its unit is assigned. Leave it out of the features, or rename one"
            )
        return self


def answer_columns(actions: Iterable[str]) -> set[str]:
    """Return what columns of answers and exports are called, where these are the actions."""
    return {*RESERVED, *(f"p({name})" for name in actions)}


def _action(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value
