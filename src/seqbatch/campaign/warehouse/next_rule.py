"""The rule to run next as SQL: a CASE for a tree, a statement for either kind."""

import json
from collections.abc import Iterator

from seqbatch.campaign.decide.decision_tree import Condition, Level, OwnTree, Path
from seqbatch.campaign.decide.next_rule import ExportedRule, LinearScores
from seqbatch.campaign.features.base import Feature
from seqbatch.campaign.features.boolean import BooleanFeature
from seqbatch.campaign.features.categorical import HashedFeature, LevelsFeature
from seqbatch.campaign.features.date import LEVELS, DateFeature
from seqbatch.campaign.features.numeric import NumericFeature, ScaledNumber
from seqbatch.campaign.files.date_format import ISO
from seqbatch.campaign.spec.eligibility import EligibilityRule
from seqbatch.campaign.spec.input_limits import LARGEST_NUMBER
from seqbatch.campaign.warehouse.dialects import SqlDialect
from seqbatch.campaign.warehouse.features import (
    EPOCH,
    MONDAY,
    Item,
    allowed_of,
    columns_of,
    holds_in_sql,
    without,
)
from seqbatch.campaign.warehouse.stages import Stages, named, summed
from seqbatch.errors import CampaignStateError

# ----------------------------------------------------------------------
# The whole statement.


def rule_in_sql(exported: ExportedRule, sql: SqlDialect, units: str) -> str:
    """Return the statement that gives each unit of a table its action."""
    _require_expressible(exported)
    if isinstance(exported.body, OwnTree):
        ids = [sql.name_of(name) for name in exported.unit]
        case = "\n".join(f"  {line}" for line in case_of(exported, sql))
        items = ",\n".join([*(f"  {one}" for one in ids), f"{case} AS action"])
        body = f"SELECT\n{items}\nFROM {sql.table(units)}\n"
    else:
        body = _linear(exported, exported.body, sql, units)
    about = {
        "campaign": exported.campaign, "event": exported.event, "rule": exported.kind,
        "dialect": sql.name, "units": units,
    }  # fmt: skip
    said = [
        json.dumps(about),
        "The rule to run next. A unit that the campaign would not accept gets no action.",
    ]
    return "\n".join(f"-- {line}" for line in said) + f"\n{body}"


def _require_expressible(exported: ExportedRule) -> None:
    """Refuse a rule that reads columns which SQL cannot read as the campaign does."""
    parts = exported.parts.items()
    reasons = {
        "categories are hashed by blake2": [
            n for n, p in parts if isinstance(p, HashedFeature) and p.rules.by == "blake2"
        ],
        "dates have a format": [
            n for n, p in parts if isinstance(p, DateFeature) and p.rules.format != ISO
        ],
        "numbers have a format": [
            n for n, p in parts if isinstance(p, NumericFeature) and p.rules.format
        ],
    }
    found = [f"{why} ({', '.join(names)})" for why, names in reasons.items() if names]
    if found:
        raise CampaignStateError(
            f"the rule of campaign {exported.campaign} cannot be written as SQL: "
            f"{'; '.join(found)}.",
            code="not-in-sql",
        )


# ----------------------------------------------------------------------
# A tree as one CASE over the columns of the table.


def case_of(exported: ExportedRule, sql: SqlDialect) -> list[str]:
    """Return the lines of the CASE expression of a tree."""
    assert isinstance(exported.body, OwnTree)
    places = _read(exported, sql)
    refused = dict.fromkeys(
        condition for name, part in exported.parts.items() if name in exported.body.columns
        for condition in _refusals(part, sql, places[name])
    )  # fmt: skip
    lines = [f"  WHEN {condition} THEN NULL" for condition in refused]
    for path, leaf in exported.body.paths:
        for action, rule in _in_turn(exported, leaf.order):
            met = [_path(path, exported, sql, places)] if path else []
            if rule is not None:
                met.append(f"({holds_in_sql(rule, sql, places)})")
            lines.append(f"  WHEN {' AND '.join(met) or '1 = 1'} THEN {sql.text(action)}")
    return ["CASE", *lines, "END"]


