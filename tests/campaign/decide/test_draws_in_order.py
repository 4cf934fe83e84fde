"""Permuted blocks and minimisation: balanced over files, calls and processes, by exact chances."""

from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide import decision
from seqbatch.campaign.decide.draws import draws
from seqbatch.campaign.decide.draws_in_order import block, draw_in_order
from seqbatch.campaign.record.current_situation import situation
from seqbatch.campaign.steps.create import begun, prepare
from seqbatch.campaign.views.history import public
from seqbatch.errors import InvalidFileError, InvalidSpecError
from seqbatch.storage import open_store
from tests.campaign.instances import SPEC, outcomes, units
from tests.campaign.specs import about
from tests.oracles.draws_in_order import Wave
from tests.refusals import refused

TRIAL = {
    "name": "trial", "seed": 7, "unit": "id", "actions": ["a", "b", "c"],
    **about("y"), "policy": {"kind": "UniformRandom"}, "grid": {"sizes": [90, 90]},
}  # fmt: skip
KINDS = {
    "blocks": {"draw": "blocks", "block_sizes": [3, 6], "strata": ["centre", "sex"]},
    "minimise": {"draw": "minimise", "biased_coin": 0.7, "strata": ["centre", "sex"]},
}


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def patients(count, *, start=0, seed=0):
    random = np.random.default_rng([seed, start])
    return pl.DataFrame(
        {
            "id": [f"p{number}" for number in range(start, start + count)],
            "centre": random.choice(["north", "south", "Ö"], count, p=[0.6, 0.3, 0.1]),
            "sex": random.choice(["f", "m"], count),
        }
    )


def trial(store, kind, **changes):
    return Campaign.create({**TRIAL, **KINDS[kind], **changes}, store=store, who="ann")


def in_calls(campaign, frame, sizes):
    """Assign units in calls of these sizes, over and over; return all answers."""
    found, start = [], 0
    while start < len(frame):
        size = sizes[len(found) % len(sizes)]
        found.append(pl.from_arrow(campaign.assign(frame[start : start + size]).table))
        start += size
    return pl.concat(found)


@pytest.mark.parametrize("kind", KINDS)
def test_an_adaptive_campaign_is_that_of_the_oracle(store, kind):
    """Balanced are the first wave and, later, the part of the probabilities that is equal."""
    changes = {
        **KINDS[kind], "strata": ["zip", "ward"], "policy": {"kind": "ThompsonSampling"},
        "grid": {"sizes": [80, 60, 40]},
    }  # fmt: skip
    campaign = Campaign.create({**SPEC, **changes}, store=store)
    kept = KINDS[kind]
    balanced = 0
    for wave, (start, count) in enumerate([(0, 80), (80, 60), (140, 40)], start=1):
        random = np.random.default_rng(wave)
        frame = units(count, start=start).with_columns(
            ward=pl.Series(random.choice(["x", "y z", "Ü"], count))
        )
        table = in_calls(campaign, frame, [1, 7, 30])
        names = SPEC["actions"]
        oracle = Wave(
            seed=SPEC["seed"], campaign=SPEC["name"], number=wave, K=3,
            sizes=kept.get("block_sizes", ()), favour=kept.get("biased_coin"),
            columns=("zip", "ward"),
        )  # fmt: skip
        own = draws(SPEC["seed"], SPEC["name"], frame["id"].to_list())
        chances = table.select(f"p({name})" for name in names).to_numpy()
        expected = [
            names[oracle.next(q.tolist(), values, randomised, choice)]
            for q, values, randomised, choice in zip(
                chances, frame.select("zip", "ward").rows(), own.randomised, own.choice, strict=True
            )
        ]
        assert table["action"].to_list() == expected
        least = 3 * chances.min(axis=1)
        assert (least > 0.24).all()
        balanced += int((own.randomised < least)[least < 0.9].sum())
        campaign.record(outcomes(table.to_arrow(), seed=wave))
        campaign.close()
    assert balanced > 10
    assert campaign.verify().sound


