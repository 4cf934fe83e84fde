"""Write docs/files.md: what each file of the package is for, by the first line of its docstring.

``python -m tests.files_page`` writes the page anew; a test says where it is out of date.
"""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "seqbatch"
PAGE = ROOT / "docs" / "files.md"
HEAD = """\
# Where things go

Every file of `src/seqbatch`, with the first line of its docstring.
Written by `python -m tests.files_page`.
Imports point one way: the contracts are in `pyproject.toml`, and `make lint` checks them.
"""


@cache
def first_line(path):
    """Return the first line of a file's docstring."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return doc.splitlines()[0] if doc else ""


def rooms():
    """Return each folder's files, those of the package itself first."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if "versions" not in path.parts:
            found.setdefault(path.parent.relative_to(SOURCE), []).append(path)
    return found


def page():
    """Return the page's text."""
    parts = [HEAD]
    for room, paths in rooms().items():
        name = f"{room.as_posix()}/" if room.parts else "seqbatch/"
        parts.append(f"\n## {name}\n")
        parts += [f"\n{first_line(path)}\n" for path in paths if path.name == "__init__.py"]
        rows = [
            f"| `{path.name}` | {first_line(path)} |\n"
            for path in paths
            if path.name != "__init__.py"
        ]
        parts += ["\n| file | what it is |\n|---|---|\n", *rows] if rows else []
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
