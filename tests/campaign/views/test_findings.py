"""What a campaign has taught: the literal oracle on exported data, and every kind of campaign."""

import json
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.document import Table
from seqbatch.inference import Guarded
from seqbatch.storage import open_store
from tests.campaign.record.test_absent_units import Clock
from tests.campaign.specs import about
from tests.campaign.warehouses import ELSEWHERE
from tests.oracles import inference as oracle
from tests.oracles import rare_events as rare_oracle
from tests.refusals import refused

SPEC = {
    "draws": "blake2",
    "name": "spring", "seed": 11, "unit": "customer", "actions": ["call", "none", "mail"],
    "control": "none", "randomised": 0.3, "floor": 0.05, "policy": {"kind": "SBPE"},
    **about("visit", kind="yes/no"), "required_outcomes": 0.5,
    "features": {"numeric": {"age": "raw"}, "boolean": {"member": False}},
    "grid": {"sizes": [90, 60, 80]}, "report": {"segments": ["member"]},
}  # fmt: skip
CHANCE = {"none": 0.2, "mail": 0.4, "call": 0.7, "late": 0.5}


def people(count, start):
    random = np.random.default_rng([4, start])
    return pl.DataFrame(
        {
            "customer": [f"c{number}" for number in range(start, start + count)],
            "age": random.normal(40, 10, count),
            "member": random.choice(["yes", "no"], count),
        }
    )


def binary(frame, random):
    chance = np.array([CHANCE[action] for action in frame["action"]])
    return (random.random(len(frame)) < chance).astype(float)


def run(campaign, *, sizes=(90, 60, 80), start=0, missing=0.2, value=binary, close=True, **shown):
    """Run waves; outcomes of some units, never of one and the same action, are missing."""
    for number, size in enumerate(sizes):
        begin = start + 1_000 * number
        frame = pl.from_arrow(campaign.assign(people(size, begin)).table)
        random = np.random.default_rng([7, begin])
        rows = frame.select("customer").with_columns(pl.Series("visit", value(frame, random)))
        campaign.record(rows.filter(pl.Series(random.random(size) >= missing)))
        if close:
            campaign.close(force=True, reason="as it is", **shown)
    return campaign


def made(store, **changes):
    return Campaign.create({**SPEC, **changes}, store=store, who="ann")


def exported(campaign, folder, *, control="none", column="visit", absent=None):
    """Return the waves as the oracle takes them, from what is exported alone.

    A unit without a value of the column has its reward, or what is declared for it.
    """
    campaign.export(folder / "units.parquet", force=True)
    frame = pl.read_parquet(folder / "units.parquet").with_columns(pl.col("member").cast(float))
    names = [column[2:-1] for column in frame.columns if column.startswith("p(")]
    names = [control, *(name for name in names if name != control)]
    first = frame.filter(pl.col("wave") == frame["wave"].min())
    columns = ["age", "member"]
    mean, sd = ({c: getattr(first[c], what)() for c in columns} for what in ("mean", "std"))
    waves = []
    for _, part in frame.group_by("wave", maintain_order=True):
        waves.append(
            [
                {
                    "x": [1.0, *((row[c] - mean[c]) / sd[c] for c in columns)],
                    "a": names.index(row["action"]),
                    "p": [row[f"p({name})"] for name in names],
                    "y": row[column]
                    if row[column] is not None
                    else row["reward"]
                    if column == "visit"
                    else absent,
                    "member": row["member"],
                }
                for row in part.iter_rows(named=True)
            ]
        )
    return names, waves


def same(interval, waves, kind, action=None, keep=oracle.everybody, costs=(0, 0, 0)):
    """Compare with the oracle's average over units: in the form of rare events where it applies."""
    by_wave = [[row for row in wave if keep(row)] for wave in waves]
    sizes = [len(wave) for wave in by_wave]
    charged = oracle.cost_of(waves, kind, action, costs, sizes, keep)
    if rare_oracle.form(waves)["rare"]:
        made = rare_oracle.contrast(waves, kind, action, keep=keep)
        low, high = rare_oracle.limits(made, 1.959963984540054)
        expected = {"theta": rare_oracle.estimate(made), "low": low, "high": high}
    else:
        expected = oracle.by_size(waves, kind, action, keep=keep)
        assert interval.error == pytest.approx(expected["se"], rel=1e-8)
        assert interval.df == pytest.approx(expected["df"], rel=1e-7)
    assert interval.estimate == pytest.approx(expected["theta"] - charged, rel=1e-8)
    ends = [expected["low"] - charged, expected["high"] - charged]
    assert [interval.low, interval.high] == pytest.approx(ends, rel=1e-7)


@pytest.fixture
def campaign(store):
    return run(made(store))


