"""Counts of calls, in the text form that Prometheus reads; each worker has its own."""

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator

#: Upper bounds of the classes of durations, in seconds.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Metrics:
    """How many calls there were, how they ended and how long they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: Counter[tuple[str, str, int]] = Counter()
        self._classes: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._seconds: Counter[str] = Counter()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a call."""
        with self._lock:
            self._ended[method, route, status] += 1
            self._classes[route][bisect_left(BOUNDS, seconds)] += 1
            self._seconds[route] += seconds  # type: ignore[assignment]

    def text(self, **others: float) -> str:
        """Return all counts, and some others by their names."""
        with self._lock:
            return "\n".join([*self._lines(), *_plain(others), ""])

    def _lines(self) -> Iterator[str]:
        yield "# HELP seqbatch_requests_total Calls by method, route and status."
        yield "# TYPE seqbatch_requests_total counter"
        for (method, route, status), count in sorted(self._ended.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"seqbatch_requests_total{{{labels}}} {count}"
        yield "# HELP seqbatch_request_seconds How long calls took."
        yield "# TYPE seqbatch_request_seconds histogram"
        for route, classes in sorted(self._classes.items()):
            below = 0
            for bound, count in zip((*BOUNDS, "+Inf"), classes, strict=True):
                below += count
                yield f'seqbatch_request_seconds_bucket{{route="{route}",le="{bound}"}} {below}'
            yield f'seqbatch_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}'
            yield f'seqbatch_request_seconds_count{{route="{route}"}} {below}'


def _plain(others: dict[str, float]) -> Iterator[str]:
    for name, value in others.items():
        yield f"# TYPE seqbatch_{name} counter"
        yield f"seqbatch_{name} {value:g}"
