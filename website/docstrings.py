"""Docstrings are written for Python's own help; a few marks of theirs become Markdown here."""

import re
from typing import Any

from griffe import Docstring, Extension, Object

ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`(~?)([\w.]+)`")
LITERAL = re.compile(r"``([^`]+)``")
TOGETHER = re.compile(r"^(\w+(?:, \w+)+)\n((?:    .*(?:\n|$))+)", re.MULTILINE)


def _link(found: re.Match[str]) -> str:
    """Link a name to its place in the reference, if it has one."""
    path = found[2]
    text = path.rpartition(".")[2] if found[1] else path
    return f'<autoref identifier="{path}" optional><code>{text}</code></autoref>'


def _apart(found: re.Match[str]) -> str:
    """Give parameters that are described together an entry each, with its own type."""
    return "".join(f"{name}\n{found[2].rstrip()}\n" for name in found[1].split(", "))


def as_markdown(text: str) -> str:
    """Return a docstring with roles as links, and without what HTML would swallow."""
    text = TOGETHER.sub(_apart, text)
    text = re.sub(r"<(?=\w+, )", "&lt;", text)
    text = LITERAL.sub(r"`\1`", text)
    text = re.sub(r"^::\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"::(?=\n|$)", ":", text)
    return ROLE.sub(_link, text)


class AsMarkdown(Extension):
    """Rewrites every docstring as it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite one."""
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = as_markdown(obj.docstring.value)
