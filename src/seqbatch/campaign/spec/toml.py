"""Read specs from TOML, with errors that quote the offending line, and write them."""

import json
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seqbatch.campaign.spec.base import LONGEST_NAME, SettingError, SpecPart
from seqbatch.campaign.spec.input_limits import DEEPEST, LONGEST_SPEC
from seqbatch.campaign.spec.spec import REPLACED, Spec
from seqbatch.display import visible
from seqbatch.errors import InvalidArgumentError, InvalidSpecError, Place, Remedy

# ----------------------------------------------------------------------
# Advice for text that is not valid TOML, in addition to the parser's message.


#: Typographic quotes, as word processors insert them.
CURLY = "“”„‟‘’‚‛«»"
#: Endings of files that are tables.
TABLES = (".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".feather", ".xlsx", ".xls", ".ods")


def remedy(line: str, said: str) -> str:
    """Return advice about a line, or "" if there is none.

    Parameters
    ----------
    line
        The line at which the parser stopped.
    said
        The parser's message.

    Examples
    --------
    >>> remedy("name = spring", "Invalid value")
    'Put text in straight quotes: name = "spring".'
    >>> remedy("floor = 0,01", "Expected newline")
    'Write 0.01 with a point.'
    """
    setting, _, given = (part.strip() for part in line.partition("="))
    if any(quote in line for quote in CURLY):
        return 'Put text in straight quotes (").'
    if re.search("overwrite|twice|mutate|already", said, re.IGNORECASE):
        name = setting.strip("[] ") or "this"
        return f"{name} is set twice; leave one of the two out."
    if decimal := re.match(r"([+-]?\d+),(\d+)\s*(#.*)?$", given):
        return f"Write {decimal[1]}.{decimal[2]} with a point."
    if given.lower() in ("true", "false"):
        return f"Write {given.lower()} in small letters."
    if re.match(r"[^\W\d][^\"'\[\]{}#=]*$", given):
        return f'Put text in straight quotes: {setting} = "{given}".'
    if (given.count('"') % 2 or given.count("'") % 2) and "illegal character" in said.lower():
        return "Close the quotes on the same line."
    if not given and (named := re.match(r"([\w-]+)\s*:\s*\S", line)):
        return f"Write {named[1]} = ... with an equals sign."
    if "unclosed array" in said.lower():
        return "Close the list with ]."
    return ""


def is_table(name: str, text: str = "") -> bool:
    """Return whether a file holds units or outcomes, by its name or its first line.

    >>> is_table("customers.csv"), is_table("x", "id;age"), is_table("x", "name = 'a,b'")
    (True, True, False)
    """
    if name.lower().endswith(TABLES):
        return True
    first = next((line for line in text.splitlines() if line.strip()), "")
    return bool(re.search(r"[,;\t|]", first)) and not re.search(r"[=\[#]", first)


# ----------------------------------------------------------------------
# Messages about a spec's settings.
#
# Pydantic checks the spec, but its messages are about Python. Each kind of error that a spec can
# raise is reworded here as the rule, the value received, and what to do about it.


#: The number of characters shown of a value, and of a whole reason.
SHOWN_LENGTH, LONGEST = 60, 1_000

#: The broken rule for each kind of error; words in braces come from the error.
RULES = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "date_from_datetime_inexact": "a date without a time, such as 2026-03-01",
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
    "int_parsing_size": "a whole number with fewer digits",
    "int_type": "a whole number",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list in square brackets",
    "literal_error": "{expected}",
    "model_attributes_type": "a table, such as {key = value}",
    "model_type": "a table, such as {key = value}",
    "string_pattern_mismatch": (
        "at most 100 letters from a to z, digits, dots, dashes and underscores, and begin with "
        "a letter or a digit"
    ),
    "string_too_long": "at most {max_length} characters long",
    "string_too_short": "at least one character long",
    "string_type": "text in quotes",
    "string_unicode": "text that can be encoded as UTF-8",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list in square brackets",
    "union_tag_invalid": "in one of the forms that the documentation shows",
    "union_tag_not_found": "in one of the forms that the documentation shows",
}


