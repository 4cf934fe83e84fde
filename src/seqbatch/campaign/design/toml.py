"""From a TOML file to a checked spec, with messages that quote the offending line."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seqbatch.campaign.design.limits import DEEPEST, LONGEST_SPEC
from seqbatch.campaign.design.parts import Part
from seqbatch.campaign.design.reasons import reason
from seqbatch.campaign.design.spec import RENAMED, Spec
from seqbatch.campaign.design.toml_remedies import is_table, remedy
from seqbatch.errors import InvalidArgumentError, InvalidSpecError, SeqbatchError

#: Words that Pydantic puts into a place where there are several forms.
FORMS = {"form: word", "form: scaling", "form: levels", "form: hashed"}

#: Strings of all four kinds, and comments: what may hold dots that part no key.
STRINGS = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|\'{3}.*?\'{3}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)
#: Problems that are shown, each with its line.
SHOWN = 20


def read_spec(path: str | Path) -> Spec:
    """Read and check a campaign's spec.

    Raises
    ------
    InvalidSpecError
        Where the file cannot be read or breaks a rule; every problem is named with its line.
    """
    return parse_spec(read_text(path), name=str(path))


def read_text(path: str | Path) -> str:
    """Return a spec's text."""
    try:
        # One more than there may be tells a file that is too long without reading it all.
        with Path(path).open(encoding="utf-8-sig") as file:
            text = file.read(LONGEST_SPEC + 1)
    except FileNotFoundError:
        raise InvalidSpecError(
            f"{path} must be a TOML file; it is not there. seqbatch campaign init writes one."
        ) from None
    except UnicodeDecodeError as error:
        if is_table(str(path)):
            raise _swapped(path) from None
        raise InvalidSpecError(
            f"{path} must be a TOML file in UTF-8; byte {error.start:,} of what was read is not. "
            "Save it anew as UTF-8."
        ) from None
    except OSError as error:
        raise InvalidSpecError(
            f"{path} must be a TOML file; reading it failed: {error.strerror}."
        ) from None
    if is_table(str(path), text):
        raise _swapped(path)
    if len(text) > LONGEST_SPEC:
        raise InvalidSpecError(
            f"{path} must have at most {LONGEST_SPEC:,} characters; it has more. Categories of "
            "many levels can be hashed: {hash = 16}."
        )
    return text


def _swapped(path: str | Path) -> InvalidSpecError:
    return InvalidSpecError(
        f"{path} must be a TOML file; it is a table, not a spec. Are the two files swapped? The "
        "spec comes first."
    )


def parse_spec(text: str, *, name: str = "spec.toml") -> Spec:
    """Check a spec given as TOML text; see :func:`read_spec`."""
    _require_shallow(text, name)
    try:
        declared = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError as error:
        raise InvalidSpecError(_not_toml(str(error), text, name)) from None
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
        for found in every[:SHOWN]:
            place = tuple(part for part in found["loc"] if part not in FORMS)
            said = reason(found, _settings())
            line = _line_of(text, place)
            if found["type"] == "value_error":
                line = _line_of_words(text, place, said) or line
            label = f"{'.'.join(str(part) for part in place)}: " if place else ""
            if new := RENAMED.get(str(place[0])) if place else None:
                said = f"it is called {new} now; rename it"
            problems.append(f"  {label}{said}{_quoted(text, line)}")
            places.append((label.removesuffix(": "), said))
        more = max(len(every) - SHOWN, 0)
        told = list(dict.fromkeys(problems))
        raise _refusal(name, told, more=more, places=places) from None


def _not_toml(said: str, text: str, name: str) -> str:
    """Return where a text stops being TOML, and why."""
    found = re.search(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", said)
    if found is None:
        return f"{name} must be valid TOML; a number in it has too many digits."
    why, line, column = found.groups()
    where = f" at line {line}, column {column}" if line else " at its end"
    quoted = _quoted(text, int(line)) if line else ""
    said = f"{name} must be valid TOML; it is not{where}: {why[:1].lower()}{why[1:]}.{quoted}"
    advice = remedy(text.splitlines()[int(line) - 1][:200], why) if quoted else ""
    return f"{said}\n    {advice}" if advice else said


def _settings() -> list[str]:
    """Return the names of all settings there are."""
    return [name for part in Part.__subclasses__() for name in part.model_fields]


def _require_shallow(text: str, name: str) -> None:
    """Refuse keys of very many parts: reading one takes memory by the square of their number."""
    bare = STRINGS.sub("_", text)
    if any(part.count(".") > DEEPEST for part in re.split(r"[^\w\t .-]", bare)):
        raise _too_deep(name)


def _depth(value: Any) -> int:
    """Return how many tables and lists are within one another, without recursion of its own."""
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
        f"{name} must have at most {DEEPEST} tables or lists within one another; it has more. "
        "No setting of a spec is that deep."
    )


def quoting(error: SeqbatchError, part: str, *, text: str, name: str) -> InvalidSpecError:
    """Return an error about a part, such as the policy, with the line it is about if there is one.

    The place is the first word of the message, and within it any setting that is named in quotes.
    """
    message = f"{part}.{error}" if isinstance(error, InvalidArgumentError) else str(error)
    place = tuple(message.partition(" ")[0].rstrip(":").split("."))
    line = _line_of(text, place)
    for word in re.findall(r"'(\w+)'", message):
        line = max(line, _line_of(text, (*place, word)))
    return _refusal(name, [f"  {message}{_quoted(text, line)}"])


def _refusal(
    name: str, problems: list[str], *, more: int = 0, places: Sequence[tuple[str, str]] = ()
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


def _line_of(text: str, place: tuple[Any, ...]) -> int:
    """Return the number of the line that sets the deepest part of a place, 0 where none does."""
    best, depth = 0, 0
    wanted = tuple(str(part) for part in place)
    for number, key in _keys(text):
        common = len(key) if key == wanted[: len(key)] else 0
        if common > depth:
            best, depth = number, common
    return best


def _line_of_words(text: str, place: tuple[Any, ...], said: str) -> int:
    """Return the line of the first setting within a place that a message names, 0 where none is."""
    lines = {key: number for number, key in _keys(text)}
    within = tuple(str(part) for part in place)
    for word in re.findall(r"[\w.-]+", said):
        if line := lines.get((*within, *word.split("."))):
            return line
    return 0


@lru_cache(maxsize=1)
def _keys(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return the lines that set something or begin a table, each with its full key."""
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