@pytest.mark.parametrize("kind", KINDS)
def test_calls_retries_and_refusals_do_not_change_the_sequence(store, tmp_path, kind):
    frame = patients(90)
    whole = pl.from_arrow(trial(store, kind).assign(frame).table)
    other = open_store(tmp_path / "other.db")
    campaign, found = trial(other, kind), []
    for start in range(0, 90, 30):
        part = frame[start : start + 30]
        with pytest.raises(InvalidFileError):
            campaign.assign(part.with_columns(sex=pl.lit(None, pl.String)))
        for size in (1, 3, 5):
            table = pl.from_arrow(campaign.assign(part[:size] if size < 5 else part).table)
        # A repeated call gives the same answers and no new place.
        assert pl.from_arrow(campaign.assign(part[::-1]).table)["action"][::-1].equals(
            table["action"]
        )
        found.append(table)
    assert pl.concat(found).equals(whole)
    assert campaign.verify().sound
    # The state after all events is that of the newest one.
    assert situation(campaign.events()).by_stratum == campaign.situation().by_stratum
    other.close()


def in_waves(campaign, frame, sizes):
    """Assign waves of these sizes, a few units a call, and close them; return their actions."""
    actions, start = [], 0
    for size in sizes:
        part = frame[start : start + size]
        actions += in_calls(campaign, part, [1, 2, 17])["action"].to_list()
        campaign.record(part.select("id").with_columns(y=pl.int_range(size) % 7 + 0.5))
        campaign.close()
        start += size
    return actions


def from_oracle(frame, kind, wave, K=3):
    """Return the actions of units in one sequence of blocks or minimised units, by plain counts."""
    own = draws(TRIAL["seed"], TRIAL["name"], frame["id"].to_list())
    oracle = Wave(
        seed=TRIAL["seed"], campaign=TRIAL["name"], number=wave, K=K,
        sizes=KINDS[kind].get("block_sizes", ()), favour=KINDS[kind].get("biased_coin"),
        columns=("centre", "sex"),
    )  # fmt: skip
    rows = zip(frame.select("centre", "sex").rows(), own.randomised, own.choice, strict=True)
    return ["abc"[oracle.next([1 / K] * K, *row)] for row in rows]


def test_every_full_block_has_every_action_equally_often(store):
    sizes = [35, 55, 90]
    campaign = trial(store, "blocks", block_sizes=[6], grid={"sizes": sizes})
    frame = patients(180)
    given = frame.with_columns(action=pl.Series(in_waves(campaign, frame, sizes)))
    for _, rows in given.group_by("centre", "sex", maintain_order=True):
        own = rows["action"].to_list()
        for start in range(0, len(own) - 5, 6):
            assert set(Counter(own[start : start + 6]).values()) == {2}
    assert campaign.verify().sound


@pytest.mark.parametrize("kind", KINDS)
def test_equal_shares_are_balanced_over_all_waves(store, kind):
    """One sequence, until an action is retired: then another one begins."""
    campaign = trial(store, kind, grid={"sizes": [25, 40, 30, 20]})
    frame = patients(115)
    assert in_waves(campaign, frame, [25, 40]) == from_oracle(frame[:65], kind, 1)
    campaign.amend(retire=["c"], reason="too bitter")
    assert in_waves(campaign, frame[65:], [30, 20]) == from_oracle(frame[65:], kind, 3, K=2)
    assert campaign.verify().sound


@pytest.mark.parametrize("kind", KINDS)
def test_a_campaign_that_began_anew_in_every_wave_verifies(store, kind):
    """Campaigns whose first event names no balance over waves were created so."""
    new = prepare({**TRIAL, **KINDS[kind], "grid": {"sizes": [25, 40]}})
    payload = {name: own for name, own in new.payload.items() if name != "balance"}
    assert len(payload) < len(new.payload)
    campaign = Campaign.create(replace(new, payload=payload, now=begun(payload)), store=store)
    frame = patients(65)
    expected = from_oracle(frame[:25], kind, 1) + from_oracle(frame[25:], kind, 2)
    assert in_waves(campaign, frame, [25, 40]) == expected
    assert campaign.verify().sound