def reason(found: Mapping[str, Any], known: Iterable[str] = ()) -> str:
    """Reword one of Pydantic's errors.

    Parameters
    ----------
    found
        The error.
    known
        The names of settings, to suggest one for a misspelled name.

    >>> reason({"type": "greater_than", "ctx": {"gt": 0}, "input": -1, "loc": ("sd",)})
    'must be above 0; received -1'
    """
    kind, given = found["type"], found.get("ctx", {})
    if kind in _OWN:
        return _OWN[kind](found, known)
    rule = RULES.get(kind, "in a form that is known here")
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
        return "belongs to another table; move it there"
    meant = get_close_matches(name, list(known), 1)
    return f"is not a setting; {f'did you mean {meant[0]}?' if meant else 'leave it out'}"


def _ours(found: Mapping[str, Any], _known: Iterable[str]) -> str:
    """Return the message of one of this project's validators."""
    return _short(str(found["ctx"]["error"]))


def _form(found: Mapping[str, Any], _known: Iterable[str]) -> str:
    return f"{_short(str(found['msg']))}; received {received(found['input'])}"


def _short(said: str) -> str:
    return said if len(said) <= LONGEST else f"{said[:LONGEST]} ..."


def _key(_found: Mapping[str, Any], _known: Iterable[str]) -> str:
    return "must have text as names"


_OWN: dict[str, Callable[[Mapping[str, Any], Iterable[str]], str]] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "value_error": _ours,
    "form": _form,
    "invalid_key": _key,
}
#: The kinds of errors that have a message here.
KNOWN = frozenset([*RULES, *_OWN])


def received(value: Any) -> str:
    """Return a value as TOML, shortened.

    >>> received(True), received("a"), received([1, "b"]), received({"sd": 0})
    ('true', '"a"', '[1, "b"]', '{sd = 0}')
    """
    text = _toml(value)
    return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]} ..."


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value[: SHOWN_LENGTH + 2], ensure_ascii=False)
    if isinstance(value, Mapping):
        pairs = [f"{name} = {_toml(each)}" for name, each in list(value.items())[:SHOWN_LENGTH]]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(each) for each in value[:SHOWN_LENGTH])}]"
    if isinstance(value, int):
        # Python refuses to format integers with thousands of digits.
        return str(value) if abs(value) < 10**SHOWN_LENGTH else "a number of very many digits"
    if isinstance(value, float | date | datetime | time) or value is None:
        return "nothing" if value is None else str(value)
    return f"a value of type {type(value).__name__}"


# ----------------------------------------------------------------------
# Read and check a TOML file, with messages that quote the offending line.


#: Words that Pydantic inserts into a location if there are several forms, or for a key.
FORMS = {"form: word", "form: scaling", "form: levels", "form: hashed", "[key]"}

#: All four kinds of strings, and comments: their dots do not separate parts of a key.
STRINGS = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|\'{3}.*?\'{3}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)
#: The number of problems shown, each with its line.
SHOWN_PROBLEMS = 20


def read_spec(path: str | Path) -> Spec:
    """Read and check a campaign's spec.

    Raises
    ------
    InvalidSpecError
        If the file cannot be read or breaks a rule; every problem is named with its line.
    """
    return parse_spec(read_text(path), name=str(path))


def read_text(path: str | Path) -> str:
    """Return a spec's text."""
    try:
        # Reading one character more than the limit detects a file that is too long.
        with Path(path).open(encoding="utf-8-sig") as file:
            text = file.read(LONGEST_SPEC + 1)
    except FileNotFoundError:
        raise InvalidSpecError(
            f"{path} must be a TOML file; it does not exist.", Remedy("init"), code="no-such-file"
        ) from None
    except UnicodeDecodeError as error:
        if is_table(str(path)):
            raise _swapped(path) from None
        raise InvalidSpecError(
            f"{path} must be a TOML file in UTF-8; byte {error.start:,} is not. Save the file "
            "as UTF-8.",
            code="not-toml",
        ) from None
    except OSError as error:
        raise InvalidSpecError(
            f"{path} must be a TOML file; reading it failed: {error.strerror}.", code="unreadable"
        ) from None
    if is_table(str(path), text):
        raise _swapped(path)
    if len(text) > LONGEST_SPEC:
        raise InvalidSpecError(
            f"{path} must have at most {LONGEST_SPEC:,} characters; it has more. Categories "
            "with many levels can be hashed: {hash = 16}.",
            code="too-long",
        )
    return text


