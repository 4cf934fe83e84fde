"""Check that two trees of seqbatch give the same decisions and estimates, bit for bit.

Campaigns of many kinds are run with generated data, fixed seeds and a clock that stands still, and
beside them policies, plans, simulations and inference; what comes out is written as JSON::

    python -m tests.same_bits run before.json
    python -m tests.same_bits compare before.json after.json

Another tree is run by its PYTHONPATH, and the first line that is printed says which one it was::

    PYTHONPATH=other/src python tests/same_bits.py run after.json

What came out is in two groups. "bits" holds decisions, probabilities, estimates, counts, settings
and the hashes of rows; "text" holds what is said in words, pages, and the hashes of events, which
cover such words. `compare` looks at the first, and with `--text` at both. Numbers are the same
where every digit is. Only what is public is used, so that files may be moved and classes renamed.

Two processes share the work. Each keeps its compiled kernels in a folder of its own in the
machine's folder for temporary files, named after the sources: the first run of a tree compiles.
"""

import argparse
import contextlib
import dataclasses
import enum
import gc
import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pyarrow as pa

import seqbatch
from tests.campaign.specs import about, profit

#: How many processes share the work.
PROCESSES = 2
#: Differences within one column or list that are shown, unless another number is asked for.
MOST = 3
#: Values under these names are words, or hashes that cover words, unless they are numbers.
WORDS = frozenset({
    "about", "advice", "assumptions", "few", "fingerprint", "hash", "held", "last", "next", "note",
    "notes", "previous", "problem", "problems", "read_as", "reason", "reasons", "remarks", "said",
    "sections", "sentences", "statement", "title", "warnings", "why", "worth",
})  # fmt: skip
#: Text of more words than this is a sentence.
FEW_WORDS = 4
#: Values under these names depend on the clock and on the folder that a process works in.
DROPPED = frozenset({"at", "store"})

TASKS = {}


def task(lane):
    """Have a function run under its name, by one of the two processes.

    Which one is fixed, so that each finds what it compiled; all that plans is in the second.
    """

    def add(function):
        TASKS[function.__name__.replace("_", " ")] = lane, function
        return function

    return add


# What came out, as plain values in two groups.


class Kept:
    """What came out of one kind of campaign, in two groups."""

    def __init__(self):
        self.bits, self.text = {}, {}

    def keep(self, name, value):
        """Keep numbers, names and settings in one group, and sentences in the other."""
        if name in self.bits or name in self.text:
            raise ValueError(f"{name} is kept already")
        bits, text = parted(plain(value))
        if bits is not NOTHING:
            self.bits[name] = bits
        if text is not NOTHING:
            self.text[name] = text

    def say(self, name, text):
        """Keep a page line by line."""
        self.text[name] = text.splitlines()


class Nothing:
    """Stands for no value, as None is one."""


NOTHING = Nothing()


def plain(value):
    """Return any value of the package as JSON has it, numbers to the last digit."""
    match value:
        case None | bool() | int() | float() | str():
            # Of a subclass, such as NumPy's float, the value alone.
            made = value if isinstance(value, bool | None) else _base(value)
        case enum.Enum():
            made = plain(value.value)
        case np.generic():
            made = plain(value.item())
        case np.ndarray():
            made = plain(value.tolist())
        case pa.Table() | pa.RecordBatch():
            made = {name: plain(value[name].to_pylist()) for name in value.schema.names}
        case pl.DataFrame():
            made = {name: plain(value[name].to_list()) for name in value.columns}
        case datetime() | date():
            made = value.isoformat()
        case timedelta():
            made = value.total_seconds()
        case Path():
            made = value.as_posix()
        case bytes():
            made = value.hex()
        case Mapping():
            made = {str(key): plain(one) for key, one in value.items()}
        case set() | frozenset():
            made = sorted(map(plain, value), key=repr)
        case list() | tuple():
            made = [plain(one) for one in value]
        case _:
            made = _fields(value)
    return made


def _base(value):
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value.value) if isinstance(value, enum.Enum) else kind(value)
    raise TypeError(type(value))


def _fields(value):
    """Return what an object of the package holds; of others that there was one."""
    if callable(getattr(value, "plain", None)):
        return plain(value.plain())
    if callable(getattr(value, "model_dump", None)):
        return plain(value.model_dump())
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain(getattr(value, name)) for name in names if not name.startswith("_")}
    return "callable" if callable(value) else "object"


def parted(value):
    """Return what is no text of a plain value, and what is; NOTHING where there is none."""
    if isinstance(value, dict):
        bits, text = {}, {}
        for name, one in value.items():
            if name in DROPPED:
                continue
            said = name in WORDS and isinstance(one, str | list | dict)
            pair = (NOTHING, one) if said else parted(one)
            for group, part in zip((bits, text), pair, strict=True):
                if part is not NOTHING:
                    group[name] = part
        return bits if bits or not text else NOTHING, text or NOTHING
    if isinstance(value, list):
        pairs = [parted(one) for one in value]
        text = {str(place): said for place, (_, said) in enumerate(pairs) if said is not NOTHING}
        bits = [part for part, _ in pairs if part is not NOTHING]
        return bits if bits or not text else NOTHING, text or NOTHING
    if isinstance(value, str) and len(value.split()) > FEW_WORDS:
        return NOTHING, value
    return value, NOTHING


# The clock, chance and the command line.


class Clock:
    """A clock that stands still until it is told to go on, however often it is asked."""

    def __init__(self):
        self.time = datetime(2026, 3, 1, 9, tzinfo=UTC)

    def __call__(self):
        return self.time

    def wait(self, **span):
        self.time += timedelta(**span)


@contextlib.contextmanager
def known_chance():
    """Have what the machine draws for secrets come from a seed."""
    known = random.Random(17)

    def getrandbits(_, count):
        return known.getrandbits(count)

    def randbytes(_, count):
        return known.randbytes(count)

    system = random.SystemRandom
    with (
        mock.patch.object(system, "getrandbits", getrandbits),
        mock.patch.object(system, "randbytes", randbytes),
    ):
        yield


def command(*words):
    """Run a command of seqbatch in this process; return its exit code, output and complaints."""
    from seqbatch.cli import main

    out, errors, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        mock.patch.object(sys, "argv", ["seqbatch", *map(str, words)]),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    # The command line leaves nothing to be collected, since a process ends with it.
    gc.unfreeze()
    return code, out.getvalue(), errors.getvalue()


def answered(kept, name, *words):
    """Keep what a command answers in JSON, and its exit code."""
    code, out, errors = command(*words, "--json")
    kept.keep(name, {"code": code, "json": json.loads(out) if out.strip() else None})
    if errors:
        kept.say(f"{name}, complaints", errors)


def spoken(kept, name, *words):
    """Keep what a command says to a person."""
    code, out, errors = command(*words)
    kept.keep(name, {"code": code})
    kept.say(f"{name}, words", out + errors)


# Units and outcomes.

SPEC = {
    "name": "spring",
    "seed": 7,
    "unit": "id",
    "actions": ["none", "mail", "call"],
    "control": "none",
    "randomised": 0.2,
    "floor": 0.02,
    **about("y", range=[-10, 10]),
    "features": {
        "numeric": {"age": "learn", "spend": {"mean": 10, "sd": 5}},
        "categorical": {"zip": ["urban", "rural"], "city": {"hash": 4}},
        "interactions": [["age", "zip"]],
    },
    "grid": {"sizes": [300, 300, 200]},
}
#: What an action adds to the outcome, and how much more for the old.
EFFECTS = {
    "none": (0.0, 0.0), "mail": (0.3, -0.4), "call": (0.5, 0.5), "visit": (0.8, 0.1),
    "A": (0.0, 0.0), "B": (0.3, -0.4), "C": (0.5, 0.5),
}  # fmt: skip


