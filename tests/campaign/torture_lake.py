"""Lakes that are killed hundreds of times; `make torture-lake KILLS=500` runs only this.

After every kill the lake is examined like an SQLite file (see :mod:`tests.campaign.torture`). In
addition, once the call is repeated, every file belongs to an event, and `verify` finds nothing.
"""

import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.campaign.crashing import LAKE_FAULTS, Nursery, order
from tests.campaign.stages import CALLS, examine, prepare


def run(kills):
    """Kill each call a third of so many times; return what became of the attempts."""
    draw, counts = random.Random(2027), {}
    with tempfile.TemporaryDirectory() as folder:
        stages, nursery = prepare(folder, lake=True), Nursery()

        def attempt(label, call, **how):
            place = Path(folder) / "attempt"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            stage = stages[call]
            url, arguments = stage.copied(place), stage.full(place)
            [result] = nursery.run(order(url, call, **how, **arguments))
            kept = examine(url, stage, acknowledged=result.get("done"), out=arguments.get("out"))
            tally = counts.setdefault(f"lake {label}", Counter())
            tally.update(attempts=1, died=int(result["killed"]), kept=int(kept))
            return result

        for call in CALLS:
            span, killed = attempt("not killed", call)["seconds"], 0
            while killed < kills / len(CALLS):
                result = attempt("killed at any moment", call, die_after=draw.uniform(0, span))
                killed += result["killed"]
                if result["killed"] and killed % 50 == 0:
                    print(f"lake, {call}: killed {killed:,} times so far", flush=True)
                span *= 1.02 if result["killed"] else 0.96
            for step in LAKE_FAULTS:
                for when in ("before", "after"):
                    attempt("killed at a point", call, die_at=(step, when))
            print(f"lake, {call}: killed {killed:,} times", flush=True)
        nursery.close()
    return counts


if __name__ == "__main__":
    for label, tally in run(int(sys.argv[1]) if len(sys.argv) > 1 else 500).items():
        print(f"{label}: {tally['attempts']} attempts, {tally['died']} died, {tally['kept']} kept")