def test_blocks_after_an_action_was_retired_or_added():
    """A size that is no multiple any more: each action has its share, rounded up or down."""
    found = [
        block(seed, "trial", wave=2, stratum="s", number=3, sizes=[6, 9], actions=4)
        for seed in range(4_000)
    ]
    assert {len(one) for one in found} == {6, 9}
    assert all(
        len(one) // 4 <= one.count(a) <= -(-len(one) // 4) for one in found for a in range(4)
    )
    # Of every place, the actions are equally likely.
    for place in range(6):
        counts = np.bincount([one[place] for one in found], minlength=4)
        assert np.abs(counts - 1_000).max() < 4 * np.sqrt(750)
    assert abs(sum(len(one) == 6 for one in found) - 2_000) < 4 * np.sqrt(1_000)


@pytest.mark.parametrize("kind", KINDS)
def test_before_the_wave_every_action_is_equally_likely_for_every_unit(store, kind):
    """The logged probability: over seeds, whatever the unit's stratum and place, and exactly so.

    Units of an adaptive wave have other probabilities; those are exact, too.
    """
    now = trial(store, kind).situation()
    frame = patients(12, seed=3)
    values = [pa.chunked_array([frame[name].to_list()]) for name in ("centre", "sex")]
    table = np.full((12, 3), 1 / 3)
    table[8:10] = [0.6, 0.25, 0.15]
    counts, trials = np.zeros((12, 3)), 3_000
    for seed in range(trials):
        here = replace(now, spec=now.spec.model_copy(update={"seed": seed}))
        drawn = draws(seed, "trial", frame["id"].to_list())
        actions = draw_in_order(here, table, drawn, values).actions
        counts[np.arange(12), actions] += 1
    errors = (counts - trials * table) / np.sqrt(trials * table * (1 - table))
    assert np.abs(errors).max() < 4


@pytest.mark.parametrize("kind", KINDS)
def test_before_the_first_unit_every_action_is_equally_likely_in_every_wave(store, kind):
    """Over seeds, also for the units of a second wave that goes on with open blocks and counts."""
    now = trial(store, kind).situation()
    frame = patients(14, seed=3)
    values = [pa.chunked_array([frame[name].to_list()]) for name in ("centre", "sex")]
    parts = slice(0, 5), slice(5, 14)
    counts, trials = np.zeros((14, 3)), 3_000
    for seed in range(trials):
        here = replace(now, spec=now.spec.model_copy(update={"seed": seed}))
        drawn = draws(seed, "trial", frame["id"].to_list())
        for wave, rows in enumerate(parts, start=1):
            own = [column[rows] for column in values]
            table = np.full((rows.stop - rows.start, 3), 1 / 3)
            found = draw_in_order(here, table, drawn.take(rows), own)
            counts[np.arange(rows.start, rows.stop), found.actions] += 1
            here = replace(here, wave=wave + 1, by_stratum=here.by_stratum | found.strata)
    assert np.abs(counts - trials / 3).max() < 4 * np.sqrt(trials * 2 / 9)


def test_minimised_margins_stay_together(store):
    """With a coin of 0.9, the counts of every value differ by little, without any full table."""
    campaign = trial(store, "minimise", biased_coin=0.9, grid={"sizes": [300, 10]})
    frame = patients(300)
    given = frame.with_columns(action=in_calls(campaign, frame, [1, 40])["action"])
    for column in ("centre", "sex"):
        for _, rows in given.group_by(column):
            counts = [rows["action"].to_list().count(name) for name in "abc"]
            assert max(counts) - min(counts) <= 6


