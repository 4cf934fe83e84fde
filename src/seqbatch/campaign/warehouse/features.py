"""Features and eligibility as SQL, with the same bits as the Python encoder."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from seqbatch.campaign.features.base import Feature
from seqbatch.campaign.features.boolean import BooleanFeature
from seqbatch.campaign.features.categorical import MD5_DIGITS, OTHER, HashedFeature, LevelsFeature
from seqbatch.campaign.features.date import LEVELS, DateFeature
from seqbatch.campaign.features.eligibility import Eligibility
from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.features.numeric import NumericFeature, ScaledNumber
from seqbatch.campaign.files.column_values import MISSING as NONE
from seqbatch.campaign.files.column_values import reasoned
from seqbatch.campaign.files.date_format import UNLIKELY
from seqbatch.campaign.files.number_format import TOO_LARGE, TOO_LARGE_ENCODED
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
from seqbatch.campaign.spec.input_limits import LARGEST_ENCODED, LARGEST_NUMBER
from seqbatch.campaign.warehouse.dialects import SqlDialect

# ----------------------------------------------------------------------
# Short problem messages, identical in SQL and on Arrow batches.
#
# They contain neither the value nor advice: databases format numbers differently, and users count
# the problems of millions of rows by their message.


def briefly(column: str, reason: str) -> str:
    """Return a unit's problem in a few words; `column` is empty if no single column is wrong.

    >>> from seqbatch.campaign.files.column_values import Reason
    >>> briefly("age", Reason("must be finite and below 1e+30 in size", "; received inf"))
    'age must be finite and below 1e+30 in size'
    """
    return f"{column} {reasoned(reason).rule}".strip()


# ----------------------------------------------------------------------
# A unit's columns as the model's numbers, in SQL.
#
# Columns are named by position: g0 is the first column read, c0 a category's level, c1_month a
# date's month, x0 the model's first number.


#: An expression and its name.
Item = tuple[str, str]
#: Codes for a refused level and for a missing level.
UNSEEN, MISSING = -1, -2
EPOCH = datetime.date(1970, 1, 1)
#: Days from a Monday before the earliest accepted date to 1970-01-01.
MONDAY = 7 * 60_000 + EPOCH.weekday()
#: More days than lie between any two accepted dates.
MOST_DAYS = 4e6


@dataclass(frozen=True)
class Size:
    """The largest absolute value of a feature in the model: an expression and its bound."""

    expression: str
    most: float

    def __mul__(self, other: "Size") -> "Size":
        return Size(f"{self.expression} * {other.expression}", self.most * other.most)


@dataclass
class SqlColumns:
    """The columns of an SQL statement, stage by stage.

    Parameters
    ----------
    read
        The columns read from the table of units.
    levels
        The code of each category's level, and the parts of dates.
    base, crossed
        The model's numbers: those of features, and products of two of them.
    problems
        Conditions under which a unit is refused, each with the reason.
    keys
        The category and boolean columns, each with the number of values that a unit with an action
        can have.
    steady
        The model's numbers that depend only on those columns, each with its expression and the
        columns.
    sizes
        The largest absolute value of each feature.
    """

    read: list[Item] = field(default_factory=list)
    levels: list[Item] = field(default_factory=list)
    base: list[Item] = field(default_factory=list)
    crossed: list[Item] = field(default_factory=list)
    problems: list[Item] = field(default_factory=list)
    keys: dict[str, int] = field(default_factory=dict)
    steady: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    sizes: dict[str, Size] = field(default_factory=dict)

    def add(self, *expressions: str, keys: Sequence[str] | None = None) -> None:
        """Add the numbers of a feature, which may depend on some keys only."""
        for expression in expressions:
            name = f"x{len(self.base)}"
            self.base.append((expression, name))
            if keys is not None:
                self.steady[name] = expression, frozenset(keys)

    def cross(self, left: str, right: str) -> None:
        """Add the product of two numbers."""
        name = f"x{len(self.vector)}"
        self.crossed.append((f"{left} * {right}", name))
        if left in self.steady and right in self.steady:
            (one, first), (two, second) = self.steady[left], self.steady[right]
            self.steady[name] = f"({one}) * ({two})", first | second

    def refuse(self, condition: str, part: Feature, reason: str) -> None:
        """Add a condition under which a unit is refused."""
        self.problems.append((condition, briefly(part.name, reason)))

    def refuse_large(self, name: str, size: Size, sql: SqlDialect) -> None:
        """Refuse units whose numbers are too large for the model, if there can be any."""
        if not size.most < LARGEST_ENCODED:
            condition = f"{size.expression} >= {sql.number(LARGEST_ENCODED)}"
            self.problems.append((condition, briefly(name, TOO_LARGE_ENCODED)))

    def cells(self, most: int) -> list[str]:
        """Return the keys that together have at most so many combinations of values."""
        chosen = list[str]()
        for name, values in sorted(self.keys.items(), key=lambda pair: pair[1]):
            most //= values
            if most < 1:
                break
            chosen.append(name)
        return chosen

    @property
    def vector(self) -> list[str]:
        """The names of the model's numbers, in order."""
        return [name for _, name in (*self.base, *self.crossed)]


