"""Campaigns of every kind have their pages, and what can be done with each of them."""

import json
import re

import polars as pl
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from seqbatch.cli.app import app
from seqbatch.service.api_models import FindingsAnswer
from tests.campaign.decide.test_replanning import adaptive, wave
from tests.campaign.specs import about
from tests.campaign.views.test_verify import behind
from tests.campaign.warehouses import ELSEWHERE
from tests.service.pages.visiting import Visit, form
from tests.service.running import running

PAGES = ("", "/findings", "/report", "/protocol", "/history", "/units", "/outcomes", "/close",
         "/files", "/change")  # fmt: skip
UNITS = pl.DataFrame({"unit": [f"u{number}" for number in range(40)], "age": range(40)})
RULED = {"control": "none", "randomised": 0.5, "grid": {"sizes": [40, 40]}}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("kinds") / "campaigns.db") as made:
        yield made


@pytest.fixture(scope="module")
def visit(service):
    made = Visit(service)
    yield made
    made.close()


def looked_at(visit, campaign):
    """Open every page of a campaign; return what they show."""
    texts = {}
    for page in PAGES:
        answer = visit.get(f"/campaigns/{campaign.name}{page}")
        assert answer.status_code == 200, (page, answer.text)
        texts[page] = answer.text
    return texts


def sent(visit, campaign, step, **fields):
    page = f"/campaigns/{campaign.name}"
    answer = visit.fill(f"{page}/change", f"{page}/{step}", fields)
    assert answer.status_code == 303, answer.text
    return visit.get(answer.headers["location"]).text


def test_waves_that_the_calendar_ends(service, visit):
    made = service.campaign(name="calendar", grid={"calendar": True, "waves": 2, "units": 80})
    assert "Assign the units of wave 1." in looked_at(visit, made)[""]
    made.assign(UNITS)
    texts = looked_at(visit, made)
    assert "If the file has more units than fit" not in texts["/units"]
    made.record(UNITS.select("unit", visit=pl.col("age") % 2))
    made.close()
    assert "Assign the units of wave 2." in looked_at(visit, made)[""]


def test_units_without_a_row_count_as_declared(service, visit):
    spec = about("visit", unit="EUR", absent=0)
    made = service.campaign(name="absent", **spec, grid={"sizes": [40, 40]})
    made.assign(UNITS)
    made.record(UNITS.select("unit", visit=pl.lit(1.5)).head(10))
    page = looked_at(visit, made)["/close"]
    assert "30 units without an outcome will count as 0 EUR visit, as declared." in page
    made.close()
    assert "30 counted as absent" in looked_at(visit, made)[""]


def test_rows_that_are_kept_elsewhere(service, visit):
    made = service.campaign(**{**ELSEWHERE, "name": "afar"})
    answers = [visit.get(f"/campaigns/afar{page}") for page in PAGES]
    assert {answer.status_code for answer in answers} <= {200, 409}
    page = answers[0].text
    assert "Its rows are kept elsewhere" in page
    assert not re.search('href="/campaigns/afar/(units|outcomes|close)"', page)
    assert "Its rows are kept elsewhere" in visit.get("/").text
    assert len(made.events()) == 1


def test_a_rule_that_says_stop(service, visit):
    made = service.campaign(name="ruled", **RULED, stopping={"rule": "obrien-fleming"})
    given = pl.from_arrow(made.assign(UNITS).table)
    better = (given["action"] == "mail").cast(pl.Int64)
    made.record(given.select("unit").with_columns(visit=better))
    assert "looks at the results. The look is recorded" in looked_at(visit, made)["/close"]
    made.close()
    texts = looked_at(visit, made)
    assert "stopped by its rule" in texts[""]
    assert "Continue despite the stopping rule" in texts["/change"]
    assert "the campaign continues" in sent(visit, made, "continue", reason="to be sure")
    assert made.events()[-1].why == "to be sure"
    assert made.situation().stop == ""


def test_a_stop_by_the_rule_is_confirmed(service, visit):
    made = service.campaign(name="halted", **RULED, stopping={"rule": "obrien-fleming"})
    given = pl.from_arrow(made.assign(UNITS).table)
    better = (given["action"] == "mail").cast(pl.Int64)
    made.record(given.select("unit").with_columns(visit=better))
    made.close()
    texts = looked_at(visit, made)
    assert "Confirm the stop" in texts["/change"]
    # The headline says how the look bears on the estimate.
    assert "that end at their first look are too favourable on average" in texts["/findings"]
    assert "is stopped by its rule" in sent(visit, made, "stop", reason="the rule's verdict")
    assert "can no longer be changed" in visit.get(f"/campaigns/{made.name}/change").text
    assert "stopped by its rule" in visit.get("/").text
    assert service.get("/v1/campaigns/halted").json()["condition"] == "stopped"