def test_everything_agrees_with_the_literal_oracle(campaign, tmp_path):
    found = campaign.findings()
    names, waves = exported(campaign, tmp_path)
    assert found.actions == tuple(names) == ("none", "call", "mail")
    for action, mean in enumerate(found.means):
        same(mean.interval, waves, "mean", action)
        assert mean.action == names[action]
    D = oracle.planned_costs([90, 60, 80], 3, 0.3, 0.05, 2)
    for action, lift in enumerate(found.lifts, start=1):
        same(lift.interval, waves, "lift", action)
        weights = [one.weight for one in lift.waves]
        assert weights == pytest.approx([90 / 230, 60 / 230, 80 / 230])
        by_shares = oracle.pooled(waves, "lift", action, D)
        assert lift.same.estimate == pytest.approx(by_shares["theta"], rel=1e-8)
        assert lift.same_p == pytest.approx(by_shares["p_change"], rel=1e-7)
        for m, one in enumerate(lift.waves):
            expected = oracle.wave_estimate(waves[: m + 1], "lift", action)
            assert one.interval.estimate == pytest.approx(expected["theta"], rel=1e-8)
    same(found.run.value, waves, "as run")
    same(found.run.over_random, waves, "gain over random")
    for action, name in enumerate(names):
        same(found.run.over_actions[name], waves, "gain", action)
    # The last wave gives the rule 80 (2/3) 0.135 effective units: too few events.
    few = found.rule.gain.few
    assert few.expected == pytest.approx(7.2 * sum(y for y in rare_oracle.outcomes(waves)) / 230)
    for one in found.segments:
        member, place = one.segment == "yes", names.index(one.action)
        parts = oracle.estimates(
            waves, "lift", place, keep=lambda row, is_one=member: row["member"] == is_one
        )
        sizes = [part["n"] for part in parts]
        average = sum(part["theta"] * n for part, n in zip(parts, sizes, strict=True)) / sum(sizes)
        assert one.interval.estimate == pytest.approx(average, rel=1e-8)
    assert {(one.action, one.segment) for one in found.segments} == {
        (action, segment) for action in ("call", "mail") for segment in ("yes", "no")
    }


def test_the_decision_can_be_forwarded(campaign):
    found = campaign.findings(level=0.9)
    best = found.best
    assert best.action == "call"
    around = best.together
    size = found.measure.number(around.estimate, around.error)
    low, high = (found.measure.number(end, around.error) for end in (around.low, around.high))
    assert str(found).startswith(
        "Give call to every customer.\n"
        f"{size} more visits per 100 customers than none (90% interval {low} to {high}).\n"
    )
    assert float(size) == pytest.approx(100 * around.estimate, abs=1)
    # What covers together is wider than what covers alone.
    assert around.low < best.interval.low < best.interval.high < around.high
    assert best.naive.valid is False
    assert "NOT VALID" in found.tables()[-1].title


def test_findings_show_themselves_and_are_plain(campaign):
    found = campaign.findings()
    plain = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert plain["decision"]["lead"] == str(found).split("\n", 1)[0]
    assert plain["lifts"][0]["interval"]["estimate"] == found.lifts[0].interval.estimate
    assert plain["measure"]["kind"] == "yes/no"
    assert found.decision.lead in found._repr_html_()
    shown = [part.title for part in found.document(appendix=True).first.parts
             if isinstance(part, Table)]  # fmt: skip
    assert shown == [table.title for table in found.tables()]
    with refused("invalid-argument", field="level"):
        campaign.findings(level=1.0)


def test_less_is_better_and_costs_count_in_the_users_own_sign(store, tmp_path):
    actions = [{"name": "call", "cost": 0.25}, "none", "mail"]
    claims = about("visit", direction="min", unit="EUR", less_costs=True)
    campaign = run(made(store, actions=actions, currency="EUR", **claims))
    found = campaign.findings()
    names, waves = exported(campaign, tmp_path)
    # Costs count against an action: where less is better, they are added.
    costs = [-0.25 if name == "call" else 0.0 for name in names]
    for action, lift in enumerate(found.lifts, start=1):
        same(lift.interval, waves, "lift", action, costs=costs)
    lifts = {lift.action: lift.interval.estimate for lift in found.lifts}
    # A call brings half a visit more, and costs a quarter on top: where less is better, both hurt.
    assert lifts["call"] == pytest.approx(0.75, abs=0.25)
    assert found.best.action == "mail"
    assert " cost " in found.decision.worth[0]
    assert found.measure.head == "cost in EUR per customer (visit, plus costs of actions)"
    assert found.rule.shares["none"] > 0.9
    # The run gave more of what is better, and so brought less.
    assert found.run.over_random.estimate < 0


