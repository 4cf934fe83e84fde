"""Who may get what: declared, held in every decision, logged exactly, replayed."""

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.errors import InvalidSpecError
from seqbatch.storage import open_store
from tests.campaign.instances import SPEC, outcomes, units
from tests.refusals import refused

RULES = {"call": "may_phone", "mail": "age >= 30 and zip != 'rural'"}


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def people(count, *, start=0):
    frame = units(count, start=start)
    phone = np.random.default_rng([5, start]).choice(["yes", "no", ""], count)
    return frame.with_columns(pl.Series("may_phone", phone))


def created(store, **changes):
    return Campaign.create({**SPEC, "eligible": RULES, **changes}, store=store, who="ann")


def allowed(frame):
    """Return who may get none, mail and call, by hand."""
    mail = [
        age >= 30 and zip_ != "rural" for age, zip_ in zip(frame["age"], frame["zip"], strict=True)
    ]
    call = [said == "yes" for said in frame["may_phone"]]
    return np.column_stack([np.ones(len(frame), dtype=bool), mail, call])


@pytest.mark.parametrize(("policy", "draw"), [
    ({"kind": "SBPE"}, "balanced"), ({"kind": "BPE"}, "independent"),
    ({"kind": "SBUCB"}, "balanced"), ({"kind": "ThompsonSampling"}, "independent"),
    ({"kind": "EpsilonGreedy", "epsilon": 0.1}, "balanced"),
    ({"kind": "UniformRandom"}, "independent"),
])  # fmt: skip
def test_nobody_gets_what_they_may_not(store, policy, draw):
    campaign = created(store, policy=policy, draw=draw)
    for wave, (start, count) in enumerate([(0, 300), (300, 200)], start=1):
        frame = people(count, start=start)
        table = pl.from_arrow(campaign.assign(frame).table)
        may = allowed(frame)
        given = table.select("p(none)", "p(mail)", "p(call)").to_numpy()
        assert (given[~may] == 0).all()
        assert given.sum(axis=1) == pytest.approx(1, abs=1e-12)
        # By the formula: K floors and the randomised share are spread over what is eligible.
        least = (0.2 + 0.8 * 3 * 0.02) / may.sum(axis=1)
        assert (given + 1e-12 >= np.where(may, least[:, None], 0)).all()
        names = np.array(["none", "mail", "call"])
        places = [names.tolist().index(action) for action in table["action"]]
        assert may[np.arange(count), places].all()
        campaign.record(outcomes(table.to_arrow(), seed=wave))
        campaign.close()
    assert campaign.verify().sound


def test_the_first_wave_is_uniform_over_what_is_eligible(store):
    campaign = created(store)
    frame = people(300)
    table = pl.from_arrow(campaign.assign(frame).table)
    may = allowed(frame)
    given = table.select("p(none)", "p(mail)", "p(call)").to_numpy()
    assert given == pytest.approx(may / may.sum(axis=1, keepdims=True))


def test_who_may_get_nothing_is_refused_by_line_or_gets_the_fallback(store):
    rules = {"none": "age >= 1000", **RULES}
    frame = people(300)
    lost = ~allowed(frame)[:, 1:].any(axis=1)
    campaign = created(store, eligible=rules)
    with refused("invalid-rows", row=1, column="id", problem="not-eligible") as caught:
        campaign.assign(frame)
    assert f"{lost.sum():,}" in str(caught.value)
    other = created(store, name="other", eligible=RULES, fallback="none")
    table = pl.from_arrow(other.assign(frame).table)
    assert (table["action"].to_numpy() == "none").tolist() == lost.tolist()
    assert table.filter(pl.Series(lost))["probability"].to_list() == [1.0] * lost.sum()


