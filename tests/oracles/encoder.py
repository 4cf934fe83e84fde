"""A unit's columns to the numbers of the model, as the documentation of the spec says it.

One row, one feature at a time, in plain Python: a row is a dictionary of what was given, features
are what a spec declares under `[features]`, and the answer is a list of pairs, the column's name
and its number.
"""

import math
import statistics
from hashlib import blake2b


def scaled(value, kind, learned):
    """Return a numeric feature: as it is, or less a mean and over a standard deviation."""
    if kind == "raw":
        return value
    if kind == "learn" and learned is None:
        return 0.0
    mean, sd = learned if kind == "learn" else (kind["mean"], kind["sd"])
    return (value - mean) / sd if sd > 0 else 0.0


def indicators(name, value, kind, *, other):
    """Return a categorical feature: 1 at the level or cell that the value has, 0 elsewhere."""
    if isinstance(kind, dict):
        text = "" if value is None else value
        code = blake2b(f"{name}\n{text}".encode(), digest_size=8).digest()
        mine = sum(byte << (8 * place) for place, byte in enumerate(code)) % kind["hash"]
        return [(f"{name}#{cell}", 1.0 if cell == mine else 0.0) for cell in range(kind["hash"])]
    levels = list(kind)
    if other:
        levels += [] if "other" in levels else ["other"]
        value = value if value in levels else "other"
    return [(f"{name}={level}", 1.0 if level == value else 0.0) for level in levels]


def feature(name, row, features, *, other, learned):
    """Return what one feature becomes."""
    if name in features["numeric"]:
        own = None if learned is None else learned.get(name)
        return [(name, scaled(row[name], features["numeric"][name], own))]
    return indicators(name, row[name], features["categorical"][name], other=other)


def encoded(row, features, *, other, learned):
    """Return a unit's own columns: intercept, numbers, categories, then products of two."""
    columns = [("intercept", 1.0)] if features["intercept"] else []
    for name in [*features["numeric"], *features["categorical"]]:
        columns += feature(name, row, features, other=other, learned=learned)
    for one, two in features["interactions"]:
        for left, x in feature(one, row, features, other=other, learned=learned):
            for right, y in feature(two, row, features, other=other, learned=learned):
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


def scaling(rows, features):
    """Return mean and population standard deviation of each feature whose scaling is learned."""
    learned = {}
    for name, kind in features["numeric"].items():
        if kind == "learn":
            values = [row[name] for row in rows]
            learned[name] = math.fsum(values) / len(values), statistics.pstdev(values)
    return learned
