"""What was learned of a million units: seconds and peak memory, beside one pass of reading.

`python -m benchmarks.findings` makes campaigns of two sizes, asks each for its findings in a
process of its own, and replaces its section of the page.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

#: Units, and the metrics beside the objective.
SIZES = ((250_000, 0), (1_000_000, 0), (1_000_000, 1), (1_000_000, 3))
PAGE, HEAD, NEXT = Path("docs/benchmarks.md"), "## Findings", "## Campaigns"
NUMBERS, LEVELS, CHUNK = 10, ("north", "east", "south", "west"), 100_000
ACTIONS = ("none", "mail", "call")


#: Further metrics: two that are yes or no, one of them guarded, and an amount.
METRICS: dict[str, dict[str, Any]] = {
    "left": {"kind": "yes/no", "absent": 0, "guardrail": {"at_most_control_plus": 0.01}},
    "spend": {"kind": "amount", "unit": "EUR", "absent": 0},
    "reply": {"kind": "yes/no"},
}


def spec(units: int, metrics: int = 0) -> dict[str, Any]:
    """Return a campaign of three waves, with ten numbers and a category."""
    beside = dict(list(METRICS.items())[:metrics])
    return {
        "name": "large",
        "seed": 1,
        "unit": "customer",
        "actions": list(ACTIONS),
        "control": "none",
        "randomised": 0.1,
        "floor": 0.02,
        "metrics": {"visit": {"kind": "yes/no"}, **beside},
        "objective": {"maximise": "visit"},
        "features": {
            "numeric": {f"x{n}": "learn" for n in range(NUMBERS)},
            "categorical": {"region": list(LEVELS)},
        },
        "grid": {"sizes": [units * 2 // 5, units * 3 // 10, units * 3 // 10]},
        "report": {"segments": ["region"]},
    }


def make(url: str, units: int, metrics: int = 0) -> None:
    """Run a campaign whose outcomes are 0 or 1; one of fifty is missing."""
    from seqbatch.campaign import Campaign
    from seqbatch.storage import open_store

    campaign = Campaign.create(spec(units, metrics), store=open_store(url))
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
            left = (random.random(count) < 0.01 + 0.005 * action).astype(float)
            spend = np.where(random.random(count) < 0.05, random.exponential(40, count), 0.0)
            reply = (random.random(count) < 0.3).astype(float)
            beside = {"left": left, "spend": spend, "reply": reply}
            rows = {"customer": ids, "visit": visit, **dict(list(beside.items())[:metrics])}
            campaign.record(pa.table(rows).filter(pa.array(back)))
        campaign.close()


def peak_memory() -> float:
    """Return this process's peak memory in MiB, as Linux keeps it.

    What `getrusage` says begins with what the parent had when it started this process.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    [line] = [line for line in status if line.startswith("VmHWM:")]
    return float(line.split()[1]) / 1024


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
    start, cpu = time.perf_counter(), time.process_time()
    found = campaign.findings()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(
        json.dumps(
            {
                "units": found.units,
                "reading": reading,
                "findings": seconds,
                "cpu": cpu,
                "peak_mb": peak_memory(),
            }
        )
    )


def section() -> list[str]:
    """Measure both sizes, and return the page's section."""
    lines = [
        HEAD,
        "",
        f"Campaigns of three waves with {NUMBERS} numeric columns, a category that is a declared "
        f"segment, {len(ACTIONS)} actions and outcomes of 0 or 1, in SQLite; "
        "`python -m benchmarks.findings`. Aim: a million units in under 10 seconds.",
        "",
        "| units | further metrics | findings | of it CPU | one pass of reading | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for units, metrics in SIZES:
            url = str(Path(folder) / f"{units}-{metrics}.db")
            make(url, units, metrics)
            command = [sys.executable, "-m", "benchmarks.findings", url]
            told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            seconds = [f"{told[name]:.1f} s" for name in ("findings", "cpu", "reading")]
            cells = [f"{told['units']:,}", f"{metrics}", *seconds, f"{told['peak_mb']:,.0f} MiB"]
            lines.append(f"| {' | '.join(cells)} |")
            print(f"  {lines[-1]}", flush=True)
    return lines


def main() -> None:
    """Ask one campaign for the parent process, or measure all of it for the page."""
    if len(sys.argv) > 1:
        ask(sys.argv[1])
        return
    before, _, after = PAGE.read_text(encoding="utf-8").partition(NEXT)
    kept = before.partition(HEAD)[0].rstrip()
    text = "\n".join([kept, "", *section(), "", NEXT + after])
    PAGE.write_text(text, encoding="utf-8")
    print(f"Written to {PAGE}")


if __name__ == "__main__":
    main()
