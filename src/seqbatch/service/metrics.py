"""Prometheus metrics of calls, summed over all workers.

Each worker writes its counts to a separate file in a shared folder, and any worker can add up the
files. Files of workers that have ended are kept, so counts never decrease while the service runs.
"""

import json
import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

#: Upper bounds of the histogram buckets of durations, in seconds.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
#: Separator within the keys of counts; it does not occur in routes.
_BAR = "|"


class Metrics:
    """Counts calls, their statuses and their durations.

    Parameters
    ----------
    folder
        The folder of the workers' counts; None for a single worker.
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
        """Add to a named counter."""
        with self._lock:
            self._own[_BAR.join(("plain", name))] += count

    def keep(self) -> None:
        """Write this worker's counts to the shared folder."""
        if self._file is not None:
            with self._lock:
                content = json.dumps(self._own)
            # Rename the file, so no worker reads half of it. It need not survive a reboot.
            partial = self._file.with_suffix(".partial")
            partial.write_text(content, encoding="utf-8")
            partial.replace(self._file)

    def text(self) -> str:
        """Return the metrics of all workers in Prometheus' text format."""
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
