"""Which actions each unit may get, as SQL: a0 is 1 where it may get the first action, else 0.

A rule over NULL is neither true nor false in SQL, as it is in Python (`tables.eligibility`): what
is missing makes nobody eligible.
"""

from dataclasses import dataclass

from seqbatch.campaign.design.eligibility import (
    Among,
    Both,
    Column,
    Compare,
    Kind,
    Not,
    Rule,
    columns,
)
from seqbatch.campaign.design.limits import LARGEST_NUMBER
from seqbatch.campaign.tables.columns import TOO_LARGE
from seqbatch.campaign.tables.eligibility import Eligibility
from seqbatch.campaign.tables.encoder import Encoder
from seqbatch.campaign.warehouse.dialects import Dialect
from seqbatch.campaign.warehouse.problems import briefly

#: An expression and its name.
Item = tuple[str, str]
#: How many actions a unit may get; NULL where that is none.
COUNT = "choices"
SIGNS = {"==": "=", "!=": "<>"}


@dataclass(frozen=True)
class Allowed:
    """The columns that say who may get what, stage by stage.

    Parameters
    ----------
    read
        What is read of the table beside the columns of the model.
    asked
        Whether each rule holds; that of the fallback is still open.
    settled
        Every action, and how many there are.
    problems
        Conditions under which a unit is refused, and why.
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
    """Return the columns that rules use and the model does not, each with what it holds."""
    rules = () if encoder.eligibility is None else encoder.eligibility.rules
    used = {name: kind for rule in rules if rule is not None for name, kind in columns(rule)}
    return {name: kind for name, kind in used.items() if name not in encoder.parts}


def allowed_of(encoder: Encoder, sql: Dialect) -> Allowed | None:
    """Return who may get what; None where everybody may get everything."""
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
        (f"CASE WHEN {_holds(rule, sql, places)} THEN 1 ELSE 0 END" if rule else "1", f"a{place}")
        for place, rule in enumerate(eligibility.rules)
        if place != eligibility.fallback
    ]
    others = " + ".join(name for _, name in asked)
    if eligibility.fallback is None:
        problems.append((f"{others} = 0", briefly("", eligibility.refusal)))
    return Allowed(read, asked, _settled(eligibility, sql, others), problems)


def _settled(eligibility: Eligibility, sql: Dialect, others: str) -> list[Item]:
    """Return every action, and how many: who may get nothing else may get the fallback."""
    made = [(f"a{place}", f"a{place}") for place in range(len(eligibility.rules))]
    count = f"NULLIF({others}, 0)"
    if (last := eligibility.fallback) is not None:
        made[last] = (f"CASE WHEN {others} = 0 THEN 1 ELSE 0 END", f"a{last}")
        count = f"GREATEST({others}, 1)"
    return [*made, (f"CAST({count} AS {sql.double})", COUNT)]


def _holds(rule: Rule, sql: Dialect, places: dict[str, str]) -> str:
    """Return the condition of a rule."""
    match rule:
        case Column(name):
            return places[name]
        case Compare(name, sign, value):
            return f"{_value(places[name], value)} {SIGNS.get(sign, sign)} {_spelled(sql, value)}"
        case Among(name, values):
            listed = ", ".join(_spelled(sql, value) for value in values)
            return f"{_value(places[name], values[0])} IN ({listed})"
        case Not(inner):
            return f"NOT ({_holds(inner, sql, places)})"
        case Both(rules, every):
            parts = [_holds(each, sql, places) for each in rules]
            # `and` binds more closely than `or`, in a rule as in SQL.
            closed = [
                f"({part})" if isinstance(each, Both) and every else part
                for each, part in zip(rules, parts, strict=True)
            ]
            return (" AND " if every else " OR ").join(closed)


def _value(column: str, beside: object) -> str:
    """Return a column as it is compared: an empty text is missing."""
    return f"NULLIF({column}, '')" if isinstance(beside, str) else column


def _spelled(sql: Dialect, value: float | str | bool) -> str:
    return sql.text(value) if isinstance(value, str) else sql.number(float(value))
