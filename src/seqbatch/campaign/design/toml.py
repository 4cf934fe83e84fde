"""From a TOML file to a checked spec, with messages that quote the offending line."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seqbatch.campaign.design.spec import RENAMED, Spec
from seqbatch.errors import InvalidArgumentError, InvalidSpecError, SeqbatchError

#: Words that Pydantic puts into a place where there are several forms.
FORMS = {"form: word", "form: scaling", "form: levels", "form: hashed"}


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
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InvalidSpecError(f"{path} must be a TOML file; it is not there.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSpecError(f"{path} must be a TOML file; reading it failed: {error}.") from None


def parse_spec(text: str, *, name: str = "spec.toml") -> Spec:
    """Check a spec given as TOML text; see :func:`read_spec`."""
    try:
        declared = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        quoted = _quoted(text, int(found[1])) if found else ""
        raise InvalidSpecError(f"{name} must be valid TOML: {error}{quoted}") from None
    return check_spec(declared, text=text, name=name)


def check_spec(declared: Mapping[str, Any], *, text: str = "", name: str = "spec") -> Spec:
    """Check a spec given as plain values; see :func:`read_spec`."""
    try:
        return Spec.model_validate(declared)
    except ValidationError as error:
        problems = []
        for found in error.errors():
            place = tuple(part for part in found["loc"] if part not in FORMS)
            if new := RENAMED.get(str(place[0])) if place else None:
                found["msg"] = f"it is called {new} now; rename it"
            label = ".".join(str(part) for part in place) or "the whole"
            reason = found["msg"].removeprefix("Value error, ")
            problems.append(f"  {label}: {reason}{_quoted(text, _line_of(text, place))}")
        raise _refusal(name, list(dict.fromkeys(problems))) from None


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


def _refusal(name: str, problems: list[str]) -> InvalidSpecError:
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    lines = "\n".join(problems)
    return InvalidSpecError(f"{name}: {count}; nothing was created.\n{lines}")


def _quoted(text: str, line: int) -> str:
    lines = text.splitlines()
    return f"\n    line {line}: {lines[line - 1].strip()}" if 0 < line <= len(lines) else ""


def _line_of(text: str, place: tuple[Any, ...]) -> int:
    """Return the number of the line that sets the deepest part of a place, 0 where none does."""
    best, depth = 0, 0
    table: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\[?([^\[\]]+)\]\]?\s*(#.*)?$", line):
            table = _parts(header[1])
            if line.lstrip().startswith("[["):
                counts[header[1]] = counts.get(header[1], -1) + 1
                table = (*table, str(counts[header[1]]))
            key = table
        elif setting := re.match(
            r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*[\w-]+)*)\s*=", line
        ):
            key = (*table, *_parts(setting[1]))
        else:
            continue
        wanted = tuple(str(part) for part in place)
        common = len(key) if key == wanted[: len(key)] else 0
        if common > depth:
            best, depth = number, common
    return best


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(
        part.strip().strip("\"'") for part in re.findall(r"[\w-]+|\"[^\"]*\"|'[^']*'", dotted)
    )
