"""A campaign's spec: everything declared before the first unit is assigned."""

import math
import secrets
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from seqbatch.campaign.spec.base import (
    Name,
    Number,
    SettingError,
    Share,
    SpecPart,
    Title,
    Whole,
    distinct,
)
from seqbatch.campaign.spec.checks import (
    check_constraints,
    check_elsewhere,
    check_exact,
    check_history,
    check_interim,
    check_objective,
)
from seqbatch.campaign.spec.eligibility import BooleanColumn, EligibilityRule, Kind, Missing, parsed
from seqbatch.campaign.spec.features import Features, Hashed
from seqbatch.campaign.spec.input_limits import (
    LARGEST_BLOCK,
    MOST_ACTIONS,
    MOST_BLOCK_SIZES,
    MOST_METRICS,
    MOST_STRATA,
    MOST_UNIT_COLUMNS,
    MOST_UNITS,
    MOST_WAVES,
)
from seqbatch.campaign.spec.limits import AnyCapacity, Budget
from seqbatch.campaign.spec.metrics import Metric
from seqbatch.campaign.spec.objective import Objective, Reward, reward_of

#: Column names that answers and exports use.
RESERVED = (
    "action", "wave", "score", "probability", "randomised", "event", "line", "version", "verdict",
    "reason", "reward", "observed",
)  # fmt: skip
#: The maximum length of a file's name, in characters.
LONGEST_FILE = 4_096
#: What to write in place of the settings of earlier specs.
REPLACED = {
    "holdout": "is now called randomised; rename it",
    "missing": "is now called required_outcomes; rename it",
    "reward": (
        "is now a metric and the objective: declare [metrics.NAME], with column, unit, range and "
        'so on, and [objective] with maximise = "NAME" (or minimise)'
    ),
    "outcome": 'is now the row_id of a metric: [metrics.NAME] with row_id = "..."',
}


class Action(SpecPart):
    """An action that a unit can get, with its own features under a shared model.

    Its cost, in the campaign's currency, always counts against the budget, and in the objective
    only if the objective says so (`less_costs`).
    """

    name: Name
    features: dict[Name, Number] = Field(default={})
    cost: Number = 0.0


class WaveGrid(SpecPart):
    """When waves end: at declared sizes, at planned sizes, or whenever you close them."""

    sizes: tuple[Annotated[Whole, Field(ge=1, le=MOST_UNITS)], ...] | None = Field(
        default=None, max_length=MOST_WAVES
    )
    calendar: bool = False
    waves: Whole | None = Field(default=None, ge=1, le=MOST_WAVES)
    units: Whole | None = Field(default=None, ge=1, le=MOST_UNITS)
    plan: dict[str, Any] | None = None
    adaptive: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> "WaveGrid":
        if (self.sizes is not None) + self.calendar + (self.plan is not None) != 1:
            raise SettingError(
                "exactly one of sizes, calendar = true and plan is needed",
                "sizes",
                "calendar",
                "plan",
            )
        if self.sizes == ():
            raise SettingError("sizes must list at least one wave", "sizes")
        if self.sizes is not None and sum(self.sizes) > MOST_UNITS:
            raise SettingError(
                f"sizes must sum to at most {MOST_UNITS:,} units; received {sum(self.sizes):,}",
                "sizes",
            )
        if self.calendar and (self.waves is None or self.units is None):
            raise SettingError(
                "calendar = true needs waves (the maximum number of waves) and units (the total "
                "expected number of units: policies use it, but waves may have any size)",
                "calendar",
            )
        if not self.calendar and (self.waves is not None or self.units is not None):
            raise SettingError(
                "waves and units may be set only with calendar = true", "waves", "units"
            )
        if self.adaptive and (self.calendar or "waves" in (self.plan or {})):
            raise SettingError(
                "adaptive = true proposes new wave sizes, but here the calendar determines "
                "them: leave adaptive out, or declare sizes or a plan without waves",
                "adaptive",
            )
        return self


def rule_name(rule: str) -> str:
    """Return a stopping rule's name with its kind: a spending function or a classical boundary.

    >>> rule_name("obrien-fleming"), rule_name("pocock-classical"), rule_name("none")
    ('obrien-fleming-spending', 'pocock-classical', 'none')
    """
    return f"{rule}-spending" if rule in ("obrien-fleming", "pocock") else rule


