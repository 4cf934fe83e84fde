"""The page of every key of a spec, docs/reference/spec.md.

Types and defaults are those of the models, and each example is checked against its model.
``python -m tests.spec_page`` rewrites the page.
"""

import json
import re
from inspect import Parameter, signature
from pathlib import Path

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from seqbatch.campaign.spec.features import DateRules, Features, Hashed, Levels, NumericRules
from seqbatch.campaign.spec.limits import Budget, Capacity
from seqbatch.campaign.spec.metrics import Guardrail, Metric
from seqbatch.campaign.spec.objective import Objective, RollOut
from seqbatch.campaign.spec.plan import CAMPAIGN_DEFAULTS, DETECTING, OWN, TOLD
from seqbatch.campaign.spec.spec import (
    Action,
    EarlierCampaign,
    FileReading,
    PolicyChoice,
    Reported,
    Spec,
    StoppingRule,
    WaveGrid,
)
from seqbatch.planning import plan
from seqbatch.policies import registry

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "spec.md"
HEAD = """# Every key of a spec

A spec is a TOML file; [Write a spec](../how-to/spec.md) shows one. Types and defaults come from
the code, and the tests check the examples. Unknown keys are refused.
"""
#: Defaults that depend on other settings, in words.
DEFAULTS = {
    ("Spec", "seed"): "drawn",
    ("Spec", "unit"): '`"unit"`',
    ("Spec", "draw"): '`"independent"`, `"balanced"` with limits or strata',
    ("Metric", "column"): "the metric's name",
    ("Metric", "direction"): '`"max"`, `"min"` with an upper guardrail',
    ("Metric", "after"): "`within`",
    ("NumericRules", "clip"): "`[0.001, 0.999]` if `scale` is learned, without `range`",
    ("DateRules", "clip"): "`[0.001, 0.999]` without `range`",
    ("Levels", "other"): "as `on_unseen_category`",
}
#: Each model: its heading, and for each key an example and what it is for.
KEYS = {
    Spec: ("Top of the file", {
        "name": ('"spring"', "the campaign's name in every command"),
        "question": ('"Which action brings the most visits?"', "the title of findings and report"),
        "owner": ('"crm team"', "who answers for the campaign"),
        "file": ('"units.csv"', "the file that `init` read; a note"),
        "reading": ('{dedupe = "last"}', "how `init` read it; a note"),
        "seed": ("7", "fixes all random draws; keep it secret, it lets one foresee actions"),
        "unit": ('["customer", "week"]', "the columns of the id; one column may be a text"),
        "cluster": ('"household"', "the column whose units belong together in standard errors"),
        "actions": ('["none", {name = "call", cost = 4.5}]', "what a unit can get"),
        "control": ('"none"', "the action that the others are compared with"),
        "start": ("2026-03-01", "the day from which the days of dates are counted"),
        "model": ('"shared"', "one model for each action, or one with features of actions"),
        "features": ('{numeric = {age = "learn"}}', "what the model knows of a unit"),
        "currency": ('"EUR"', "of costs, the budget and values"),
        "metrics": ('{visit = {kind = "yes/no"}}', "what is measured"),
        "objective": ('{maximise = "visit"}', "what counts"),
        "grid": ("{sizes = [2000, 4000]}", "when waves end"),
        "policy": ('{kind = "UniformRandom"}', "how actions are chosen"),
        "history": ('{campaign = "winter"}', "an earlier campaign to start from"),
        "stopping": ('{rule = "obrien-fleming-spending"}', "when to stop early"),
        "report": ('{segments = ["region"]}', "what findings add"),
        "randomised": ("0.1", "this share of units gets a random action"),
        "floor": ("0.02", "the least probability of each action for the others"),
        "required_outcomes": ("0.9", "a wave closes when this share of its outcomes is in"),
        "on_unseen_category": ('"other"', "what an undeclared level does in all columns"),
        "draw": ('"blocks"', "how actions are drawn: see [Balance groups](../how-to/balance.md)"),
        "block_sizes": ("[6, 9]", "sizes of permuted blocks; default: 2 and 3 for each action"),
        "biased_coin": ("0.8", "the probability of the action that minimisation prefers; 0.8"),
        "draws": ('"md5"', "the hash behind the draws; databases compute md5"),
        "sums": ('"exact"', "sums that are the same to the bit in any order"),
        "rows": ('"elsewhere"', "whether the store keeps rows, or a database does"),
        "strata": ('["centre", "sex"]', "columns within which actions are balanced"),
        "fallback": ('"none"', "the action of units that may get nothing else"),
        "columns": ('{region = "text"}', "columns that only rules use"),
        "eligible": ('{call = "may_phone and age >= 18"}', "who may get an action"),
        "capacity": ("{call = 500}", "how many units may get an action in each wave"),
        "budget": ("{total = 10000}", "what all actions may cost"),
        "masked": ("true", "whether the campaign runs on codes"),
        "interim": ('"committee"', "who sees results before the end"),
    }),
    Action: ("actions: one action", {
        "name": ('"call"', "its name; alone, it may be a text"),
        "features": ("{price = 0.5}", 'its features, with `model = "shared"`'),
        "cost": ("4.5", "what it costs for one unit"),
    }),
    Metric: ("[metrics.NAME]", {
        "column": ('"amount"', "its column in files of outcomes"),
        "kind": ('"yes/no"', "what its values are"),
        "unit": ('"EUR"', "its unit of measure, shown with the number"),
        "direction": ('"min"', "whether more or less is better"),
        "range": ("[0, 500]", "values outside are quarantined"),
        "format": ('"1.234,56"', "a number as the file spells it"),
        "absent": ("0", "the value of a unit without a row when its wave is closed"),
        "after": ('"14 days"', "how long after its assignment a unit counts as absent"),
        "cap": ("1000", "larger amounts count as this"),
        "rows": ('"last"', "what several rows of one unit mean; without it they are refused"),
        "row_id": ('"order_id"', "the column of each row's id: the same row counts once"),
        "date": ('"ordered_at"', "the column of each row's date"),
        "date_format": ('"%d.%m.%Y"', "how the file writes these dates; default: ISO"),
        "within": ('"14 days"', "how long after the assignment a row counts"),
        "guardrail": ("{at_most = 0.02}", "a bound that no recommended action may break"),
    }),
    Guardrail: ("guardrail of a metric: one of", {
        "at_most": ("0.02", "the mean is at most this"),
        "at_least": ("3.5", "the mean is at least this"),
        "at_most_control_plus": ("0.005", "at most the control's mean and this"),
        "at_least_control_minus": ("0.1", "at least the control's mean less this"),
    }),
    Objective: ("[objective]", {
        "maximise": ('"visit"', "a metric, or several with weights: `{revenue = 1, refund = -1}`"),
        "minimise": ('"complaints"', "instead of `maximise`, if less is better"),
        "value": ("12.50", "what one unit of the metric is worth, in the currency"),
        "less_costs": ("true", "whether costs are subtracted; required if actions have costs"),
        "purpose": ('"choose"', "what counts: the campaign, the choice after it, or both"),
    }),
    RollOut: ("purpose of the objective, as a table", {
        "after": ("100000", "how many units get the final rule afterwards"),
    }),
    Features: ("[features]", {
        "intercept": ("false", "whether the model has a constant"),
        "numeric": ('{age = "learn"}', "columns of numbers: `learn`, `raw`, or rules"),
        "date": ('{signup = "iso"}', "columns of dates: a format, or rules"),
        "boolean": ('{member = "refuse"}', "columns of yes and no: what a missing value means"),
        "categorical": ('{region = ["north", "south"]}', "columns of categories"),
        "interactions": ('[["age", "region"]]', "products of two features"),
    }),
    NumericRules: ("[features.numeric]: rules of a column", {
        "scale": ("{mean = 40, sd = 12}", "how it is scaled"),
        "format": ('"1.234,56 EUR"', "a number as the file spells it"),
        "missing_values": ("[999]", "values that stand for a missing one"),
        "missing": ('"median"', "`refuse`, `mean`, `median` or a number for missing values"),
        "indicator": ("0.05", "more missing values than this share add a column"),
        "clip": ("[0.01, 0.99]", "quantiles of the first wave that bound it; false for none"),
        "range": ("[0, 100]", "bounds instead of quantiles"),
    }),
    DateRules: ("[features.date]: rules of a column", {
        "format": ('"%d.%m.%Y"', "how the file writes dates"),
        "parts": ('["days", "weekday", "month"]', "what the model uses"),
        "missing_values": ("[1900-01-01]", "dates that stand for a missing one"),
        "missing": ('"median"', "as for numbers"),
        "indicator": ("0.05", "as for numbers"),
        "clip": ("false", "as for numbers"),
        "range": ("[0, 3650]", "bounds of the days before `start`"),
    }),
    Levels: ("[features.categorical]: rules of a column with levels", {
        "levels": ('["Berlin", "Paris"]', "its levels; alone, they may be a list"),
        "least": ("20", "levels with fewer units in the first wave count as other"),
        "other": ("true", "whether undeclared levels count as other"),
        "missing": ('"level"', "whether a missing value is a level"),
    }),
    Hashed: ("[features.categorical]: rules of a column with many levels", {
        "hash": ("16", "how many indicators its levels share"),
        "by": ('"md5"', "the hash; databases compute md5"),
        "missing": ('"level"', "whether a missing value is a level"),
    }),
    WaveGrid: ("[grid]: one of sizes, calendar and plan", {
        "sizes": ("[2000, 4000, 4000]", "units in each wave"),
        "calendar": ("true", "a wave ends when you close it"),
        "waves": ("3", "with `calendar`: the most waves"),
        "units": ("10000", "with `calendar`: the units expected in all"),
        "plan": ('{units = 10000, base_rate = "4%"}', "let the planner choose sizes and policy"),
        "adaptive": ("true", "whether each closing proposes the next sizes"),
    }),
    PolicyChoice: ("[policy]", {
        "kind": ('"ThompsonSampling"', "its name; the other keys are its parameters, below"),
    }),
    EarlierCampaign: ("[history]: one of campaign and file", {
        "campaign": ('"winter"', "a closed campaign of the same store"),
        "file": ('"winter-sums.json"', "a file that `export --what sums` wrote"),
        "drift": ("0.2", "how far coefficients have moved since, in units of the noise"),
    }),
    StoppingRule: ("[stopping]", {
        "rule": ('"pocock-spending"', "the boundary"),
        "alpha": ("0.05", "the two-sided error of all looks together"),
        "futility": ("true", "whether it also stops when success has become unlikely"),
        "looks": ('"key holder"', "who takes the looks of a masked campaign"),
    }),
    Reported: ("[report]", {
        "segments": ('["region"]', "categories whose levels are segments"),
    }),
    Capacity: ("[capacity]: limits of an action", {
        "each_wave": ("500", "the most units in a wave; alone, it may be a number"),
        "total": ("1200", "the most units in all waves"),
        "at_least": ("200", "the fewest units in a wave"),
    }),
    Budget: ("[budget]", {
        "each_wave": ("2000", "the most that a wave costs"),
        "total": ("10000", "the most that all waves cost"),
        "unit": ('"EUR"', "the currency, if `currency` does not say it"),
    }),
    FileReading: ("reading", {
        "file_format": ('"csv"', "the format"),
        "delimiter": ('";"', "the delimiter"),
        "encoding": ('"cp1252"', "the encoding"),
        "sheet": ('"Customers"', "the sheet of a workbook"),
        "skip_rows": ("2", "lines above the header"),
        "dedupe": ('"last"', "which of repeated rows counts"),
    }),
}  # fmt: skip
#: Defaults that say nothing.
UNSET = (None, Parameter.empty)
#: The name of a metric is the key of its table.
BY_TABLE = {(Metric, "name")}


