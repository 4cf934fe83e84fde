"""What is wrong with a setting of a spec, in this project's own words.

Pydantic checks the spec; its messages are about Python. Here every kind of error that a spec can
raise is said as a rule, what was received, and what to do about it.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Any

#: Characters of a value that are shown, and of a whole reason.
SHOWN, LONGEST = 60, 1_000

#: Each kind of error as the rule that was broken; words in braces come with the error.
RULES = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "date_from_datetime_inexact": "a date alone, such as 2026-03-01",
    "date_from_datetime_parsing": "a date, such as 2026-03-01",
    "date_parsing": "a date, such as 2026-03-01",
    "date_type": "a date, such as 2026-03-01",
    "dict_type": "a table, such as {key = value}",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number that is not that long",
    "int_type": "a whole number",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list in square brackets",
    "literal_error": "{expected}",
    "model_attributes_type": "a table, such as {key = value}",
    "model_type": "a table, such as {key = value}",
    "string_pattern_mismatch": "letters from a to z, digits, dots, dashes and underscores "
    "alone, at most 100, and begin with a letter or a digit",
    "string_too_long": "at most {max_length} characters long",
    "string_too_short": "at least one character long",
    "string_type": "text in quotes",
    "string_unicode": "text that UTF-8 can hold",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list in square brackets",
    "union_tag_invalid": "of one of the forms that the documentation shows",
    "union_tag_not_found": "of one of the forms that the documentation shows",
}


def reason(found: Mapping[str, Any], known: Iterable[str] = ()) -> str:
    """Return what one of Pydantic's errors says, in words of our own.

    Parameters
    ----------
    found
        The error.
    known
        The names of settings, one of which may have been meant.

    >>> reason({"type": "greater_than", "ctx": {"gt": 0}, "input": -1, "loc": ("sd",)})
    'must be above 0; received -1'
    """
    kind, given = found["type"], found.get("ctx", {})
    if kind in _OWN:
        return _OWN[kind](found, known)
    rule = RULES.get(kind, "of a form that is known here")
    for name, value in given.items():
        rule = rule.replace(f"{{{name}}}", _bound(value))
    return f"must be {rule}; received {received(found.get('input'))}"


def _bound(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _missing(_found: Mapping[str, Any], _known: Iterable[str]) -> str:
    return "is missing; set it"


def _unknown(found: Mapping[str, Any], known: Iterable[str]) -> str:
    name = str(found["loc"][-1])
    if name in known:
        return "is not a setting of this table, but of another; move it there"
    meant = get_close_matches(name, list(known), 1)
    return f"is not a setting; {f'{meant[0]} may be meant' if meant else 'leave it out'}"


def _ours(found: Mapping[str, Any], _known: Iterable[str]) -> str:
    """Return what a validator of this project said."""
    return _as_rule(str(found["ctx"]["error"]))


def _form(found: Mapping[str, Any], _known: Iterable[str]) -> str:
    return f"{_as_rule(str(found['msg']))}; received {received(found['input'])}"


def _as_rule(said: str) -> str:
    """Return a message that begins as Pydantic's do as the other rules are said, cut short."""
    said = said if len(said) <= LONGEST else f"{said[:LONGEST]} ..."
    return said.replace("Input should ", "must ", 1) if said.startswith("Input ") else said


def _key(_found: Mapping[str, Any], _known: Iterable[str]) -> str:
    return "must have names of text"


_OWN: dict[str, Callable[[Mapping[str, Any], Iterable[str]], str]] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "value_error": _ours,
    "form": _form,
    "invalid_key": _key,
}
#: The kinds of errors that have words of their own.
KNOWN = frozenset([*RULES, *_OWN])


def received(value: Any) -> str:
    """Return a value as a TOML file has it, cut short.

    >>> received(True), received("a"), received([1, "b"]), received({"sd": 0})
    ('true', '"a"', '[1, "b"]', '{sd = 0}')
    """
    text = _toml(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value[: SHOWN + 2], ensure_ascii=False)
    if isinstance(value, Mapping):
        pairs = [f"{name} = {_toml(each)}" for name, each in list(value.items())[:SHOWN]]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(each) for each in value[:SHOWN])}]"
    if isinstance(value, int):
        # Python refuses to write out integers of thousands of digits.
        return str(value) if abs(value) < 10**SHOWN else "a number of very many digits"
    if isinstance(value, float | date | datetime | time) or value is None:
        return "nothing" if value is None else str(value)
    return f"a value of type {type(value).__name__}"