def _swapped(path: str | Path) -> InvalidSpecError:
    return InvalidSpecError(
        f"{path} must be a TOML file; it is a table, not a spec. Are the two files swapped? The "
        "spec comes first.",
        code="files-swapped",
    )


def parse_spec(text: str, *, name: str = "spec.toml") -> Spec:
    """Check a spec given as TOML text; see :func:`read_spec`."""
    _require_shallow(text, name)
    try:
        declared = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError as error:
        raise InvalidSpecError(_not_toml(str(error), text, name), code="not-toml") from None
    return check_spec(declared, text=text, name=name)


def check_spec(declared: Mapping[str, Any], *, text: str = "", name: str = "spec") -> Spec:
    """Check a spec given as plain values; see :func:`read_spec`."""
    if _depth(declared) > DEEPEST:
        raise _too_deep(name)
    try:
        return Spec.model_validate(declared)
    except ValidationError as error:
        problems, places = [], []
        every = error.errors(include_url=False)
        for found in every[:SHOWN_PROBLEMS]:
            place = tuple(str(part) for part in found["loc"] if part not in FORMS)
            said = reason(found, _settings())
            meant = _meant(found, place)
            if len(place) == 1:
                said = REPLACED.get(place[0], said)
            label = ".".join(_named(part) for part in place)
            line = _first_line(text, meant) or _line_of(text, meant[0] if meant else place)
            problems.append(f"  {f'{label}: ' if label else ''}{said}{_quoted(text, line)}")
            places.append((meant[0] if meant else place, f"{label} {said}".strip()))
        more = max(len(every) - SHOWN_PROBLEMS, 0)
        told = list(dict.fromkeys(problems))
        raise _refusal(name, told, more=more, places=places) from None