def page() -> str:
    """Return the page's text."""
    parts = [HEAD]
    for model, (heading, keys) in KEYS.items():
        rows = [_row(model, name, *said) for name, said in keys.items()]
        parts.append(
            f"## {heading}\n\n| key | type | default | example | |\n|---|---|---|---|---|\n"
        )
        parts[-1] += "".join(rows)
        if model is WaveGrid:
            parts.append(_plan())
        if model is PolicyChoice:
            parts.append(_policies())
    return "\n".join(parts)


def _row(model, name, example, said):
    schema = model.model_json_schema()
    kind = _type(schema["properties"][name], schema.get("$defs", {}))
    return f"| `{name}` | {kind} | {_default(model, name)} | `{example}` | {said} |\n"


def _default(model, name):
    if (model.__name__, name) in DEFAULTS:
        return DEFAULTS[model.__name__, name]
    default = model.model_fields[name].default
    if default is PydanticUndefined:
        return "required"
    if default is None or default in ((), {}, "") or isinstance(default, BaseModel):
        return "none"
    return f"`{_toml(default)}`"


def _toml(value):
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _type(schema, defs):
    if "$ref" in schema:
        return _type(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "enum" in schema or "const" in schema:
        words = schema.get("enum", [schema.get("const")])
        return ", ".join(f"`{json.dumps(word)}`" for word in words)
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        kinds = [_type(each, defs) for each in several if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if schema.get("type") == "array":
        items = schema.get("items") or {"anyOf": schema["prefixItems"]}
        return f"list of: {_type(items, defs)}"
    if schema.get("type") in ("number", "integer"):
        return _number(schema)
    if schema.get("format") == "date":
        return "date"
    return {"string": "text", "boolean": "`true` or `false`", "object": "table"}[schema["type"]]


def _number(schema):
    word = "whole number" if schema["type"] == "integer" else "number"
    low = schema.get("minimum", schema.get("ge"))
    high = schema.get("maximum", schema.get("le"))
    if low is not None and high is not None:
        return f"{word}, {low:,} to {high:,}"
    return f"{word} from {low:,}" if low is not None else word


def _plan():
    """Return what `[grid] plan` may hold."""
    taken = (*OWN, *DETECTING, *TOLD)
    said = _parameters(plan.__doc__ or "")
    rows = [
        f"| `{name}` | {_argument(each)} | {said[name]} |\n"
        for name, each in signature(plan).parameters.items()
        if name not in taken
    ]
    head = (
        "The keys of `plan` are the planner's ([Planning](../planning.md)); actions, features,\n"
        "`randomised` and `floor` are the spec's.\n\n| key of `plan` | default | |\n|---|---|---|\n"
    )
    return head + "".join(rows)


def _parameters(doc):
    """Return the first sentence about each parameter."""
    found = {}
    for names, text in re.findall(r"^    (\w+(?:, \w+)*)\n((?:        .*\n)+)", doc, re.MULTILINE):
        sentence = re.split(r"(?<=\.)\s", " ".join(text.split()))[0].replace("``", "`")
        found |= dict.fromkeys(names.split(", "), sentence)
    return found


def _policies():
    """Return each policy's parameters."""
    rows = []
    for name, kind in registry.kinds().items():
        own = [
            f"`{key} = {_toml(CAMPAIGN_DEFAULTS.get(key, each.default))}`"
            for key, each in signature(kind).parameters.items()
            if key != "history" and CAMPAIGN_DEFAULTS.get(key, each.default) not in UNSET
        ]
        line = (kind.__doc__ or "").splitlines()[0].rstrip(".")
        rows.append(f"| `{name}` | {line} | {', '.join(own) or 'none'} |\n")
    head = (
        "[Policies](policies.md) explains the parameters; the defaults shown are those of\n"
        "campaigns.\n\n"
        "| `kind` | | parameters |\n|---|---|---|\n"
    )
    return head + "".join(rows)


def _argument(parameter):
    if parameter.default is Parameter.empty:
        return "required"
    return "none" if parameter.default is None else f"`{_toml(parameter.default)}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
