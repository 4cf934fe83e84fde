"""Values and comments as TOML."""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from seqbatch.display import visible

#: Characters of a line.
WIDTH = 100


def quoted(text: str) -> str:
    r"""Return a text as a TOML string in which nothing hides.

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
    """Return a name as a key, in quotes only where it needs them.

    >>> key("age"), key("net spend")
    ('age', '"net spend"')
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def value(given: Any) -> str:
    """Return a value of a setting.

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
    """Return a line that sets something, with the reason behind it, or before it where it is long.

    Parameters
    ----------
    name, given
        What is set, and its value as TOML.
    why
        The reason.
    active
        Whether it counts; a line that does not is a comment.
    """
    line = f"{'' if active else '# '}{key(name)} = {given}"
    if not why:
        return f"{line}\n"
    together = f"{line}  # {visible(why)}"
    return f"{together}\n" if len(together) <= WIDTH else f"{comment(why)}{line}\n"


def comment(text: str) -> str:
    """Return a text as lines of comment."""
    lines = textwrap.wrap(visible(text), WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)
