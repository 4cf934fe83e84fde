"""Do the intervals of findings cover? Hillstrom's log, where the truth is known, over many seeds.

Each campaign draws 9,000 of the 64,000 customers, assigns them in three waves, and learns the visit
of those whom the log gave the same e-mail. The truth is that of the whole randomised log.
`python -m benchmarks.hillstrom 200` runs 200 campaigns and prints the coverage.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

ACTIONS = ("No E-Mail", "Mens E-Mail", "Womens E-Mail")
UNITS = (3_000, 3_000, 3_000)
SPEC: dict[str, Any] = {
    "name": "mail",
    "unit": "customer",
    "actions": list(ACTIONS),
    "control": ACTIONS[0],
    "randomised": 0.1,
    "floor": 0.02,
    "required_outcomes": 0.2,
    "metrics": {"visit": {"unit": "visits"}},
    "objective": {"maximise": "visit"},
    "features": {
        "numeric": {"recency": "learn", "history": "learn", "mens": "raw", "womens": "raw"},
        "categorical": {"zip_code": ["Rural", "Surburban", "Urban"]},
    },
    "grid": {"sizes": list(UNITS)},
}


def log() -> pl.DataFrame:
    """Return all customers with what they got and whether they came."""
    from seqbatch.datasets.files import public

    table = pl.read_csv(public("hillstrom"), infer_schema_length=None)
    ids = pl.Series("customer", [f"{number:05d}" for number in range(len(table))])
    return table.with_columns(ids)


def truth(everyone: pl.DataFrame) -> dict[str, float]:
    """Return the visit rate of each e-mail in the whole log."""
    rates = everyone.group_by("segment").agg(pl.col("visit").mean())
    return dict(rates.iter_rows())


def findings(everyone: pl.DataFrame, seed: int, folder: Path) -> Any:
    """Run one campaign and return what it found."""
    from seqbatch.campaign import Campaign
    from seqbatch.storage import open_store

    store = open_store(folder / f"{seed}.db")
    campaign = Campaign.create({**SPEC, "seed": seed}, store=store)
    chosen = everyone.sample(sum(UNITS), seed=seed, shuffle=True)
    for wave, size in enumerate(UNITS):
        units = chosen[sum(UNITS[:wave]) :][:size]
        given: Any = pl.from_arrow(campaign.assign(units.drop("segment", "visit")).table)
        joined = given.join(units, on="customer").filter(pl.col("action") == pl.col("segment"))
        campaign.record(joined.select("customer", "visit"))
        campaign.close()
    found = campaign.findings()
    store.close()
    return found


def gaps(everyone: pl.DataFrame, seeds: int) -> Iterator[tuple[str, str, float, bool]]:
    """Yield, campaign by campaign: kind, action, standardised error, and whether it is covered."""
    rates = truth(everyone)
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            found = findings(everyone, seed, Path(folder))
        control = rates[found.control]
        answers = [("mean", mean.action, mean.interval, rates[mean.action]) for mean in found.means]
        for lift in found.lifts:
            real = rates[lift.action] - control
            answers.append(("lift", lift.action, lift.interval, real))
            answers.append(("naive lift (not valid)", lift.action, lift.naive, real))
        for kind, action, one, real in answers:
            yield kind, action, (one.estimate - real) / one.error, one.low <= real <= one.high


def main(seeds: int) -> None:
    """Print coverage, bias in standard errors, and the spread of standardised errors."""
    everyone = log()
    rows: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    for kind, action, gap, covered in gaps(everyone, seeds):
        rows.setdefault((kind, action), []).append((gap, covered))
    print(f"{seeds} campaigns of {sum(UNITS):,} customers; nominal coverage 95%")
    for (kind, action), told in rows.items():
        z = np.array([gap for gap, _ in told])
        share = np.mean([covered for _, covered in told])
        print(
            f"{kind:22} {action:14} covers {share:.3f}; standardised error: mean {z.mean():+.2f}, "
            f"deviation {z.std(ddof=1):.2f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
