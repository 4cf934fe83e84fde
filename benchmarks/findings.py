"""What was learned of a million units: seconds and peak memory, beside one pass of reading.

`python -m benchmarks.findings` makes campaigns of two sizes, and asks each for its findings in a
process of its own.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

SIZES = (250_000, 1_000_000)
NUMBERS, LEVELS, CHUNK = 10, ("north", "east", "south", "west"), 100_000
ACTIONS = ("none", "mail", "call")


def spec(units: int) -> dict[str, Any]:
    """Return a campaign of three waves, with ten numbers and a category."""
    return {
        "name": "large",
        "seed": 1,
        "unit": "customer",
        "actions": list(ACTIONS),
        "control": "none",
        "randomised": 0.1,
        "floor": 0.02,
        "reward": {"column": "visit", "unit": "visits"},
        "features": {
            "numeric": {f"x{n}": "learn" for n in range(NUMBERS)},
            "categorical": {"region": list(LEVELS)},
        },
        "grid": {"sizes": [units * 2 // 5, units * 3 // 10, units * 3 // 10]},
        "report": {"segments": ["region"]},
    }


def make(url: str, units: int) -> None:
    """Run a campaign whose outcomes are 0 or 1; one of fifty is missing."""
    from seqbatch.campaign import Campaign
    from seqbatch.storage import open_store

    campaign = Campaign.create(spec(units), store=open_store(url))
    for wave, size in enumerate(campaign.situation().sizes):
        for start in range(0, size, CHUNK):
            random = np.random.default_rng([wave, start])
            count = min(CHUNK, size - start)
            numbers = {f"x{n}": random.standard_normal(count) for n in range(NUMBERS)}
            region = pa.array(random.choice(LEVELS, count))
            ids = pa.array([f"{wave}-{start + row}" for row in range(count)])
            given = pa.table({"customer": ids, **numbers, "region": region})
            table: Any = campaign.assign(given).table
            action = np.array([ACTIONS.index(name) for name in table["action"].to_pylist()])
            chance = 0.1 + 0.02 * action + 0.02 * numbers["x0"].clip(-2, 2) * (action == 1)
            visit = (random.random(count) < chance).astype(float)
            back = random.random(count) < 0.98
            campaign.record(pa.table({"customer": ids, "visit": visit}).filter(pa.array(back)))
        campaign.close()


def ask(url: str) -> None:
    """Print seconds of reading and of findings, and the peak memory, as JSON."""
    from seqbatch.campaign import Campaign
    from seqbatch.campaign.record.codec import unpack
    from seqbatch.storage import open_store

    store = open_store(url)
    campaign = Campaign.open("large", store=store)
    start = time.perf_counter()
    with store.read("large") as reader:
        for chunk in reader.unit_chunks(given=True):
            unpack(chunk.given)
            unpack(chunk.decided)
    reading = time.perf_counter() - start
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    found = campaign.findings()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps(
            {
                "units": found.units,
                "reading": reading,
                "findings": seconds,
                "cpu": cpu,
                "before_mb": before / 1024,
                "peak_mb": peak / 1024,
                "sentence": found.sentences[0],
            }
        )
    )


def main() -> None:
    """Measure both sizes."""
    with tempfile.TemporaryDirectory() as folder:
        for units in SIZES:
            url = str(Path(folder) / f"{units}.db")
            make(url, units)
            command = [sys.executable, "-m", "benchmarks.findings", url]
            told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            ratio = told["findings"] / told["reading"]
            cpu = f"{told['cpu']:.1f} s of CPU"
            print(
                f"{told['units']:>9,} units: findings {told['findings']:.1f} s ({cpu}), "
                f"{ratio:.0f} times "
                f"one pass of reading ({told['reading']:.1f} s); peak memory "
                f"{told['peak_mb']:,.0f} MB (before: {told['before_mb']:,.0f} MB)"
            )
            print(f"{'':>9}  {told['sentence']}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ask(sys.argv[1])
    else:
        main()
