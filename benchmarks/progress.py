"""What a long run says while it runs."""

import time

_START = time.perf_counter()


def say(line: str) -> None:
    """Print a line at once, behind the seconds since the start."""
    print(f"[{time.perf_counter() - _START:5.0f} s] {line}", flush=True)
