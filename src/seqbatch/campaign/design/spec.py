"""A campaign's spec: what a person writes down before the first unit is assigned."""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from seqbatch.campaign.design.limits import (
    LARGEST_NUMBER,
    LONGEST_CELL,
    MOST_ACTIONS,
    MOST_LEVELS,
    MOST_UNITS,
    MOST_WAVES,
)

#: What columns of answers and exports are called.
RESERVED = (
    "action", "wave", "score", "probability", "randomised", "event", "line", "version", "verdict",
    "reason",
)  # fmt: skip
#: Settings that were called otherwise once, and what they are called now.
RENAMED = {"holdout": "randomised", "missing": "required_outcomes"}
Name = Annotated[str, Field(min_length=1, max_length=200)]


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is meant here; true and false are none")
    return value


#: True is a number to Python, but where a number is meant it is a mistake.
Whole = Annotated[int, BeforeValidator(_no_boolean)]
Number = Annotated[
    float, BeforeValidator(_no_boolean), Field(gt=-LARGEST_NUMBER, lt=LARGEST_NUMBER)
]
Share = Annotated[Number, Field(ge=0, le=1)]


class Part(BaseModel):
    """What all parts of a spec share: unknown keys are refused, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Action(Part):
    """One thing that can be done to a unit, with its own features where the model is shared."""

    name: Name
    features: dict[Name, Number] = {}


class Scaling(Part):
    """Subtract `mean` and divide by `sd`, fixed at creation."""

    mean: Number
    sd: Number = Field(gt=0)


class Levels(Part):
    """An indicator for each level."""

    levels: tuple[Annotated[str, Field(max_length=LONGEST_CELL)], ...] = Field(
        min_length=1, max_length=MOST_LEVELS
    )

    @field_validator("levels")
    @classmethod
    def _each_once(cls, levels: tuple[str, ...]) -> tuple[str, ...]:
        return _distinct(levels, "levels")


class Hashed(Part):
    """An indicator for each of `hash` cells, into which levels fall by a hash of their text."""

    hash: Whole = Field(ge=1, le=4096)


def _levels(value: Any) -> Any:
    return {"levels": value} if isinstance(value, list | tuple) else value


def _numeric_form(value: Any) -> str | None:
    if isinstance(value, dict | Scaling):
        return "form: scaling"
    return "form: word" if isinstance(value, str) else None


def _categorical_form(value: Any) -> str | None:
    if isinstance(value, Hashed) or (isinstance(value, dict) and "hash" in value):
        return "form: hashed"
    return "form: levels" if isinstance(value, dict | list | tuple | Levels) else None


#: ``"learn"``: from the first wave, then frozen. ``"raw"``: as it comes.
Numeric = Annotated[
    Annotated[Literal["learn", "raw"], Tag("form: word")]
    | Annotated[Scaling, Tag("form: scaling")],
    Discriminator(
        _numeric_form,
        custom_error_type="form",
        custom_error_message='Input should be "learn", "raw" or {mean = ..., sd = ...}',
    ),
]
Categorical = Annotated[
    Annotated[Levels, BeforeValidator(_levels), Tag("form: levels")]
    | Annotated[Hashed, Tag("form: hashed")],
    Discriminator(
        _categorical_form,
        custom_error_type="form",
        custom_error_message="Input should be a list of levels, or {hash = 16}",
    ),
]


class Features(Part):
    """How a unit's columns become the numbers of the model."""

    intercept: bool = True
    numeric: dict[Name, Numeric] = {}
    categorical: dict[Name, Categorical] = {}
    interactions: tuple[tuple[Name, Name], ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "Features":
        if both := sorted(set(self.numeric) & set(self.categorical)):
            raise ValueError(f"a column is numeric or categorical, not both: {', '.join(both)}")
        known = {*self.numeric, *self.categorical}
        for pair in self.interactions:
            for name in pair:
                if name not in known:
                    raise ValueError(f"interactions name a feature that is not declared: {name!r}")
        if not (self.intercept or known):
            raise ValueError("at least an intercept or one feature is needed")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a unit's file that are read."""
        return (*self.numeric, *self.categorical)


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
        _distinct(tuple(action.name for action in actions), "actions")
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
        _distinct(tuple(own), "unit, reward.column and outcome")
        if self.unit in self.features.columns:
            raise ValueError(f"the unit column {self.unit!r} cannot be a feature")
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


def _distinct(values: tuple[str, ...], what: str) -> tuple[str, ...]:
    repeated = sorted(value for value, count in Counter(values).items() if count > 1)
    if repeated:
        raise ValueError(f"{what} must be told apart; repeated: {', '.join(repeated[:20])}")
    return values
