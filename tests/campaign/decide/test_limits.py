"""Capacities, quotas, budgets, balanced draws and strata in a campaign: they hold surely."""

import tracemalloc
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy.optimize import linprog

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide import decision
from seqbatch.campaign.decide.decision import JointDecision, weigh
from seqbatch.campaign.decide.draws import draws
from seqbatch.campaign.files.doubts import misspelled_strata
from seqbatch.campaign.record.codec import unpack, unpack_state
from seqbatch.campaign.record.current_situation import situation
from seqbatch.errors import InvalidSpecError
from seqbatch.storage import open_store
from tests.campaign.instances import SPEC, outcomes, units
from tests.cases import thorough
from tests.refusals import refused

NAMES = ("none", "mail", "call")


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def created(store, **changes):
    return Campaign.create({**SPEC, **changes}, store=store, who="ann")


def counts(table):
    frame = pl.from_arrow(table)
    return {name: int((frame["action"] == name).sum()) for name in NAMES}


def run(campaign, sizes=((0, 300), (300, 200), (500, 100)), *, pieces=1):
    """Run waves, each in some files; return the number of units of each action in each wave."""
    found = []
    for wave, (start, count) in enumerate(sizes, start=1):
        parts = np.array_split(np.arange(start, start + count), pieces)
        frames = [campaign.assign(units(len(p), start=int(p[0]))).table for p in parts]
        table = pl.concat([pl.from_arrow(frame) for frame in frames])
        found.append(counts(table.to_arrow()))
        campaign.record(outcomes(table.to_arrow(), seed=wave))
        campaign.close()
    return found


@pytest.mark.parametrize(("policy", "pieces"), [("SBPE", 3), ("SBUCB", 1), ("ThompsonSampling", 7)])
def test_capacities_hold_in_every_wave_however_many_files(store, pieces, policy):
    capacity = {"call": 40, "mail": {"at_least": 30, "total": 200}}
    campaign = created(store, capacity=capacity, policy={"kind": policy}, randomised=0.1)
    found = run(campaign, pieces=pieces)
    assert all(wave["call"] <= 40 and wave["mail"] >= 30 for wave in found)
    assert sum(wave["mail"] for wave in found) <= 200
    # Calls do best: what there is of them is used, but for the roundings of several files.
    assert min(found[1]["call"], found[2]["call"]) >= 40 - pieces
    assert campaign.verify().sound


def test_who_gets_what_is_short_is_the_best_there_is(store):
    """The assignment of a wave under a capacity is the linear programme's."""
    campaign = created(
        store, capacity={"call": 50}, randomised=0.0, floor=0.0, policy={"kind": "RBGL"}
    )
    run(campaign, sizes=((0, 300),))
    result = campaign.assign(units(200, start=300))
    table = pl.from_arrow(result.table)
    now = campaign.situation()
    with store.read("spring") as reader:
        [chunk] = list(reader.unit_chunks(given=True))[-1:]
        state = unpack_state(reader.last_state().content, now)
        ids = table["id"].to_list()
        said = weigh(
            now, now.made_policy().rule(state), unpack(chunk.given), draws(7, "spring", ids)
        )
    scores = said.scores
    n, k = scores.shape
    rows = np.kron(np.eye(n), np.ones(k))
    column = np.tile(np.eye(k)[2], n)[None]
    best = linprog(
        -scores.ravel(), A_ub=column, b_ub=[50], A_eq=rows, b_eq=np.ones(n), bounds=(0, 1)
    )
    chosen = [NAMES.index(action) for action in table["action"]]
    assert scores[np.arange(n), chosen].sum() == pytest.approx(-best.fun, rel=1e-6)
    assert result.limits["prices_in"] == "score"
    assert result.limits["prices"]["call"] > 0


@pytest.mark.parametrize(("limits", "said"), [
    ({"capacity": {"call": 50}},
     ["call: given less often than the policy would, to keep within its limit."]),
    ({"capacity": {"mail": {"at_least": 150}}},
     ["mail: given more often than the policy would, to reach its minimum."]),
    ({"budget": {"each_wave": 100}},
     ["The budget is at its limit: costly actions are given less often than the policy would."]),
    ({"capacity": {"call": 290}, "budget": {"each_wave": 900}}, []),
])  # fmt: skip
def test_limits_that_change_what_is_drawn_at_random_are_said(store, limits, said):
    actions = ["none", {"name": "mail", "cost": 0.5}, {"name": "call", "cost": 2.0}]
    campaign = created(store, actions=actions, grid={"sizes": [300]}, **limits)
    campaign.assign(units(300))
    assert list(campaign.status().worth) == said