STOPPING_RULES = (
    '"obrien-fleming-spending", "pocock-spending", "obrien-fleming-classical" or "pocock-classical"'
)


class StoppingRule(SpecPart):
    """When to stop early, for success or for futility, declared before the first unit.

    `alpha` is the two-sided error rate over all looks together. `looks` says who takes the looks of
    a masked campaign: the holder of its key. "obrien-fleming" and "pocock" are the spending
    functions, as in specs of before.
    """

    rule: Literal[
        "obrien-fleming-spending",
        "pocock-spending",
        "obrien-fleming-classical",
        "pocock-classical",
        "obrien-fleming",
        "pocock",
        "none",
    ] = "none"
    alpha: Number = Field(default=0.05, gt=0, le=0.5)
    futility: bool = False
    looks: Literal["key holder"] | None = None

    @model_validator(mode="after")
    def _meaningful(self) -> "StoppingRule":
        if self.futility and self.rule == "none":
            raise SettingError(f"futility needs a rule: {STOPPING_RULES}", "futility")
        if self.looks and self.rule == "none":
            raise SettingError(f"looks needs a rule: {STOPPING_RULES}", "looks")
        return self


class Reported(SpecPart):
    """The columns whose values are segments in findings and reports."""

    segments: tuple[Name, ...] = Field(default=(), max_length=MOST_METRICS)


class FileReading(SpecPart):
    """How the file was read that the spec was drafted from, as far as that was stated."""

    file_format: Name | None = None
    delimiter: Name | None = None
    encoding: Name | None = None
    sheet: Name | None = None
    skip_rows: Whole | None = None
    dedupe: Name | None = None


class EarlierCampaign(SpecPart):
    """The campaign whose sums this one starts from, and how far to trust them.

    Parameters
    ----------
    campaign
        A closed campaign of the same store.
    file
        A file of sums, as an export wrote it.
    drift
        ``"learn"``, or by how much each coefficient has drifted since, as a standard deviation in
        units of the noise.
    """

    campaign: Name | None = None
    file: Annotated[str, Field(min_length=1, max_length=LONGEST_FILE)] | None = None
    drift: Annotated[Number, Field(ge=0)] | Literal["learn"] = "learn"

    @model_validator(mode="after")
    def _one(self) -> "EarlierCampaign":
        if (self.campaign is None) == (self.file is None):
            raise SettingError(
                "exactly one of campaign and file is needed: a closed campaign of the same store, "
                "or a file of its sums",
                "campaign",
                "file",
            )
        return self


