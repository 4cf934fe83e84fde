"""A campaign in a lake: made-up customers, three waves, and a query of the files by DuckDB.

``python examples/lake.py`` runs 60,000 customers in a temporary folder; ``python examples/lake.py
FOLDER UNITS`` keeps the lake in FOLDER, with UNITS customers per wave.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from seqbatch.campaign import Campaign
from seqbatch.core.arrays import Floats
from seqbatch.storage import open_store

ACTIONS, REGIONS = ("nothing", "e-mail", "letter"), ("north", "south", "west")
WAVES, UNITS = 3, 20_000


def spec(units: int) -> dict[str, Any]:
    """Return the spec; md5 draws and exact sums are the defaults of a lake."""
    return {
        "name": "autumn", "seed": 11, "unit": "customer", "actions": list(ACTIONS),
        "randomised": 0.1, "metrics": {"spent": {"kind": "amount", "range": [-100, 200]}},
        "objective": {"maximise": "spent"},
        "features": {
            "numeric": {"age": "learn", "orders": "learn"},
            "categorical": {"region": list(REGIONS)},
        },
        "grid": {"sizes": [units] * WAVES},
    }  # fmt: skip


def customers(wave: int, units: int) -> pa.Table:
    """Return the customers of a wave."""
    random = np.random.default_rng(wave)
    return pa.table(
        {
            "customer": [f"{wave}-{number:08d}" for number in random.permutation(units)],
            "age": random.uniform(18, 80, units),
            "orders": random.poisson(3.0, units).astype(np.float64),
            "region": random.choice(REGIONS, units),
        }
    )


def spent(given: pa.Table, answers: pa.Table, wave: int) -> pa.Table:
    """Return what customers spent: letters pay for the old, e-mails for the young."""
    young = (50 - given["age"].to_numpy()) / 30
    lifts: dict[str, Floats] = {
        "nothing": np.zeros(len(young)), "e-mail": 2 + 3 * young, "letter": 1 - 4 * young,
    }  # fmt: skip
    actions = answers["action"].to_numpy()
    mean = 10 + given["orders"].to_numpy() + sum(
        lift * (actions == action) for action, lift in lifts.items()
    )  # fmt: skip
    noise = np.random.default_rng([wave, 1]).normal(0, 5, len(young))
    return pa.table({"customer": answers["customer"], "spent": np.clip(mean + noise, -100, 200)})


def run(folder: Path, units: int) -> Campaign:
    """Run all waves in a lake: assign, record, close, from file to file."""
    store = open_store(f"lake:{folder / 'lake'}")
    campaign = Campaign.create(spec(units), store=store)
    for wave in range(1, WAVES + 1):
        given = customers(wave, units)
        pa.parquet.write_table(given, folder / "units.parquet")
        campaign.assign(folder / "units.parquet", out=folder / "answers.parquet", force=True)
        answers = pa.parquet.read_table(folder / "answers.parquet")
        pa.parquet.write_table(spent(given, answers, wave), folder / "outcomes.parquet")
        campaign.record(folder / "outcomes.parquet")
        campaign.close()
    return campaign


def by_hand(lake: Path) -> list[Any]:
    """Return the mean outcome of every action in the last wave, from the files."""
    return duckdb.execute(f"""
        SELECT d.action, count(*) AS units, round(avg(o.value), 2) AS spent
        FROM '{lake}/1-autumn/decisions/*.parquet' AS d
        JOIN '{lake}/1-autumn/outcomes/*.parquet' AS o USING (number)
        JOIN '{lake}/1-autumn/units/*.parquet' AS u USING (number)
        WHERE o.verdict = 0 AND u.customer LIKE '{WAVES}-%'
        GROUP BY d.action ORDER BY d.action
    """).fetchall()


def main(folder: Path, units: int) -> None:
    """Run the campaign, and print its results."""
    campaign = run(folder, units)
    print(campaign.status())
    for action, count, mean in by_hand(folder / "lake"):
        print(f"{ACTIONS[action]}: {count:,} customers of the last wave, {mean} spent by each")
    found = campaign.verify()
    print(f"Verified {found.units:,} decisions: {'sound' if found.sound else found.findings[:3]}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else UNITS)
    else:
        with TemporaryDirectory() as made:
            main(Path(made), UNITS)