def test_sizes_that_are_proposed_are_adopted(service, visit):
    made = adaptive(service.store)
    wave(made)
    proposed = made.replan().sizes
    assert "Adopt the proposed sizes" in looked_at(visit, made)["/change"]
    page = f"/campaigns/{made.name}"
    other = form(visit.get(f"{page}/change").text, f"{page}/adopt")
    assert "the proposed sizes were adopted." in sent(visit, made, "adopt")
    assert made.situation().sizes[1:] == proposed
    assert made.events()[-1].who == "admin"
    # Sent once more from a page that was open all the time.
    answer = visit.send(f"{page}/adopt", other)
    assert "already been adopted; nothing was changed" in visit.get(answer.headers["location"]).text


@pytest.mark.parametrize("damage", ["payload = 'x'", "payload = '{}'", "counts = ''"])
def test_a_campaign_that_is_damaged_does_not_hide_the_others(tmp_path, damage):
    store = tmp_path / "campaigns.db"
    with running(store) as service:
        for name in ("sound", "broken"):
            service.campaign(name=name).abort(reason="enough")
        with behind(service.store) as raw:
            mine = "campaign = (SELECT id FROM campaigns WHERE name = 'broken')"
            raw.execute(sa.text(f"UPDATE events SET {damage} WHERE {mine}"))
            raw.execute(sa.text(f"UPDATE folds SET content = '' WHERE {mine}"))
        visit = Visit(service)
        page = visit.get("/").text
        visit.close()
        listed = service.get("/v1/campaigns")
    assert "damaged" in page
    assert str(store) not in page
    assert listed.status_code == 200
    [sound, broken] = listed.json()["campaigns"]
    assert (sound["name"], sound["condition"], sound["events"]) == ("sound", "aborted", 2)
    assert (broken["name"], broken["condition"]) == ("broken", "damaged")
    assert str(store) not in broken["detail"]
    shown = CliRunner().invoke(app, ["campaign", "list", "--store", str(store), "--json"])
    assert shown.exit_code == 0
    [sound, broken] = json.loads(shown.stdout)
    assert (sound["condition"], sound["events"]) == ("aborted", 2)
    assert (broken["condition"], broken["events"]) == ("damaged", None)


def test_metrics_and_guardrails_are_shown_and_sent(service, visit):
    """Everyone who got a mail complains; the page, the report and the answer say so."""
    metrics = {
        "complaint": {"kind": "yes/no", "absent": 0, "guardrail": {"at_most": 0.2}},
        "spend": {"unit": "EUR", "absent": 0},
    }
    spec = about("visit", kind="yes/no", absent=0, metrics=metrics)
    made = service.campaign(name="guarded", **spec, **RULED)
    given = pl.from_arrow(made.assign(UNITS).table)
    rows = given.select(
        "unit", visit=pl.Series([1.0, 0.0] * 20), spend=pl.Series([0.0, 2.5] * 20),
        complaint=(pl.col("action") == "mail").cast(float),
    )  # fmt: skip
    made.record(rows)
    made.close()
    texts = looked_at(visit, made)
    broken = "Guardrail broken under mail: "
    assert all(broken in texts[page] for page in ("", "/findings"))
    for page in ("/findings", "/report"):
        assert "every other action breaks a guardrail" in texts[page]
        assert "mail BROKEN, 100" in texts[page]
    for page in ("/findings", "/report"):
        assert "complaints per 100 units; guardrail: at most 20" in texts[page]
        assert "spend in EUR per unit; more is better" in texts[page]
    assert "Objective: visits per 100 units; more is better." in texts["/report"]
    answer = service.get("/v1/campaigns/guarded/findings", role="viewer").json()
    told = FindingsAnswer.model_validate(answer, strict=True)
    complaint = next(one for one in told.metrics if one.name == "complaint")
    assert (complaint.kind, complaint.unit, complaint.absent_value) == ("yes/no", None, 0)
    codes = {one.action: one.code for one in complaint.guardrail.actions}
    assert codes["mail"] == "broken"
    status = service.get("/v1/campaigns/guarded/status", role="viewer").json()
    assert status["measure"]["kind"] == "yes/no"
    assert sum(status["metrics"]["spend"].values()) == 40
