"""The campaign of the load test: its units, the calls for them, and the final checks."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from benchmarks.service.load import Asked, Load
from seqbatch.campaign import Campaign
from seqbatch.storage import open_store, tokens

FIRST = 600
LEVELS = ["north", "south", "east", "west"]
ASSIGN = "/v1/campaigns/load/assignments"
SPEC = {
    "name": "load",
    "seed": 7,
    "actions": ["none", "mail", "call"],
    "randomised": 0.1,
    "grid": {"sizes": [FIRST, 50_000_000]},
    "metrics": {"visit": {"range": [0, 1]}},
    "objective": {"maximise": "visit"},
    "features": {
        "numeric": {"age": "learn", "visits": "raw"},
        "categorical": {"region": LEVELS},
    },
}


def unit(number: int, prefix: str) -> dict[str, Any]:
    """Return a unit with its features."""
    return {
        "unit": f"{prefix}-{number:09d}",
        "age": 18 + number % 70,
        "visits": number % 13,
        "region": LEVELS[number % 4],
    }


def prepared(store_url: str) -> str:
    """Make a campaign whose first wave is closed, so that a policy decides; return a token."""
    store = open_store(store_url)
    campaign = Campaign.create(SPEC, store=store)
    units = pl.DataFrame([unit(number, "first") for number in range(FIRST)])
    campaign.assign(units)
    visits = np.random.default_rng(1).integers(0, 2, FIRST)
    campaign.record(units.select("unit", visit=pl.Series(visits)))
    campaign.close()
    secret, _ = tokens.create(store, "load", role="operator")
    store.close()
    return secret


def bare_calls(prefix: str) -> Iterator[Asked]:
    """Yield calls of the bare route."""
    for number in count():
        made = unit(number, prefix)
        body = json.dumps({"unit": made["unit"], "age": made["age"]})
        yield Asked("/units", body.encode(), f"{prefix}-{number}")


def calls(prefix: str, size: int) -> Iterator[Asked]:
    """Yield calls for so many units each."""
    for number in count():
        units = [unit(each, prefix) for each in range(number * size, (number + 1) * size)]
        yield Asked(ASSIGN, json.dumps({"units": units}).encode(), f"{prefix}-{number}")


def examine(store_url: str, loads: list[Load]) -> tuple[int, int]:
    """Check all that was acknowledged against the campaign; return its units and its events.

    Every unit was answered once, with the event that assigned it and the stored action; the
    campaign has no other units; and a verification finds nothing.
    """
    said: dict[str, str] = {}
    for load in loads:
        if load.odd:
            raise AssertionError(f"{len(load.odd)} calls were refused: {load.odd[0]}")
        for content in load.answers.values():
            answer = json.loads(content)
            if answer["event"] is None:
                raise AssertionError("a unit had been assigned before its call was made")
            for row in answer["assignments"]:
                if said.setdefault(row["unit"], row["action"]) != row["action"]:
                    raise AssertionError(f"{row['unit']} got two actions")
    store = open_store(store_url)
    campaign = Campaign(store, "load")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "units.parquet"
        campaign.export(out)
        kept = pl.read_parquet(out, columns=["unit", "action"]).slice(FIRST)
    if dict(kept.iter_rows()) != said or len(said) != kept.height:
        raise AssertionError(f"{len(said):,} units were answered, {kept.height:,} are kept")
    found = campaign.verify()
    if not found.sound:
        raise AssertionError(str(found))
    store.close()
    return found.units, found.events
