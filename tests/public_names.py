"""The list of public names in docs/stability.md.

``python -m tests.public_names`` rewrites it, after a change that the changelog names.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "stability.md"
HEAD = "## Public names\n\n"


def listed() -> str:
    """Return the public names of every module that has a page of reference."""
    pages = (ROOT / "docs" / "reference").glob("*.md")
    modules = sorted(page.stem for page in pages if "\n::: " in page.read_text(encoding="utf-8"))
    lines = []
    for stem in modules:
        name = "seqbatch" if stem == "seqbatch" else f"seqbatch.{stem}"
        names = ", ".join(f"`{each}`" for each in sorted(_names(import_module(name))))
        lines.append(f"- **{name}**: {names}")
    return "\n".join(lines) + "\n"


def _names(module: ModuleType) -> list[str]:
    """Return the names that a module exports, or else all public ones that it defines."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    exported: list[str] = getattr(module, "__all__", own)
    return exported


def main() -> None:
    """Rewrite the list."""
    head, mark, _ = PAGE.read_text(encoding="utf-8").partition(HEAD)
    PAGE.write_text(head + mark + listed(), encoding="utf-8")


if __name__ == "__main__":
    main()
