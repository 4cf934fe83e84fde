"""Metrics of calls for Prometheus, summed over all workers.

Each worker counts for itself and writes its counts to a file of its own in a folder that all of
them know. Whichever is asked adds up the files: those of workers that are gone stay, so that no
count ever falls while the service runs.
"""

import json
import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

#: Upper bounds of the classes of durations, in seconds.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
#: What keys of counts are put together with, which no route has.
_BAR = "|"


class Metrics:
    """How many calls there were, how they ended and how long they took.

    Parameters
    ----------
    folder
        Where the workers keep their counts; None for a single one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._own: Counter[str] = Counter()
        self._file = None if folder is None else folder / f"{os.getpid()}.json"

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a call."""
        bucket = bisect_left(BOUNDS, seconds)
        with self._lock:
            self._own[_BAR.join(("ended", method, route, str(status)))] += 1
            self._own[_BAR.join(("bucket", route, str(bucket)))] += 1
            self._own[_BAR.join(("seconds", route))] += seconds  # type: ignore[assignment]

    def add(self, name: str, count: int) -> None:
        """Add to a count of its own name."""
        with self._lock:
            self._own[_BAR.join(("plain", name))] += count

    def keep(self) -> None:
        """Write the counts where the other workers find them."""
        if self._file is not None:
            with self._lock:
                content = json.dumps(self._own)
            # Renamed, so that nobody reads half of it. It need not outlive the machine.
            partial = self._file.with_suffix(".partial")
            partial.write_text(content, encoding="utf-8")
            partial.replace(self._file)

    def text(self) -> str:
        """Return the counts of all workers."""
        with self._lock:
            every = Counter(self._own)
        if self._file is not None:
            for file in sorted(self._file.parent.glob("*.json")):
                if file != self._file:
                    every.update(json.loads(file.read_text(encoding="utf-8")))
        return "\n".join([*_ended(every), *_durations(every), *_plain(every), ""])


def _of(kind: str, every: Counter[str]) -> Iterator[tuple[list[str], float]]:
    for key, count in sorted(every.items()):
        first, *parts = key.split(_BAR)
        if first == kind:
            yield parts, count


def _ended(every: Counter[str]) -> Iterator[str]:
    yield "# HELP seqbatch_requests_total Calls by method, route and status."
    yield "# TYPE seqbatch_requests_total counter"
    for (method, route, status), count in _of("ended", every):
        labels = f'method="{method}",route="{route}",status="{status}"'
        yield f"seqbatch_requests_total{{{labels}}} {count}"


def _durations(every: Counter[str]) -> Iterator[str]:
    yield "# HELP seqbatch_request_seconds How long calls took."
    yield "# TYPE seqbatch_request_seconds histogram"
    for (route,), seconds in _of("seconds", every):
        below = 0
        for place, bound in enumerate((*BOUNDS, "+Inf")):
            below += every[_BAR.join(("bucket", route, str(place)))]
            yield f'seqbatch_request_seconds_bucket{{route="{route}",le="{bound}"}} {below}'
        yield f'seqbatch_request_seconds_sum{{route="{route}"}} {seconds:.6f}'
        yield f'seqbatch_request_seconds_count{{route="{route}"}} {below}'


def _plain(every: Counter[str]) -> Iterator[str]:
    for (name,), value in _of("plain", every):
        yield f"# TYPE seqbatch_{name} counter"
        yield f"seqbatch_{name} {value:g}"
