"""The rule to run next as plain values: all that a program needs to give units their actions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from seqbatch.campaign.decide.campaign_waves import ModelColumns
from seqbatch.campaign.decide.decision_tree import OwnTree
from seqbatch.campaign.features.base import Feature
from seqbatch.campaign.features.boolean import NO, YES, BooleanFeature
from seqbatch.campaign.features.categorical import OTHER, HashedFeature, LevelsFeature
from seqbatch.campaign.features.date import LEVELS, DateFeature
from seqbatch.campaign.features.eligibility import Eligibility
from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.features.numeric import NumericFeature, ScaledNumber
from seqbatch.campaign.files.column_values import NO_VALUE
from seqbatch.campaign.files.number_format import NumberFormat
from seqbatch.campaign.spec.eligibility import (
    Among,
    BooleanColumn,
    Both,
    Compare,
    EligibilityRule,
    Kind,
    Missing,
    Not,
    columns,
)
from seqbatch.core.arrays import Floats

# ----------------------------------------------------------------------
# The rule: scores of a linear fit, or a tree; and who may get what.


RuleKind = Literal["linear", "tree"]
#: The version of the format of plain values.
FORMAT = "seqbatch rule 1"


@dataclass(frozen=True, kw_only=True)
class LinearScores:
    """A linear prediction for each action, from the numbers of the encoder.

    Parameters
    ----------
    actions
        The actions that have outcomes and are still given, the control first if it is one.
    constants, weights
        The constant of each action, and its weights; a column that never varied has weight 0.
    less
        Whether the lowest prediction is best.
    """

    actions: tuple[str, ...]
    constants: Floats
    weights: Floats
    less: bool

    @classmethod
    def of(
        cls, coefficients: Mapping[str, Floats], columns: ModelColumns, width: int, *, less: bool
    ) -> "LinearScores":
        """Return the scores; `coefficients` are for the standardised columns of the model."""
        fitted = np.array(list(coefficients.values())).reshape(len(coefficients), -1)
        own = fitted[:, 1:] / columns.spread
        weights = np.zeros((len(fitted), width))
        weights[:, columns.places] = own
        return cls(
            actions=tuple(coefficients),
            constants=fitted[:, 0] - own @ columns.mean,
            weights=weights,
            less=less,
        )


@dataclass(frozen=True, kw_only=True)
class ExportedRule:
    """A rule to give actions to units that are not in the campaign.

    A unit gets the best action by the rule among those that it may get; if it may get none that
    the rule knows, the first other action that it may get.

    Parameters
    ----------
    campaign, event
        The campaign, and the event after which the rule was made.
    unit
        The columns of the id.
    actions
        The actions that are still given, the control first if it is one.
    encoder
        How units are read.
    body
        The scores or the tree.
    """

    campaign: str
    event: int
    unit: tuple[str, ...]
    actions: tuple[str, ...]
    encoder: Encoder
    body: LinearScores | OwnTree

    @property
    def kind(self) -> RuleKind:
        """Whether the rule is linear or a tree."""
        return "linear" if isinstance(self.body, LinearScores) else "tree"

    @cached_property
    def eligibility(self) -> Eligibility | None:
        """Who may get which action; None if every unit may get all."""
        return self.encoder.eligibility

    @property
    def rules(self) -> dict[str, EligibilityRule | None]:
        """The eligibility rule of each action; empty if every unit may get all."""
        if self.eligibility is None:
            return {}
        return dict(zip(self.eligibility.names, self.eligibility.rules, strict=True))

    @property
    def fallback(self) -> str | None:
        """The action for units that may get no other, if one is declared."""
        at = None if self.eligibility is None else self.eligibility.fallback
        return None if self.eligibility is None or at is None else self.eligibility.names[at]

    @cached_property
    def parts(self) -> dict[str, Feature]:
        """The features that the rule reads, by column."""
        body, every = self.body, self.encoder.parts
        used = set(every) if isinstance(body, LinearScores) else set(body.columns)
        used |= {name for name, _ in self._asked()}
        return {name: part for name, part in every.items() if name in used}

    @cached_property
    def beside(self) -> dict[str, Kind]:
        """The columns that only eligibility rules read, each with its kind of value."""
        known = {one.name: one.kind for one in self.encoder.beside}
        return {
            name: kind or known.get(name, "text")
            for name, kind in self._asked()
            if name not in self.encoder.parts
        }

    def _asked(self) -> list[tuple[str, Kind | None]]:
        return [pair for rule in self.rules.values() if rule for pair in columns(rule)]

    def plain(self) -> dict[str, Any]:
        """Return plain values for JSON: the columns, the rule, and who may get what."""
        body = self.body
        made: dict[str, Any] = {
            "format": FORMAT,
            "campaign": self.campaign,
            "event": self.event,
            "kind": self.kind,
            "unit": list(self.unit),
            "actions": list(self.actions),
            "columns": {
                **{name: _column(part) for name, part in self.parts.items()},
                **{name: {"kind": kind} for name, kind in self.beside.items()},
            },
            "eligible": {name: _plain_rule(rule) for name, rule in self.rules.items() if rule},
            "fallback": self.fallback,
            "words": {"missing": list(NO_VALUE), "yes": list(YES), "no": list(NO)},
        }
        if isinstance(body, OwnTree):
            return {**made, "tree": body.plain()}
        crossed = [list(pair) for pair in self.encoder.features.interactions]
        return {
            **made,
            "numbers": list(self.encoder.names[: body.weights.shape[1]]),
            "intercept": self.encoder.features.intercept,
            "interactions": crossed,
            "less_is_better": body.less,
            "scores": {
                name: {"constant": float(constant), "weights": weights.tolist()}
                for name, constant, weights in zip(
                    body.actions, body.constants, body.weights, strict=True
                )
            },
        }


def ordered(names: Iterable[str], first: Iterable[str]) -> tuple[str, ...]:
    """Return names with some of them first."""
    return tuple(dict.fromkeys([*first, *names]))


# ----------------------------------------------------------------------
# How a column is read, as plain values.


def _column(part: Feature) -> dict[str, Any]:
    match part:
        case NumericFeature():
            return {"kind": "number", **_number(part.number), **_spelled(part)}
        case BooleanFeature():
            return {"kind": "yes or no", "missing": part.missing}
        case LevelsFeature():
            found, missing = part.places_of(part.rules.levels)
            return {
                "kind": "category",
                "levels": dict(zip(part.rules.levels, found, strict=True)),
                "width": len(part.levels),
                "other": part.levels.index(OTHER) if part.other else None,
                "missing": missing if part.accepts_missing else None,
            }
        case HashedFeature():
            return {"kind": "hashed", "by": part.rules.by, "width": part.rules.hash,
                    "missing": part.accepts_missing}  # fmt: skip
        case DateFeature():
            return _date(part)
    raise AssertionError(part)


def _number(value: ScaledNumber) -> dict[str, Any]:
    """Return how a number is bounded, filled and scaled; `sd` 0 means that it is always 0."""
    frozen, refuses = value.frozen, value.rules.missing == "refuse"
    made: dict[str, Any] = {"indicators": len(value.names) - 1}
    if frozen is None:
        return {**made, "fill": None, "low": None, "high": None, "mean": 0.0, "sd": 0.0,
                "indicator": False}  # fmt: skip
    return {
        **made,
        "fill": None if refuses else frozen.fill,
        "low": frozen.low,
        "high": frozen.high,
        "mean": frozen.mean,
        "sd": frozen.sd,
        "indicator": frozen.indicator,
    }


def _spelled(part: NumericFeature) -> dict[str, Any]:
    """Return how numbers are written in a file, and which stand for a missing one."""
    made: dict[str, Any] = {"missing_values": list(part.rules.missing_values), "written": None}
    if part.rules.format is not None:
        form = NumberFormat.of(part.rules.format)
        made["written"] = {
            "pattern": form.pattern,
            "drop": list(form.dropped),
            "decimal": form.decimal or ".",
            "percent": form.percent,
        }
    return made


def _date(part: DateFeature) -> dict[str, Any]:
    return {
        "kind": "date",
        "format": part.rules.format,
        "missing_values": [day.isoformat() for day in part.rules.missing_values],
        "refuse_missing": part.rules.missing == "refuse",
        "start": None if part.start is None else part.start.isoformat(),
        "parts": {
            each: _number(part.days) if each == "days" else list(LEVELS[each])
            for each in part.rules.parts
        },
    }


def _plain_rule(rule: EligibilityRule) -> dict[str, Any]:
    match rule:
        case BooleanColumn(name):
            return {"yes": name}
        case Compare(name, sign, value):
            return {"compare": [name, sign, value]}
        case Among(name, values):
            return {"among": [name, list(values)]}
        case Missing(name):
            return {"missing": name}
        case Not(inner):
            return {"not": _plain_rule(inner)}
        case Both(rules, every):
            return {"all" if every else "any": [_plain_rule(each) for each in rules]}
