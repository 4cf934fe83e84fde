"""The service's section of docs/reliability.md, which `make torture` leaves as it is."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
HEAD = "## The service under load"


def section() -> str:
    """Return the current section, or "" if there is none."""
    _, head, rest = PAGE.read_text(encoding="utf-8").partition(HEAD)
    return f"\n{head}{rest}" if head else ""


def write(text: str) -> None:
    """Replace the section, which is the last one of the page."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(HEAD)
    PAGE.write_text(f"{before.rstrip()}\n\n{HEAD}\n\n{text.rstrip()}\n", encoding="utf-8")
