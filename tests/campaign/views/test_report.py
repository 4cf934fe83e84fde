"""The report agrees with the findings, in every format, for every kind of campaign."""

import base64
import html
import json
import re
from collections import Counter
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.campaign_waves import ModelColumns
from seqbatch.campaign.views.findings_text import with_sections
from seqbatch.campaign.views.report import report
from seqbatch.campaign.views.report_pictures import Bar, Predicted, Share, predictions, shares
from seqbatch.campaign.views.report_pictures import intervals as interval_picture
from seqbatch.campaign.views.report_results import gathered
from seqbatch.chart import LineMark, PointMark
from seqbatch.document import Table
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.hostile import EVERY, acts
from tests.marks import marks_of, words_of

SECTIONS = ("answer", "conduct", "flow", "allocation", "outcomes", "who", "value", "metrics",
            "quality", "stopping", "audit", "methods", "assumed")  # fmt: skip
SPEC = {
    "name": "shop", "seed": 5, "unit": "customer", "actions": ["none", "mail", "call"],
    "control": "none", "randomised": 0.2, "floor": 0.02, "grid": {"sizes": [900, 900]},
    **about("visit", kind="yes/no"),
    "features": {"numeric": {"age": "learn", "member": "raw"}},
}  # fmt: skip
CHANCES = {"none": 0.2, "mail": 0.25, "call": 0.6}


@pytest.fixture
def store(tmp_path):
    made = open_store(tmp_path / "campaigns.db")
    yield made
    made.close()