def test_logged_probabilities_say_how_often_each_action_is_given(store):
    """Over many seeds a unit gets an action as often as its logged probability says."""
    campaign = created(
        store, capacity={"call": 12}, grid={"sizes": [60]}, strata=["zip"], randomised=0.3
    )
    campaign.assign(units(60))
    with store.read("spring") as reader:
        [chunk] = reader.unit_chunks(given=True)
        before = situation(reader.events()[:1])
        state = unpack_state(reader.last_state().content, before)
    given, ids = unpack(chunk.given), units(60)["id"].to_list()
    hits, told, even = np.zeros((60, 3)), np.zeros((60, 3)), np.zeros((60, 3))
    for seed in range(300):
        now = replace(before, spec=before.spec.model_copy(update={"seed": seed}))
        file = JointDecision(now, now.made_policy())
        file.add(ids, given, state)
        made = file.decided().decided
        told += made.probabilities
        hits[np.arange(60), made.actions] += 1
        even[np.flatnonzero(made.randomised), made.actions[made.randomised]] += 1
        assert (made.actions == 2).sum() <= 12
    error = np.sqrt(np.maximum(told * (1 - told / 300), 1e-9))
    assert (np.abs(hits - told) < 4.5 * error + 1e-6).all()
    # Who counts as randomised got each action alike: a tenth of the units each.
    total = even.sum(axis=0)
    assert np.abs(total - 0.1 * 60 * 300).max() < 4.5 * np.sqrt(0.1 * 60 * 300)


def test_balanced_draws_are_balanced_within_strata(store):
    campaign = created(
        store, draw="balanced", strata=["zip", "centre"], randomised=0.0, floor=0.0,
        grid={"sizes": [66, 100]},
    )  # fmt: skip
    frame = units(66).with_columns(pl.Series("centre", ["A", "B", "C"] * 22))
    table = pl.from_arrow(campaign.assign(frame).table)
    assert counts(table.to_arrow()) == {"none": 22, "mail": 22, "call": 22}
    for columns in (["zip"], ["zip", "centre"]):
        groups = (
            table.with_columns(frame.select("zip", "centre")).group_by([*columns, "action"]).len()
        )
        sizes = frame.group_by(columns).len()
        for *values, _, number in groups.iter_rows():
            n = sizes.filter(
                pl.all_horizontal(pl.col(c) == v for c, v in zip(columns, values, strict=True))
            )["len"][0]
            assert n // 3 <= number <= -(-n // 3)
    assert campaign.verify().sound


def test_strata_that_differ_by_case_or_spaces_are_warned_about(store):
    campaign = created(store, strata=["zip", "centre"])
    centres = pl.Series("centre", ["North", "north ", None, "NORTH", "South", ""] * 10)
    (said,) = campaign.assign(units(60).with_columns(centres)).warnings
    assert said == (
        'strata by centre: "North", "north ", "NORTH" differ only by case or spaces, but '
        "count as different values; use one spelling in the file"
    )
    plain = units(60, start=60).with_columns(centres.str.strip_chars().str.to_lowercase())
    assert campaign.assign(plain).warnings == ()


def test_strata_that_look_alike_are_written_out_and_others_are_not():
    (doubt,) = misspelled_strata([pa.table({"centre": ["Köln", "KÖLN", "Ko\u0308ln"]})], ["centre"])
    assert (doubt.kind, doubt.column) == ("misspelled-stratum", "centre")
    assert doubt.text().startswith(
        r'strata by centre: "Köln", "KÖLN", "Ko\u0308ln" differ only by case'
    )


def test_strata_of_ever_new_texts_are_compared_in_flat_memory():
    def pieces(count):
        yield pa.table({"centre": ["North", "north"]})
        for piece in range(count):
            yield pa.table({"centre": [f"{piece} {row}" for row in range(1_000)]})

    def peak(count):
        tracemalloc.start()
        (doubt,) = misspelled_strata(pieces(count), ["centre"])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert doubt.text().startswith(
            'strata by centre: "North", "north" differ only by case or spaces'
        )
        return most

    # The least of three, because other threads count too.
    few, many = (min(peak(count) for _ in range(3)) for count in (10, 60))
    assert many < 2 * few


def test_the_order_of_the_file_changes_nothing(store, tmp_path):
    spec = {"strata": ["zip"], "capacity": {"call": 30}}
    frame = units(300)
    straight = pl.from_arrow(created(store, **spec).assign(frame).table)
    elsewhere = open_store(tmp_path / "elsewhere.db")
    mixed = frame.sample(fraction=1, shuffle=True, seed=4)
    shuffled = pl.from_arrow(created(elsewhere, **spec).assign(mixed).table)
    elsewhere.close()
    assert shuffled.sort("id").equals(straight.sort("id"))


