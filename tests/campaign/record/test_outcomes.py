"""Random sequences of files against a dictionary: absences, corrections, late rows, metrics."""

import copy

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import pack, unpack_state
from seqbatch.campaign.record.outcomes import ABSENT, ACCEPTED, VERDICTS, Ledger, Newest
from seqbatch.campaign.record.store import OutcomeChunk
from seqbatch.storage import open_store
from tests.oracles.outcomes import Outcomes, TwoValuesError, Unit
from tests.refusals import refused

SIZES = [24, 18, 12]
WEIGHTS = {"revenue": 1.0, "returned": -0.5}
COSTS = {"none": 0.0, "mail": 0.25, "call": 1.5}
METRICS = ("revenue", "returned", "visits", "unsubscribed")


def spec(direction, absents):
    metrics = {name: {"unit": "EUR"} for name in WEIGHTS}
    for name, value in absents.items():
        metrics[name]["absent"] = value
    verb = "maximise" if direction == "max" else "minimise"
    return {
        "name": "random", "seed": 3, "unit": ["customer", "week"], "cluster": "customer",
        "actions": [{"name": name, "cost": cost} for name, cost in COSTS.items()],
        "randomised": 1.0, "currency": "EUR", "objective": {verb: WEIGHTS, "less_costs": True},
        "grid": {"sizes": SIZES}, "policy": {"kind": "SBPE"}, "required_outcomes": 0.0,
        "metrics": {
            **metrics, "visits": {"kind": "count"}, "unsubscribed": {"kind": "yes/no"},
        },
    }  # fmt: skip


class Play:
    """One random campaign, and the dictionary beside it."""

    def __init__(self, campaign, oracle, random, tmp_path):
        self.campaign, self.oracle = campaign, oracle
        self.random, self.tmp_path = random, tmp_path

    def assign(self, count):
        wave = self.oracle.wave
        keys = [(f"c|{n % 7}", f"w\\{wave}{n}") for n in range(count)]
        frame = pl.DataFrame(keys, schema=["customer", "week"], orient="row")
        table = pl.from_arrow(self.campaign.assign(frame).table)
        assert table.select("customer", "week").rows() == keys
        for key, action in zip(keys, table["action"], strict=True):
            self.oracle.units[key] = Unit(wave, action)

    def rows(self):
        """Return rows with some of the metrics, each of which may be empty in a row."""
        known = list(self.oracle.units)
        some = [known[n] for n in self.random.integers(0, len(known), self.random.integers(1, 12))]
        some += [("nobody", "w")] * int(self.random.random() < 0.2)
        there = [name for name in METRICS if self.random.random() < 0.7] or ["visits"]
        return [(key, self.row(there)) for key in some]

    def row(self, there):
        def pick(*values):
            return values[self.random.integers(len(values))]

        every = {
            "revenue": pick(None, 5.0, 5.0, 10.0),
            "returned": pick(None, 0.0, 0.0, 1.0),
            "visits": pick(None, 1.0, 1.0, 3.0),
            "unsubscribed": pick(None, 0.0, 1.0),
        }
        return {name: every[name] for name in there}

    def record(self):
        rows, correct = self.rows(), bool(self.random.random() < 0.4)
        flat = [{"customer": key[0], "week": key[1], **row} for key, row in rows]
        frame = pl.DataFrame(flat, schema_overrides=dict.fromkeys(METRICS, pl.Float64))
        before = copy.deepcopy(self.oracle)
        try:
            expected = self.oracle.record(rows, correct=correct)
        except TwoValuesError:
            assert self.oracle == before
            with refused("several-rows"):
                self.campaign.record(frame, correct=correct, reason="as it is")
            return
        result = self.campaign.record(frame, correct=correct, reason="as it is")
        assert {name: getattr(result, name) for name in expected} == expected
        assert sum(count for _, _, count in result.reasons) == result.conflict + result.quarantined

    def close(self):
        wave = [unit for unit in self.oracle.units.values() if unit.wave == self.oracle.wave]
        recorded = sum(self.oracle.complete(unit) for unit in wave)
        closed = self.campaign.close(force=True, reason="as it is")
        self.oracle.close()
        assert sum(closed.observed.values()) == recorded
        absent = sum(self.oracle.observed(unit) == "absent" for unit in wave)
        assert sum(closed.absent.values()) == absent
        self.check_learned()

    def check_learned(self):
        with self.campaign.store.read("random") as reader:
            state = unpack_state(reader.last_state().content, self.campaign.situation())
        [evidence] = state.evidence
        for place, action in enumerate(COSTS):
            count, total, squares = self.oracle.learned(action)
            assert evidence.count[place] == count
            assert evidence.moment[place, 0] == pytest.approx(total, abs=1e-9)
            assert evidence.squares[place] == pytest.approx(squares, abs=1e-9)

    def check_views(self):
        out = self.tmp_path / "u.parquet"
        self.campaign.export(out, force=True)
        rows = pl.read_parquet(out).to_dicts()
        assert len(rows) == len(self.oracle.units)
        for row in rows:
            unit = self.oracle.units[row["customer"], row["week"]]
            assert row["reward"] == self.oracle.reward(unit)
            if not unit.absent:
                assert row["observed"] == self.oracle.observed(unit)
            for column in METRICS:
                assert row[column] == unit.cells.get(column)