def columns_of(encoder: Encoder, sql: SqlDialect) -> SqlColumns:
    """Return the columns of an encoder whose features SQL can express."""
    made = SqlColumns()
    if encoder.features.intercept:
        made.add(sql.number(1.0), keys=())
    places: dict[str, list[str]] = {}
    for number, (name, part) in enumerate(encoder.parts.items()):
        start, given = len(made.base), f"g{number}"
        made.sizes[name] = Size(sql.number(1.0), 1.0)
        if isinstance(part, NumericFeature):
            _numeric(made, sql, part, given)
        elif isinstance(part, BooleanFeature):
            _boolean(made, sql, part, given)
        elif isinstance(part, DateFeature):
            _date(made, sql, part, given, f"c{number}")
        elif isinstance(part, HashedFeature):
            _hashed(made, sql, part, given, f"c{number}")
        else:
            assert isinstance(part, LevelsFeature)
            _levels(made, sql, part, given, f"c{number}")
        places[name] = [alias for _, alias in made.base[start:]]
    for one, two in encoder.features.interactions:
        for left in places[one]:
            for right in places[two]:
                made.cross(left, right)
    # In the encoder's order: only a unit's first problem is reported.
    for name, size in made.sizes.items():
        made.refuse_large(name, size, sql)
    for one, two in encoder.features.interactions:
        made.refuse_large(f"{one}*{two}", made.sizes[one] * made.sizes[two], sql)
    return made


def _numeric(made: SqlColumns, sql: SqlDialect, part: NumericFeature, given: str) -> None:
    number, gone = sql.as_number(sql.name_of(part.name)), part.rules.missing_values
    made.read.append((without(number, [sql.number(each) for each in gone]), given))
    if part.rules.missing == "refuse":
        made.refuse(f"{given} IS NULL", part, NONE)
    most = sql.number(LARGEST_NUMBER)
    made.refuse(f"ABS({given}) >= {most}", part, TOO_LARGE)
    value = _scaled(made, sql, part.number, given)
    made.sizes[part.name] = Size(f"ABS({value})", _most(part.number, LARGEST_NUMBER))


def without(value: str, gone: list[str]) -> str:
    """Return a value, or NULL if it is one of those that stand for a missing value."""
    return f"CASE WHEN {value} IN ({', '.join(gone)}) THEN NULL ELSE {value} END" if gone else value


def _most(number: ScaledNumber, largest: float) -> float:
    """Return the largest number in the model, given the largest number in the table."""
    # An overflow to infinity correctly counts as too large.
    with np.errstate(over="ignore"):
        return float(number.sizes(np.array([np.nan, -largest, largest])).max())


def _scaled(made: SqlColumns, sql: SqlDialect, number: ScaledNumber, given: str) -> str:
    """Add a number's model columns; return the expression of the scaled number."""
    frozen, zero = number.frozen, sql.number(0.0)
    value = zero
    if frozen is not None and frozen.sd > 0:
        bounded = given
        if frozen.low is not None and frozen.high is not None:
            low, high = sql.number(frozen.low), sql.number(frozen.high)
            bounded = f"LEAST(GREATEST({given}, {low}), {high})"
        filled = f"CASE WHEN {given} IS NULL THEN {sql.number(frozen.fill)} ELSE {bounded} END"
        value = f"({filled} - {sql.number(frozen.mean)}) / {sql.number(frozen.sd)}"
    made.add(value)
    if len(number.names) > 1:
        shown = frozen is not None and frozen.indicator
        made.add(_indicator(sql, f"{given} IS NULL") if shown else zero)
    return value


