"""Remedies in terms of the command line: options to add, and commands to paste."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from seqbatch.errors import Remedy

#: The default store.
STORE = "campaigns.db"
#: Placeholders in a command for values that only the user knows.
YOURS = {
    "reason": "YOUR REASON", "units": "YOUR_TABLE", "assignments": "YOUR_ASSIGNMENTS",
    "outcomes": "YOUR_OUTCOMES", "sums": "SUMS", "key": "YOUR.key", "out": "closed-report.html",
}  # fmt: skip
#: Remedies that are separate commands, and options that are positional arguments.
COMMANDS = (
    "abort", "amend", "close", "continue", "delete", "look", "record-sums", "sql", "stop",
)  # fmt: skip
BARE = ("sums",)
#: Options of commands that are called otherwise in the library.
CALLED = {"file_format": "format"}


class About(NamedTuple):
    """The campaign of a command, and its store as typed."""

    name: str
    store: str


def command(*words: str, store: str, group: str = "campaign") -> str:
    """Return a shell command of a group; the store is named unless it is the default.

    >>> command("create", "my spec.toml", store="campaigns.db")
    "seqbatch campaign create 'my spec.toml'"
    >>> command("close", "spring", store="postgresql://ann:secret@host/db")
    'seqbatch campaign close spring --store postgresql://ann:...@host/db'
    """
    named = [] if store in (STORE, os.environ.get("SEQBATCH_STORE")) else ["--store", store]
    text = shlex.join(["seqbatch", group, *words, *named])
    # Do not show a password.
    return re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:...@", text)


def reading_options(reading: Mapping[str, Any]) -> list[str]:
    """Return the options by which a file is read the same way again.

    >>> reading_options({"file_format": "csv", "skip_rows": 2, "dedupe": "newest-by changed"})
    ['--format', 'csv', '--skip-rows', '2', '--dedupe', 'newest-by changed']
    """
    return list(_options({CALLED.get(name, name): value for name, value in reading.items()}))


def remedy_command(remedy: Remedy, about: About) -> str:
    """Return the command that follows a remedy.

    >>> spring = About("spring", "campaigns.db")
    >>> remedy_command(Remedy("close", force=True, reason=...), spring)
    "seqbatch campaign close spring --force --reason 'YOUR REASON'"
    >>> respelled = Remedy("amend", metrics={"sales": {"format": "1.234,56"}}, reason=...)
    >>> remedy_command(respelled, spring)
    "seqbatch campaign amend spring --metric sales.format=1.234,56 --reason 'YOUR REASON'"
    """
    return command(remedy.action, about.name, *_options(remedy.options), store=about.store)


def remedy_commands(remedies: Iterable[Remedy], about: About | None) -> list[str]:
    """Return the commands of the remedies that have one; empty without a campaign."""
    if about is None:
        return []
    return [remedy_command(each, about) for each in remedies if each.action in COMMANDS]


def in_options(remedy: Remedy, about: About | None = None) -> str:
    """Return the text of a remedy in terms of the command line, to append to a message.

    >>> in_options(Remedy("draw")), in_options(Remedy("close", force=True, reason=...))
    (' (--draw)', ': --force, with a --reason.')
    """
    match remedy.action:
        case "draw" | "partial":
            return f" (--{remedy.action})"
        case "overwrite":
            return " (--force)."
        case "key":
            return " (--key FILE)"
        case "close" | "record-sums" if "force" in remedy.options:
            return ": --force, with a --reason."
        case "delete":
            return ": --force."
        case "force":
            return " If that is intended, add --force."
        case "init":
            return " To write one: seqbatch campaign init"
        case "record":
            return f" ({' '.join(_options(remedy.options))})"
        case "dedupe":
            return f": --dedupe {remedy.options['dedupe']} (or first, or newest-by COLUMN)."
        case "skip-rows":
            return f": --skip-rows {remedy.options['skip_rows']}."
        case "amend":
            return f" {remedy_command(remedy, about or About('NAME', STORE))}"
        case _:
            return ""


def _options(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if name in BARE:
            yield YOURS[name] if value is ... else str(value)
        elif isinstance(value, Mapping):
            for key, settings in value.items():
                for setting, own in settings.items():
                    yield from (f"--{name.removesuffix('s')}", f"{key}.{setting}={own}")
        else:
            yield f"--{name.replace('_', '-')}"
            yield from () if value is True else (YOURS[name] if value is ... else str(value),)