def people(count, *, start=0):
    """Return units with numbers, categories, a flag, a day, and what they share."""
    draw = np.random.default_rng([3, start])
    days = np.datetime64("2025-06-01") + draw.integers(0, 250, count)
    return pl.DataFrame(
        {
            "id": [f"{number:06d}" for number in range(start, start + count)],
            "age": draw.normal(40, 12, count),
            "spend": draw.exponential(10, count),
            "zip": draw.choice(["urban", "rural"], count),
            "city": draw.choice([f"c{number}" for number in range(30)], count),
            "member": draw.random(count) < 0.4,
            "since": days.astype("datetime64[D]"),
            "phone": draw.choice(["yes", "no", ""], count, p=[0.6, 0.3, 0.1]),
            "centre": draw.choice(["east", "west", "south"], count, p=[0.5, 0.3, 0.2]),
            "house": [f"h{number}" for number in draw.integers(0, max(count // 4, 1), count)],
        }
    )


def outcomes(answers, units, *, seed, column="y", ids=("id",), missing=0.05, scale=1.0):
    """Return what came back of most units, which the action and the age decide."""
    frame = pl.from_arrow(answers).select(*ids, "action").join(units, on=ids, how="left")
    draw = np.random.default_rng([11, seed])
    ages = (frame["age"].to_numpy() - 40) / 12
    added = np.array([EFFECTS[name][0] + EFFECTS[name][1] * age
                      for name, age in zip(frame["action"], ages, strict=True)])  # fmt: skip
    values = scale * (0.2 * ages + added) + draw.normal(0, 1, len(frame))
    rows = frame.select(*ids).with_columns(pl.Series(column, np.round(values, 6)))
    return rows.filter(pl.Series(draw.random(len(frame)) >= missing))


class Run:
    """A campaign of which every answer is kept.

    Parameters
    ----------
    kept
        Where.
    changes
        What its spec has other than SPEC; without None, which leaves something out.
    store, key
        Where the campaign is kept, and its key where it is masked.
    """

    def __init__(self, kept, changes=None, *, store="campaigns.db", key=None):
        from seqbatch.campaign import Campaign
        from seqbatch.storage import open_store

        made = {**SPEC, **(changes or {})}
        self.spec = {name: value for name, value in made.items() if value is not None}
        self.kept, self.clock, self.url = kept, Clock(), store
        self.name, self.steps, self.given, self.reasons = self.spec["name"], 0, 0, set()
        self.store = open_store(store)
        self.campaign = Campaign.create(
            self.spec, store=self.store, key=key, who="ann", clock=self.clock
        )
        self.unit = self.spec["unit"] if isinstance(self.spec["unit"], list) else ["id"]
        self.column = next(iter(self.spec["metrics"]))

    def keep(self, what, value):
        """Keep an answer under the number of its step."""
        self.steps += 1
        self.kept.keep(f"{self.name} {self.steps:02} {what}", value)
        return value

    def do(self, what, *args, **options):
        """Call a method of the campaign, an hour after the last one."""
        self.clock.wait(hours=1)
        self.reasons.add(options.get("reason"))
        return self.keep(what, getattr(self.campaign, what)(*args, **options))

    def assign(self, units, **options):
        """Assign units; return the answers."""
        return self.do("assign", units, **options).table

    def refused(self, what, *args, **options):
        """Keep why a method of the campaign cannot be called now."""
        try:
            getattr(self.campaign, what)(*args, **options)
        except seqbatch.SeqbatchError as error:
            self.keep(f"{what} refused", {"refused": True, "said": str(error)})
        else:
            self.keep(f"{what} refused", {"refused": False})

    def units(self, count, **columns):
        """Return units that are new to the campaign."""
        self.given += count
        return people(count, start=self.given - count).with_columns(**columns)

    def wave(self, count, *, files=1, close=True, missing=0.05, scale=1.0):
        """Assign a wave in some files, record its outcomes and close it."""
        for part in range(files):
            units = self.units(count // files)
            table = self.assign(units)
            seed = 100 * self.given + part
            rows = outcomes(table, units, seed=seed, column=self.column, ids=self.unit,
                            missing=missing, scale=scale)  # fmt: skip
            self.do("record", rows)
        return self.do("close") if close else None

    def views(self, *, words=True, rows=True):
        """Keep everything that can be asked of the campaign, and close its store."""
        kept, name = self.kept, self.name
        where, events = (name, "--store", self.url), self.campaign.events()
        kept.keep(f"{name} events", [event_values(event) for event in events])
        kept.keep(f"{name} hashes before any words", wordless(events, self.reasons))
        kept.text[f"{name} hashes"] = [event.hash for event in events]
        kept.keep(f"{name} seal", self.campaign.seal())
        for view in ("status", "verify", *(["findings"] if rows else [])):
            answered(kept, f"{name} {view}", "campaign", view, *where)
            if words:
                spoken(kept, f"{name} {view} as told", "campaign", view, *where)
        for what in ("units", "outcomes", "held") if rows else ():
            out = Path(f"{name}-{what}.parquet")
            self.campaign.export(out, what=what)
            kept.keep(f"{name} export of {what}", pl.read_parquet(out))
        for page in ("report", "protocol") if rows else ():
            made = getattr(self.campaign, page)(f"{name}-{page}.json")
            # Its sections are words, and tables of numbers as they are told.
            kept.keep(f"{name} {page}", json.loads(made.read_text(encoding="utf-8")))
            if words:
                made = getattr(self.campaign, page)(f"{name}-{page}.md")
                kept.say(f"{name} {page}, in words", made.read_text(encoding="utf-8"))
        self.store.close()


def event_values(event):
    """Return an event without its hash, and with that of its rows where it covers no words."""
    counts = plain(event.counts)
    held = counts.get("conflict") or counts.get("quarantined")
    made = {"sequence": event.sequence, "kind": event.kind, "who": event.who, "counts": counts,
            "payload": event.payload}  # fmt: skip
    # The reasons of held rows are kept with them.
    return made | ({"hash": event.rows_hash} if held else {"rows": event.rows_hash})


def wordless(events, reasons):
    """Return the hashes of the events before the first that says something in words of its own."""
    made = []
    for event in events:
        said = any(_texts(parted(plain(event.payload))[1]))
        if said or (event.why and event.why not in reasons):
            break
        made.append(event.hash)
    return made


def _texts(value):
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
    elif value is not NOTHING:
        yield value


# Campaigns by policy.

POLICIES = {
    "SBUCB": {"gamma": 0.4},
    "ThompsonSampling": {"scale": 0.8},
    "EpsilonGreedy": {"epsilon": 0.15},
    "SBPE": {},
    "BPE": {},
    "RBGL": {"ridge": 2.0},
    "LBGL": {"scale": 0.3},
    "SupSBUCB": {},
    "UniformRandom": {},
    "FixedAction": {"action": 1},
}


def by_policy(kind):
    """Make a task of a campaign with a policy."""

    def run(kept):
        made = Run(kept, {"policy": {"kind": kind, **POLICIES[kind]}})
        for size in SPEC["grid"]["sizes"]:
            made.wave(size)
        if kind == "SBUCB":
            page = made.campaign.report("page.html")
            kept.say("page", page.read_text(encoding="utf-8"))
        made.views(words=kind in ("SBUCB", "ThompsonSampling"))

    run.__name__ = f"campaign_by_{kind}"
    return run


for _kind in POLICIES:
    task(0)(by_policy(_kind))


@task(0)
def no_features_and_the_default_policy(kept):
    made = Run(kept, {"features": None, "randomised": 0.0, "floor": 0.05})
    for size in (300, 300, 200):
        made.wave(size, missing=0.0)
    made.views()


# Limits.


@task(0)
def capacities_and_a_budget(kept):
    actions = ["none", {"name": "mail", "cost": 0.05}, {"name": "call", "cost": 0.3}]
    limits = {
        "actions": actions,
        "capacity": {"call": 70, "mail": {"at_least": 30, "total": 260}},
        "budget": {"total": 60.0},
        "randomised": 0.1,
    }
    for kind in ("SBUCB", "SBPE", "ThompsonSampling"):
        made = Run(kept, {**limits, "name": kind.lower(), "policy": {"kind": kind}})
        for size, files in ((300, 1), (300, 3), (200, 2)):
            made.wave(size, files=files)
        made.views(words=kind == "SBUCB")


@task(0)
def eligibility_with_a_fallback(kept):
    rules = {
        "eligible": {
            "mail": "age >= 30 and zip != 'rural'", "call": "phone",
            "visit": "not member or centre in ['east', 'west']",
        },
        "actions": ["none", "mail", "call", "visit"],
        "control": "mail",
        "fallback": "none",
        "columns": {"centre": "text", "member": "yes or no"},
        "policy": {"kind": "SBPE"},
    }  # fmt: skip
    for draw in ("independent", "balanced"):
        made = Run(kept, {**rules, "name": draw, "draw": draw})
        for size in (300, 300, 200):
            made.wave(size)
        made.views(words=draw == "independent")


@task(0)
def balanced_strata(kept):
    made = Run(kept, {"strata": ["centre", "zip"], "policy": {"kind": "UniformRandom"}})
    for size, files in ((300, 1), (300, 2), (200, 1)):
        made.wave(size, files=files)
    made.views()
    made = Run(kept, {"name": "learning", "strata": ["centre"], "draws": "md5",
                      "policy": {"kind": "ThompsonSampling"}})  # fmt: skip
    for size in (300, 300, 200):
        made.wave(size)
    made.views(words=False)


# Masks and stopping.


@task(0)
def masked_then_unmasked(kept):
    made = Run(kept, {"name": "trial", "masked": True}, key="trial.key")
    key = json.loads(Path("trial.key").read_text(encoding="utf-8"))
    kept.keep("key", key)
    made.wave(300)
    made.wave(300)
    masked = {name: plain(getattr(made.campaign, name)()) for name in ("status", "findings")}
    kept.keep("while masked", masked)
    made.do("unmask", "trial.key", reason="two waves are in")
    made.wave(200)
    made.views()


@task(0)
def looks_of_a_key_holder(kept):
    stopping = {"rule": "pocock", "alpha": 0.001, "looks": "key holder"}
    made = Run(kept, {"name": "blind", "masked": True, "stopping": stopping,
                      "interim": "committee"}, key="blind.key")  # fmt: skip
    for _ in range(2):
        made.wave(300, scale=0.0)
        looked = made.campaign.look("blind.key")
        made.keep("look", {"verdict": looked.verdict, "taken": plain(looked.taken)})
    made.do("unmask", "blind.key", reason="two waves are in")
    made.wave(200, scale=0.0)
    made.views()


TRIAL = {
    "actions": ["none", "mail"],
    "policy": {"kind": "UniformRandom"},
    **about("y"),
    "features": {"boolean": {"member": False}, "numeric": {"age": "learn"}},
    "grid": {"sizes": [300, 300, 200]},
}


@task(1)
def a_rule_that_stops(kept):
    for rule, scale in (("obrien-fleming", 4.0), ("pocock", -4.0)):
        stopping = {"rule": rule, "futility": True}
        made = Run(kept, {**TRIAL, "name": rule, "stopping": stopping})
        made.wave(300, scale=scale)
        kept.keep(f"{rule} next", {"step": made.campaign.next_step()})
        made.refused("assign", people(300, start=300))
        made.do("go_on", reason="the second goal needs more data")
        made.wave(300, scale=scale)
        made.do("abort", reason="enough was seen")
        made.views()


@task(1)
def a_rule_that_does_not_stop(kept):
    several = {**TRIAL, "actions": ["none", "mail", "call"], "policy": None}
    made = Run(kept, {**several, "stopping": {"rule": "obrien-fleming", "alpha": 0.01}})
    for size in (300, 300, 200):
        made.wave(size, scale=0.1)
    made.views()
    dull = {"rule": "pocock", "futility": True}
    made = Run(kept, {**TRIAL, "name": "futile", "stopping": dull})
    made.wave(300, scale=-0.5)
    if plain(made.campaign.next_step()) == "assign":
        made.wave(300, scale=-0.5)
    made.views(words=False)


@task(1)
def few_events(kept):
    rare = {
        **TRIAL,
        "actions": ["none", {"name": "mail", "cost": 0.02}],
        "stopping": {"rule": "obrien-fleming"},
        **profit("y", absent=0),
    }
    made = Run(kept, rare)
    for wave, size in enumerate((300, 300, 200)):
        table = made.assign(made.units(size))
        draw = np.random.default_rng([5, wave])
        sold = table.filter(pa.array(draw.random(size) < 0.02)).select(["id"])
        rows = pl.from_arrow(sold).with_columns(pl.Series("y", draw.integers(1, 9, len(sold))))
        made.do("record", rows)
        made.do("close")
    made.views()


# Waves, outcomes and metrics.


@task(1)
def calendar_waves(kept):
    grid = {"calendar": True, "waves": 3, "units": 900}
    made = Run(kept, {"grid": grid, "policy": {"kind": "SBUCB"}})
    for size, files in ((260, 2), (330, 3), (180, 1)):
        made.wave(size, files=files)
    made.views()


@task(1)
def absent_outcomes_after_a_wait(kept):
    waited = about("y", unit="EUR", absent=0, after="2 days")
    made = Run(kept, {**waited, "policy": {"kind": "SBPE"}})
    late = []
    for size in (300, 300, 200):
        first, second = made.units(size - 60), made.units(60)
        tables = [(made.assign(first), first)]
        made.clock.wait(hours=47)
        tables.append((made.assign(second), second))
        rows = pl.concat([
            outcomes(table, units, seed=made.given + place, missing=0.6)
            for place, (table, units) in enumerate(tables)
        ])  # fmt: skip
        made.do("record", rows[40:])
        for old in late:
            made.do("record", old)
        late = [rows[:40]]
        made.do("close", force=True, reason="the second file is young")
    made.views()


@task(0)
def metrics_guardrails_sums_and_costs(kept):
    declared = {
        "actions": ["none", {"name": "mail", "cost": 0.1}, {"name": "call", "cost": 0.4}],
        "currency": "EUR",
        "metrics": {
            "y": {"unit": "EUR"},
            "returned": {"unit": "EUR"},
            "visits": {"kind": "count", "unit": "per week", "guardrail": {"at_least": 1.2}},
            "unsubscribed": {"kind": "yes/no", "guardrail": {"at_most_control_plus": 0.1}},
        },
        "objective": {"maximise": {"y": 1.0, "returned": -0.5}, "less_costs": True},
        "required_outcomes": 0.5,
        "policy": {"kind": "RBGL"},
    }
    made = Run(kept, declared)
    for wave, size in enumerate((300, 300, 200)):
        units = made.units(size)
        table = made.assign(units)
        rows = outcomes(table, units, seed=wave)
        draw = np.random.default_rng([8, wave])
        called = rows.join(pl.from_arrow(table), on="id", how="left")["action"].to_numpy() == "call"
        visits = [None if gone else float(many) for gone, many in zip(
            draw.random(len(rows)) < 0.1, draw.poisson(1.2, len(rows)), strict=True)]  # fmt: skip
        rows = rows.with_columns(
            pl.Series("returned", draw.random(len(rows)).round(3)),
            pl.Series("visits", visits, dtype=pl.Float64),
            pl.Series("unsubscribed", 1.0 * (draw.random(len(rows)) < 0.05 + 0.2 * called)),
        )
        made.do("record", rows)
        made.do("close")
    made.views()


@task(0)
def less_is_better(kept):
    about_y = profit("y", direction="min", range=[-10, 10])
    actions = ["none", {"name": "mail", "cost": 0.05}, {"name": "call", "cost": 0.1}]
    changes = {**about_y, "actions": actions, "stopping": {"rule": "pocock"}}
    made = Run(kept, {**changes, "policy": {"kind": "SBUCB", "gamma": 0.3}})
    for size in (300, 300, 200):
        made.wave(size, scale=0.2)
        if plain(made.campaign.next_step()) == "report":
            break
    made.views()


@task(0)
def corrections_late_and_held_outcomes(kept):
    orders = about("y", range=[-10, 10], row_id="order")
    made = Run(kept, {**orders, "policy": {"kind": "BPE"}, "required_outcomes": 0.5})
    before = None
    for wave, size in enumerate((300, 300, 200)):
        units = made.units(size)
        rows = outcomes(made.assign(units), units, seed=wave)
        rows = rows.with_columns(order=pl.concat_str(pl.lit("o"), "id"))
        made.do("record", rows[:150], dry_run=True)
        made.do("record", rows[:150])
        odd = pl.concat([
            rows[140:160],
            rows[:3].with_columns(y=pl.lit(99.0)),
            rows[3:6].with_columns(y=pl.col("y") + 1),
            rows[6:9].with_columns(id=pl.lit("nobody")),
        ])  # fmt: skip
        made.do("record", odd)
        if before is not None:
            made.do("record", before[160:])
            changed = before[:25].with_columns(y=-pl.col("y"))
            made.do("record", changed, correct=True, reason="two columns were swapped")
        made.do("close")
        before = rows
    made.do("record", before[160:])
    made.do("close", wave=2)
    made.campaign.export("events.parquet", what="events")
    events = pl.read_parquet("events.parquet").to_dicts()
    read = [{**row, "payload": json.loads(row["payload"])} for row in events]
    kept.keep("export of events", [{**row, "rows_hash": None} for row in read])
    for at_event in (5, 10):
        kept.keep(f"status at {at_event}", made.campaign.status(at_event=at_event))
        kept.keep(f"findings at {at_event}", made.campaign.findings(at_event=at_event, level=0.9))
    made.views()


@task(0)
def amendments(kept):
    made = Run(kept, {"policy": {"kind": "SBUCB", "gamma": 0.3}})
    made.wave(300)
    made.do("amend", reason="a new list", sizes=[150, 150, 200])
    made.do("amend", reason="another offer", add=["visit"], floor=0.03)
    made.wave(150)
    made.do("amend", reason="too dear", retire=["mail"], units=800)
    units = made.units(150)
    rows = outcomes(made.assign(units), units, seed=5)
    made.do("amend", reason="another program", metrics={"y": {"format": "1.234,56"}})
    spelled = [f"{value:.2f}".replace(".", ",") for value in rows["y"]]
    made.do("record", rows.with_columns(pl.Series("y", spelled)))
    made.do("amend", reason="nobody is missing", metrics={"y": {"absent": 0}})
    made.do("close")
    made.wave(200, close=False)
    made.do("close", skip=True, reason="a wrong list")
    made.views()


@task(0)
def ids_of_two_columns_clusters_and_segments(kept):
    declared = {
        "unit": ["id", "week"],
        "cluster": "house",
        "features": {
            "numeric": {"age": "learn"}, "boolean": {"member": "level"},
            "categorical": {"zip": ["urban", "rural"], "centre": ["east", "west", "south"]},
        },
        "report": {"segments": ["zip", "member"]},
        "stopping": {"rule": "obrien-fleming"},
    }  # fmt: skip
    made = Run(kept, declared)
    for wave, size in enumerate((300, 300, 200)):
        units = made.units(size, week=pl.lit(f"w{wave}"))
        rows = outcomes(made.assign(units), units, seed=wave, ids=["id", "week"], scale=0.2)
        made.do("record", rows)
        made.do("close")
    made.views()


# Features and files.


def shop_lines(units):
    """Return units as a shop with decimal commas exports them."""
    lines = ["id;spend;share;age;signup;member;city;shop"]
    for place, unit in enumerate(units.iter_rows(named=True)):
        spend = f"{100 * unit['spend']:,.2f}".translate(str.maketrans(",.", ".,")) + " EUR"
        cells = [
            unit["id"],
            spend if place % 7 else ["", "NA", "-"][place % 3],
            f"{place % 115 - 5},5 %" if place % 19 else "",
            f"{unit['age']:.0f}",
            unit["since"].strftime("%d.%m.%Y") if place % 11 else "N/A",
            ["ja", "nein", ""][place % 5 % 3],
            ["München", "Paris", "Rom", "Orléans"][int(unit["city"][1:]) % 4],
            unit["house"],
        ]
        lines.append(";".join(cells))
    return "\n".join(lines)


@task(1)
def features_as_people_spell_them(kept):
    declared = {
        "start": "2026-03-01",
        "features": {
            "numeric": {
                "spend": {"missing": "median", "indicator": 0.1, "clip": [0.01, 0.99],
                          "format": "1.234,56 EUR"},
                "share": {"scale": "raw", "format": "12,5 %", "missing": 0, "range": [0, 1]},
                "age": "learn",
            },
            "date": {"signup": {"format": "%d.%m.%Y", "parts": ["days", "weekday", "month"],
                                "missing": "mean"}},
            "boolean": {"member": "level"},
            "categorical": {
                "city": {"levels": ["München", "Paris", "Rom"], "least": 30, "other": True,
                         "missing": "level"},
                "shop": {"hash": 3, "missing": "level"},
            },
            "interactions": [["spend", "member"]],
        },
        "policy": {"kind": "SBPE"},
    }  # fmt: skip
    made = Run(kept, declared)
    for wave, size in enumerate((300, 300, 200)):
        units = made.units(size)
        file = Path(f"units-{wave}.csv")
        file.write_text(shop_lines(units), encoding="cp1252")
        made.do("assign", str(file), out=f"answers-{wave}.csv")
        answers = pl.read_csv(f"answers-{wave}.csv", schema_overrides={"id": pl.String})
        kept.keep(f"answers of wave {wave + 1}", answers)
        rows = outcomes(answers.to_arrow(), units, seed=wave)
        rows.write_csv(f"outcomes-{wave}.csv")
        made.do("record", f"outcomes-{wave}.csv")
        made.do("close")
    made.views()


@task(0)
def dates_and_flags_of_tables(kept):
    declared = {
        "start": "2026-03-01",
        "features": {
            "numeric": {
                "age": {"missing": "mean", "range": [15, 80]},
                "spend": {"scale": "raw", "range": [0, 40]},
            },
            "date": {"since": "iso"},
            "boolean": {"member": "refuse"},
            "categorical": {"zip": ["urban"]},
            "intercept": True,
        },
        "on_unseen_category": "other",
        "sums": "exact",
        "policy": {"kind": "RBGL"},
    }
    made = Run(kept, declared)
    for size in (300, 300, 200):
        made.wave(size)
    made.views(words=False)


@task(0)
def one_model_for_all_actions(kept):
    actions = [
        {"name": name, "features": {"price": price, "effort": effort}}
        for name, price, effort in (("none", 0.0, 0.0), ("mail", 0.5, 1.0), ("call", 2.0, 0.3))
    ]
    for kind in ("SBUCB", "ThompsonSampling"):
        made = Run(kept, {"name": kind.lower(), "model": "shared", "actions": actions,
                          "policy": {"kind": kind}})  # fmt: skip
        made.wave(300)
        added = {"name": "visit", "features": {"price": 3.0, "effort": 0.7}}
        made.do("amend", reason="one more", add=[added])
        made.wave(300)
        made.wave(200)
        made.views(words=kind == "SBUCB")


# Lists, sizes, stores and databases.


@task(0)
def drawn_from_a_list(kept):
    made = Run(kept, {"policy": {"kind": "SBPE"}})
    everybody = people(1_000)
    for wave, size in enumerate((300, 300, 200)):
        table = made.assign(everybody.sample(fraction=1, shuffle=True, seed=wave), draw=True)
        if len(table) != size:
            raise ValueError(f"{len(table)} units were drawn")
        made.do("record", outcomes(table, everybody, seed=wave))
        made.do("close")
    made.views()


@task(0)
def the_first_that_fit(kept):
    made = Run(kept, {"policy": {"kind": "UniformRandom"}, "grid": {"sizes": [300, 200]}})
    people(500).write_parquet("units.parquet")
    made.do("assign", "units.parquet", out="answers.parquet", partial=True, rest="rest.parquet")
    rest = pl.read_parquet("rest.parquet")
    kept.keep("rest", rest.select("id"))
    answers = pl.read_parquet("answers.parquet").to_arrow()
    made.do("record", outcomes(answers, people(500), seed=1))
    made.do("close")
    kept.keep("again", made.assign(people(500)[:50]))
    made.assign(rest)
    made.do("abort", reason="a complaint")
    made.views(words=False)


@task(1)
def sizes_that_are_proposed_and_adopted(kept):
    declared = {
        "actions": ["none", "mail"], "randomised": 0.1, **about("y"),
        "features": {"numeric": {"age": "learn"}, "categorical": {"zip": ["urban", "rural"]}},
        "grid": {"sizes": [60, 100, 1_340], "adaptive": True}, "policy": None,
    }  # fmt: skip
    made = Run(kept, declared)
    made.wave(60, scale=0.2, missing=0.0)
    kept.keep("proposal", made.campaign.replan())
    made.do("replan", adopt=True)
    for _ in range(2):
        left = [wave for wave in plain(made.campaign.status())["waves"] if not wave["closed"]]
        made.wave(left[0]["size"], scale=0.2, missing=0.0)
    made.views()


@task(1)
def sizes_of_a_plan(kept):
    plan = {"units": 800, "batches": 3, "max_batches": 3, "effect": 0.4, "missing": 0.05}
    made = Run(kept, {"grid": {"plan": plan}, "features": {"numeric": {"age": "learn"}}})
    for wave in plain(made.campaign.status())["waves"]:
        made.wave(wave["size"])
    made.views()


@task(0)
def a_lake(kept):
    made = Run(kept, {"policy": {"kind": "SBUCB"}}, store="lake:lake")
    for size, files in ((300, 2), (300, 1), (200, 1)):
        made.wave(size, files=files)
    made.views()
    limited = {"name": "limited", "capacity": {"call": 60}, "strata": ["centre"]}
    made = Run(kept, limited, store="lake:lake")
    for size in (300, 300, 200):
        made.wave(size)
    made.views(words=False)


@task(0)
def deleted_again(kept):
    made = Run(kept)
    made.assign(made.units(100))
    made.do("delete", reason="a trial run", force=True)
    answered(kept, "tombstones", "campaign", "list", "--deleted", "--store", "campaigns.db")
    made.store.close()


ELSEWHERE = {
    "name": "afar",
    "actions": ["none", "it's mail", "call"],
    "draws": "md5",
    "sums": "exact",
    "rows": "elsewhere",
    "features": {
        "numeric": {
            "age": {"scale": {"mean": 40, "sd": 12}, "range": [0, 100], "missing": 40,
                    "indicator": 1},
            "spend": {"scale": {"mean": 10, "sd": 5}, "range": [0, 60]},
        },
        "boolean": {"member": "level"},
        "categorical": {"zip": {"levels": ["urban", "rur'al"], "other": True, "missing": "level"}},
        "date": {"since": {"parts": ["weekday"], "missing": "median"}},
    },
    "eligible": {"call": "age >= 25"},
}  # fmt: skip


def in_duckdb(statement, **tables):
    """Run a statement on tables; return the rows in the order of their first column."""
    import duckdb

    with duckdb.connect() as connection:
        for name, frame in tables.items():
            connection.register(name, frame.to_arrow())
        found = connection.sql(statement).to_arrow_table()
    return found.sort_by(found.column_names[0])


@task(0)
def rows_elsewhere(kept):
    import duckdb

    dialects = ("duckdb", "postgres", "spark", "bigquery", "snowflake", "trino")
    for kind, absent in (("SBPE", None), ("BPE", 0.0), ("SBUCB", 0.0)):
        metric = about("y", range=[-10, 10], **({} if absent is None else {"absent": 0}))
        name = kind.lower()
        made = Run(kept, {**ELSEWHERE, "name": name, **metric, "policy": {"kind": kind}})
        tables = {"units": "units", "assignments": "assignments"}
        earlier, database = None, duckdb.connect()
        for wave, size in enumerate((300, 300, 200), start=1):
            units = made.units(size)
            for dialect in dialects:
                text = made.campaign.sql(dialect=dialect, write=True, **tables)
                kept.say(f"{name}, wave {wave}, {dialect}", text)
            database.register("units", units.to_arrow())
            database.sql(made.campaign.sql(write=True, **tables))
            mine = f"SELECT * FROM assignments WHERE wave = {wave} ORDER BY id"
            answers = database.sql(mine).to_arrow_table()
            made.keep("assigned in DuckDB", answers)
            rule = made.campaign.rule()
            [batch] = units.to_arrow().combine_chunks().to_batches()
            listed = rule.listed(batch)
            rule = rule.with_wave(listed, earlier)
            by_rule = rule.assign(batch)
            made.keep("assigned by the rule", by_rule)
            renamed = answers.set_column(
                answers.column_names.index("action"), "action",
                pa.array([a.replace("it's ", "") for a in answers["action"].to_pylist()]),
            )  # fmt: skip
            rows = outcomes(renamed, units, seed=wave)
            text = made.campaign.sql(what="sums", assignments="assignments", outcomes="outcomes")
            kept.say(f"{name}, sums of wave {wave}", text)
            file = Path(f"{name}-{wave}.sql")
            file.write_text(text, encoding="utf-8")
            database.register("outcomes", rows.to_arrow())
            sums = database.sql(text).to_arrow_table()
            made.keep("sums in DuckDB", sums)
            joined = pl.DataFrame(by_rule).join(rows, on="id", how="left", maintain_order="left")
            [batch] = joined.to_arrow().combine_chunks().to_batches()
            made.keep("sums by the rule", rule.result(rule.sums(batch), text, earlier))
            earlier = listed if earlier is None else earlier.merged(listed)
            made.do("record_sums", sums, statement=file)
        database.close()
        made.views(rows=False)


@task(0)
def a_rule_in_duckdb_with_rows_here(kept):
    declared = {name: value for name, value in ELSEWHERE.items() if name not in ("rows", "actions")}
    for kind in ("RBGL", "LBGL"):
        made = Run(kept, {**declared, "name": kind.lower(), "policy": {"kind": kind}})
        made.wave(300)
        units = people(300, start=300)
        made.keep("in DuckDB", in_duckdb(made.campaign.sql(units="units"), units=units))
        made.wave(300)
        made.views(words=False)


# The command line from end to end.


@task(1)
def the_command_line(kept):
    everybody = people(900).select("id", pl.col("age").round(1), "zip", "member")
    everybody.write_csv("customers.csv")
    init = ("init", "customers.csv", "--name", "spring", "--actions", "none,mail")
    spoken(kept, "init", "campaign", *init, "--maximise", "y", "--seed", "5", "--out", "told.toml")
    planned = ("--maximise", "y", "--seed", "5", "--plan", "--spread", "1")
    answered(kept, "init, JSON", "campaign", *init, *planned)
    text = Path("spec.toml").read_text(encoding="utf-8")
    kept.say("spec", text)
    who, store = ("--who", "ann"), ("--store", "campaigns.db")
    answered(kept, "validate", "campaign", "validate", "spec.toml", "customers.csv")
    answered(kept, "create", "campaign", "create", "spec.toml", *who)
    for wave in range(1, 4):
        out = f"answers-{wave}.csv"
        assign = ("campaign", "assign", "spring", "customers.csv", "--draw", "--out")
        answered(kept, f"assign {wave}", *assign, out, *who)
        answers = pl.read_csv(out, schema_overrides={"id": pl.String})
        kept.keep(f"answers {wave}", answers)
        outcomes(answers.to_arrow(), people(900), seed=wave).write_csv(f"outcomes-{wave}.csv")
        spoken(kept, f"dry run {wave}", "campaign", "record", "spring", f"outcomes-{wave}.csv",
               "--dry-run")  # fmt: skip
        answered(kept, f"record {wave}", "campaign", "record", "spring", f"outcomes-{wave}.csv",
                 *who)  # fmt: skip
        answered(kept, f"close {wave}", "campaign", "close", "spring", "--wave", wave, *who)
        kept.text.pop(f"close {wave}", None)
    for view in ("status", "findings", "verify"):
        answered(kept, view, "campaign", view, "spring", *store)
    # The events of commands carry the time of the machine, and their hashes cover it.
    kept.text.pop("status")
    spoken(kept, "findings, told", "campaign", "findings", "spring", "--level", "0.9")
    answered(kept, "list", "campaign", "list")
    answered(kept, "events", "campaign", "show-event", "spring")


@task(1)
def what_is_refused(kept):
    base = (
        'seed = 1\nactions = ["a", "b"]\n[metrics.y]\n[objective]\nmaximise = "y"\n'
        "[grid]\nsizes = [9]\n"
    )
    specs = {
        "fine": f'name = "fine"\n{base}',
        "no name": base,
        "one action": f'name = "x"\n{base}'.replace(', "b"', ""),
        "floor": f'name = "x"\nfloor = 0.7\n{base}',
        "unknown": f'name = "x"\ncolour = "red"\n{base}',
        "policy": f'name = "x"\n{base}[policy]\nkind = "Best"\n',
        "control": f'name = "x"\ncontrol = "c"\n{base}',
        "no toml": "name = = 1",
    }
    for name, text in specs.items():
        Path(f"{name}.toml").write_text(text, encoding="utf-8")
        answered(kept, f"spec: {name}", "campaign", "create", f"{name}.toml")
    files = {
        "twice": "unit\n1\n1\n",
        "no ids": "customer\n1\n",
        "too many": "unit\n" + "\n".join(map(str, range(10))),
        "empty": "",
        "fits": "unit\n" + "\n".join(map(str, range(9))),
    }
    for name, text in files.items():
        Path(f"{name}.csv").write_text(text, encoding="utf-8")
        answered(kept, f"units: {name}", "campaign", "assign", "fine", f"{name}.csv", "--out",
                 f"{name}.out.csv")  # fmt: skip
    answered(kept, "close too early", "campaign", "close", "fine")
    held = "unit,y\n0,1\n0,2\n1,x\n2,\n99,1\n3,1e40\n4,1\n"
    Path("held.csv").write_text(held, encoding="utf-8")
    answered(kept, "held", "campaign", "record", "fine", "held.csv")
    answered(kept, "no such campaign", "campaign", "status", "none")
    answered(kept, "amend", "campaign", "amend", "fine", "--reason", "x", "--sizes", "3")
    answered(kept, "plan", "plan", "--units", "0", "--actions", "2", "--features", "2")


# The library without a campaign.

EXTRA = {
    "SBUCB": [{"gamma": 0.5, "first": "uniform", "ties": "random"}],
    "SupSBUCB": [{"explore": "widest", "first": "uniform"}, {"explore": "first"}],
    "BPE": [{"split": "needed", "first": "uniform"}],
    "SBPE": [{"first": "uniform", "ties": "random", "unknown": "avoid"}],
    "RBGL": [{"ridge": 0.1, "first": "uniform"}],
    "LBGL": [{"scale": 0.05}],
    "ThompsonSampling": [{"scale": 0.5}],
    "EpsilonGreedy": [{"epsilon": 0.3, "first": "uniform"}],
    "FixedAction": [{"action": 2}],
}
LAYOUTS = ("shared", "block", "disjoint")
STARTS_AS_PUBLISHED = (
    "SBUCB", "SupSBUCB", "LinUCB", "BPE", "SBPE", "RBGL", "ThompsonSampling", "EpsilonGreedy",
)  # fmt: skip


def names_of_policies():
    """Return what the command line lists."""
    return [row[0] for row in _rows(json.loads(command("policies", "--json")[1]))]


def _rows(listed):
    rows = listed["rows"] if isinstance(listed, dict) else listed
    return [list(row.values()) if isinstance(row, dict) else row for row in rows]


@task(1)
def policies(kept):
    from seqbatch import grids
    from seqbatch import policies as room

    kept.keep("names", names_of_policies())
    for name in names_of_policies():
        kind = getattr(room, name)
        grid = grids.explicit([60, 120, 180])
        if name == "LinUCB":
            grid = grids.online(units=40)
        # Lookahead weighs each action's own posterior, and refuses a model that all share.
        for layout in LAYOUTS[name == "Lookahead" :]:
            draw = np.random.default_rng([1, LAYOUTS.index(layout)])
            theta = draw.standard_normal(3 if layout == "shared" else (4, 3)) / 2
            # The published start, which is not every layout's default.
            plain = {"first": "fixed"} if name in STARTS_AS_PUBLISHED else {}
            plain = {"theta": theta} if name == "Oracle" else plain
            for number, options in enumerate([plain, *EXTRA.get(name, [])]):
                options = {**plain, **options} if name in STARTS_AS_PUBLISHED else options
                played = play(kind(**options), grid, layout, theta)
                kept.keep(f"{name} {number} {layout}", played)


def play(policy, grid, layout, theta):
    """Play a policy on random contexts; return its decisions and what it came to believe."""
    from seqbatch import Learner

    draw = np.random.default_rng([2, LAYOUTS.index(layout)])
    learner = Learner(policy, grid, actions=4, dim=3, layout=layout, seed=3)
    decisions, start = [], 0
    for end in grid.ends:
        count = end - start
        shape = (count, 3) if layout == "block" else (count, 4, 3)
        contexts = draw.standard_normal(shape) / 2
        decision = learner.assign(contexts)
        means = contexts @ theta.T if layout == "block" else (contexts * theta).sum(axis=-1)
        taken = means[np.arange(count), decision.actions]
        learner.observe(taken + 0.5 * draw.standard_normal(count))
        decisions.append(decision)
        start = end
    return {"decisions": decisions, "estimate": learner.estimate}


@task(0)
def eligible_limited_saved_and_replayed(kept):
    from seqbatch import Learner, grids
    from seqbatch import policies as room
    from seqbatch.allocation import Limits, limited, rounded

    draw = np.random.default_rng(9)
    contexts, rewards = draw.standard_normal((300, 3)), draw.standard_normal((300, 4))
    allowed = draw.random((300, 4)) < 0.7
    allowed[:, 0] = True
    limits = Limits(at_most=[np.inf, 30, 20, np.inf], at_least=[5, 0, 0, 10],
                    costs=[0, 1, 2, 0.5], budget=70)  # fmt: skip
    for name in ("SBUCB", "SupSBUCB", "SBPE", "ThompsonSampling", "BPE"):
        kind = getattr(room, name)
        made = [
            Learner(kind(first="fixed" if name == "ThompsonSampling" else "uniform"),
                    grids.explicit([100, 200, 300]), actions=4, dim=3, layout="block", seed=2)
            for _ in range(3)
        ]  # fmt: skip
        for start in (0, 100, 200):
            piece = slice(start, start + 100)
            for learner, options in zip(made[:2], (
                {"eligible": allowed[piece]},
                {"eligible": allowed[piece], "capacity": limits},
            ), strict=True):  # fmt: skip
                decision = learner.assign(contexts[piece], **options)
                learner.observe(rewards[piece][np.arange(100), decision.actions])
                kept.keep(f"{name} from {start} with {len(options)} rules", decision)
            made[0].save(f"{name}.learner")
            made[0] = Learner.load(f"{name}.learner")
        kept.keep(f"{name} replayed", made[2].replay(contexts, rewards, eligible=allowed))
        kept.keep(f"{name} estimate", [learner.estimate for learner in made])
    gains = draw.normal(size=(200, 4)) + np.array([0.0, 0.5, 1.0, 0.2])
    chosen = np.eye(4)[gains.argmax(axis=1)]
    shares = np.exp(gains) / np.exp(gains).sum(axis=1, keepdims=True)
    strata = draw.integers(0, 3, (200, 2))
    for name, table in (("chosen", chosen), ("shares", shares)):
        within = limited(gains, table, limits)
        kept.keep(f"limited {name}", within)
        drawn = rounded(within.probabilities, key=2026, strata=strata)
        kept.keep(f"rounded {name}", drawn)


@task(1)
def plans(kept):
    asked = {
        "features": ("--units", 3000, "--actions", 3, "--features", 2, "--max-batches", 2,
                     "--randomised", 0.1, "--floor", 0.02, "--missing", 0.1),
        "dim": ("--units", 3000, "--actions", 2, "--dim", 4, "--batches", 3, "--max-batches", 3,
                "--effect", 0.3, "--effect-spread", 1, "--noise", 1.5),
        "adversarial": ("--units", 5000, "--actions", 3, "--dim", 4, "--contexts", "adversarial"),
        "limited": ("--units", 4000, "--actions", 3, "--features", 2, "--batches", 2,
                    "--max-batches", 2, "--eligible", "1,0.6,0.3", "--capacity", "1,1,0.1"),
        "detect": ("--units", 9000, "--actions", 2, "--features", 2, "--batches", 2,
                   "--max-batches", 2, "--detect", 0.2),
    }  # fmt: skip
    for name, words in asked.items():
        answered(kept, name, "plan", *words)
    spoken(kept, "told", "plan", *asked["dim"])


@task(1)
def a_plan_made_anew(kept):
    from seqbatch import Statistics
    from seqbatch.planning import plan, replan

    before = plan(units=6_000, actions=2, features=1, batches=3, max_batches=3, quick=True)
    kept.keep("before", before.as_dict())
    draw = np.random.default_rng(1)
    rows = np.column_stack([np.ones(900), draw.standard_normal(900)])
    actions = draw.integers(0, 2, 900)
    rewards = 0.3 * actions * rows[:, 1] + draw.standard_normal(900)
    known = Statistics.zero(cells=2, dim=2).add(rows, rewards, actions)
    kept.keep("after", replan(before, seen=900, statistics=known, batches=2).as_dict())


COMPARISON = """
seed = 5
trials = 2
horizons = [400, 800]

[environments.sphere]
kind = "Sphere"
dim = 3
actions = 3

[environments.gaussian]
kind = "Gaussian"
dim = 3
actions = 3
eligible = [1.0, 0.6, 0.4]

[environments.student]
kind = "StudentT"
dim = 3
actions = 3

[policies.greedy]
kind = "SBPE"
grid = {kind = "minimax", batches = 3}

[policies.careful]
kind = "SBUCB"
gamma = 0.5
grid = {kind = "uniform", batches = 5}

[policies.split]
kind = "BPE"
grid = {kind = "geometric", batches = 3}

[policies.drawn]
kind = "ThompsonSampling"
grid = {kind = "explicit", shares = [0.1, 0.4, 1]}
"""


@task(1)
def simulations(kept):
    from seqbatch import environments, grids
    from seqbatch import policies as room
    from seqbatch.simulation import simulate

    Path("comparison.toml").write_text(COMPARISON, encoding="utf-8")
    answered(kept, "sweep", "simulate", "comparison.toml", "--out", "swept")
    worlds = {
        "Ball": {}, "CorrelatedGaussian": {}, "Gaussian": {}, "Sphere": {}, "StudentT": {},
        "Uniform": {},
    }  # fmt: skip
    grid = grids.explicit([200, 500])
    for name, options in worlds.items():
        world = getattr(environments, name)(dim=3, actions=3, **options)
        for method in ("direct", "auto"):
            run = simulate(room.SBPE(), world, grid, seed=4, method=method, checkpoints=[300])
            kept.keep(f"{name} {method}", run)
    world = environments.Gaussian(dim=3, actions=3)
    run = simulate(room.SBPE(), world, grid, seed=4, method="device", device="numpy")
    kept.keep("Gaussian on a device", run)
    adversary = environments.WorstCase(ends=grid.ends, dim=4)
    kept.keep("adversary", simulate(room.SBUCB(), adversary, grid, seed=4))
    big = grids.minimax(units=10**9, dim=5, batches=3)
    run = simulate(room.SBPE(), environments.Gaussian(dim=5, actions=4), big, seed=1)
    kept.keep("collapsed", run)


@task(1)
def inference(kept):
    from seqbatch import inference as room

    for name, options in {"all": {}, "clusters": {"clusters": 60}}.items():
        waves = logged_waves(**options)
        parts = [room.Declared("half"), room.Split(1, 0.0, "x")]
        shares = [0.5, 0.3, 0.2]
        sums = room.summarise(waves, partitions=parts)
        plan = room.plan_of_shares([300, 250, 200], actions=3, randomised=0.2, floor=0.02)
        lifts = [room.Lift(1), room.Lift(2)]
        found = {
            "pooled": [room.pool(sums, one, shares) for one in (*lifts, room.Mean(0))],
            "by size": [room.pool_by_size(sums, one) for one in (*lifts, room.Gain(1))],
            "waves": [room.estimate_wave(one, room.Lift(2)) for one in sums],
            "run": room.run_value(sums),
            "best": room.gain_over_best([room.pool_by_size(sums, room.Gain(a)) for a in range(3)]),
            "looks": [room.look(sums, one, shares, rule=rule, power=0.9)
                      for one in lifts for rule in ("obrien-fleming", "pocock", "none")],
            "anytime": room.anytime(sums, room.Lift(1), plan),
            "together": room.simultaneous_lifts(sums),
            "selected": room.selected_action(
                room.simultaneous_lifts(sums), room.control_loadings(sums)
            ),
            "drift": room.drift(sums),
            "next": {"rule": room.judge_next_rule(waves[-1], sums)},
            "segments": [room.within_segments(sums, one, parts) for one in lifts],
            "splits": room.strongest_splits(waves, room.Lift(2)),
            "naive": room.naive_lift(sums[-1], 2),
            "coefficients": room.lift_coefficients(waves, 1, shares),
            "evaluated": room.evaluate(waves[0], np.tile([0.2, 0.3, 0.5], (waves[0].count, 1))),
        }  # fmt: skip
        # What comes next is a rule, and no words.
        found["rule to run"] = found.pop("next")
        if name == "all":
            found["latest"] = [room.latest_lift(sums, one) for one in lifts]
            found["feedback"] = room.open_bandit_feedback(waves[1])
            found["lines"] = [line.split() for line in room.vowpal_wabbit_lines(waves[2])]
        for key, value in found.items():
            kept.keep(f"{name} {key}", value)
        kept.keep(f"{name} plan", plan)
    times = [0.3, 0.7, 1.0]
    for rule in ("obrien-fleming", "pocock"):
        bounds = room.boundaries(times, rule=rule)
        kept.keep(rule, {
            "bounds": bounds,
            "futility": room.futility_boundaries(times, rule=rule),
            "spent": [room.spent(t, rule=rule) for t in times],
            "chances": room.chances_to_stop(times, [0.8, 1.9, 2.8], rule=rule),
        })  # fmt: skip
    kept.keep("error of looks", room.error_of_looks(times, bound=1.96))
    kept.keep("holm", room.holm([0.01, 0.04, 0.03]))
    kept.keep("dunnett", room.dunnett_critical([0.7, 0.6, 0.5], df=20))
    error = room.planned_error([300, 250], actions=3, randomised=0.1, floor=0.02, columns=4,
                               noise=1.0, returned=0.9)  # fmt: skip
    kept.keep("planned error", [error, room.detectable_lift(error)])
    share = room.share_when_assigned(spent=[0.4], units=200, cost=3.0, planned_rest=150.0)
    kept.keep("share", share)


def logged_waves(clusters=None):
    """Return waves whose probabilities depend on features, as their outcomes do."""
    from seqbatch.inference import Rows

    draw, waves = np.random.default_rng(6), []
    for wave, count in enumerate((300, 250, 200)):
        x = np.column_stack([np.ones(count), draw.standard_normal((count, 2))])
        pull = np.exp(np.outer(x[:, 1], np.arange(3)) * (0.8 if wave else 0.0))
        p = 0.06 + 0.82 * pull / pull.sum(axis=1, keepdims=True)
        actions = (draw.random(count)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)
        y = 2 + x[:, 1] * (1 + 0.3 * actions) + 0.3 * actions + draw.standard_normal(count)
        y[draw.random(count) < 0.15] = np.nan
        shared = None if clusters is None else draw.integers(0, clusters, count)
        halves = {"half": np.where(x[:, 2] > 0, "right", "left")}
        waves.append(Rows.of(x, actions, p, y, clusters=shared, groups=halves))
    return waves


@task(1)
def grids_and_bounds(kept):
    from seqbatch import grids, theory

    made = {
        "uniform": grids.uniform(units=1_000, batches=7),
        "minimax": grids.minimax(units=100_000, dim=5, batches=4),
        "scaled": grids.minimax(units=100_000, dim=5, batches=3, scale=0.4),
        "geometric": grids.geometric(units=100_000, dim=5, batches=4),
        "sparse": grids.sparse(units=100_000, sparsity=5, batches=3),
        "online": grids.online(units=5),
    }
    kept.keep("grids", {name: grid.ends for name, grid in made.items()})
    ends, size = made["minimax"].ends, {"units": 100_000, "dim": 5}
    kept.keep("bounds", {
        "multiplier": theory.confidence_multiplier(units=100_000, actions=4),
        "maximum": [theory.expected_maximum(k) for k in (2, 3, 10)],
        "norm": theory.expected_largest_norm(4, 5),
        "upper": theory.sbucb_upper_bound(**size, actions=4, batches=4),
        "adversarial": theory.adversarial_lower_bound(**size, batches=4),
        "stochastic": theory.stochastic_lower_bound(**size, actions=4, batches=4),
        "certified": theory.certified_lower_bound_on(ends, dim=5, actions=4),
        "prior": theory.prior_lower_bound_on(ends, dim=5, actions=4, spread=0.3),
        "dependent": theory.problem_dependent_lower_bound(**size, actions=4, batches=4),
        "batches": [
            theory.adversarial_batches_for_online(**size),
            theory.stochastic_batches_for_online(**size),
            theory.problem_dependent_batches_for_online(**size),
        ],
    })  # fmt: skip


# Running and comparing.


def run(out, *, only=""):
    """Run tasks in two processes, and write what came out; return how many failed."""
    started, source = time.perf_counter(), Path(seqbatch.__file__).parent
    print(f"seqbatch of {source}", flush=True)
    kernels = folder_of_kernels(source)
    held = alone(kernels)
    with tempfile.TemporaryDirectory() as folder, held or contextlib.nullcontext():
        kernels = kernels if held else Path(folder) / "kernels"
        workers = [
            subprocess.Popen(
                [sys.executable, "-P", "-W", "ignore", str(Path(__file__).resolve()), "part",
                 folder, str(number), str(source), "--only", only],
                env=surroundings(kernels / str(number)),
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(PROCESSES)
        ]  # fmt: skip
        relay(workers)
        if any(worker.wait() for worker in workers):
            print("a process ended early", flush=True)
        names = [name for name in TASKS if only in name]
        made = {name: read(Path(folder) / name / "came-out.json") for name in names}
    failed = [name for name, found in made.items() if found is None or "failed" in found]
    about = {"source": str(source), "python": sys.version.split()[0], "numpy": np.__version__}
    groups = {
        group: {name: (found or {}).get(group, {}) for name, found in made.items()}
        for group in ("bits", "text")
    }
    failures = {name: (made[name] or {}).get("failed", "no answer") for name in failed}
    whole = {"about": about, "failed": failures, **groups}
    Path(out).write_text(json.dumps(whole, separators=(",", ":")), encoding="utf-8")
    took = time.perf_counter() - started
    count = f"{len(made)} kinds, {len(failed)} of them failed"
    print(f"{count}; {took:.0f} seconds; written to {out}", flush=True)
    return len(failed)


def folder_of_kernels(source):
    """Return a folder for what is compiled of these very sources, and remove those before it.

    Compiled code that is found by its own file alone would outlive a change of what it calls.
    """
    made = hashlib.sha256()
    for file in sorted(source.rglob("*.py")):
        made.update(str(file.relative_to(source)).encode() + file.read_bytes())
    base = Path(tempfile.gettempdir())
    name = f"same-bits-{hashlib.sha256(str(source).encode()).hexdigest()[:12]}-"
    folder = base / f"{name}{made.hexdigest()[:12]}"
    for old in base.glob(f"{name}*"):
        if old.is_dir() and old != folder and (held := alone(old)):
            shutil.rmtree(old, ignore_errors=True)
            Path(held.name).unlink(missing_ok=True)
            held.close()
    return folder


def alone(folder):
    """Return a file that is held as long as it is open; None where another run holds it.

    Processes that add to the same compiled code at once might load one kernel for another.
    """
    import fcntl

    held = folder.with_name(f"{folder.name}.lock").open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.close()
        return None
    return held


def surroundings(kernels):
    """Return the environment of a process: kernels of its own, one thread for linear algebra."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    made = {**os.environ, **dict.fromkeys(threads, "1"), "NUMBA_CACHE_DIR": str(kernels)}
    for name in ("COLUMNS", "SEQBATCH_STORE", "NO_COLOR", "FORCE_COLOR"):
        made.pop(name, None)
    return made


def relay(workers):
    """Print what the processes print, as it comes."""
    from threading import Thread

    def pass_on(worker):
        for line in worker.stdout:
            print(line, end="", flush=True)

    threads = [Thread(target=pass_on, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read(path):
    """Return what is in a file of JSON, None where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def part(folder, number, source, only):
    """Do the tasks of one process, each in a folder of its own."""
    if str(Path(seqbatch.__file__).parent) != source:
        sys.exit(f"seqbatch is another one here: {seqbatch.__file__}")
    parent = os.getppid()
    for name, (lane, function) in TASKS.items():
        if lane != number or only not in name:
            continue
        if os.getppid() != parent:
            sys.exit("nobody waits for this process any more")
        place = Path(folder) / name
        place.mkdir()
        os.chdir(place)
        kept, started, failed = Kept(), time.perf_counter(), {}
        try:
            with known_chance():
                function(kept)
        except Exception:
            failed = {"failed": traceback.format_exc()}
            print(failed["failed"], flush=True)
        made = {"bits": kept.bits, "text": kept.text, **failed}
        Path("came-out.json").write_text(json.dumps(made), encoding="utf-8")
        print(f"{time.perf_counter() - started:6.1f} s  {name}", flush=True)


def differences(one, other, path=""):
    """Yield the path of every value that differs, and both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in [*one, *(name for name in other if name not in one)]:
            pair = one.get(name, NOTHING), other.get(name, NOTHING)
            yield from differences(*pair, f"{path}/{name}")
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{path} (length)", len(one), len(other)
        for place, pair in enumerate(zip(one, other, strict=False)):
            yield from differences(*pair, f"{path}[{place}]")
    # By their spelling: 0.0 is not -0.0, 1 is not 1.0, and NaN is NaN.
    elif type(one) is not type(other) or repr(one) != repr(other):
        yield path, one, other


def shown(value):
    """Return a value as one short line."""
    if value is NOTHING:
        return "(nothing)"
    said = re.sub(r"\s+", " ", json.dumps(value, ensure_ascii=False))
    return said if len(said) <= 100 else f"{said[:97]}..."


def show(where, found, most):
    """Print differences, of those that stand in one column or list the first ones; 0: all."""
    alike = {}
    for path, one, other in found:
        alike.setdefault(re.sub(r"\[\d+\]", "[]", path), []).append((path, one, other))
    for column, rows in alike.items():
        for path, one, other in rows[: most or None]:
            print(f"{where}{path}: {shown(one)} -> {shown(other)}")
        if most and len(rows) > most:
            print(f"{where}{column}: {len(rows) - most:,} more (--most 0 shows all)")


def compare(first, second, *, text=False, most=MOST, only=""):
    """Print what differs between two files; return how many values do."""
    one, other = (json.loads(Path(file).read_text(encoding="utf-8")) for file in (first, second))
    total = looked = 0
    for which, found in ((first, one), (second, other)):
        for name, why in found["failed"].items():
            total += 1
            print(f"{which}: {name} failed: {why.strip().splitlines()[-1]}")
    for group in ("bits", "text") if text else ("bits",):
        for name in {**one[group], **other[group]}:
            if only not in name:
                continue
            pair = one[group].get(name, NOTHING), other[group].get(name, NOTHING)
            found = list(differences(*pair))
            show(f"{group}/{name}", found, most)
            total, looked = total + len(found), looked + leaves(pair[0])
    print(f"{total:,} differences; {looked:,} values were compared")
    return total


def leaves(value):
    """Return how many single values there are."""
    if isinstance(value, dict | list):
        return sum(map(leaves, value.values() if isinstance(value, dict) else value))
    return 1


def main():
    """Run or compare; the exit code is 1 where something failed or differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("run", help="run everything, and write what came out")
    made.add_argument("out", help="the file to write, .json")
    made = commands.add_parser("compare", help="print what differs between two files")
    made.add_argument("first")
    made.add_argument("second")
    made.add_argument("--text", action="store_true", help="compare words and hashes of events too")
    made.add_argument("--most", type=int, default=MOST, help="shown of each column; 0: all")
    made = commands.add_parser("part")
    made.add_argument("folder")
    made.add_argument("number", type=int)
    made.add_argument("source")
    for each in commands.choices.values():
        each.add_argument("--only", default="", help="kinds whose name holds this text")
    asked = parser.parse_args()
    if asked.command == "part":
        part(asked.folder, asked.number, asked.source, asked.only)
        return 0
    if asked.command == "run":
        return 1 if run(asked.out, only=asked.only) else 0
    found = compare(asked.first, asked.second, text=asked.text, most=asked.most, only=asked.only)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