def _not_toml(said: str, text: str, name: str) -> str:
    """Return the message for text that is not valid TOML, with the position and the reason."""
    found = re.search(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", said)
    if found is None:
        return f"{name} must be valid TOML; a number in it has too many digits."
    why, line, column = found.groups()
    where = f" at line {line}, column {column}" if line else " at its end"
    quoted = _quoted(text, int(line)) if line else ""
    said = f"{name} must be valid TOML; it is not{where}: {why[:1].lower()}{why[1:]}.{quoted}"
    advice = remedy(text.splitlines()[int(line) - 1][:200], why) if quoted else ""
    return f"{said}\n    {advice}" if advice else said


def _named(part: str) -> str:
    """Return a part of a location, shortened if no setting has so long a name."""
    return part if len(part) <= LONGEST_NAME else f"{part[:SHOWN_LENGTH]} ..."


def _settings() -> list[str]:
    """Return the names of all settings."""
    return [name for part in SpecPart.__subclasses__() for name in part.model_fields]


def _require_shallow(text: str, name: str) -> None:
    """Refuse keys with very many parts: parsing one takes memory quadratic in their number."""
    bare = STRINGS.sub("_", text)
    if any(part.count(".") > DEEPEST for part in re.split(r"[^\w\t .-]", bare)):
        raise _too_deep(name)


def _depth(value: Any) -> int:
    """Return the nesting depth of tables and lists, without recursion."""
    depth, level = 0, [value]
    while level := [v for v in level if isinstance(v, Mapping | list | tuple)]:
        depth += 1
        level = [
            v for part in level for v in (part.values() if isinstance(part, Mapping) else part)
        ]
        if depth > DEEPEST:
            break
    return depth


def _too_deep(name: str) -> InvalidSpecError:
    return InvalidSpecError(
        f"{name} must nest tables or lists at most {DEEPEST} deep; it nests them deeper. No "
        "setting of a spec needs that.",
        code="too-deep",
    )


def quoting(
    error: InvalidSpecError | InvalidArgumentError, part: str, *, text: str, name: str
) -> InvalidSpecError:
    """Return an error about a part of the spec, such as the policy, quoting its line."""
    message = str(error)
    place: Place = (part,)
    if isinstance(error, InvalidArgumentError):
        message, place = f"{part}.{error}", (part, error.field)
    elif error.places:
        place = error.places[0][0]
    line = _line_of(text, place)
    return _refusal(name, [f"  {message}{_quoted(text, line)}"], places=[(place, message)])


def _refusal(
    name: str, problems: list[str], *, more: int = 0, places: Sequence[tuple[Place, str]] = ()
) -> InvalidSpecError:
    total = len(problems) + more
    count = f"{total:,} problem{'s' if total > 1 else ''}"
    lines = "\n".join(problems + ([f"  ... and {more:,} more"] if more else []))
    return InvalidSpecError(f"{name}: {count}; nothing was created.\n{lines}", places=places)


def _quoted(text: str, line: int) -> str:
    lines = text.splitlines()
    if not 0 < line <= len(lines):
        return ""
    quoted = lines[line - 1].strip()
    return f"\n    line {line}: {quoted[:200]}{' ...' if len(quoted) > 200 else ''}"


def _line_of(text: str, place: Place) -> int:
    """Return the number of the line that sets the deepest part of a location, or 0."""
    best, depth = 0, 0
    for number, key in _keys(text):
        common = len(key) if key == place[: len(key)] else 0
        if common > depth:
            best, depth = number, common
    return best


def _meant(found: Mapping[str, Any], place: Place) -> list[Place]:
    """Return the settings that a rule about several of them concerns, most relevant first."""
    error = found.get("ctx", {}).get("error")
    own = error.places if isinstance(error, SettingError) else ()
    return [(*place, *each) for each in own]


def _first_line(text: str, places: Iterable[Place]) -> int:
    """Return the line of the first of these settings that is set, or 0."""
    lines = {key: number for number, key in _keys(text)}
    return next((lines[place] for place in places if place in lines), 0)


@lru_cache(maxsize=1)
def _keys(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return the lines that set a value or begin a table, each with its full key."""
    table: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\[?([^\[\]]+)\]\]?\s*(#.*)?$", line):
            table = _parts(header[1])
            if line.lstrip().startswith("[["):
                counts[header[1]] = counts.get(header[1], -1) + 1
                table = (*table, str(counts[header[1]]))
            found.append((number, table))
        elif setting := re.match(
            r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*[\w-]+)*)\s*=", line
        ):
            found.append((number, (*table, *_parts(setting[1]))))
    return found


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(
        part.strip().strip("\"'") for part in re.findall(r"[\w-]+|\"[^\"]*\"|'[^']*'", dotted)
    )


# ----------------------------------------------------------------------
# Write values and comments as TOML.


#: The maximum length of a line.
WIDTH = 100


def quoted(text: str) -> str:
    r"""Return a text as a TOML string, with invisible characters escaped.

    >>> print(quoted('say "hi"'), quoted("a\x7fb\n"))
    "say \"hi\"" "a\u007fb\n"
    """
    made = json.dumps(text, ensure_ascii=False)
    if made.isprintable():
        return made
    return "".join(each if each.isprintable() else _escape(each) for each in made)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def key(name: str) -> str:
    """Return a name as a TOML key, in quotes only if it needs them.

    >>> key("age"), key("net spend")
    ('age', '"net spend"')
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def value(given: Any) -> str:
    """Return the value of a setting as TOML.

    >>> value({"levels": ["a", "b"], "other": True, "least": 20})
    '{levels = ["a", "b"], other = true, least = 20}'
    """
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, str):
        return quoted(given)
    if isinstance(given, Mapping):
        return f"{{{', '.join(f'{key(name)} = {value(own)}' for name, own in given.items())}}}"
    if isinstance(given, Sequence):
        return f"[{', '.join(value(each) for each in given)}]"
    return str(given)


def setting(name: str, given: str, why: str = "", *, active: bool = True) -> str:
    """Return a line for a setting, with the reason after it, or above it if it is long.

    Parameters
    ----------
    name, given
        The setting's name, and its value as TOML.
    why
        The reason.
    active
        Whether the setting takes effect; otherwise the line is commented out.
    """
    line = f"{'' if active else '# '}{key(name)} = {given}"
    if not why:
        return f"{line}\n"
    together = f"{line}  # {visible(why)}"
    return f"{together}\n" if len(together) <= WIDTH else f"{comment(why)}{line}\n"


def comment(text: str) -> str:
    """Return a text as comment lines."""
    lines = textwrap.wrap(visible(text), WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)