@pytest.mark.parametrize("seed", [*range(6), *(
    pytest.param(seed, marks=pytest.mark.thorough) for seed in range(6, 12)
)])  # fmt: skip
def test_random_files_against_a_dictionary(tmp_path, seed):
    random = np.random.default_rng(seed)
    direction = "max" if seed % 2 else "min"
    absents = [{"revenue": 0.0, "returned": 0.0}, {}, {"revenue": -2.5, "returned": 3.0}][seed % 3]
    store = open_store(tmp_path / "c.db")
    campaign = Campaign.create(spec(direction, absents), store=store)
    oracle = Outcomes(WEIGHTS, COSTS, 1.0 if direction == "max" else -1.0, absents)
    play = Play(campaign, oracle, random, tmp_path)
    for size in SIZES:
        play.assign(size)
        for _ in range(random.integers(1, 9)):
            play.record()
        play.check_views()
        play.close()
    play.record()
    play.check_views()
    found = campaign.verify()
    assert found.sound, found.findings
    store.close()


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_of_each_unit_is_that_of_the_whole_ledger(seed):
    """Several versions of a unit within a chunk and over chunks, absences, rows that were held."""
    random, units, given = np.random.default_rng(seed), 30, np.zeros(30, dtype=np.int64)
    chunks, valued_units, gone = [], set(), set()
    for event in range(1, 6):
        rows = []
        for number in random.integers(0, units, random.integers(0, 25)).tolist():
            if number not in gone and not given[number] and random.random() < 0.2:
                gone.add(number)
                rows.append((number, 0, float(random.random()), ABSENT))
                continue
            given[number] += 1
            accepted = random.random() < 0.9
            verdict = VERDICTS.index(ACCEPTED) if accepted else 3
            # A version without a value has metrics, but no reward; later ones keep a value.
            valued = number in valued_units or random.random() < 0.8
            valued_units |= {number} if valued and accepted else set()
            value = float(random.random()) if valued else np.nan
            rows.append((number, int(given[number]), value, verdict))
        random.shuffle(rows)
        columns = list(zip(*rows, strict=True)) or [()] * 4
        types = (pa.int64(), pa.int32(), pa.float64(), pa.int8())
        table = pa.table(
            [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)],
            names=["number", "version", "value", "verdict"],
        )
        chunks.append(OutcomeChunk(chunk=event, event=event, count=len(rows), rows=pack(table),
                                   hash=""))  # fmt: skip
    whole, newest = Ledger.of(chunks).known().rewarded(), Newest.of(chunks, units)
    expected = np.full(units, np.nan)
    expected[whole.numbers] = whole.values
    for low, high in ((0, units), (7, 19)):
        part = whole.within(low, high)
        assert np.array_equal(newest.within(low, high), expected[low:high], equal_nan=True)
        assert newest.counts(low, high) == (len(part), int(part.absent.sum()))