def _in_turn(
    exported: ExportedRule, order: tuple[str, ...]
) -> Iterator[tuple[str, EligibilityRule | None]]:
    """Yield the actions of a leaf with the rule of each, up to one that every unit may get."""
    for action in order:
        if action == exported.fallback:
            continue
        rule = exported.rules.get(action)
        yield action, rule
        if rule is None:
            return
    if exported.fallback is not None:
        yield exported.fallback, None


def _read(exported: ExportedRule, sql: SqlDialect) -> dict[str, str]:
    """Return how each column is read from the table."""
    made = {}
    for name, part in exported.parts.items():
        column = sql.name_of(name)
        match part:
            case NumericFeature():
                gone = [sql.number(each) for each in part.rules.missing_values]
                made[name] = without(sql.as_number(column), gone)
            case DateFeature():
                gone = [f"DATE '{each}'" for each in part.rules.missing_values]
                made[name] = without(sql.as_date(column), gone)
            case BooleanFeature():
                made[name] = column
            case _:
                made[name] = sql.as_text(column)
    for name, kind in exported.beside.items():
        column = sql.name_of(name)
        casts = {"number": sql.as_number(column), "text": sql.as_text(column), "yes or no": column}
        made[name] = casts[kind]
    return made


def _refusals(part: Feature, sql: SqlDialect, value: str) -> Iterator[str]:
    """Yield the conditions under which the campaign does not accept a column."""
    match part:
        case LevelsFeature():
            known = ", ".join(sql.text(level) for level in part.rules.levels)
            if not part.accepts_missing:
                yield f"COALESCE({value}, '') = ''"
            if not part.other:
                yield f"COALESCE({value}, '') NOT IN ({known}, '')"
        case BooleanFeature() if part.missing == "refuse":
            yield f"{value} IS NULL"
        case NumericFeature() | DateFeature():
            if part.rules.missing == "refuse":
                yield f"{value} IS NULL"
            if isinstance(part, NumericFeature):
                yield f"ABS({value}) >= {sql.number(LARGEST_NUMBER)}"


def _path(path: Path, exported: ExportedRule, sql: SqlDialect, places: dict[str, str]) -> str:
    """Return the conditions that lead to a leaf."""
    return " AND ".join(
        _condition(one, exported.parts[one.column], sql, places[one.column], holds=holds)
        for one, holds in path
    )


def _condition(
    condition: Condition, part: Feature, sql: SqlDialect, value: str, *, holds: bool
) -> str:
    """Return a condition or its opposite; one of them is true for every unit that is accepted."""
    if condition.part == "missing":
        return f"{value} IS {'NOT ' if holds else ''}NULL"
    if condition.at_most is not None:
        sign = "<=" if holds else ">"
        return f"{_own_number(part, sql, value)} {sign} {sql.number(condition.at_most)}"
    if isinstance(part, BooleanFeature):
        yes = f"COALESCE({value}, {'TRUE' if part.missing is True else 'FALSE'})"
        return f"NOT {yes}" if holds else yes
    among = "IN" if condition.among == holds else "NOT IN"
    if isinstance(part, DateFeature):
        return f"{_place(condition, sql, value)} {among} ({_places(condition)})"
    levels = ", ".join(sql.text(str(level or "")) for level in condition.levels)
    return f"COALESCE({value}, '') {among} ({levels})"


def _own_number(part: Feature, sql: SqlDialect, value: str) -> str:
    """Return a number, or the days of a date, with missing values filled as the model does."""
    if isinstance(part, DateFeature):
        assert part.start is not None
        days = f"{(part.start - EPOCH).days} - {sql.day_number(value)}"
        return _filled(part.days, sql, f"CAST({days} AS {sql.double})")
    assert isinstance(part, NumericFeature)
    return _filled(part.number, sql, value)


def _filled(number: ScaledNumber, sql: SqlDialect, value: str) -> str:
    """Return a number with missing values filled as the model does."""
    frozen = number.frozen
    if number.rules.missing == "refuse" or frozen is None:
        return value
    return f"COALESCE({value}, {sql.number(frozen.fill)})"


