"""The time to close a wave with many features, compared with the necessary matrix work."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from seqbatch.campaign import Campaign
from seqbatch.core import Statistics, least_squares
from seqbatch.core.arrays import Floats
from seqbatch.storage import open_store

FEATURES, UNITS, ACTIONS = 2_000, 10_000, ("a", "b")

PAGE = """\
## Many features

Seconds of processor time for {features:,} features, {units:,} units in a wave, and {actions}
actions with a model each. Aim: closing takes no more than a few times the matrix products and one
factorisation of each model.

| what | seconds | of closing |
|---|---|---|
| close the first wave, SBPE | {close:.1f} | 1.00 |
| the products of the wave's rows by themselves, NumPy | {product:.1f} | {product_share:.2f} |
| a Cholesky factorisation of each model, NumPy | {factor:.1f} | {factor_share:.2f} |
| `least_squares` of all models | {fit:.1f} | {fit_share:.2f} |
| the same by two eigendecompositions of each model | {twice:.1f} | {twice_share:.2f} |
"""


def _timed(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _close(rows: Floats, rewards: Floats) -> float:
    """Return how long a campaign takes to close the first wave."""
    names = [f"x{number}" for number in range(FEATURES)]
    spec: dict[str, Any] = {
        "name": "wide",
        "unit": "id",
        "actions": list(ACTIONS),
        "metrics": {"y": {"range": [-1e3, 1e3]}},
        "objective": {"maximise": "y"},
        "policy": {"kind": "SBPE"},
        "features": {"numeric": dict.fromkeys(names, "learn")},
        "grid": {"sizes": [UNITS, UNITS]},
    }
    ids = [f"{number:08d}" for number in range(UNITS)]
    columns = dict(zip(names, np.ascontiguousarray(rows.T), strict=True))
    with tempfile.TemporaryDirectory(prefix="seqbatch-features-") as folder:
        campaign = Campaign.create(spec, store=open_store(str(Path(folder) / "wide.db")))
        campaign.assign(pl.DataFrame({"id": ids, **columns}))
        campaign.record(pl.DataFrame({"id": ids, "y": rewards}))
        return _timed(campaign.close)


def measured() -> str:
    """Measure, and return a part of the page."""
    random = np.random.default_rng(7)
    rows = random.standard_normal((UNITS, FEATURES))
    rewards = rows[:, 0] + random.standard_normal(UNITS)
    cells = np.arange(UNITS) % len(ACTIONS)
    sums = Statistics.zero(len(ACTIONS), FEATURES).add(rows, rewards, cells)
    parts = [rows[cells == cell] for cell in range(len(ACTIONS))]
    seconds = {
        "close": _close(rows, rewards),
        "product": _timed(lambda: [part.T @ part for part in parts]),
        "factor": _timed(lambda: np.linalg.cholesky(sums.gram)),
        "fit": _timed(lambda: least_squares(sums)),
        "twice": _timed(lambda: [np.linalg.eigh(sums.gram) for _ in range(2)]),
    }
    shares = {f"{what}_share": took / seconds["close"] for what, took in seconds.items()}
    text = PAGE.format(features=FEATURES, units=UNITS, actions=len(ACTIONS), **seconds, **shares)
    print(text, flush=True)
    return text