def test_units_assigned_before_get_the_same_answer(store):
    campaign = created(store, capacity={"call": 40})
    first = pl.from_arrow(campaign.assign(units(100)).table)
    both = pl.from_arrow(campaign.assign(units(200)).table)
    assert both.head(100).drop("wave").equals(first.drop("wave"))
    assert campaign.verify().sound


def test_budgets_hold(store):
    actions = ["none", {"name": "mail", "cost": 0.1}, {"name": "call", "cost": 0.4}]
    campaign = created(store, actions=actions, budget={"total": 90, "each_wave": 40},
                       randomised=0.1, floor=0.0)  # fmt: skip
    found = run(campaign, pieces=2)
    cost = [0.1 * wave["mail"] + 0.4 * wave["call"] for wave in found]
    assert max(cost) <= 40
    assert sum(cost) <= 90
    assert sum(cost) > 85
    assert campaign.verify().sound
    begun = campaign.status(at_event=1).limits
    assert [row.within for row in begun] == ["this wave", "campaign"]
    # All waves are closed: there is no open one whose limit could be used.
    [row] = campaign.status().limits
    assert (row.of, row.within) == ("budget", "campaign")
    assert row.used == pytest.approx(sum(cost))


def test_what_cannot_be_kept_is_said_and_nothing_is_assigned(store):
    rules = {"none": "age >= 1000", "mail": "age >= 1000"}
    campaign = created(store, eligible=rules, capacity={"call": 30})
    with refused("beyond-limits"):
        campaign.assign(units(300))
    assert campaign.situation().assigned == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"capacity": {"call": 10}},
            "capacity.call = 10 is too little: wave 1 has 300 units, of which randomised = 0.2 "
            "and floor = 0.02 give call to 25",
        ),
        (
            {"capacity": {"call": {"total": 20}}},
            "capacity.call.total = 20 is too little: 600 units are to come",
        ),
        (
            {"capacity": {"none": 90, "mail": 90, "call": 90}},
            "270, but wave 1 has 300 units",
        ),
        (
            {"capacity": {"mail": {"at_least": 60}, "call": {"at_least": 60}}},
            "add up to 120, but wave 3 has 100 units",
        ),
        (
            {"capacity": {"call": {"at_least": 90, "each_wave": 80}}},
            "at_least = 90 is more than each_wave = 80",
        ),
        ({"capacity": {"call": {}}}, "at least one of each_wave, total and at_least"),
        ({"capacity": {"fax": 10}}, "capacity must name actions"),
        ({"capacity": {"call": 90}, "draw": "independent"}, "cannot be combined with capacity"),
        ({"strata": ["zip"], "draw": "independent"}, "cannot be combined with strata"),
        ({"strata": ["age"]}, "strata must be columns of categories"),
        ({"strata": ["zip", "zip"]}, "strata must all be different"),
        ({"strata": ["id"]}, "part of the unit's id"),
        ({"budget": {"total": 100}}, "budget limits the actions' costs"),
        ({"budget": {}}, "each_wave or total is needed"),
        (
            {"strata": ["zip"], "grid": {"sizes": [1, 300]}},
            "2 combinations of levels, but wave 1 has 1 units",
        ),
    ],
)
def test_what_clashes_is_refused_at_create_with_the_numbers(store, changes, said):
    with pytest.raises(InvalidSpecError) as caught:
        created(store, **changes)
    assert said in " ".join(str(caught.value).split())


def test_a_balanced_draw_is_replayed_to_the_bit(store):
    """Probabilities are logged as multiples of 2^-52; a replay on this machine has the same."""
    campaign = created(store, draw="balanced", randomised=0.1, floor=0.03)
    campaign.record(outcomes(campaign.assign(units(300)).table))
    campaign.close()
    campaign.assign(units(200, start=300))
    verified = campaign.verify()
    assert verified.sound
    assert not verified.notes