def _place(condition: Condition, sql: SqlDialect, value: str) -> str:
    """Return the place of a date's weekday or month; a missing one is the last."""
    weekday = f"MOD({sql.day_number(value)} + {MONDAY}, 7)"
    counted = weekday if condition.part == "weekday" else f"{sql.month(value)} - 1"
    return f"COALESCE({counted}, {len(LEVELS[condition.part])})"


def _places(condition: Condition) -> str:
    known = list[Level](LEVELS[condition.part])
    return ", ".join(
        str(known.index(one) if one in known else len(known)) for one in condition.levels
    )


# ----------------------------------------------------------------------
# Linear scores, stage by stage, with the arithmetic of the campaign's own statements.


def _linear(exported: ExportedRule, body: LinearScores, sql: SqlDialect, units: str) -> str:
    columns, allowed = columns_of(exported.encoder, sql), allowed_of(exported.encoder, sql)
    stages = Stages(sql)
    ids = [f"u{place}" for place in range(len(exported.unit))]
    own: list[Item] = [
        (sql.name_of(name), alias) for name, alias in zip(exported.unit, ids, strict=True)
    ]
    read = [*columns.read, *(allowed.read if allowed else [])]
    stages.add("given", [*own, *read], source=sql.table(units))
    asked = allowed.asked if allowed else []
    seen = named(*(alias for _, alias in read))
    stages.add("known", [*named(*ids), *seen, *columns.levels, *asked])
    problems = [*columns.problems, *(allowed.problems if allowed else [])]
    cases = " ".join(f"WHEN {condition} THEN {sql.text(why)}" for condition, why in problems)
    problem = f"CASE {cases} END" if problems else "NULL"
    settled = allowed.settled if allowed else []
    kept = named(*ids, "problem", *(name for _, name in settled))
    stages.add("drawn", [*named(*ids), (problem, "problem"), *settled, *columns.base])
    if columns.crossed:
        vector = named(*(alias for _, alias in columns.base))
        stages.add("crossed", [*kept, *vector, *columns.crossed])
    scores = [
        (_score(sql, columns.vector, constant, weights), f"s{place}")
        for place, (constant, weights) in enumerate(
            zip(body.constants.tolist(), body.weights.tolist(), strict=True)
        )
    ]
    stages.add("scored", [*kept, *scores])
    back: list[Item] = [
        (alias, sql.name_of(name)) for name, alias in zip(exported.unit, ids, strict=True)
    ]
    return stages.statement([*back, (_best(exported, body, sql), "action"), *named("problem")])


def _score(sql: SqlDialect, vector: list[str], constant: float, weights: list[float]) -> str:
    """Return a prediction as a flat sum, without terms of weight 0."""
    terms = [
        f"{sql.number(weight)} * {name}"
        for name, weight in zip(vector, weights, strict=True)
        if weight
    ]
    return summed([sql.number(constant), *terms])


def _best(exported: ExportedRule, body: LinearScores, sql: SqlDialect) -> str:
    """Return the action with the best score among those that a unit may get."""
    sign = "<=" if body.less else ">="
    place = {name: f"a{at}" for at, name in enumerate(exported.rules)}
    lines = ["WHEN problem IS NOT NULL THEN NULL"]
    for at, action in enumerate(body.actions):
        beaten = [
            f"({f'{place[other]} = 0 OR ' if place else ''}s{at} {sign} s{against})"
            for against, other in enumerate(body.actions)
            if against != at
        ]
        met = [*([f"{place[action]} = 1"] if place else []), *beaten]
        lines.append(f"WHEN {' AND '.join(met) or '1 = 1'} THEN {sql.text(action)}")
    lines += [
        f"WHEN {place[action]} = 1 THEN {sql.text(action)}"
        for action in exported.actions
        if place and action not in body.actions
    ]
    joined = "\n    ".join(lines)
    return f"CASE\n    {joined}\n  END"
