"""Rewrite the output that pages show, after a change that changes it on purpose.

``python -m tests.regenerate_docs`` runs every page (or those named) as the tests do, and puts what
was printed in place of what was shown. Look at the difference before you commit it.
"""

import sys
import tempfile
from pathlib import Path

from tests.documents import PAGES, run


def regenerate(page: Path) -> int:
    """Rewrite one page; return how many parts of it changed."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        wrong = [shown for shown in run(text, Path(folder)) if not shown.true]
    for shown in reversed(wrong):
        text = text[: shown.start] + shown.printed + text[shown.end :]
    if wrong:
        page.write_text(text, encoding="utf-8")
    return len(wrong)


def main() -> None:
    """Rewrite the pages named, or all."""
    pages = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    for page in pages:
        if changed := regenerate(page):
            print(f"{page.name}: {changed} rewritten")


if __name__ == "__main__":
    main()