def _date(made: SqlColumns, sql: SqlDialect, part: DateFeature, given: str, place: str) -> None:
    date, gone = sql.as_date(sql.name_of(part.name)), part.rules.missing_values
    made.read.append((without(date, [f"DATE '{each}'" for each in gone]), given))
    day = sql.day_number(given)
    if part.rules.missing == "refuse":
        made.refuse(f"{given} IS NULL", part, NONE)
    # Compare dates, not day numbers: DuckDB returns NULL for the day number of an infinite date.
    unlikely = f"{given} NOT BETWEEN DATE '1000-01-01' AND DATE '9999-12-31'"
    made.refuse(unlikely, part, UNLIKELY)
    counted = {"weekday": f"MOD({day} + {MONDAY}, 7)", "month": f"{sql.month(given)} - 1"}
    for each in part.rules.parts:
        name = f"{place}_{each}"
        if each == "days":
            assert part.start is not None
            since = f"{(part.start - EPOCH).days} - {day}"
            made.levels.append((f"CAST({since} AS {sql.double})", name))
            value = _scaled(made, sql, part.days, name)
            largest = f"GREATEST(ABS({value}), {sql.number(1.0)})"
            made.sizes[part.name] = Size(largest, max(_most(part.days, MOST_DAYS), 1.0))
            continue
        # The last level is for a missing date.
        made.levels.append((f"COALESCE({counted[each]}, {len(LEVELS[each])})", name))
        made.keys[name] = len(LEVELS[each]) + (part.rules.missing != "refuse")
        for number in range(len(part.names_of(each))):
            made.add(_indicator(sql, f"{name} = {number}"), keys=[name])


def _boolean(made: SqlColumns, sql: SqlDialect, part: BooleanFeature, given: str) -> None:
    made.read.append((sql.name_of(part.name), given))
    if part.missing == "refuse":
        made.refuse(f"{given} IS NULL", part, NONE)
    yes = f"{given} OR {given} IS NULL" if part.missing is True else given
    made.keys[given] = 2 if part.missing == "refuse" else 3
    made.add(_indicator(sql, yes), keys=[given])
    if part.missing == "level":
        made.add(_indicator(sql, f"{given} IS NULL"), keys=[given])


def _levels(made: SqlColumns, sql: SqlDialect, part: LevelsFeature, given: str, place: str) -> None:
    made.read.append((sql.as_text(sql.name_of(part.name)), given))
    found, missing = part.places_of(part.rules.levels)
    other = part.levels.index(OTHER) if part.other else UNSEEN
    absent = missing if part.accepts_missing else MISSING
    cases = [f"WHEN {given} IS NULL OR {given} = '' THEN {absent}"]
    cases += [
        f"WHEN {given} = {sql.text(level)} THEN {to}"
        for level, to in zip(part.rules.levels, found, strict=True)
        if level
    ]
    made.levels.append((f"CASE {' '.join(cases)} ELSE {other} END", place))
    if not part.accepts_missing:
        made.refuse(f"{place} = {MISSING}", part, NONE)
    if not part.other:
        made.refuse(f"{place} = {UNSEEN}", part, part.rule)
    known = part.rare is not None or not part.rules.learns
    made.keys[place] = len(part.levels)
    for number in range(len(part.levels)):
        shown = _indicator(sql, f"{place} = {number}") if known else sql.number(0.0)
        made.add(shown, keys=[place])


def _hashed(made: SqlColumns, sql: SqlDialect, part: HashedFeature, given: str, place: str) -> None:
    made.read.append((sql.as_text(sql.name_of(part.name)), given))
    if not part.accepts_missing:
        made.refuse(f"{given} IS NULL OR {given} = ''", part, NONE)
    digest = sql.md5(f"{sql.text(f'{part.name}#')} || COALESCE({given}, '')")
    width = part.rules.hash
    made.levels.append((f"MOD({sql.digits(digest, 0, MD5_DIGITS)}, {width})", place))
    made.keys[place] = width
    made.add(*(_indicator(sql, f"{place} = {cell}") for cell in range(width)), keys=[place])


def _indicator(sql: SqlDialect, condition: str) -> str:
    return f"CASE WHEN {condition} THEN {sql.number(1.0)} ELSE {sql.number(0.0)} END"


# ----------------------------------------------------------------------
# Eligibility as SQL: a0 is 1 if the unit may get the first action, else 0.
#
# In SQL, a rule over NULL is neither true nor false, as in Python (`tables.eligibility`): a missing
# value never makes a unit eligible.


#: The number of actions that a unit may get; NULL if it may get none.
COUNT = "choices"
SIGNS = {"==": "=", "!=": "<>"}


