"""A unit's columns to the numbers of the model, as the documentation of the spec says it.

One row, one feature at a time, in plain Python: a row is a dictionary of what was given (None where
nothing was), features are what a spec declares under `[features]`, and the answer is a list of
pairs, the column's name and its number. `learned` is what the first wave taught, None before:
`{"numbers": {name: ...}, "rare": {name: [...]}}`, as the event that closed it says.
"""

import math
import statistics
from hashlib import blake2b

WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
]  # fmt: skip


def rules_of(kind):
    """Return the long form of a numeric feature, with the defaults."""
    if isinstance(kind, str) or "mean" in kind:
        kind = {"scale": kind}
    full = {"scale": "learn", "missing": "refuse", "indicator": 0.05, "range": None, **kind}
    if "clip" not in full:
        usual = full["scale"] == "learn" and full["range"] is None
        full["clip"] = [0.001, 0.999] if usual else False
    return full


def learns(rules):
    """Say whether anything about a number is learned from the first wave."""
    indicates = rules["missing"] != "refuse" and rules["indicator"] < 1
    fills = rules["missing"] in ("mean", "median")
    return rules["scale"] == "learn" or fills or indicates or bool(rules["clip"])


def number(name, value, rules, own):
    """Return a number: moved to its bounds, filled where it is missing, scaled; and the indicator.

    Parameters
    ----------
    own
        What the first wave taught about it, None before.
    """
    has_indicator = rules["missing"] != "refuse" and rules["indicator"] < 1
    more = [(f"{name} missing", 0.0)] if has_indicator else []
    if learns(rules):
        if own is None:
            return [(name, 0.0), *more]
    else:
        low, high = rules["range"] or (None, None)
        scale = {"mean": 0.0, "sd": 1.0} if rules["scale"] == "raw" else rules["scale"]
        own = {"low": low, "high": high, "fill": rules["missing"], **scale, "indicator": False}
    if value is None:
        if own["indicator"]:
            more = [(f"{name} missing", 1.0)]
        value = own["fill"]
    elif own["low"] is not None:
        value = min(max(value, own["low"]), own["high"])
    scaled = (value - own["mean"]) / own["sd"] if own["sd"] > 0 else 0.0
    return [(name, scaled), *more]


def date(name, value, rules, own, start):
    """Return a date: the parts that are declared, in their order."""
    numeric = rules_of({key: rules[key] for key in rules if key not in ("format", "parts")})
    columns = []
    for part in rules.get("parts", ["days"]):
        if part == "days":
            days = None if value is None else float((start - value).days)
            columns += number(f"{name} days", days, numeric, own)
            continue
        levels = WEEKDAYS if part == "weekday" else MONTHS
        mine = "missing"
        if value is not None:
            mine = levels[value.weekday() if part == "weekday" else value.month - 1]
        levels = [*levels, "missing"] if numeric["missing"] != "refuse" else levels
        columns += [(f"{name} {part}={each}", float(each == mine)) for each in levels]
    return columns


def boolean(name, value, missing):
    """Return a yes or no, and whether it is missing where that is a level."""
    taken = missing is True if value is None else value
    more = [(f"{name} missing", float(value is None))] if missing == "level" else []
    return [(name, float(taken)), *more]


def indicators(name, value, kind, *, other, learned):
    """Return a categorical feature: 1 at the level or cell that the value has, 0 elsewhere."""
    kind = kind if isinstance(kind, dict) else {"levels": kind}
    if "hash" in kind:
        text = "" if value is None else value
        code = blake2b(f"{name}\n{text}".encode(), digest_size=8).digest()
        mine = sum(byte << (8 * place) for place, byte in enumerate(code)) % kind["hash"]
        return [(f"{name}#{cell}", 1.0 if cell == mine else 0.0) for cell in range(kind["hash"])]
    levels = list(kind["levels"])
    other = kind.get("other", other)
    least = kind.get("least", 0)
    if (other or least) and "other" not in levels:
        levels.append("other")
    if kind.get("missing") == "level" and "missing" not in levels:
        levels.append("missing")
    if least and learned is None:
        return [(f"{name}={level}", 0.0) for level in levels]
    rare = learned["rare"][name] if least else []
    if value is None:
        value = "missing"
    elif value in rare or value not in kind["levels"]:
        value = "other"
    return [(f"{name}={level}", 1.0 if level == value else 0.0) for level in levels]