def wave(campaign, number, count, *, chances=CHANCES, close=True, scale=1.0):
    """Assign, record and close a wave in which members are worth more."""
    random = np.random.default_rng([3, number])
    given = pl.DataFrame({
        "customer": [f"{number}-{n}" for n in range(count)],
        "age": random.normal(40, 12, count), "member": random.integers(0, 2, count),
        "region": ["north", "south"] * (count // 2) + ["north"] * (count % 2),
    })  # fmt: skip
    table = pl.from_arrow(campaign.assign(given).table)
    p = np.array([chances.get(action, 0.3) for action in table["action"]])
    y = scale * (random.random(count) < p + 0.1 * (given["member"].to_numpy() - 0.5))
    column = campaign.situation().spec.reward.columns[0]
    campaign.record(pl.DataFrame({"customer": table["customer"], column: y}))
    if close:
        campaign.close()


def run(store, *, waves=2, **changes):
    campaign = Campaign.create({**SPEC, **changes}, store=store)
    for number in range(1, waves + 1):
        wave(campaign, number, 900)
    return campaign


def page(campaign, tmp_path, **more):
    return campaign.report(tmp_path / "report.html", force=True, **more).read_text(encoding="utf-8")


def section(text, key):
    """Return the text of one section, without its tags."""
    inside = text.partition(f'<section id="{key}"')[2].partition("</section>")[0]
    return html.unescape(re.sub(r"<[^>]*>", " ", inside.partition(">")[2]))


def alternatives(text):
    return [html.unescape(found) for found in re.findall(r'<img [^>]*alt="([^"]*)"', text)]


def test_the_page_says_what_the_findings_say(store, tmp_path):
    campaign = run(store)
    found, text = campaign.findings(), page(campaign, tmp_path)
    first = section(text, "answer")
    made = found.decision
    assert made.lead == "Give call to every customer."
    for said in (made.about, made.lead, *made.worth, *(one for pair in made.facts for one in pair)):
        assert said in first
    best = found.best
    told = [found.measure.number(v, best.together.error)
            for v in (best.together.estimate, best.together.low, best.together.high)]  # fmt: skip
    lifts = alternatives(text)[0]
    assert f"call: +{told[0]} ({told[1]} to {told[2]}), better" in lifts
    assert "visits per 100 customers, compared with none (more is better)" in lifts
    assert "Give call to every customer." in first
    for table in found.tables():
        assert table.html() in text
    for what, how in found.assumptions:
        assert what in section(text, "assumed")
        assert how in section(text, "assumed")


def test_a_page_is_one_file_without_scripts_or_network(store, tmp_path):
    text = page(run(store), tmp_path)
    assert [path.name for path in tmp_path.iterdir() if "report" in path.name] == ["report.html"]
    assert "<script" not in text
    assert "default-src 'none'" in text
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    # Links within the page lead somewhere.
    assert set(re.findall(r'href="#([^"]*)"', text)) == set(re.findall(r'id="([^"]*)"', text)) - {
        "answer"
    }


def test_every_section_is_there_with_its_pictures(store, tmp_path):
    text = page(run(store), tmp_path)
    assert tuple(re.findall(r'<section id="([^"]*)"', text)) == SECTIONS
    told = alternatives(text)
    assert len(told) == text.count("<img ") == 6
    assert all(len(words) > 60 for words in told)
    assert any("wave 1: none 3" in one for one in told)
    assert any(one.startswith("Assigned: ") for one in told)
    for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', text):
        assert base64.b64decode(data).startswith(b"<svg")


def test_every_table_of_the_findings_stands_once_and_in_its_section(store):
    """All tables that findings can have, segments and looks included."""
    features = {"numeric": {"age": "learn"}, "categorical": {"member": ["0", "1"]}}
    campaign = run(store, waves=1, features=features, report={"segments": ["member"]},
                   stopping={"rule": "pocock"})  # fmt: skip
    campaign.go_on(reason="to see a second wave")
    wave(campaign, 2, 900)
    of = gathered(store, "shop")
    stand = [
        (section.key, part)
        for section in report(of).sections
        for part in section.parts
        if isinstance(part, Table)
    ]
    found = with_sections(campaign.findings())
    counts = {"outcomes": 4, "value": 1, "who": 3, "stopping": 1, "quality": 2, "methods": 3}
    assert Counter(key for key, _ in found) == counts
    for key, table in found:
        assert [where for where, part in stand if part.title == table.title] == [key]


def test_no_word_of_the_trade_is_on_the_first_screen(store, tmp_path):
    first = section(page(run(store), tmp_path), "answer").lower()
    for word in ("bandit", "policy", "regret", "estimator", "propensity", "p-value", "alpha",
                 "statistic", "doubly", "boundary"):  # fmt: skip
        assert word not in first, word


def test_without_outcomes_it_says_so(store, tmp_path):
    campaign = Campaign.create(SPEC, store=store)
    text = page(campaign, tmp_path)
    assert "No outcomes yet." in section(text, "answer")
    assert "0 customers so far, wave 1 of 2" in section(text, "answer")
    assert "No unit has an action yet." in section(text, "allocation")
    for key in ("outcomes", "who", "value"):
        assert "No outcomes yet." in section(text, key)
    assert "<img" not in text
    campaign.abort(reason="a complaint")
    ended = page(campaign, tmp_path)
    assert "aborted" in section(ended, "answer")
    assert "Reason: a complaint" in section(ended, "conduct")


def test_outcomes_that_are_all_equal(store, tmp_path):
    campaign = Campaign.create(SPEC, store=store)
    wave(campaign, 1, 900, scale=0.0)
    text = page(campaign, tmp_path)
    assert "All outcomes so far are equal" in section(text, "answer")
    assert len(alternatives(text)) == 2


def test_less_may_be_better(store, tmp_path):
    complaints = about("visit", kind="yes/no", unit="complaints", direction="min")
    campaign = run(store, **complaints)
    text = page(campaign, tmp_path)
    first = section(text, "answer")
    assert re.search(r"call: \+[0-9.]+ \([0-9.]+ to [0-9.]+\), worse", alternatives(text)[0])
    assert "(less is better)" in alternatives(text)[0]
    assert "Give call" not in first
    assert "keep none" in first


def test_nothing_shown_keeps_the_control(store, tmp_path):
    campaign = Campaign.create({**SPEC, "grid": {"sizes": [300]}}, store=store)
    wave(campaign, 1, 300, chances={"none": 0.4, "mail": 0.4, "call": 0.4})
    text = page(campaign, tmp_path)
    assert "No clear winner: keep none." in section(text, "answer")
    assert "not clear" in alternatives(text)[0]


def test_what_is_retired_is_not_recommended(store, tmp_path):
    campaign = run(store, waves=1)
    campaign.amend(reason="too dear", retire=["call"])
    wave(campaign, 2, 900, chances={"none": 0.1, "mail": 0.7})
    first = section(page(campaign, tmp_path), "answer")
    assert "Give mail to every customer." in first
    assert "Give call" not in first


def test_what_weakens_the_answer_is_said_at_once(store, tmp_path):
    campaign = run(store, waves=1)
    assert "Careful" not in section(page(campaign, tmp_path), "answer")
    # The call, which was best by far, is of no use any more.
    wave(campaign, 2, 900, chances={"none": 0.2, "mail": 0.25, "call": 0.1})
    first = section(page(campaign, tmp_path), "answer")
    assert "the effect of call changed between waves" in first
    small = Campaign.create({**SPEC, "name": "few", "grid": {"sizes": [60]}}, store=store)
    wave(small, 1, 60)
    assert "Some action has few outcomes in wave 1" in section(page(small, tmp_path), "answer")


def test_many_actions_are_summed_up(store, tmp_path):
    names = [f"offer {n}" for n in range(12)]
    campaign = Campaign.create(
        {**SPEC, "actions": names, "control": names[0], "grid": {"sizes": [2400]}}, store=store
    )
    wave(campaign, 1, 2400, chances=dict.fromkeys(names, 0.3) | {"offer 3": 0.8})
    text = page(campaign, tmp_path)
    first = section(text, "answer")
    assert "Give offer 3 to every customer." in first
    lifts = alternatives(text)[0]
    assert all(f"offer {n}: " in lifts for n in range(1, 12))
    # The best is on top.
    assert lifts.index("offer 3: ") < min(lifts.index(f"offer {n}: ") for n in range(4, 12))


def test_calendar_waves(store, tmp_path):
    campaign = Campaign.create(
        {**SPEC, "grid": {"calendar": True, "waves": 3, "units": 1800}}, store=store
    )
    wave(campaign, 1, 900)
    wave(campaign, 2, 300, close=False)
    text = page(campaign, tmp_path)
    assert "3 waves, ended by the calendar; 1,800 customers were expected" in section(
        text, "conduct"
    )
    assert "open-ended" in section(text, "conduct")
    assert "wave 2 of 3" in section(text, "answer")
    assert "Wave 2 is open; its outcomes count once it is closed." in section(text, "quality")


def test_amendments_guardrails_and_stopping(store, tmp_path):
    metrics = {
        "unsubscribed": {"kind": "yes/no", "guardrail": {"at_most": 0.5}},
        "spend": {"unit": "EUR"},
    }
    campaign = Campaign.create(
        {**SPEC, **about("visit", kind="yes/no", metrics=metrics),
         "stopping": {"rule": "obrien-fleming"}, "grid": {"sizes": [900, 300, 300]}},
        store=store,
    )  # fmt: skip
    random = np.random.default_rng(4)
    given = pl.DataFrame({"customer": [str(n) for n in range(900)], "member": [0, 1] * 450,
                          "age": random.normal(40, 9, 900)})  # fmt: skip
    table = pl.from_arrow(campaign.assign(given).table)
    y = random.random(900) < np.where(table["action"] == "call", 0.9, 0.1)
    left, spend = random.random(900) < 0.9, random.normal(20, 5, 900)
    rows = {"customer": table["customer"], "visit": y * 1.0, "unsubscribed": left * 1.0}
    campaign.record(pl.DataFrame({**rows, "spend": spend}))
    campaign.close()
    assert campaign.situation().stop == "stop for success"
    text = page(campaign, tmp_path)
    first = section(text, "answer")
    assert "stop for success after wave 1." in first
    assert "No action can be recommended: every other action breaks a guardrail." in first
    assert "unsubscribed BROKEN (" in first
    metrics = section(text, "metrics")
    assert "unsubscribed per 100 customers; guardrail: at most 50" in metrics
    assert "spend in EUR per customer; more is better" in metrics
    assert metrics.count("BROKEN") == 2 * 3
    assert "stop for success" in section(text, "stopping")
    campaign.go_on(reason="to be sure")
    campaign.amend(reason="too dear", sizes=[400], retire=["mail"])
    text = page(campaign, tmp_path)
    assert "continued despite the stopping rule" in section(text, "stopping")
    assert "900, 300, 300" in section(text, "audit")
    assert "Reason: too dear" in section(text, "conduct")
    assert campaign.situation().hash in section(text, "audit")
    assert "mail was retired" in section(text, "quality")


def test_as_it_was_at_an_event(store, tmp_path):
    campaign = Campaign.create(SPEC, store=store)
    wave(campaign, 1, 900)
    campaign.report(tmp_path / "then.json")
    events = campaign.situation().sequence
    wave(campaign, 2, 900)
    then = json.loads((tmp_path / "then.json").read_text())
    again = campaign.report(tmp_path / "again.json", at_event=events)
    made = json.loads(again.read_text())
    assert made["findings"] == then["findings"]
    assert made["hash"] == then["hash"]
    now = json.loads(campaign.report(tmp_path / "now.json").read_text())
    assert now["findings"]["waves"] == [1, 2]


def test_json_and_markdown_say_the_same(store, tmp_path):
    campaign = run(store)
    told = json.loads(campaign.report(tmp_path / "r.json").read_text())
    found = campaign.findings(tree=True)
    assert told["findings"] == json.loads(json.dumps(found.plain()))
    assert [one["key"] for one in told["sections"]] == list(SECTIONS)
    assert told["sections"][0]["parts"][1] == {"heading": found.decision.lead}
    assert told["findings"]["decision"]["lead"] == "Give call to every customer."
    assert told["findings"]["recommendation"]["code"] == "give"
    short = campaign.report(tmp_path / "short.md").read_text(encoding="utf-8")
    text = campaign.report(tmp_path / "r.md", appendix=True).read_text(encoding="utf-8")
    assert "## " not in short.replace("### ", "")
    assert text.startswith(short.rstrip())
    assert text.startswith(f"# Campaign shop\n\n{found.decision.about}\n")
    assert text.count("\n## ") == len(SECTIONS) - 1
    for table in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1


def test_hostile_names_act_in_no_format(store, tmp_path):
    names = list(dict.fromkeys(name for name in EVERY if name.strip()))[:12]
    campaign = Campaign.create(
        {**SPEC, "actions": names, "control": names[0], "grid": {"sizes": [1200]},
         **about(names[1], unit=names[2], range=[0, 1])},
        store=store,
    )  # fmt: skip
    wave(campaign, 1, 1200)
    for ending in ("html", "md", "json"):
        text = campaign.report(tmp_path / f"r.{ending}").read_text(encoding="utf-8")
        assert acts(text) == set()
        if ending != "json":
            assert not re.search(r"<(script|svg|img src=x)", text)


@pytest.mark.usefixtures("few_trials")
def test_a_plan_is_set_beside_what_was_measured(store, tmp_path):
    plan = {"units": 1800, "batches": 2, "max_batches": 2, "effect": 0.2, "noise": 0.45}
    campaign = Campaign.create({**SPEC, "grid": {"plan": plan}}, store=store)
    for number, size in enumerate(campaign.situation().sizes, start=1):
        wave(campaign, number, size)
    of = gathered(store, "shop")
    value = section(page(campaign, tmp_path), "value")
    gain = campaign.findings().run.over_random
    assert of.plan is not None
    row, effect = of.plan.row, of.plan.model.effect
    assert f"planned {100 * row.earned * effect:.2g}, " in value
    assert f"measured {of.found.measure.number(gain.estimate, gain.error)} " in value
    assert f"more than {100 * (effect - row.lower_bound / 1800):.2g} (by the lower bound" in value
    assert "Compared with the plan" not in section(page(run_unplanned(store), tmp_path), "value")


def run_unplanned(store):
    return run(store, name="unplanned")


def test_the_rule_in_words_is_that_of_the_coefficients(store):
    of = gathered(store, run(store).name)
    who = next(one for one in report(of).sections if one.key == "who")
    table = next(part for part in who.parts if getattr(part, "columns", ("",))[0] == "feature")
    rule, member = of.found.rule, next(one for one in of.features if one.name == "member")
    first, second = sorted(rule.coefficients, key=lambda name: -rule.shares[name])[:2]
    assert member.binary
    assert not next(one for one in of.features if one.name == "age").binary
    # One instead of nothing: the standardised coefficient over the spread.
    by = rule.coefficients[first][member.place] - rule.coefficients[second][member.place]
    expected = f"{100 * by / member.spread:+.2g}"
    assert ["member", "1 instead of 0", expected] in table.rows


def test_pictures_are_drawn_of_the_numbers_they_are_given():
    bars = [
        Bar("a", "1", (1.0, 0.5, 1.5), "better"),
        Bar("b" * 99, "0", (0.0, -1.0, 1.0), "not clear"),
    ]
    drawn = interval_picture(bars, title="t", zero="none")
    [first, second] = marks_of(drawn, PointMark)
    assert (first.x, first.y, first.shape) == (1.0, 0.5, "circle")
    assert (second.shape, second.fill) == ("diamond", "white")
    assert [(0.5, 0.5), (1.5, 0.5)] in [mark.points for mark in marks_of(drawn, LineMark)]
    # A long name leaves room for its numbers.
    assert words_of(drawn) == ["a: 1", f"{'b' * 23}…: 0"]
    many = [Share(n, "a", 1.0) for n in range(1, 31)]
    assert words_of(shares(many)) == []
    assert words_of(shares(many[:3])) == ["100%"] * 3
    points = [Predicted("x", v, a, 1.0 + v) for v in (0.0, 1.0) for a in "ab"]
    lines = predictions(points, title="t")
    assert [entry.label for entry in lines.legend] == ["a", "b"]
    looks = {(mark.colour, mark.shape) for mark in marks_of(lines, PointMark)}
    assert looks == {(entry.colour, entry.shape) for entry in lines.legend}
    assert len({colour for colour, _ in looks}) == len({shape for _, shape in looks}) == 2


def test_the_ends_of_a_features_axis_are_those_drawn():
    points = [Predicted("x", value, "a", value) for value in (1.44, 21.4)]
    drawn = predictions(points, title="t").svg()
    # One digit would call 21.4 "20".
    assert ">21.4<" in drawn
    assert ">1.44<" in drawn


def test_rules_limits_and_strata_are_told_with_what_was_used(store, tmp_path):
    campaign = run(
        store, actions=["none", {"name": "mail", "cost": 0.5}, {"name": "call", "cost": 1.0}],
        eligible={"call": "age >= 30"}, capacity={"call": {"each_wave": 150, "total": 280}},
        budget={"total": 600}, strata=["region"], columns={"region": "text"},
    )  # fmt: skip
    campaign.export(tmp_path / "units.parquet")
    given = pl.read_parquet(tmp_path / "units.parquet")
    text = campaign.report(tmp_path / "r.md", appendix=True).read_text()
    assert "call: age &gt;= 30" in text
    assert "call: at most 150 in each wave; at most 280 in all. Budget: at most 600 in all." in text
    assert "in total and within each region" in text
    calls = [
        given.filter((pl.col("wave") == w) & (pl.col("action") == "call")).height for w in (1, 2)
    ]
    assert all(f"| {w} | call | {calls[w - 1]} | 150 |" in text for w in (1, 2))
    assert f"| all | call | {sum(calls)} | 280 |" in text


def test_a_report_without_limits_speaks_of_none(store, tmp_path):
    text = run(store).report(tmp_path / "r.md", appendix=True).read_text()
    assert "Limits" not in text
    assert "balanced" not in text
    assert "masked" not in text


def test_a_masked_report_says_so(store, tmp_path):
    campaign = Campaign.create({**SPEC, "masked": True}, store=store, key=tmp_path / "k")
    text = campaign.report(tmp_path / "r.md", appendix=True).read_text()
    assert "The campaign is masked: until it is unmasked" in text
    assert "Control: named in the key." in text


def test_outcomes_after_the_last_closing_are_counted_once_everywhere(store, tmp_path):
    campaign = Campaign.create({**SPEC, "required_outcomes": 0.5}, store=store)
    wave(campaign, 1, 900)
    given = pl.DataFrame({"customer": [f"2-{n}" for n in range(900)], "age": [40.0] * 900,
                          "member": [0, 1] * 450})  # fmt: skip
    campaign.assign(given)
    back = given.select("customer").with_columns(visit=pl.Series([0.0, 1.0, 1.0] * 300))
    campaign.record(back[:600])
    campaign.close()
    assert "Missing: 300 of 1,800 customers" in section(page(campaign, tmp_path), "quality")
    assert campaign.findings().late == 0
    campaign.record(back[600:])
    found, shown = campaign.findings(), section(page(campaign, tmp_path), "quality")
    assert "Missing: 0 of 1,800 customers" in shown
    assert "Outcomes recorded when each wave was closed" in shown
    assert found.outcomes == 1_800
    assert any(
        note.startswith("Since the last wave was closed, 300 outcomes") for note in found.notes
    )


def test_days_are_told_in_their_own_numbers(store):
    changes = {"start": date(2026, 3, 1), "features": {"date": {"joined": "iso"}}}
    campaign = Campaign.create({**SPEC, **changes, "grid": {"sizes": [100]}}, store=store)
    days = np.arange(100) % 50
    given = pl.DataFrame({
        "customer": [f"{n}" for n in range(100)],
        "joined": [date(2026, 3, 1) - timedelta(days=int(each)) for each in days],
    })  # fmt: skip
    campaign.assign(given)
    campaign.record(given.select("customer").with_columns(visit=pl.Series(days % 2 * 1.0)))
    campaign.close()
    by_name = {one.name: one for one in gathered(store, "shop").features}
    assert by_name["joined days"].mean == pytest.approx(24.5)
    assert by_name["joined days"].spread == pytest.approx(days.std(), rel=0.02)


def test_a_nothing_stays_one_when_a_column_is_scaled_back():
    shares = np.arange(1, 100) / 100
    for mean, spread in zip(shares, np.sqrt(shares * (1 - shares)), strict=True):
        columns = ModelColumns(("intercept", "member"), np.array([0]), np.array([mean]),
                          np.array([spread]), ((0.0, 1.0),))  # fmt: skip
        assert columns.own_value(1, -mean / spread) == 0.0