def test_the_columns_of_rules_are_kept_and_exported(store, tmp_path):
    campaign = created(store)
    frame = people(300)
    campaign.assign(frame)
    campaign.export(tmp_path / "units.parquet")
    kept = pl.read_parquet(tmp_path / "units.parquet")
    assert kept["may_phone"].to_list() == [
        {"yes": True, "no": False, "": None}[x] for x in frame["may_phone"]
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"eligible": {"visit": "may_phone"}},
            "eligible must name actions (none, mail, call); received visit",
        ),
        (
            {"eligible": {"call": "aeg >= 18"}},
            "uses the column aeg, which is not declared; did you mean age?",
        ),
        ({"eligible": {"call": "region = 'x'"}}, 'columns = {region = "text"}'),
        ({"eligible": {"call": "age"}}, "uses age as a yes or no, but it is a number"),
        ({"eligible": {"call": "zip > 3"}}, "uses zip as a number, but it is a text"),
        ({"eligible": {"call": "visit > 3"}}, "uses visit, which is an outcome"),
        ({"eligible": {"call": "id = 'x'"}}, "uses id, which is the unit's id"),
        (
            {
                "start": "2026-03-01",
                "features": {"date": {"joined": "iso"}},
                "eligible": {"call": "joined = '2026-01-01'"},
            },
            "uses joined, a date, but rules cannot compare dates; give the units a",
        ),
        ({"eligible": {"call": "age >="}}, "eligible.call: in the rule 'age >='"),
        ({"columns": {"age": "number"}}, "columns cannot declare age"),
        ({"fallback": "none"}, "fallback is never needed: every unit may get none, mail"),
        ({"fallback": "fax"}, "fallback must be one of the actions"),
        ({"fallback": "call"}, "so it cannot have a rule in eligible"),
        (
            {"eligible": RULES, "fallback": "none", "control": "none"},
            "cannot also be the fallback",
        ),
    ],
)
def test_bad_declarations_are_refused_at_create(store, changes, said):
    with pytest.raises(InvalidSpecError) as caught:
        created(store, **{"eligible": {"call": "may_phone"}, **changes})
    assert said in " ".join(str(caught.value).split())


def test_findings_are_of_those_who_may_get_both(store):
    campaign = created(store, control="none")
    for wave, (start, count) in enumerate([(0, 300), (300, 200)], start=1):
        table = campaign.assign(people(count, start=start)).table
        campaign.record(outcomes(table, seed=wave))
        campaign.close()
    found = campaign.findings()
    everybody = pl.concat([people(300), people(200, start=300)])
    for lift, column, effect in zip(found.lifts, (1, 2), (0.5, 1.0), strict=True):
        assert lift.among == pytest.approx(allowed(everybody)[:, column].mean())
        assert lift.interval.known
        assert abs(lift.interval.estimate - effect) < 5 * lift.interval.error
    assert "who may get both" in str(found)
    assert found.run.over_random.known
    assert not found.run.over_actions["call"].known


@pytest.mark.parametrize("rule", ["obrien-fleming", "pocock"])
def test_a_stopping_rule_looks_at_those_who_may_get_both(store, rule):
    campaign = created(store, control="none", stopping={"rule": rule})
    table = campaign.assign(people(300)).table
    campaign.record(outcomes(table, seed=1))
    closed = campaign.close()
    assert {one.action for one in closed.stopping.actions} == {"mail", "call"}
    assert campaign.verify().sound


def test_texts_that_a_rule_misses_by_case_or_spaces_are_warned_about(store):
    rule = {"call": "region not in ['north', 'East'] and zip != 'rural'"}
    campaign = created(store, columns={"region": "text"}, eligible=rule)
    regions = ["north", "North", "north ", "EAST", "East", "south"] * 10
    (said,) = campaign.assign(units(60).with_columns(region=pl.Series(regions))).warnings
    assert said.startswith("region has texts that differ from the values in [eligible] only by")
    assert "but do not match them: 'North', 'north ', 'EAST'; use one spelling" in said
    plain = units(60, start=60).with_columns(region=pl.lit("north"))
    assert campaign.assign(plain).warnings == ()
