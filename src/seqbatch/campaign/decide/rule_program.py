"""Give each unit of a CSV file its action by a rule; needs only Python's standard library.

    python rule.py units.csv > actions.csv

The first line of the file has the names of its columns. The answer has the id, the action, and why
a unit got none.
"""

import csv
import hashlib
import json
import operator
import re
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

#: The rule, as JSON.
RULE = "{}"


class Refused(ValueError):  # noqa: N818
    """A unit that the campaign would not have accepted."""


# ----------------------------------------------------------------------
# Read cells.


def text_of(_: dict[str, Any], row: dict[str, str], name: str) -> str | None:
    """Return a cell as it is; None if it is empty."""
    if name not in row:
        raise Refused(f"there is no column {name}")
    return row[name] or None


def word_of(rule: dict[str, Any], row: dict[str, str], name: str) -> str | None:
    """Return a cell without spaces around it; None if it means a missing value."""
    cell = (text_of(rule, row, name) or "").strip()
    return None if cell.lower() in rule["words"]["missing"] else cell


def number_of(rule: dict[str, Any], row: dict[str, str], name: str) -> float | None:
    """Return a number, or None."""
    cell = word_of(rule, row, name)
    if cell is None:
        return None
    written = rule["columns"][name].get("written")
    try:
        value = float(cell) if written is None else written_number(cell, written)
    except ValueError:
        raise Refused(f"{name} must be a number; received {cell}") from None
    if not abs(value) < 1e30:
        raise Refused(f"{name} must be finite and below 1e+30 in size; received {cell}")
    return None if value in rule["columns"][name].get("missing_values", ()) else value


def written_number(cell: str, written: dict[str, Any]) -> float:
    """Return a number that is written in a declared format."""
    same = {**dict.fromkeys("\u00a0\u2007\u2009\u202f", " "), "\u2212": "-", "\u2019": "'"}
    cell = "".join(same.get(character, character) for character in cell).strip()
    if not re.fullmatch(written["pattern"], cell, re.ASCII):
        raise ValueError(cell)
    for each in written["drop"]:
        cell = cell.replace(each, "")
    size = float(cell.strip("+-()").replace(written["decimal"], "."))
    size = size / 100 if written["percent"] else size
    return -size if cell[0] in "-(" or cell[-1] == "-" else size


def boolean_of(rule: dict[str, Any], row: dict[str, str], name: str) -> bool | None:
    """Return a yes or a no, or None."""
    cell = word_of(rule, row, name)
    if cell is None:
        return None
    if cell.lower() not in (*rule["words"]["yes"], *rule["words"]["no"]):
        raise Refused(f"{name} must be a yes or a no; received {cell}")
    return cell.lower() in rule["words"]["yes"]


def date_of(rule: dict[str, Any], row: dict[str, str], name: str) -> date | None:
    """Return a date, or None."""
    cell, column = word_of(rule, row, name), rule["columns"][name]
    if cell is None:
        return None
    try:
        if column["format"] == "iso":
            day = date.fromisoformat(cell[:10])
        else:
            day = datetime.strptime(cell, column["format"]).date()
    except ValueError:
        raise Refused(f"{name} must be a date; received {cell}") from None
    return None if day.isoformat() in column["missing_values"] else day


READ = {
    "number": number_of, "yes or no": boolean_of, "date": date_of,
    "text": text_of, "category": text_of, "hashed": text_of,
}  # fmt: skip


def values_of(rule: dict[str, Any], row: dict[str, str]) -> dict[str, Any]:
    """Return the values of the columns that the rule reads; refuse what the campaign refused."""
    values = {name: READ[one["kind"]](rule, row, name) for name, one in rule["columns"].items()}
    for name, value in values.items():
        column = rule["columns"][name]
        if value is None and refuses_missing(column):
            raise Refused(f"{name} must not be missing")
        if column["kind"] == "category" and value is not None and column["other"] is None:
            require_level(name, str(value), column["levels"])
    return values


def require_level(name: str, value: str, levels: dict[str, int]) -> None:
    """Refuse a level that was not declared."""
    if value not in levels:
        raise Refused(f"{name} must be one of {', '.join(levels)}")


def refuses_missing(column: dict[str, Any]) -> bool:
    """Return whether the model needs a value of a column."""
    return {
        "number": "fill" in column and column["fill"] is None,
        "yes or no": column.get("missing") == "refuse",
        "category": column.get("missing") is None,
        "hashed": column.get("missing") is False,
        "date": bool(column.get("refuse_missing")),
    }.get(column["kind"], False)


# ----------------------------------------------------------------------
# Who may get what.


COMPARED = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def holds(rule: dict[str, Any], values: dict[str, Any]) -> bool | None:
    """Return whether an eligibility rule holds; None if a missing value leaves it open."""
    [(kind, what)] = rule.items()
    if kind == "yes":
        yes: bool | None = values[what]
        return yes
    if kind == "missing":
        return values[what] is None
    if kind == "not":
        inner = holds(what, values)
        return None if inner is None else not inner
    if kind in ("all", "any"):
        found = [holds(each, values) for each in what]
        decisive = kind == "any"
        return decisive if decisive in found else None if None in found else not decisive
    value = values[what[0]]
    if value is None:
        return None
    if kind == "among":
        return value in what[1]
    return bool(COMPARED[what[1]](value, what[2]))


