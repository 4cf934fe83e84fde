"""The cost of one more call as a campaign's history grows: it stays the same.

``python -m benchmarks.history`` records, assigns and closes at growing numbers of events, shows and
verifies the campaign, and prints processor time a call, and its ratio to the shortest history.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks import many_features
from seqbatch.campaign import Campaign
from seqbatch.storage import open_store

SPEC: dict[str, Any] = {
    "name": "long",
    "unit": "id",
    "actions": ["a", "b"],
    "randomised": 0.2,
    "metrics": {"y": {"range": [0, 1]}},
    "objective": {"maximise": "y"},
    "features": {"numeric": {"x": "raw"}},
    "grid": {"calendar": True, "waves": 1_500, "units": 40_000},
}
#: Units are assigned and recorded one by one, and a wave is closed after so many.
WAVE = 25
MEASURED = 40
PAGE = Path("docs/history.md")


def _timed(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


class History:
    """A campaign that grows, one unit at a time."""

    def __init__(self, url: str) -> None:
        self._campaign = Campaign.create(SPEC, store=open_store(url))
        self._unit = 0

    def step(self) -> dict[str, float]:
        """Assign and record one unit, and close the wave if it is full; return the times."""
        unit = f"{self._unit:08d}"
        x, y = (self._unit * 37 % 101) / 101, float(self._unit % 2)
        units = pl.DataFrame({"id": [unit], "x": [x]})
        rows = pl.DataFrame({"id": [unit], "y": [y]})
        times = {
            "assign": _timed(lambda: self._campaign.assign(units)),
            "record": _timed(lambda: self._campaign.record(rows)),
        }
        self._unit += 1
        if self._unit % WAVE == 0:
            times["close"] = _timed(lambda: self._campaign.close())
        return times

    @property
    def units(self) -> int:
        """How many units there are."""
        return self._unit

    @property
    def events(self) -> int:
        """How many events there are."""
        return self._campaign.situation().sequence

    def grow(self, events: int) -> None:
        """Continue until there are this many events."""
        while self.events < events:
            for _ in range(WAVE):
                self.step()

    def measure(self) -> dict[str, float]:
        """Return the median processor time of each call, in milliseconds."""
        found: dict[str, list[float]] = {}
        for _ in range(MEASURED * WAVE):
            for call, seconds in self.step().items():
                found.setdefault(call, []).append(seconds)
            if len(found.get("close", ())) >= 3:
                break
        return {call: 1_000 * sorted(all_)[len(all_) // 2] for call, all_ in found.items()}


def view(url: str, call: str) -> None:
    """Call status or verify, and print its processor time and this process's peak memory."""
    campaign = Campaign(open_store(url), SPEC["name"])
    seconds = _timed(getattr(campaign, call))
    print(seconds, _peak())


def _peak() -> float:
    """Return this process's peak memory in MiB, which getrusage would mix with its parent's."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    [line] = (line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1_024


def _viewed(url: str, call: str) -> tuple[float, float]:
    """Return seconds and MiB of status or verify in a separate process."""
    command = [sys.executable, "-m", "benchmarks.history", "view", url, call]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(said[0]), float(said[1])


HEAD = """\
# Does a long history slow a campaign down?

Written by `python -m benchmarks.history`. A call costs about the same however many events the
campaign has. Units are assigned and recorded one by one in SQLite, {wave} in each wave: median
processor time of a call, and the largest ratio to the shortest history.

| events | assign, ms | record, ms | close, ms | largest ratio |
|---|---|---|---|---|
{calls}

The time of `status` and `verify` grows linearly with the history: seconds of processor time, and
peak memory.

| events | status, s | a unit, ms | peak, MiB | verify, s | an event, ms | peak, MiB |
|---|---|---|---|---|---|---|
{views}

"""


def _row(events: int, cells: list[str]) -> str:
    row = f"| {events:,} | {' | '.join(cells)} |"
    print(row, flush=True)
    return row


def _views(url: str, history: History) -> str:
    (status, shown), (verify, verified) = (_viewed(url, call) for call in ("status", "verify"))
    units = 1_000 * status / history.units
    events = 1_000 * verify / history.events
    cells = (f"{status:.1f}", f"{units:.2f}", f"{shown:.0f}",
             f"{verify:.1f}", f"{events:.2f}", f"{verified:.0f}")  # fmt: skip
    return _row(history.events, list(cells))


def main(sizes: tuple[int, ...]) -> None:
    """Measure, and write the page."""
    calls, views = [], []
    with tempfile.TemporaryDirectory(prefix="seqbatch-history-") as name:
        url = str(Path(name) / "long.db")
        history = History(url)
        base: dict[str, float] = {}
        for size in sizes:
            history.grow(size)
            found = history.measure()
            base = base or found
            ratio = max(found[call] / base[call] for call in found)
            cells = [f"{found[call]:.1f}" for call in ("assign", "record", "close")]
            calls.append(_row(history.events, [*cells, f"{ratio:.2f}"]))
            views.append(_views(url, history))
    head = HEAD.format(wave=WAVE, calls="\n".join(calls), views="\n".join(views))
    PAGE.write_text(head + many_features.measured(), encoding="utf-8")
    print(f"Written to {PAGE}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["view"]:
        view(*sys.argv[2:4])
    else:
        main(tuple(int(word) for word in sys.argv[1:]) or (10, 1_000, 10_000, 50_000))
