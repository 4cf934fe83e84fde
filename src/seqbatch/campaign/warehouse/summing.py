"""The stages that sum a wave up: outcomes beside units, whole numbers, sums of products.

The result has a row for each action, part of the evidence, and whether the outcome is known.
"""

from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.warehouse.cells import add_cells, whole_numbers
from seqbatch.campaign.warehouse.columns import Item
from seqbatch.campaign.warehouse.deciding import Deciding, id_of, summed
from seqbatch.campaign.warehouse.dialects import Dialect
from seqbatch.campaign.warehouse.stages import named

#: Probabilities are rounded to multiples of 2^-CHANCES, so that sums of their products are exact.
CHANCES = 30
#: What is counted of the units.
COUNTS = ("absent", "conflicting", "outside", "randomised")


def summing(
    now: Situation, made: Deciding, sql: Dialect, units: str, outcomes: str
) -> tuple[list[Item], str]:
    """Add the stages to those that decide; return what is selected of the last, and the rest."""
    _judged(now, made, sql, outcomes)
    _rounded(now, made, sql)
    counts, sums = "COUNT(*)", [*_beside(len(now.active)), *_products(made)]
    if made.by_cells:
        counts, sums = f"CAST(SUM(n) AS {sql.whole})", add_cells(now, made, sql, sums)
    source = made.stages.last
    _counted(now, made, sql, units)
    names = [now.actions[number].name for number in now.active]
    spelled = " ".join(f"WHEN {a} THEN {sql.text(name)}" for a, name in enumerate(names))
    items = [
        (f"CASE chosen {spelled} END", "action"), *named("part", "seen"),
        (counts, "units"), (f"{counts} - MAX(repeated)", "distinct_units"),
        *((sql.total(text), name) for text, name in sums),
    ]  # fmt: skip
    groups = "GROUP BY chosen, part, seen\nORDER BY chosen, part, seen"
    return items, f"CROSS JOIN {source}\n{groups}"


def _beside(options: int) -> list[Item]:
    """Return what is summed up beside the numbers of the model."""
    pairs = [(a, b) for a in range(options) for b in range(a, options)]
    return [
        *named(*COUNTS, *(f"e{a}" for a in range(options))),
        *((f"e{a} * e{b}", f"e{a}_{b}") for a, b in pairs),
    ]


def _products(made: Deciding) -> list[Item]:
    """Return the reward, and the products of every two numbers of the model and it."""
    last = len(made.columns.vector)
    pairs = [(i, j) for i in range(last + 1) for j in range(i, last + 1)]
    return [(f"z{last}", "rewards"), *((f"z{i} * z{j}", f"z{i}_{j}") for i, j in pairs)]


def _counted(now: Situation, made: Deciding, sql: Dialect, units: str) -> None:
    """Find out how often a unit is in the table once more, whatever its action is there."""
    joined = id_of(sql, [sql.as_text(sql.name_of(name)) for name in now.spec.unit])
    repeated = f"COUNT({joined}) - COUNT(DISTINCT {joined})"
    made.stages.add("counted", [(repeated, "repeated")], source=sql.table(units))


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
            *named("chosen", "part", "randomised", *made.kept),
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
    sign, half = now.spec.reward.sign, sql.number(0.5)
    costs = " ".join(
        f"WHEN {place} THEN {sql.number(sign * now.actions[number].cost)}"
        for place, number in enumerate(now.active)
    )
    reward = f"{sql.number(sign)} * (value - CASE chosen {costs} END)"
    chances = [
        (sql.floor(f"p{action} * {sql.number(2.0**CHANCES)} + {half}"), f"e{action}")
        for action in range(len(now.active))
    ]
    numbers = [name if name in made.kept else None for name in made.columns.vector]
    seen = ("CASE WHEN value IS NULL THEN 0 ELSE 1 END", "seen")
    own = named("chosen", "part", *(made.columns.keys if made.by_cells else ()))
    whole = whole_numbers(now, sql, [*numbers, reward])
    made.stages.add("rounded", [*own, seen, *named(*COUNTS), *chances, *whole])