def test_absent_units_count_as_declared(store, tmp_path):
    campaign = run(made(store, **about("visit", kind="yes/no", absent=0)), missing=0.3)
    found = campaign.findings()
    _, waves = exported(campaign, tmp_path)
    assert found.absent == 230 - sum(w.outcomes for w in found.quality.waves) > 30
    assert found.outcomes == 230
    assert all(row["y"] is not None for wave in waves for row in wave)
    same(found.lifts[0].interval, waves, "lift", 1)
    assert any("count with the declared outcome" in note for note in found.notes)


def test_corrections_after_the_close_count(store, tmp_path):
    campaign = run(made(store), missing=0.0)
    before = campaign.findings()
    changed = pl.DataFrame({"customer": [f"c{n}" for n in range(90)], "visit": [1.0] * 90})
    campaign.record(changed, correct=True, reason="late bookings")
    after = campaign.findings()
    _, waves = exported(campaign, tmp_path)
    same(after.lifts[0].interval, waves, "lift", 1)
    assert after.lifts[0].interval.estimate != before.lifts[0].interval.estimate


def test_clusters_widen_errors(tmp_path):
    def together(frame):
        """All units of a household do the same."""
        homes = [int(each[1:]) // 10 for each in frame["customer"]]
        return np.array([np.random.default_rng(home).random() < 0.5 for home in homes]) * 1.0

    def with_homes(count, start):
        frame = people(count, start)
        home = [str(int(each[1:]) // 10) for each in frame["customer"]]
        return frame.with_columns(pl.Series("home", home))

    found = {}
    for name, cluster in (("alone", None), ("shared", "home")):
        # Of the same name, so that the same units get the same actions.
        campaign = made(open_store(tmp_path / f"{name}.db"), cluster=cluster)
        for number, size in enumerate((90, 60, 80)):
            table = campaign.assign(with_homes(size, 1_000 * number)).table
            frame = pl.from_arrow(table)
            rows = frame.select("customer").with_columns(pl.Series("visit", together(frame)))
            campaign.record(rows)
            campaign.close()
        found[name] = campaign.findings()
    alone, shared = (found[name].means[0].interval for name in ("alone", "shared"))
    assert shared.estimate == pytest.approx(alone.estimate, rel=1e-9)
    assert shared.error > 1.3 * alone.error
    assert any("different home" in what for what, _ in found["shared"].assumptions)


def test_calendar_waves_spend_their_shares_when_assigned(store, tmp_path):
    campaign = run(made(store, grid={"calendar": True, "waves": 3, "units": 300}))
    found = campaign.findings()
    _, waves = exported(campaign, tmp_path)
    D = oracle.planned_costs([100] * 3, 3, 0.3, 0.05, 2)
    parts = [oracle.wave_estimate(waves[: m + 1], "lift", 1) for m in range(3)]
    shares = []
    for m, part in enumerate(parts):
        rest = sum(100 / d for d in D[m + 1 :])
        own = part["n"] / part["C"]
        shares.append((1 - sum(shares)) * own / (own + rest))
    assert sum(shares) == pytest.approx(1)
    w = [(share * part["n"] / part["C"]) ** 0.5 for share, part in zip(shares, parts, strict=True)]
    by_shares = oracle.weighted(parts, w, 0.95)
    assert found.lifts[0].same.estimate == pytest.approx(by_shares["theta"], rel=1e-8)


def test_retired_and_added_actions_are_judged_by_their_waves(store, tmp_path):
    campaign = run(made(store), sizes=(90, 60))
    campaign.amend(retire=["mail"], add=["late"], reason="another offer")
    run(campaign, sizes=(80,), start=2_000)
    found = campaign.findings()
    lifts = {lift.action: lift for lift in found.lifts}
    assert [one.wave for one in lifts["mail"].waves] == [1, 2]
    assert [one.wave for one in lifts["late"].waves] == [3]
    assert [one.wave for one in lifts["call"].waves] == [1, 2, 3]
    assert found.rule.shares["mail"] == 0
    assert not found.run.over_actions["late"].known
    for gain in (found.run.over_random, found.run.over_best):
        assert "Only the 1 wave with the same actions as the last wave" in gain.note
    assert any("mail was retired" in note for note in found.notes)
    assert any("late was added later" in note for note in found.notes)
    _, waves = exported(campaign, tmp_path)
    expected = oracle.wave_estimate(waves[:2], "lift", 2)
    assert lifts["mail"].waves[1].interval.estimate == pytest.approx(expected["theta"], rel=1e-8)


def test_waves_beyond_the_plan_count_by_their_size(store):
    campaign = run(made(store))
    before = campaign.findings()
    campaign.amend(sizes=[70], reason="one more")
    run(campaign, sizes=(70,), start=9_000)
    found = campaign.findings()
    assert [one.weight for one in found.lifts[0].waves][3:] == [pytest.approx(70 / 300)]
    # The shares of the variance were spent: looks do not count the wave.
    assert found.lifts[0].same.estimate == before.lifts[0].same.estimate


def test_everybody_gets_the_same(store):
    policy = {"kind": "FixedAction", "action": 1}
    changes = {"randomised": 0, "floor": 0, "policy": policy}
    found = run(made(store, **changes)).findings()
    assert found.decision.lead == "Nothing can be compared with none yet."
    assert found.means[0].interval.known


def test_no_outcomes_is_no_error(store):
    campaign = made(store)
    assert str(campaign.findings()) == "No outcomes yet."
    campaign.assign(people(90, 0))
    found = campaign.findings()
    assert found.decision.lead == "No outcomes yet: wave 1 is open."
    assert found.tables() == []
    json.dumps(found.plain(), allow_nan=False)


def test_one_wave_alone(store):
    found = run(made(store), sizes=(90,)).findings()
    assert found.waves == (1,)
    assert found.splits == found.drift == ()
    assert found.stopping.inflated is None
    # All units were assigned at random: nothing was earned by learning.
    assert found.run.adaptive == ()
    assert "The campaign" not in dict(found.decision.facts)
    assert [lift.interval.known for lift in found.lifts] == [True, True]


def test_outcomes_that_are_all_equal(store):
    campaign = run(made(store), value=lambda frame, _: np.ones(len(frame)))
    found = campaign.findings()
    assert str(found).startswith("All outcomes so far are equal")
    assert found.lifts == ()


def test_no_control_compares_with_the_first_action(store):
    found = run(made(store, control=None)).findings()
    assert (found.control, found.control_declared) == ("call", False)
    assert any("No control was declared" in note for note in found.notes)


def test_a_policy_without_chances_is_judged_by_the_first_wave(store):
    found = run(made(store, control=None, randomised=0, floor=0)).findings()
    assert all([one.wave for one in lift.waves] == [1] for lift in found.lifts)
    assert not found.run.over_random.known
    assert "The campaign" not in dict(found.decision.facts)


def test_a_wave_that_is_skipped_teaches_nothing(store):
    campaign = run(made(store), sizes=(90,))
    campaign.assign(people(60, 5_000))
    campaign.close(force=True, skip=True, reason="a broken link")
    run(campaign, sizes=(80,), start=7_000)
    found = campaign.findings()
    assert (found.waves, found.skipped) == ((1, 3), (2,))
    assert found.units == 170


def test_an_aborted_campaign_keeps_the_outcomes_of_its_last_wave(store):
    campaign = run(made(store), sizes=(90,))
    run(campaign, sizes=(60,), start=3_000, close=False)
    assert campaign.findings().waves == (1,)
    campaign.abort(reason="enough")
    assert campaign.findings().waves == (1, 2)


def test_outcomes_missing_by_feature_are_modelled(store):
    campaign = made(store, grid={"sizes": [1_500, 600]})
    for number, size in enumerate((1_500, 600)):
        given = people(size, 5_000 * number)
        frame = pl.from_arrow(campaign.assign(given).table)
        random = np.random.default_rng(number)
        rows = frame.select("customer").with_columns(pl.Series("visit", binary(frame, random)))
        gone = (given["age"] > 45).to_numpy() & (random.random(size) < 0.7)
        campaign.record(rows.filter(pl.Series(~gone)))
        campaign.close(force=True, reason="as it is")
    found = campaign.findings()
    assert any("depends only on features and action" in what for what, _ in found.assumptions)


def test_texts_that_are_no_levels_are_one_segment(store):
    zips = {"zip": {"levels": ["u", "r"], "other": True, "missing": "level"}}
    campaign = made(store, features={"categorical": zips}, report={"segments": ["zip"]})
    texts = pl.Series("zip", ["u", "r", "u", "r", None, "U", "x", "y", "z"] * 10)
    rows = people(90, 0).select("customer").with_columns(texts)
    given = pl.from_arrow(campaign.assign(rows).table)
    visits = pl.Series("visit", binary(given, np.random.default_rng(1)))
    campaign.record(given.select("customer").with_columns(visits))
    campaign.close()
    found = campaign.findings()
    assert {one.segment for one in found.segments} == {"u", "r", "missing", "other"}


def test_segments_must_have_levels(store):
    with refused("invalid-spec", field="report.segments"):
        made(store, report={"segments": ["age"]})


# ----------------------------------------------------------------------
# Metrics beside the objective.


METRICS = {
    "left": {"kind": "yes/no", "absent": 0, "guardrail": {"at_most_control_plus": 0.3}},
    "spend": {"kind": "amount", "unit": "EUR", "absent": 0, "cap": 40},
    "rating": {"kind": "amount", "guardrail": {"at_least": 2}},
}


def with_metrics(store, *, back=0.6, metrics=METRICS, sizes=(90, 60, 80), **changes):
    """Run a campaign of which only some units have a row, and not all rows have a rating."""
    visit = about("visit", kind="yes/no", absent=0, metrics=metrics, **changes.pop("money", {}))
    campaign = made(store, **{"grid": {"sizes": list(sizes)}, **visit, **changes})
    for number, size in enumerate(sizes):
        frame = pl.from_arrow(campaign.assign(people(size, 1_000 * number)).table)
        random = np.random.default_rng([5, number])
        bought = random.random(size) < 0.3
        drawn = {
            "visit": binary(frame, random),
            "left": (random.random(size) < 0.15) * 1.0,
            "spend": np.where(bought, random.exponential(30, size), 0.0),
            "rating": random.normal(5, 1, size),
        }
        rows = frame.select("customer").with_columns(
            **{name: pl.Series(drawn[name]) for name in ("visit", *metrics)}
        )
        if "rating" in metrics:
            gone = pl.Series(random.random(size) < 0.2)
            rating = pl.when(gone).then(None).otherwise(pl.col("rating"))
            rows = rows.with_columns(rating=rating)
        campaign.record(rows.filter(pl.Series(random.random(size) < back)))
        campaign.close(force=True, reason="as it is")
    return campaign


def metric(found, name):
    return next(one for one in found.metrics if one.name == name)


def test_every_metric_agrees_with_the_literal_oracle(store, tmp_path):
    campaign = with_metrics(store, sizes=(240, 160, 200))
    found = campaign.findings()
    assert [one.name for one in found.metrics] == ["visit", "left", "spend", "rating"]
    for name, absent in (("visit", None), ("left", 0.0), ("spend", 0.0), ("rating", None)):
        _, waves = exported(campaign, tmp_path, column=name, absent=absent)
        for row in (row for wave in waves for row in wave):
            row["y"] = min(row["y"], 40.0) if name == "spend" else row["y"]
        for action, mean in enumerate(metric(found, name).means):
            same(mean.interval, waves, "mean", action)
        for action, lift in enumerate(metric(found, name).lifts, start=1):
            same(lift.interval, waves, "lift", action)
    # The objective's metric has the objective's own answer, and is not shown twice.
    assert not metric(found, "visit").shown
    for one, other in zip(metric(found, "visit").lifts, found.lifts, strict=True):
        assert one.interval == other.interval


def test_a_metric_counts_what_was_recorded(store):
    found = with_metrics(store).findings()
    visit, left, rating = (metric(found, name) for name in ("visit", "left", "rating"))
    assert (visit.recorded, visit.absent) == (left.recorded, left.absent)
    assert left.recorded + left.absent == 230
    # Without a value for units without a row they are missing.
    assert rating.absent == 0
    assert 0 < rating.recorded < left.recorded
    counts = f"{rating.recorded} recorded, {230 - rating.recorded} missing"
    assert f"rating: of 230 customers, {counts}." in found.notes


def test_metrics_are_told_in_tables_and_json(store):
    found = with_metrics(store, back=0.8, sizes=(240, 160, 200)).findings()
    titles = {table.title: table for table in found.tables()}
    left = titles["left per 100 customers; guardrail: at most 30 more than none"]
    assert left.columns[0] == "action"
    assert left.columns[-1] == "guardrail"
    assert [row[0] for row in left.cells()] == ["none", "call", "mail"]
    # A bound on the difference from the control does not bound the control.
    assert [row[-1] for row in left.cells()] == ["", "kept", "kept"]
    assert "spend in EUR per customer (capped at 40); more is better" in titles
    plain = json.loads(json.dumps(found.plain(), allow_nan=False))
    told = {one["name"]: one for one in plain["metrics"]}
    assert (told["spend"]["kind"], told["spend"]["unit"]) == ("amount", "EUR")
    assert told["spend"]["guardrail"] is None
    rail = told["left"]["guardrail"]
    assert (rail["bound"], rail["side"], rail["relative"]) == (0.3, "at most", True)
    assert [one["action"] for one in rail["actions"]] == ["call", "mail"]
    assert {"action", "code", "interval", "adjusted_p"} == set(rail["actions"][0])
    lift = told["left"]["lifts"][0]
    assert lift["interval"]["estimate"] == metric(found, "left").lifts[0].interval.estimate
    assert told["rating"]["guardrail"]["actions"][0]["code"] == "kept"


def test_a_list_of_buyers_judges_no_guardrail(tmp_path):
    # Half a percent leave, but of those with a row one in eight: without a word on what a missing
    # row means, nothing but the recorded rows is known.
    metrics = {"left": {"kind": "yes/no", "guardrail": {"at_most": 0.02}}}
    store = open_store(tmp_path / "c.db")
    visit = about("visit", kind="yes/no", absent=0, metrics=metrics)
    campaign = made(store, grid={"sizes": [1_500]}, **visit)
    frame = pl.from_arrow(campaign.assign(people(1_500, 0)).table)
    rows = (
        frame.select("customer").head(64).with_columns(visit=1, left=pl.Series([1, *[0] * 7] * 8))
    )
    campaign.record(rows)
    [doubt] = campaign.close().doubts
    assert (doubt.kind, doubt.column, doubt.rows) == ("metric-mostly-missing", "left", 1_436)
    assert doubt in campaign.status().doubts
    found = campaign.findings()
    assert {one.code for one in metric(found, "left").guardrail} == {"not-clear"}
    assert not any(one.interval.known for one in metric(found, "left").guardrail)
    assert any(note.startswith("left: most units have no value") for note in found.notes)
    # What a missing row means can still be said when the waves are closed.
    with refused("finished"):
        campaign.amend(reason="of the objective", metrics={"visit": {"absent": 1}})
    campaign.amend(reason="no row, no complaint", metrics={"left": {"absent": 0}})
    found = campaign.findings()
    assert {one.code for one in metric(found, "left").guardrail} == {"kept"}
    assert not any("most units" in note for note in found.notes)
    assert campaign.status().doubts == ()
    assert campaign.verify().sound
    store.close()


def test_what_a_purchase_is_worth_changes_no_verdict(store, tmp_path):
    """Worth 12.5 each, all numbers are 12.5 times as large; yes or no stays yes or no."""
    rule = {"stopping": {"rule": "obrien-fleming", "alpha": 1e-6}}
    own = with_metrics(store, metrics={}, **rule).findings()
    worth = with_metrics(
        open_store(tmp_path / "worth.db"), metrics={}, currency="EUR", money={"value": 12.5}, **rule
    ).findings()
    assert worth.measure.head == "value in EUR per customer (12.50 per visit)"
    assert own.measure.head == "visits per 100 customers"

    def compare(one, other, path=""):
        if isinstance(one, dict):
            for key in one:
                money = key in ("estimate", "error", "low", "high") or path.endswith("coefficients")
                compare(one[key], other[key], f"{path}.{key}" + ("*" if money else ""))
        elif isinstance(one, list):
            for a, b in zip(one, other, strict=True):
                compare(a, b, path)
        elif isinstance(one, float):
            times = 12.5 if "*" in path else 1.0
            assert other == pytest.approx(times * one, rel=1e-9, abs=1e-12), path
        elif one is not None:
            assert one == other, path

    kept = ("means", "lifts", "run", "rule", "segments", "splits", "drift", "stopping")
    plain, more = own.plain(), worth.plain()
    for key in kept:
        compare(plain[key], more[key], key)
    # The metric itself is shown in its own unit.
    assert metric(worth, "visit").shown
    for mean, other in zip(metric(worth, "visit").means, own.means, strict=True):
        assert mean.interval.estimate == pytest.approx(other.interval.estimate)


def test_metrics_are_before_costs(store, tmp_path):
    actions = [{"name": "call", "cost": 0.25}, "none", "mail"]
    campaign = with_metrics(
        store, actions=actions, currency="EUR", money={"value": 2.0, "less_costs": True},
        sizes=(240, 160, 200),
    )  # fmt: skip
    found = campaign.findings()
    assert found.measure.head == "profit in EUR per customer (2.00 per visit, less costs)"
    for mean, own in zip(found.means, metric(found, "visit").means, strict=True):
        cost = 0.25 if mean.action == "call" else 0.0
        assert mean.interval.estimate == pytest.approx(2 * own.interval.estimate - cost)
    _, waves = exported(campaign, tmp_path, column="left", absent=0.0)
    same(metric(found, "left").means[1].interval, waves, "mean", 1)


def test_nobody_counts_as_absent_before_the_wait_is_over(store):
    clock = Clock()
    metrics = {"left": {"kind": "yes/no", "absent": 0, "after": "14 days"},
               "late": {"kind": "yes/no", "absent": 0}}  # fmt: skip
    spec = {**SPEC, **about("visit", kind="yes/no", absent=0, metrics=metrics),
            "grid": {"sizes": [90, 60]}}  # fmt: skip
    campaign = Campaign.create(spec, store=store, who="ann", clock=clock)
    for wave, size in enumerate((90, 60)):
        frame = pl.from_arrow(campaign.assign(people(size, 1_000 * wave)).table)
        random = np.random.default_rng(wave)
        rows = frame.select("customer").with_columns(
            visit=binary(frame, random), left=(random.random(size) < 0.5) * 1.0,
            late=(random.random(size) < 0.5) * 1.0,
        )  # fmt: skip
        campaign.record(rows[:40])
        clock.time += timedelta(days=10)
        # The first wave's units have waited for 10 days when it is closed.
        campaign.close()
        if not wave:
            found = campaign.findings()
            assert (metric(found, "left").recorded, metric(found, "left").absent) == (40, 0)
            assert (metric(found, "late").recorded, metric(found, "late").absent) == (40, 50)
    closed = campaign.situation().closes[0]
    found = campaign.findings()
    assert (metric(found, "left").recorded, metric(found, "left").absent) == (80, 50)
    assert metric(found, "late").absent == 70
    # What was known at an event stays what it was.
    then = campaign.findings(at_event=closed)
    assert (metric(then, "left").recorded, metric(then, "left").absent) == (40, 0)
    clock.time += timedelta(days=10)
    assert metric(campaign.findings(), "left").absent == 70


def test_buyers_alone_do_not_make_a_guardrail_look_broken(store):
    """One in two hundred unsubscribes; of the buyers' rows it is one in eight."""
    metrics = {"left": {"kind": "yes/no", "absent": 0, "guardrail": {"at_most": 0.05}}}
    spec = {**SPEC, **about("visit", kind="yes/no", absent=0, metrics=metrics),
            "features": {}, "report": {}, "grid": {"sizes": [3_000]}}  # fmt: skip
    campaign = Campaign.create(spec, store=store)
    frame = pl.from_arrow(campaign.assign(people(3_000, 0).select("customer")).table)
    random = np.random.default_rng(2)
    rows = frame.select("customer").with_columns(
        visit=(random.random(3_000) < 0.035) * 1.0, left=(random.random(3_000) < 0.005) * 1.0
    )
    rows = rows.filter(pl.col("visit") + pl.col("left") > 0)
    assert rows["left"].mean() > 0.1
    campaign.record(rows)
    campaign.close(force=True, reason="buyers only")
    found = campaign.findings()
    left = metric(found, "left")
    assert all(mean.interval.estimate < 0.02 for mean in left.means if mean.interval.known)
    assert {one.code for one in left.guardrail} == {Guarded.KEPT}
    assert not found.barred


def test_a_metric_that_never_happened_keeps_its_bound(store):
    metrics = {
        "left": {"kind": "yes/no", "absent": 0, "guardrail": {"at_most": 0.05}},
        "paid": {"kind": "amount", "absent": 0, "guardrail": {"at_most": 0.05}},
    }
    spec = {**SPEC, **about("visit", kind="yes/no", absent=0, metrics=metrics),
            "features": {}, "report": {}, "grid": {"sizes": [900]}}  # fmt: skip
    campaign = Campaign.create(spec, store=store)
    frame = pl.from_arrow(campaign.assign(people(900, 0).select("customer")).table)
    visit = pl.Series(binary(frame, np.random.default_rng(1)))
    campaign.record(frame.select("customer").with_columns(visit=visit, left=0.0, paid=0.0))
    campaign.close()
    found = campaign.findings()
    left, paid = metric(found, "left"), metric(found, "paid")
    # No rate above 5% would leave 300 units alone; amounts that were never seen may be huge.
    assert {one.code for one in left.guardrail} == {Guarded.KEPT}
    assert {one.code for one in paid.guardrail} == {Guarded.NOT_CLEAR}
    assert left.means[0].interval.few.needed == 5
    assert "All outcomes so far are equal" in paid.means[0].interval.note


def test_masked_campaigns_do_not_judge_against_the_control(store, tmp_path):
    metrics = {"left": {"kind": "yes/no", "guardrail": {"at_most_control_plus": 0.01}}}
    spec = {**SPEC, **about("visit", kind="yes/no", metrics=metrics), "masked": True}
    campaign = Campaign.create(spec, store=store, key=tmp_path / "key")
    frame = pl.from_arrow(campaign.assign(people(90, 0)).table)
    random = np.random.default_rng(3)
    drawn = {name: pl.Series((random.random(90) < 0.5) * 1.0) for name in ("visit", "left")}
    campaign.record(frame.select("customer").with_columns(**drawn))
    campaign.close()
    judged = metric(campaign.findings(), "left").guardrail
    assert {one.code for one in judged} == {Guarded.NOT_CLEAR}
    assert all("Only the key names the control" in one.interval.note for one in judged)


def test_metrics_of_every_store_are_the_same(store, tmp_path):
    # A lake draws actions by MD5 unless the spec says otherwise.
    lake = with_metrics(open_store(f"lake:{tmp_path / 'lake'}"), draws="md5").findings()
    here = with_metrics(store, draws="md5").findings()
    assert lake.plain()["metrics"] == here.plain()["metrics"]


def test_sums_from_a_warehouse_say_what_they_lack(tmp_path):
    campaign = Campaign.create(ELSEWHERE, store=open_store(tmp_path / "c.db"))
    with refused("rows-elsewhere", match="no verdict about guardrails"):
        campaign.findings()
    [name] = ELSEWHERE["metrics"]
    guarded = {**ELSEWHERE["metrics"][name], "guardrail": {"at_most": 3}}
    with refused("invalid-spec", field="rows", match="guardrails would need the rows"):
        Campaign.create({**ELSEWHERE, "metrics": {name: guarded}}, store=campaign.store)


def test_lifts_of_those_who_may_get_the_action_are_compared_between_waves(store, tmp_path):
    sizes = (400, 300, 300)
    campaign = run(made(store, eligible={"call": "member"}, grid={"sizes": sizes}), sizes=sizes)
    found = campaign.findings()
    names, waves = exported(campaign, tmp_path)
    changes = [
        oracle.change(
            oracle.estimates(waves, "lift", place, keep=lambda row, a=place: row["p"][a] > 0)
        )
        for place in (1, 2)
    ]
    lifts = [one for one in found.drift if one.kind == "lift"]
    assert [one.about for one in lifts] == [f"lift of {name} over none" for name in names[1:]]
    assert [one.statistic for one in lifts] == pytest.approx([one["Q"] for one in changes])
    assert min(one.statistic for one in lifts) > 0


def test_a_lift_of_one_wave_has_nothing_to_be_compared_with(store):
    campaign = run(made(store, grid={"sizes": [90, 60]}), sizes=(90,))
    campaign.amend(reason="an idea", add=["late"])
    run(campaign, sizes=(60,), start=5_000)
    about = [one.about for one in campaign.findings().drift if one.kind == "lift"]
    assert about == ["lift of call over none", "lift of mail over none"]


def test_splits_that_cannot_be_tested_say_why(store, tmp_path):
    def rarely(frame, random):
        return (random.random(len(frame)) < 0.04) * 1.0

    campaign = run(made(store, grid={"sizes": [90, 60, 80]}), value=rarely)
    found = campaign.findings()
    [table] = [one for one in found.tables() if one.title.startswith("Splits found")]
    for row, one in zip(table.rows, found.splits, strict=True):
        assert not one.difference.known
        assert row[-1] == one.difference.note
    page = campaign.report(tmp_path / "report.md", appendix=True).read_text("utf-8")
    assert "the later waves could test none of them" in page


def test_segments_are_of_those_who_may_get_the_action_or_say_why_not(store, tmp_path):
    sizes, rules = (400, 300, 300), {"call": "member and age >= 38"}
    campaign = run(made(store, eligible=rules, grid={"sizes": sizes}), sizes=sizes)
    found = campaign.findings()
    names, waves = exported(campaign, tmp_path)
    by = {(one.action, one.segment): one for one in found.segments}
    assert len(by) == 4
    yes, no = by["call", "yes"], by["call", "no"]

    def could(row):
        return row["p"][names.index("call")] > 0

    parts = oracle.estimates(waves, "lift", names.index("call"), keep=could)
    sizes = [part["n"] for part in parts]
    average = sum(part["theta"] * n for part, n in zip(parts, sizes, strict=True)) / sum(sizes)
    assert yes.interval.estimate == pytest.approx(average, rel=1e-8)
    members = [row for wave in waves for row in wave if row["member"]]
    assert yes.among == pytest.approx(sum(map(could, members)) / len(members))
    assert (yes.unknown, by["mail", "no"].unknown, by["mail", "no"].among) == ("", "", 1.0)
    # No member, no call: the cell says so, and has no p-value.
    assert (no.unknown, no.among) == ("not-eligible", 0.0)
    plain = next(one for one in json.loads(json.dumps(found.plain()))["segments"]
                 if (one["action"], one["segment"]) == ("call", "no"))  # fmt: skip
    assert (plain["unknown"], plain["adjusted_p"]) == ("not-eligible", None)
    [table] = [table for table in found.tables() if "declared segments" in table.title]
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        assert bool(cells["p (Holm)"]) == (not cells["note"])
    assert no.interval.note in campaign.report(tmp_path / "report.html").read_text("utf-8")