def test_prices_that_another_machine_rounds_otherwise_are_no_damage(store, monkeypatch):
    """The draw is replayed from the logged table; what differs in the last digits is a note."""
    campaign = created(store, capacity={"call": 40}, strata=["zip"])
    campaign.assign(units(300))
    real = decision.limited

    def elsewhere(*args, **options):
        found = real(*args, **options)
        noise = np.random.default_rng(1).choice([-1, 1], found.probabilities.shape) * 1e-14
        noise -= noise.mean(axis=1, keepdims=True)
        return replace(found, probabilities=found.probabilities + noise * (found.probabilities > 0))

    monkeypatch.setattr(decision, "limited", elsewhere)
    verified = campaign.verify()
    assert verified.sound
    assert "another machine" in verified.notes[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"capacity": {"call": {"at_least": 10}}, "eligible": {"call": "vip"}},
        {"budget": {"total": 60}},
        {"capacity": {"call": {"total": 8, "at_least": 2}, "mail": 10}, "budget": {"total": 50}},
        *thorough(
            {"capacity": {"call": 5}},
            {"budget": {"each_wave": 30}, "eligible": {"call": "vip"}},
        ),
    ],
)
def test_units_may_come_one_by_one(store, changes):
    """Files of one unit keep every limit: a share of one unit is no whole unit, but a chance."""
    spec = {
        "actions": ["none", {"name": "mail", "cost": 0.5}, {"name": "call", "cost": 4}],
        "columns": {"vip": "yes or no"}, "grid": {"sizes": [30, 30]}, "randomised": 0.1,
        "policy": {"kind": "SBPE"}, "floor": 0.02, **changes,
    }  # fmt: skip
    campaign = created(store, **spec)
    waves = []
    for wave in (1, 2):
        frame = units(30, start=30 * wave).with_columns(
            vip=pl.Series([row % 5 != 1 for row in range(30)])
        )
        answers = [campaign.assign(frame[row : row + 1]).table for row in range(30)]
        table = pl.concat([pl.from_arrow(answer) for answer in answers])
        waves.append(counts(table.to_arrow()))
        campaign.record(outcomes(table.to_arrow(), seed=wave))
        campaign.close()
    costs = [0.5 * wave["mail"] + 4 * wave["call"] for wave in waves]
    budget = changes.get("budget", {})
    assert max(costs) <= budget.get("each_wave", 1e9)
    assert sum(costs) <= budget.get("total", 1e9)
    # It is spread over the units to come: half of them do not use much more than half of it.
    assert costs[0] <= 0.7 * budget.get("total", 1e9)
    # What there is of a budget is used: it is not refused for fear of rounding.
    assert not budget or sum(wave["call"] for wave in waves) > 4
    call = changes.get("capacity", {}).get("call", {})
    if call == 5:
        assert max(wave["call"] for wave in waves) <= 5
    elif call:
        assert min(wave["call"] for wave in waves) >= call["at_least"]
        assert sum(wave["call"] for wave in waves) <= call.get("total", 60)
    assert campaign.verify().sound


def test_a_budget_may_be_spent_to_its_end(store):
    """Chance needs 30.8 calls, and the budget pays for no whole number of them and mails."""
    campaign = created(
        store, actions=["none", {"name": "mail", "cost": 0.5}, {"name": "call", "cost": 4}],
        grid={"sizes": [600]}, randomised=0.1, floor=0.02, budget={"total": 251.5},
        policy={"kind": "FixedAction", "action": 1},
    )  # fmt: skip
    found = counts(campaign.assign(units(600)).table)
    assert 245 < 0.5 * found["mail"] + 4 * found["call"] <= 251.5
    assert campaign.verify().sound


def test_quotas_of_later_waves_are_kept_for_them(store):
    """A large first wave must not use up what a small last one has to have."""
    campaign = created(
        store, capacity={"call": {"total": 120, "at_least": 50}}, grid={"sizes": [300, 60]},
        policy={"kind": "SBPE"}, randomised=0.1,
    )  # fmt: skip
    found = run(campaign, sizes=((0, 300), (300, 60)))
    assert min(wave["call"] for wave in found) >= 50
    assert sum(wave["call"] for wave in found) <= 120


def test_a_quota_that_exceeds_the_share_of_a_total_comes_first(store):
    campaign = created(
        store, capacity={"call": {"total": 120, "at_least": 50}}, grid={"sizes": [100, 1000]}
    )
    assert counts(campaign.assign(units(100)).table)["call"] >= 50


def test_quotas_of_calendar_waves_are_spread_over_the_units_expected(store):
    campaign = created(
        store, capacity={"call": {"at_least": 60}}, randomised=0.3, floor=0.02,
        grid={"calendar": True, "waves": 2, "units": 240},
    )  # fmt: skip
    files = [counts(campaign.assign(units(30, start=30 * part)).table) for part in range(4)]
    assert files[0]["call"] in (15, 16)
    assert sum(file["call"] for file in files) >= 60


def test_what_cannot_be_kept_is_refused_with_the_names_of_actions(store):
    """Twenty customers may get nothing but a call, and there are three."""
    campaign = created(
        store, eligible={"none": "score > 1e9", "mail": "score > 1e9"}, control=None,
        capacity={"call": 3}, columns={"score": "number"}, grid={"sizes": [30]},
    )  # fmt: skip
    frame = units(20).with_columns(score=pl.lit(1.0))
    with refused("beyond-limits") as caught:
        campaign.assign(frame)
    assert "20 units cannot be assigned" in str(caught.value)
    assert "at_most must be at least 20 over call" in str(caught.value)
    assert "received 3" in str(caught.value)
    assert campaign.status().events == 1
