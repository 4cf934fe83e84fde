"""A rehearsed campaign is the campaign that commands would run: the same bits."""

import json
from datetime import datetime
from unittest.mock import Mock

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.memory_store import MemoryStore
from seqbatch.campaign.rehearsal.population import Population, World, population
from seqbatch.campaign.rehearsal.rehearsal import rehearsable
from seqbatch.campaign.rehearsal.rehearsed_campaign import START, Clock, Rehearsing
from seqbatch.campaign.rehearsal.truth import read_truth
from seqbatch.campaign.rehearsal.undeclared_truths import truths_of
from seqbatch.campaign.spec import masking
from seqbatch.storage import open_store
from tests.campaign.rehearsal.specs import (
    BLOCKS,
    LIMITED,
    MAIL,
    MAIL_TRUTH,
    MASKED,
    PLAIN,
    TRIAL,
    TRIAL_TRUTH,
    listed,
)


def watch(monkeypatch, calls):
    """Keep what a rehearsal gives to each step, with its time."""

    def of(campaign):
        return campaign._logbook.clock.now

    record, close, replan = Campaign.record, Campaign.close, Campaign.replan
    wave = Population.wave

    def recording(self, table, **options):
        calls.append(("record", of(self), pl.DataFrame(table)))
        return record(self, table, **options)

    def closing(self, **options):
        result = close(self, **options)
        calls.append(("close", of(self), options))
        return result

    def replanning(self, **options):
        if options:
            calls.append(("replan", of(self), options))
        return replan(self, **options)

    def drawing(self, rows, ids):
        # A wave is assigned a while after the last call.
        calls.append(["assign", None, (rows, ids.to_pylist())])
        return wave(self, rows, ids)

    monkeypatch.setattr(Campaign, "record", recording)
    monkeypatch.setattr(Campaign, "close", closing)
    monkeypatch.setattr(Campaign, "replan", replanning)
    monkeypatch.setattr(Population, "wave", drawing)


def kept(store, name):
    """Return what a campaign decided, knew and found."""
    with store.read(name) as reader:
        decisions = [unpack(one.decided).to_pydict() for one in reader.unit_chunks(given=False)]
        states = [one.content for one in reader.states()]
        events = [(one.kind, one.at, one.counts) for one in reader.events()]
        payloads = [one.payload for one in reader.events() if one.kind in ("close", "amend")]
    return decisions, states, events, json.dumps(payloads)


@pytest.mark.parametrize(
    ("spec", "truth", "number"),
    [
        (PLAIN, {"none": 0.2, "mail": 0.5}, 0),
        (MAIL, MAIL_TRUTH, 1),
        (TRIAL, TRIAL_TRUTH, 1),
        (BLOCKS, MAIL_TRUTH, 2),
        (LIMITED, MAIL_TRUTH, 0),
        (MASKED, MAIL_TRUTH, 3),
    ],
    ids=lambda one: one.get("name") if isinstance(one, dict) else "",
)
def test_it_equals_the_campaign_that_commands_run_from_files_through_sqlite(
    spec, truth, number, tmp_path, monkeypatch
):
    listed(400).write_csv(tmp_path / "customers.csv")
    prepared = rehearsable(spec)
    units = population(prepared.now, Source(tmp_path / "customers.csv"))
    declared = read_truth(truth, prepared.now, units.levels)
    world = World.of(truths_of(prepared.now, [declared])[1], prepared.now, units)
    calls = []
    watch(monkeypatch, calls)
    memory = MemoryStore()
    rehearsed = Rehearsing(prepared, units, 5).run(world, number, memory)
    monkeypatch.undo()
    seed = rehearsed.now.spec.seed
    assert seed != prepared.now.spec.seed
    clock, store = Clock(), open_store(tmp_path / "campaigns.db")
    key = tmp_path / "key" if spec is MASKED else None
    # A masked campaign is the rehearsed one but for the order of its actions, which is secret.
    monkeypatch.setattr(masking.secrets, "SystemRandom", lambda: Mock(spec=["shuffle"]))
    campaign = Campaign.create(
        {**spec, "seed": seed}, store=store, who="rehearsal", clock=clock, key=key
    )
    with memory.read(spec["name"]) as reader:
        times = [one.at for one in reader.events() if one.kind == "assign"]
    for place, (what, at, given) in enumerate(calls):
        clock.now = at or datetime.fromisoformat(times.pop(0))
        file = tmp_path / f"{place}.csv"
        if what == "assign":
            raw = pl.read_csv(tmp_path / "customers.csv", infer_schema=False)
            raw[given[0]].with_columns(customer=pl.Series(given[1])).write_csv(file)
            campaign.assign(file)
        elif what == "record":
            pl.DataFrame(given).write_csv(file)
            campaign.record(file, **({"equal_rows": "keep"} if spec is TRIAL else {}))
        elif what == "close":
            campaign.close(**given)
            if key:
                campaign.look(key)
        else:
            campaign.replan(adopt=True, reason="rehearsal")
    real, made = kept(store, spec["name"]), kept(memory, spec["name"])
    # A masked campaign has codes in place of names, and keeps what its looks need apart.
    assert real[0] == made[0]
    assert key or real == made
    found = campaign.findings(key=key)
    assert json.dumps(found.plain()) == json.dumps(rehearsed.found.plain())
    assert found.lifts
    assert {what for what, _, _ in calls} >= {"assign", "record", "close"}
    assert kept(store, spec["name"])[2][0][1] == START.isoformat(timespec="microseconds")
    store.close()
