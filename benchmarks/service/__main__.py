"""The service beside a bare route, on one PostgreSQL, in one run; writes docs/reliability.md.

``python -m benchmarks.service`` takes about three minutes; ``--seconds 2`` makes each part shorter,
and ``--no-page`` leaves the page as it is.
"""

import argparse
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import psycopg

from benchmarks.service import bare
from benchmarks.service.load import Asked, Load, loaded
from benchmarks.service.servers import Served, database, serve, serve_bare
from seqbatch.campaign import Campaign
from seqbatch.storage import open_store, tokens

WORKERS, CLIENTS, MANY_CLIENTS = 2, 32, 4
UNITS = 10_000
LEVELS = ("north", "south", "east", "west")
ASSIGN = "/v1/campaigns/load/assignments"
SPEC = {
    "name": "load", "seed": 7, "actions": ["none", "mail", "call"], "randomised": 0.1,
    "grid": {"sizes": [600, 50_000_000]}, "reward": {"column": "visit", "range": [0, 1]},
    "features": {"numeric": {"age": "learn", "visits": "raw"}, "categorical": {"region": list(LEVELS)}},
}  # fmt: skip


def unit(number: int, prefix: str) -> dict[str, Any]:
    """Return a unit with its features."""
    return {
        "unit": f"{prefix}-{number:09d}", "age": 18 + number % 70, "visits": number % 13,
        "region": LEVELS[number % 4],
    }  # fmt: skip


def prepared(store_url: str) -> str:
    """Make a campaign whose first wave is closed, so that a policy decides; return a token."""
    store = open_store(store_url)
    campaign = Campaign.create(SPEC, store=store)
    units = pl.DataFrame([unit(number, "first") for number in range(600)])
    campaign.assign(units)
    visits = np.random.default_rng(1).integers(0, 2, 600)
    campaign.record(units.select("unit", visit=pl.Series(visits)))
    campaign.close()
    secret, _ = tokens.create(store, "load", role="admin")
    store.close()
    return secret


def bare_calls(prefix: str) -> Iterator[Asked]:
    """Yield calls of the bare route."""
    for number in count():
        made = unit(number, prefix)
        yield Asked("/units", json.dumps({"unit": made["unit"], "age": made["age"]}).encode())


def calls(prefix: str, size: int) -> Iterator[Asked]:
    """Yield calls for so many units each."""
    for number in count():
        units = [unit(each, prefix) for each in range(number * size, (number + 1) * size)]
        yield Asked(ASSIGN, json.dumps({"units": units}).encode(), f"{prefix}-{number}")