def allowed(rule: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """Return the actions that a unit may get; the fallback only if there is no other."""
    last = rule["fallback"]
    made = [
        name
        for name in rule["actions"]
        if name != last
        and (name not in rule["eligible"] or holds(rule["eligible"][name], values) is True)
    ]
    return made or ([last] if last is not None else [])


# ----------------------------------------------------------------------
# The rule: a tree, or linear scores.


def order_of_tree(rule: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """Return the actions of a unit's leaf, the best first."""
    node = rule["tree"]
    while "if" in node:
        node = node["then" if meets(rule, node["if"], values) else "else"]
    order: list[str] = node["order"]
    return order


def meets(rule: dict[str, Any], condition: dict[str, Any], values: dict[str, Any]) -> bool:
    """Return whether a unit meets a condition of the tree."""
    name, part = condition["column"], condition.get("part", "")
    value, column = values[name], rule["columns"][name]
    if part == "missing":
        value = value is None
    elif "at_most" in condition:
        scaled = column
        if part == "days":
            scaled = column["parts"]["days"]
            value = None if value is None else days_before(column, value)
        value = scaled["fill"] if value is None else value
        return bool(value <= condition["at_most"])
    elif part:
        value = None if value is None else column["parts"][part][place_in(part, value)]
    elif column["kind"] == "yes or no" and value is None:
        value = column["missing"] is True
    if "is" in condition:
        return value in condition["is"]
    return value not in condition["is_not"]


def days_before(column: dict[str, Any], day: date) -> float:
    """Return the days from a date to the campaign's start."""
    return float((date.fromisoformat(column["start"]) - day).days)


def place_in(part: str, day: date) -> int:
    """Return the place of a date's weekday or month, from 0."""
    return day.weekday() if part == "weekday" else day.month - 1


def scores_of(rule: dict[str, Any], values: dict[str, Any]) -> dict[str, float]:
    """Return the predictions of a unit's outcome, by action."""
    numbers = numbers_of(rule, values)
    made = {}
    for name, score in rule["scores"].items():
        made[name] = score["constant"]
        for weight, number in zip(score["weights"], numbers, strict=True):
            if weight:
                made[name] += weight * number
    return made


def numbers_of(rule: dict[str, Any], values: dict[str, Any]) -> list[float]:
    """Return a unit as the numbers of the model."""
    blocks = {
        name: encoded(rule, name, values[name])
        for name, column in rule["columns"].items()
        if column["kind"] != "text" and is_feature(column)
    }
    made = [1.0] if rule["intercept"] else []
    for block in blocks.values():
        made += block
    for one, other in rule["interactions"]:
        made += [left * right for left in blocks[one] for right in blocks[other]]
    return made


def is_feature(column: dict[str, Any]) -> bool:
    """Return whether a column is part of the model; others serve eligibility alone."""
    return len(column) > 1


def encoded(rule: dict[str, Any], name: str, value: Any) -> list[float]:
    """Return one column as numbers of the model."""
    column = rule["columns"][name]
    kind = column["kind"]
    if kind == "number":
        return scaled(column, value)
    if kind == "yes or no":
        missing = column["missing"]
        own = float(missing is True if value is None else value)
        return [own, float(value is None)] if missing == "level" else [own]
    if kind == "category":
        place = column["missing"] if value is None else column["levels"].get(value, column["other"])
        return one_at(place, column["width"])
    if kind == "hashed":
        return one_at(hashed(name, value or "", column["by"]) % column["width"], column["width"])
    return encoded_date(column, value)


def hashed(name: str, text: str, by: str) -> int:
    """Return the hash of a category's text."""
    if by == "md5":
        return int(
            hashlib.md5(f"{name}#{text}".encode(), usedforsecurity=False).hexdigest()[:13], 16
        )
    digest = hashlib.blake2b(f"{name}\n{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def scaled(column: dict[str, Any], value: float | None) -> list[float]:
    """Return a number within its bounds, scaled, and whether it is missing."""
    own = column["fill"] if value is None else value
    if value is not None and column["low"] is not None and column["high"] is not None:
        own = min(max(value, column["low"]), column["high"])
    made = (own - column["mean"]) / column["sd"] if column["sd"] > 0 else 0.0
    more = [float(value is None and column["indicator"])] if column["indicators"] else []
    return [made, *more]


def encoded_date(column: dict[str, Any], value: date | None) -> list[float]:
    """Return a date as numbers of the model."""
    made = []
    for part, levels in column["parts"].items():
        if part == "days":
            made += scaled(levels, None if value is None else days_before(column, value))
            continue
        width = len(levels) + (not column["refuse_missing"])
        made += one_at(len(levels) if value is None else place_in(part, value), width)
    return made


def one_at(place: int, width: int) -> list[float]:
    """Return zeros with a 1 at a place."""
    return [float(each == place) for each in range(width)]


def action_of(rule: dict[str, Any], row: dict[str, str]) -> str:
    """Return the action of a unit: the best one that it may get."""
    values = values_of(rule, row)
    may = allowed(rule, values)
    if not may:
        raise Refused("no action is eligible for this unit")
    if rule["kind"] == "tree":
        order = order_of_tree(rule, values)
    else:
        found, sign = scores_of(rule, values), 1 if rule["less_is_better"] else -1
        order = sorted(found, key=lambda name: sign * found[name])
    return next((name for name in order if name in may), may[0])


def main(file: str) -> None:
    """Write the action of each unit of a file to standard output."""
    rule = json.loads(RULE)
    with Path(file).open(encoding="utf-8-sig", newline="") as opened:
        write = csv.writer(sys.stdout, lineterminator="\n")
        write.writerow([*rule["unit"], "action", "problem"])
        for row in csv.DictReader(opened):
            ids = [row.get(name, "") for name in rule["unit"]]
            try:
                write.writerow([*ids, action_of(rule, row), ""])
            except Refused as problem:
                write.writerow([*ids, "", str(problem)])


if __name__ == "__main__":
    main(sys.argv[1])