class PolicyChoice(SpecPart):
    """A policy's name and parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Name


def fresh_seed() -> int:
    """Return a random seed from the operating system; anyone who knows it can predict actions.

    It has 53 bits, which JSON numbers represent exactly.
    """
    return secrets.randbelow(1 << 53)


class Spec(SpecPart):
    """Everything that is fixed when a campaign is created."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    #: The file of units that the spec was drafted from; events store it next to the spec.
    file: str = Field(default="", max_length=LONGEST_FILE, exclude=True)
    reading: FileReading = Field(default=FileReading(), exclude=True)
    #: What the campaign is to answer, and who answers for it: the title of its pages.
    question: Title | None = None
    owner: Title | None = None
    seed: Whole = Field(default_factory=lambda: fresh_seed(), ge=0, lt=2**63)
    unit: Annotated[tuple[Name, ...], BeforeValidator(lambda v: _unit(v))] = Field(
        default=("unit",), min_length=1, max_length=MOST_UNIT_COLUMNS
    )
    cluster: Name | None = None
    actions: tuple[Annotated[Action, BeforeValidator(lambda v: _action(v))], ...] = Field(
        min_length=2, max_length=MOST_ACTIONS
    )
    control: str | None = None
    start: date | None = None
    model: Literal["per-action", "shared"] = "per-action"
    features: Features = Features()
    currency: Name | None = None
    metrics: Annotated[dict[Name, Metric], BeforeValidator(lambda v: _metrics(v))] = Field(
        min_length=1, max_length=MOST_METRICS
    )
    objective: Objective
    grid: WaveGrid
    policy: PolicyChoice | None = None
    history: EarlierCampaign | None = None
    stopping: StoppingRule = StoppingRule()
    report: Reported = Reported()
    randomised: Share = 0.0
    floor: Number = Field(default=0.0, ge=0)
    required_outcomes: Share = 0.9
    on_unseen_category: Literal["error", "other"] = "error"
    draw: Literal["independent", "balanced", "blocks", "minimise"] | None = None
    block_sizes: tuple[Annotated[Whole, Field(ge=2, le=LARGEST_BLOCK)], ...] = Field(
        default=(), max_length=MOST_BLOCK_SIZES
    )
    biased_coin: Number | None = None
    draws: Literal["blake2", "md5"] = "md5"
    sums: Literal["floating", "exact"] = "floating"
    rows: Literal["here", "elsewhere"] = "here"
    strata: tuple[Name, ...] = Field(default=(), max_length=MOST_STRATA)
    fallback: str | None = None
    columns: dict[Name, Kind] = Field(default={})
    eligible: dict[Name, str] = Field(default={})
    capacity: dict[Name, AnyCapacity] = Field(default={})
    budget: Budget | None = None
    masked: bool = False
    interim: Literal["open", "committee"] = "open"

    @field_validator("actions")
    @classmethod
    def _named_once(cls, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        distinct(tuple(action.name for action in actions), "actions")
        return actions

    @model_validator(mode="before")
    @classmethod
    def _summable(cls, given: Any) -> Any:
        """Choose exact sums where rows are kept elsewhere: there are no others."""
        if isinstance(given, Mapping) and given.get("rows") == "elsewhere":
            return {"sums": "exact", **given}
        return given

    @model_validator(mode="after")
    def _consistent(self) -> "Spec":
        names = [action.name for action in self.actions]
        if self.control is not None and self.control not in names:
            raise SettingError(
                f"control must be one of the actions ({', '.join(names)})", "control"
            )
        if self.floor * len(names) > 1:
            raise SettingError(
                f"floor must be at most 1 / {len(names)} with {len(names)} actions, since every "
                "action has at least that probability",
                "floor",
            )
        kinds = {tuple(action.features) for action in self.actions}
        if self.model == "shared" and (kinds == {()} or len(kinds) > 1):
            raise SettingError(
                'model = "shared" needs the same features, in the same order, for every action',
                "model",
            )
        if self.model == "per-action" and kinds != {()}:
            raise SettingError('actions may have features only with model = "shared"', "actions")
        if self.start is None and any("days" in r.parts for r in self.features.date.values()):
            raise SettingError(
                "start is needed if the days of a date are a feature: they are counted from "
                "start, as in start = 2026-03-01",
                "start",
            )
        if self.grid.adaptive and (self.model == "shared" or not self.features.intercept):
            raise SettingError(
                "grid.adaptive = true needs one model per action, with an intercept: leave it out, "
                'or declare model = "per-action" and features.intercept = true',
                ("grid", "adaptive"),
            )
        check_objective(self)
        check_history(self)
        self._check_columns(names)
        self._check_segments()
        check_constraints(self)
        check_exact(self)
        check_elsewhere(self)
        check_interim(self)
        return self

    def _check_segments(self) -> None:
        """Refuse segments by columns that have no levels."""
        distinct(self.report.segments, "report.segments", ("report", "segments"))
        kinds = self.features.categorical.items()
        levels = [name for name, kind in kinds if not isinstance(kind, Hashed)]
        known = [*levels, *self.features.boolean]
        if unknown := [name for name in self.report.segments if name not in known]:
            raise SettingError(
                f"report.segments must be categories with levels or booleans among the features "
                f"({', '.join(known) or 'there are none'}); received {', '.join(unknown)}",
                ("report", "segments"),
            )

    def _check_columns(self, actions: list[str]) -> None:
        """Refuse columns that could be confused with one another."""
        for unit in (*self.unit, self.id_name):
            if unit in answer_columns(actions):
                raise SettingError(
                    f"the unit column cannot be called {unit!r}, because answers or exports "
                    f"have a column with this name; nor {', '.join(RESERVED)}",
                    "unit",
                )
            if unit in self.features.columns:
                raise SettingError(f"the unit column {unit!r} cannot be a feature", "unit")
        if self.cluster in answer_columns(actions) or self.cluster in self.features.columns:
            raise SettingError(
                f"the cluster column {self.cluster!r} cannot be a feature, nor have the name of "
                "a column in answers or exports",
                "cluster",
            )
        for name, metric in self.metrics.items():
            if metric.name != name:
                raise SettingError(
                    f"a metric's name is that of its table, [metrics.{name}]; leave name out",
                    ("metrics", name, "name"),
                )
            if metric.column in (*self.features.columns, self.cluster):
                raise SettingError(
                    f"metrics.{name} has the column {metric.column!r}, which is also a column of "
                    "the units: an outcome cannot be known before its unit is assigned. Leave it "
                    "out of the features, or rename one",
                    ("metrics", name, "column"),
                )
            if taken := [column for column in metric.columns if column in self.unit]:
                raise SettingError(
                    f"metrics.{name} uses the column {taken[0]!r}, which is the unit's id",
                    ("metrics", name),
                )

    @property
    def reward(self) -> Reward:
        """The number that the policy learns from."""
        return reward_of(self.objective, self.metrics, self.money)

    @property
    def money(self) -> str | None:
        """The currency of costs, values and the budget; None if not declared."""
        return self.currency or (None if self.budget is None else self.budget.unit)

    def charge(self, action: Action) -> float:
        """Return what an action costs in the objective."""
        return action.cost if self.reward.less_costs else 0.0

    @property
    def balanced(self) -> bool:
        """Whether units of a file are decided as a whole: by one joint draw, or in order."""
        return self.draw == "balanced" or self.in_order or self.limited or bool(self.strata)

    @property
    def in_order(self) -> bool:
        """Whether units are balanced as they come, over all files and calls."""
        return self.draw in ("blocks", "minimise")

    @property
    def sizes_of_blocks(self) -> tuple[int, ...]:
        """The sizes of permuted blocks: as declared, or two and three units for each action."""
        return self.block_sizes or (2 * len(self.actions), 3 * len(self.actions))

    @property
    def favour(self) -> float:
        """The probability of the action that minimises imbalance, if units are minimised."""
        return 0.8 if self.biased_coin is None else self.biased_coin

    def outcomes_needed(self, units: int) -> int:
        """Return how many outcomes a wave of `units` units needs before it can be closed."""
        # Rounding may put the product of a share and a count slightly above a whole number.
        return math.ceil(self.required_outcomes * units - 1e-9)

    @property
    def limited(self) -> bool:
        """Whether anything limits how often an action is given."""
        return bool(self.capacity) or self.budget is not None

    @property
    def rules(self) -> dict[str, EligibilityRule]:
        """The eligibility rules of the actions that have one."""
        return {name: parsed(text) for name, text in self.eligible.items()}

    @property
    def beside(self) -> dict[str, Kind]:
        """Columns stored for rules and strata that are neither features nor ids."""
        rules = self.rules.values()
        used: dict[str, Kind] = {r.name: "text" for r in rules if isinstance(r, Missing)}
        used |= dict.fromkeys(self.strata, "text")
        used |= {rule.name: "yes or no" for rule in rules if isinstance(rule, BooleanColumn)}
        known = {*self.features.columns, self.cluster}
        return {name: kind for name, kind in (used | self.columns).items() if name not in known}

    @property
    def id_name(self) -> str:
        """The name of the ids for people: the columns that they consist of."""
        return " and ".join(self.unit)

    @property
    def parts(self) -> tuple[str, ...]:
        """The metrics stored beside the reward: all but the one that is the reward itself."""
        own = self.reward.label if self.reward.plain else None
        return tuple(name for name in self.metrics if name != own)


def answer_columns(actions: Iterable[str]) -> set[str]:
    """Return the column names that answers and exports use for these actions."""
    return {*RESERVED, *(f"p({name})" for name in actions)}


def _unit(value: Any) -> Any:
    columns = (value,) if isinstance(value, str) else value
    if isinstance(columns, list | tuple) and all(isinstance(column, str) for column in columns):
        distinct(tuple(columns), "the columns of unit")
    return columns


def _metrics(value: Any) -> Any:
    """Name each metric by the key of its table."""
    if isinstance(value, list):
        raise ValueError(
            "must be one table for each metric: [metrics.NAME] in place of [[metrics]]"
        )
    if not isinstance(value, Mapping):
        return value
    if "" in value:
        raise ValueError("must each have a name, as in [metrics.purchase]")
    return {
        name: {"name": name, **metric} if isinstance(metric, Mapping) else metric
        for name, metric in value.items()
    }


def _action(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value
