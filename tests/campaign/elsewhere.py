"""A store made elsewhere: ``python -m tests.campaign.elsewhere PATH`` makes it; gzip packs it.

The one beside the tests was made by Python 3.11.7 with NumPy 2.0.2, SciPy 1.14.1, Numba 0.60.0 and
PyArrow 18.1.0; it must verify without a discrepancy wherever the tests run.
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

from seqbatch.campaign import Campaign
from seqbatch.storage import open_store
from tests.campaign.specs import about

FIXTURE = Path(__file__).parent / "elsewhere.db.gz"
SPEC = {
    "name": "elsewhere",
    "seed": 5,
    "unit": "id",
    "actions": ["a", "b", "c"],
    "randomised": 0.2,
    "floor": 0.02,
    **about("y"),
    "features": {
        "numeric": {"age": "learn", "spend": {"mean": 10, "sd": 5}},
        "categorical": {"zip": ["urban", "rural"], "city": {"hash": 4}},
        "interactions": [["age", "zip"]],
    },
    "grid": {"sizes": [48, 30, 24]},
}


def units(start: int, count: int) -> pl.DataFrame:
    """Return units by their numbers alone, whatever the machine."""
    number = np.arange(start, start + count)
    return pl.DataFrame(
        {
            "id": [f"{n:04d}" for n in number],
            "age": 20.0 + number * 37 % 53,
            "spend": number * 91 % 47 / 3.0,
            "zip": np.where(number % 3 == 0, "urban", "rural"),
            "city": [f"c{n * 7 % 30}" for n in number],
        }
    )


def make(path: Path, policy: str) -> None:
    """Run three waves, with late and corrected outcomes."""
    store = open_store(path)
    spec = {**SPEC, "name": policy.lower(), "policy": {"kind": policy}}
    campaign = Campaign.create(spec, store=store, who="elsewhere")
    start = 0
    for size in (48, 30, 24):
        given = units(start, size)
        table = pl.from_arrow(campaign.assign(given).table)
        assert isinstance(table, pl.DataFrame)
        effect = table["action"].replace_strict({"a": 0.0, "b": 0.5, "c": 1.0})
        rows = table.select("id").with_columns(y=effect + given["spend"] / 50)
        campaign.record(rows[: size - 2])
        campaign.record(rows[:1].with_columns(y=rows["y"][:1] + 1), correct=True, reason="typo")
        campaign.close()
        campaign.record(rows[size - 2 :])
        start += size
    store.close()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    for kind in ("SBPE", "SBUCB"):
        make(target, kind)
