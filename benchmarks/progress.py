"""Progress messages of long runs, and paragraphs of pages."""

import textwrap
import time

_START = time.perf_counter()


def say(line: str) -> None:
    """Print a line at once, after the seconds since the start."""
    print(f"[{time.perf_counter() - _START:5.0f} s] {line}", flush=True)


def paragraph(text: str) -> list[str]:
    """Return the lines of a paragraph on a page, with an empty one below."""
    return [*textwrap.wrap(text, 100), ""]
