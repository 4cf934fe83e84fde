"""The stages that sum a wave up: outcomes beside units, whole numbers, sums of products.

The result has a row for each action, part of the evidence, and whether the outcome is known.
"""

from seqbatch.campaign.deciding.exact import scale_of
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.warehouse.columns import Item
from seqbatch.campaign.warehouse.deciding import Deciding, id_of, summed
from seqbatch.campaign.warehouse.dialects import Dialect
from seqbatch.campaign.warehouse.stages import named

#: Probabilities are rounded to multiples of 2^-CHANCES, so that sums of their products are exact.
CHANCES = 30


def summing(now: Situation, made: Deciding, sql: Dialect, outcomes: str) -> tuple[list[Item], str]:
    """Add the stages to those that decide; return what is selected of the last, and its groups."""
    _judged(now, made, sql, outcomes)
    _rounded(now, made, sql)
    K, wide = len(now.active), len(made.kept) + 1
    names = [now.actions[number].name for number in now.active]
    spelled = " ".join(f"WHEN {a} THEN {sql.text(name)}" for a, name in enumerate(names))
    counts = [
        ("COUNT(*)", "units"),
        ("COUNT(DISTINCT id)", "distinct_units"),
        *((sql.total(name), name) for name in ("absent", "conflicting", "outside", "randomised")),
    ]
    chances = [
        (sql.total(text), name)
        for text, name in (
            *((f"e{a}", f"e{a}") for a in range(K)),
            *((f"e{a} * e{b}", f"e{a}_{b}") for a in range(K) for b in range(a, K)),
        )
    ]
    products = [
        (sql.total(f"z{i} * z{j}"), f"z{i}_{j}") for i in range(wide) for j in range(i, wide)
    ]
    reward = (sql.total(f"z{wide - 1}"), "rewards")
    items = [
        (f"CASE chosen {spelled} END", "action"), *named("part", "seen"),
        *counts, *chances, reward, *products,
    ]  # fmt: skip
    return items, "GROUP BY chosen, part, seen\nORDER BY chosen, part, seen"


def _judged(now: Situation, made: Deciding, sql: Dialect, outcomes: str) -> None:
    """Put each unit's outcome beside it: one value, within the declared range."""
    reward, columns = now.spec.reward, list(now.spec.unit)
    terms = [sql.as_number(sql.name_of(column)) for column in reward.columns]
    value = terms[0]
    if reward.sum is not None:
        weights = [sql.number(weight) for weight in reward.sum.values()]
        weighed = [f"{weight} * {term}" for weight, term in zip(weights, terms, strict=True)]
        value = summed([sql.number(0.0), *weighed])
    ids = [(sql.as_text(sql.name_of(name)), f"u{place}") for place, name in enumerate(columns)]
    made.stages.add("told", [*ids, (value, "value")], source=sql.table(outcomes))
    joined = id_of(sql, [alias for _, alias in ids])
    made.stages.add(
        "told_once",
        [(joined, "told_id"), ("MIN(value)", "lowest"), ("MAX(value)", "highest")],
        after=f"WHERE value IS NOT NULL GROUP BY {joined}",
    )
    assert reward.range is not None
    low, high = (sql.number(end) for end in reward.range)
    one = "lowest = highest"
    within = f"lowest >= {low} AND highest <= {high}"
    absent = "NULL" if now.absent is None else sql.number(now.absent)
    K = len(now.active)
    made.stages.add(
        "judged",
        [
            *named("id", "chosen", "part", "randomised", *made.kept),
            *named(*(f"p{action}" for action in range(K))),
            (f"CASE WHEN {one} AND {within} THEN lowest "
             f"WHEN lowest IS NULL THEN {absent} END", "value"),
            ("CASE WHEN lowest IS NULL THEN 1 ELSE 0 END", "absent"),
            ("CASE WHEN lowest < highest THEN 1 ELSE 0 END", "conflicting"),
            (f"CASE WHEN lowest = highest AND NOT ({within}) THEN 1 ELSE 0 END", "outside"),
        ],
        source="decided",
        after="LEFT JOIN told_once ON id = told_id",
    )  # fmt: skip


def _rounded(now: Situation, made: Deciding, sql: Dialect) -> None:
    """Turn vectors, rewards and probabilities into whole numbers."""
    scale, sign = scale_of(now), now.spec.reward.sign
    costs = " ".join(
        f"WHEN {place} THEN {sql.number(sign * now.actions[number].cost)}"
        for place, number in enumerate(now.active)
    )
    reward = f"{sql.number(sign)} * (value - CASE chosen {costs} END)"
    pairs = zip((*made.kept, reward), (*scale.columns, scale.reward), strict=True)
    half = sql.number(0.5)
    whole = [
        (sql.floor(f"{text} * {sql.number(2.0**power)} + {half}"), f"z{place}")
        for place, (text, power) in enumerate(pairs)
    ]
    chances = [
        (sql.floor(f"p{action} * {sql.number(2.0**CHANCES)} + {half}"), f"e{action}")
        for action in range(len(now.active))
    ]
    counts = named("absent", "conflicting", "outside", "randomised")
    seen = ("CASE WHEN value IS NULL THEN 0 ELSE 1 END", "seen")
    own = named("id", "chosen", "part")
    made.stages.add("rounded", [*own, seen, *counts, *chances, *whole])