@dataclass(frozen=True)
class Allowed:
    """The columns for eligibility, stage by stage.

    Parameters
    ----------
    read
        The columns read from the table in addition to the model's columns.
    asked
        Whether each rule holds, without the fallback action's rule.
    settled
        Whether the unit may get each action, and the number of such actions.
    problems
        Conditions under which a unit is refused, each with the reason.
    """

    read: list[Item]
    asked: list[Item]
    settled: list[Item]
    problems: list[Item]

    @property
    def names(self) -> list[str]:
        """The columns that later stages pass on."""
        return [name for _, name in self.settled]


def beside(encoder: Encoder) -> dict[str, Kind]:
    """Return the columns that only eligibility rules use, each with its kind of value."""
    rules = () if encoder.eligibility is None else encoder.eligibility.rules
    known = {each.name: each.kind for each in encoder.beside}
    used = [pair for rule in rules if rule is not None for pair in columns(rule)]
    return {
        name: kind or known.get(name, "text") for name, kind in used if name not in encoder.parts
    }


def allowed_of(encoder: Encoder, sql: SqlDialect) -> Allowed | None:
    """Return the eligibility columns; None if all units may get all actions."""
    if (eligibility := encoder.eligibility) is None:
        return None
    places = {name: f"g{number}" for number, name in enumerate(encoder.parts)}
    read, problems = list[Item](), list[Item]()
    for number, (name, kind) in enumerate(beside(encoder).items()):
        column = sql.name_of(name)
        casts = {"number": sql.as_number(column), "text": sql.as_text(column), "yes or no": column}
        places[name] = f"r{number}"
        read.append((casts[kind], places[name]))
        if kind == "number":
            large = f"ABS({places[name]}) >= {sql.number(LARGEST_NUMBER)}"
            problems.append((large, briefly(name, TOO_LARGE)))
    asked = [
        (
            f"CASE WHEN {holds_in_sql(rule, sql, places)} THEN 1 ELSE 0 END" if rule else "1",
            f"a{place}",
        )
        for place, rule in enumerate(eligibility.rules)
        if place != eligibility.fallback
    ]
    others = " + ".join(name for _, name in asked)
    if eligibility.fallback is None:
        problems.append((f"{others} = 0", briefly("", eligibility.refusal)))
    return Allowed(read, asked, _settled(eligibility, sql, others), problems)


def _settled(eligibility: Eligibility, sql: SqlDialect, others: str) -> list[Item]:
    """Return the final eligibility columns: only units without another action get the fallback."""
    made = [(f"a{place}", f"a{place}") for place in range(len(eligibility.rules))]
    count = f"NULLIF({others}, 0)"
    if (last := eligibility.fallback) is not None:
        made[last] = (f"CASE WHEN {others} = 0 THEN 1 ELSE 0 END", f"a{last}")
        count = f"GREATEST({others}, 1)"
    return [*made, (f"CAST({count} AS {sql.double})", COUNT)]


def holds_in_sql(rule: EligibilityRule, sql: SqlDialect, places: dict[str, str]) -> str:
    """Return the condition of a rule."""
    match rule:
        case BooleanColumn(name):
            return places[name]
        case Compare(name, sign, value):
            return f"{_value(places[name], value)} {SIGNS.get(sign, sign)} {_spelled(sql, value)}"
        case Among(name, values):
            listed = ", ".join(_spelled(sql, value) for value in values)
            return f"{_value(places[name], values[0])} IN ({listed})"
        case Missing(name):
            # Of any type, as text: an empty text counts as missing, too.
            return f"NULLIF({sql.as_text(places[name])}, '') IS NULL"
        case Not(inner):
            return f"NOT ({holds_in_sql(inner, sql, places)})"
        case Both(rules, every):
            parts = [holds_in_sql(each, sql, places) for each in rules]
            # `and` binds more tightly than `or`, both in rules and in SQL.
            closed = [
                f"({part})" if isinstance(each, Both) and every else part
                for each, part in zip(rules, parts, strict=True)
            ]
            return (" AND " if every else " OR ").join(closed)


def _value(column: str, beside: object) -> str:
    """Return a column for comparison; an empty text counts as missing."""
    return f"NULLIF({column}, '')" if isinstance(beside, str) else column


def _spelled(sql: SqlDialect, value: float | str | bool) -> str:
    return sql.text(value) if isinstance(value, str) else sql.number(float(value))