def feature(name, row, features, *, other, learned, start=None):
    """Return what one feature becomes."""
    own = None if learned is None else learned["numbers"].get(name)
    if name in features["numeric"]:
        return number(name, row[name], rules_of(features["numeric"][name]), own)
    if name in features.get("date", {}):
        return date(name, row[name], features["date"][name], own, start)
    if name in features.get("boolean", {}):
        return boolean(name, row[name], features["boolean"][name])
    return indicators(name, row[name], features["categorical"][name], other=other, learned=learned)


def encoded(row, features, *, other, learned, start=None):
    """Return a unit's own columns: intercept, features kind by kind, then products of two."""
    options = {"other": other, "learned": learned, "start": start}
    columns = [("intercept", 1.0)] if features["intercept"] else []
    for kind in ("numeric", "date", "boolean", "categorical"):
        for name in features.get(kind, {}):
            columns += feature(name, row, features, **options)
    for one, two in features["interactions"]:
        for left, x in feature(one, row, features, **options):
            for right, y in feature(two, row, features, **options):
                columns.append((f"{left}*{right}", x * y))
    return columns


def with_action(columns, traits):
    """Return a unit's columns under a shared model: its own, then each times each of an action's.

    Parameters
    ----------
    columns
        The unit's own.
    traits
        The action's features, by name.
    """
    return columns + [
        (f"{trait}*{name}", size * number)
        for trait, size in traits.items()
        for name, number in columns
    ]


def learned_number(values, rules):
    """Return what the values of the first wave teach about a number."""
    present = sorted(value for value in values if value is not None)
    count, low, high = len(present), None, None
    clipped = 0
    if rules["range"]:
        low, high = rules["range"]
    elif rules["clip"] and count:
        low = present[min(math.floor(rules["clip"][0] * count + 1e-9), count - 1)]
        high = present[max(count - 1 - math.floor((1 - rules["clip"][1]) * count + 1e-9), 0)]
        high = max(low, high)
        clipped = sum(not low <= value <= high for value in present)
    if low is not None:
        present = [min(max(value, low), high) for value in present]
    mean = math.fsum(present) / count if count else 0.0
    fills = {
        "refuse": 0.0, "mean": mean, "median": statistics.median(present) if count else 0.0,
    }  # fmt: skip
    scale = {"mean": 0.0, "sd": 1.0} if rules["scale"] == "raw" else rules["scale"]
    if scale == "learn":
        scale = {"mean": mean, "sd": statistics.pstdev(present) if count else 0.0}
    share = values.count(None) / len(values)
    indicates = rules["missing"] != "refuse" and rules["indicator"] < 1
    return {
        "low": low, "high": high, "fill": fills.get(rules["missing"], rules["missing"]), **scale,
        "indicator": indicates and share > rules["indicator"], "clipped": clipped,
    }  # fmt: skip


def learn(rows, features, *, start=None):
    """Return what the units of the first wave teach."""
    numbers, rare = {}, {}
    for name, kind in features["numeric"].items():
        if learns(rules_of(kind)):
            numbers[name] = learned_number([row[name] for row in rows], rules_of(kind))
    for name, kind in features.get("date", {}).items():
        if "days" in kind.get("parts", ["days"]):
            rules = rules_of({key: kind[key] for key in kind if key not in ("format", "parts")})
            dates = [row[name] for row in rows]
            days = [None if day is None else float((start - day).days) for day in dates]
            numbers[name] = learned_number(days, rules)
    for name, kind in features["categorical"].items():
        if isinstance(kind, dict) and kind.get("least"):
            own = {"other"} | ({"missing"} if kind.get("missing") == "level" else set())
            found = [row[name] for row in rows]
            rare[name] = [
                level
                for level in kind["levels"]
                if found.count(level) < kind["least"] and level not in own
            ]
    return {"numbers": numbers, "rare": rare}
