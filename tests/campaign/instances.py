"""Campaigns, units, outcomes and commits that fail, for tests."""

import sqlite3
from contextlib import contextmanager

import numpy as np
import polars as pl

from seqbatch.campaign import Campaign
from tests.campaign.specs import about

SPEC = {
    "name": "spring",
    "seed": 7,
    "unit": "id",
    "actions": ["none", "mail", "call"],
    "randomised": 0.2,
    "floor": 0.02,
    **about("visit", range=[-10, 10]),
    "features": {
        "numeric": {"age": "learn", "spend": {"mean": 10, "sd": 5}},
        "categorical": {"zip": ["urban", "rural"], "city": {"hash": 4}},
        "interactions": [["age", "zip"]],
    },
    "grid": {"sizes": [300, 200, 100]},
}


def units(count, *, start=0, seed=0):
    random = np.random.default_rng([seed, start])
    return pl.DataFrame(
        {
            "id": [f"{number:06d}" for number in range(start, start + count)],
            "age": random.normal(40, 12, count),
            "spend": random.exponential(10, count),
            "zip": random.choice(["urban", "rural"], count),
            "city": random.choice([f"c{number}" for number in range(30)], count),
        }
    )


def outcomes(answers, *, seed=0):
    """Return an outcome for each answer: calls do best, the more so for the first units."""
    frame = pl.from_arrow(answers)
    random = np.random.default_rng([99, seed])
    effect = {"none": 0.0, "mail": 0.5, "call": 1.0, "visit": 1.5}
    noise = random.normal(0, 0.3, len(frame))
    values = [effect[action] + gap for action, gap in zip(frame["action"], noise, strict=True)]
    return pl.DataFrame({"id": frame["id"], "visit": np.round(values, 6)})


def created(store, **changes):
    return Campaign.create({**SPEC, **changes}, store=store, who="ann")


def run_wave(campaign, wave, *, start, count):
    table = campaign.assign(units(count, start=start)).table
    recorded = campaign.record(outcomes(table, seed=wave))
    return table, recorded, campaign.close()


def run_all(store, **changes):
    """Run the three waves of a campaign."""
    campaign = created(store, **changes)
    for wave, (start, count) in enumerate([(0, 300), (300, 200), (500, 100)], start=1):
        run_wave(campaign, wave, start=start, count=count)
    return campaign


SMALL = {
    "name": "small", "seed": 3, "unit": "id", "actions": ["a", "b", "c"],
    **about("y"), "grid": {"sizes": [300, 300, 300]},
    "features": {"numeric": {"age": "learn"}},
}  # fmt: skip
LEVELS = {"a": 9.0, "b": 10.0, "c": 11.0, "new": 10.0}


def small(store, **changes):
    return Campaign.create({**SMALL, **changes}, store=store)


def small_wave(campaign, number, count=300, only=None):
    """Assign and close a wave, with the outcomes of some actions only where they are named."""
    table = pl.from_arrow(campaign.assign(units(count, start=1_000 * number)).table)
    noise = np.random.default_rng(number).normal(0, 0.1, count)
    levels = np.array([LEVELS[action] for action in table["action"]])
    rows = pl.DataFrame({"id": table["id"], "y": levels + noise})
    campaign.record(rows.filter(table["action"].is_in(only)) if only else rows)
    campaign.close(force=True, reason="as it is")
    return table


def shares(table):
    return dict(table["action"].value_counts(normalize=True).iter_rows())


@contextmanager
def without_triggers(raw):
    """Change an SQLite store behind the triggers' back: verify would miss them afterwards."""
    run = raw.execute if isinstance(raw, sqlite3.Connection) else raw.exec_driver_sql
    made = run("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in made:
        run(f"DROP TRIGGER {name}")
    yield
    for _, statement in made:
        run(statement)


def lose_commit(monkeypatch, store, *, stored, error=None):
    """Make an SQLite store's next commit of a change fail, before or after it is stored."""
    lost = error or sqlite3.OperationalError("the disk failed")
    if error is None:
        lost.sqlite_errorcode = sqlite3.SQLITE_IOERR
    commit, dialect = store._engine.dialect.do_commit, store._engine.dialect

    def failing(connection):
        if not connection.driver_connection.total_changes:
            return commit(connection)
        monkeypatch.setattr(dialect, "do_commit", commit)
        if stored:
            commit(connection)
        raise lost

    monkeypatch.setattr(dialect, "do_commit", failing)