def test_a_unit_is_assigned_without_reading_others(store, monkeypatch):
    """However many units there are, a call reads the state alone."""
    campaign = trial(store, "blocks")
    campaign.assign(patients(60))

    def unread(*_args, **_kwargs):
        raise AssertionError("units were read")

    from seqbatch.storage import rows

    for name in ("unit_chunks", "events", "extents"):
        monkeypatch.setattr(rows.View, name, unread)
    assert campaign.assign(patients(1, start=60)).assigned == 1


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"block_sizes": [4]}, "block_sizes", "multiples of 3, the number of actions"),
        ({"block_sizes": [3, 3]}, "block_sizes", "3"),
        ({"draw": "balanced"}, "block_sizes", 'only for draw = "blocks"'),
        ({"biased_coin": 0.8}, "biased_coin", 'only for draw = "minimise"'),
        ({"strata": ["y"]}, "strata", "an outcome"),
        ({"capacity": {"b": 10}}, "draw", "cannot be combined with capacity"),
        (
            {"eligible": {"b": "ok"}, "columns": {"ok": "yes or no"}},
            "draw",
            "cannot be combined with eligible",
        ),
        ({"policy": {"kind": "FixedAction", "action": 1}}, "draw", "prefers actions"),
        ({**KINDS["minimise"], "block_sizes": [], "strata": []}, "strata", "needs strata"),
        ({**KINDS["minimise"], "block_sizes": [], "biased_coin": 1.0}, "biased_coin", "below 1"),
        ({**KINDS["minimise"], "block_sizes": [], "biased_coin": 0.3}, "biased_coin", "above"),
    ],
)
def test_what_cannot_be_balanced_is_refused(store, changes, field, said):
    with pytest.raises(InvalidSpecError, match=said) as raised:
        trial(store, "blocks", **changes)
    assert field in str(raised.value)


def test_a_unit_without_a_stratum_is_refused(store):
    campaign = trial(store, "blocks")
    frame = patients(3).with_columns(sex=pl.Series(["f", None, "m"]))
    with refused("invalid-rows", row=2, column="sex", problem="missing"):
        campaign.assign(frame)
    with refused("invalid-rows", match="sex"):
        campaign.assign(frame.drop("sex"))


def test_only_minimisation_has_more_combinations_than_units(store):
    levels = {name: [f"{name}{n}" for n in range(6)] for name in ("country", "stage")}
    changes = {"strata": [*levels], "features": {"categorical": levels}, "grid": {"sizes": [20]}}
    with refused("invalid-spec", match="36 combinations"):
        trial(store, "blocks", **changes)
    random = np.random.default_rng(1)
    columns = {name: random.choice(own, 20) for name, own in levels.items()}
    campaign = trial(store, "minimise", **changes)
    assert campaign.assign(patients(20).with_columns(**columns)).assigned == 20


def test_a_place_that_was_not_the_next_one_is_named(store, monkeypatch):
    campaign = trial(store, "blocks")
    campaign.assign(patients(5))

    def jumping(*given):
        found = draw_in_order(*given)
        after = {key: (number + 1, 0) for key, (number, _) in found.strata.items()}
        return replace(found, strata=after)

    monkeypatch.setattr(decision, "draw_in_order", jumping)
    campaign.assign(patients(5, start=5))
    monkeypatch.undo()
    assert {each.place for each in campaign.verify().findings} == {"strata"}


def test_viewers_cannot_read_the_sizes_of_blocks_or_the_open_places(store, tmp_path):
    campaign = trial(store, "blocks", block_sizes=[39, 51])
    campaign.assign(patients(5))
    shown = [str((event.counts, public(event).payload)) for event in campaign.events()] + [
        campaign.protocol(tmp_path / f"p.{kind}").read_text() for kind in ("md", "json")
    ]
    assert not any(word in text for text in shown for word in ("[39", "(39", "'strata': {"))
    assert "permuted blocks within each centre x sex" in shown[-2]


def test_ids_as_strata_are_refused(store, monkeypatch):
    from seqbatch.campaign.decide import draws_in_order

    monkeypatch.setattr(draws_in_order, "MOST_STRATA_COUNTED", 5)
    campaign = trial(store, "minimise", strata=["id2"])
    frame = patients(6).with_columns(id2="id")
    with refused("too-many-strata"):
        campaign.assign(frame)
    assert campaign.assign(frame[:5]).assigned == 5


def test_sql_refuses_and_small_calls_of_a_balanced_draw_warn(store):
    with pytest.raises(InvalidSpecError, match=r'order in which they come \(draw = "blocks"\)'):
        trial(
            store, "blocks", rows="elsewhere", draws="md5", sums="exact", **about("y", range=[0, 9])
        )
    kept = {"draw": "balanced", "block_sizes": [], "name": "files"}
    campaign = trial(store, "blocks", **kept)
    assert not campaign.assign(patients(1)).doubts
    [doubt] = campaign.assign(patients(1, start=1)).doubts
    assert doubt.kind == "few-to-balance"
    assert not campaign.assign(patients(30, start=2)).doubts
