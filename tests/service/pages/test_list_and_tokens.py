"""The list of campaigns, the page of tokens, the page of the API, and what a close shows."""

import json
import re
from html import unescape

import pyarrow as pa
import pytest

from seqbatch.client import RemoteCampaign
from tests.cases import thorough
from tests.hostile import SCRIPTS, acts
from tests.service.pages.browsing import WIDTHS, Tab, started
from tests.service.pages.test_in_a_browser import faults
from tests.service.pages.test_planner import words
from tests.service.pages.visiting import Visit, form
from tests.service.running import OUTCOMES, UNITS, running


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("list") / "c.db", token_seconds=0.0) as made:
        for name, owner, question in (
            ("spring", "crm team", "Which e-mail?"), ("autumn", "ann", ""), ("zero", "", ""),
        ):  # fmt: skip
            made.campaign(name=name, **{"owner": owner} if owner else {},
                          **{"question": question} if question else {})  # fmt: skip
        yield made


@pytest.fixture(scope="module")
def visit(service):
    made = Visit(service)
    yield made
    made.close()


def names(page):
    return re.findall(r'<h2><a href="/campaigns/([^"]+)">', page.text)


def test_the_list_is_searched_and_ordered(visit):
    page = visit.get("/")
    assert names(page) == ["zero", "autumn", "spring"]
    assert "Which e-mail?" in page.text
    assert "crm team" in page.text
    assert names(visit.get("/", params={"order": "name"})) == ["autumn", "spring", "zero"]
    assert names(visit.get("/", params={"order": "owner"})) == ["autumn", "spring", "zero"]
    assert names(visit.get("/", params={"order": "began"})) == ["zero", "autumn", "spring"]
    assert names(visit.get("/", params={"search": "CRM e-mail"})) == ["spring"]
    empty = visit.get("/", params={"search": "nothing"})
    assert names(empty) == []
    assert "Show all 3" in words(empty.text)
    # Whoever types an unknown order gets the usual one.
    assert names(visit.get("/", params={"order": "x"})) == names(page)
    for text in SCRIPTS:
        assert acts(visit.get("/", params={"search": text}).text) == set()


def test_a_close_shows_what_was_learned_and_the_list_its_headline(service, visit):
    campaign = service.campaign(name="learned")
    assert visit.get("/campaigns/learned/headline").text == ""
    campaign.assign(pa.Table.from_pylist(UNITS))
    campaign.record(pa.Table.from_pylist(OUTCOMES))
    done = visit.fill("/campaigns/learned/close", "/campaigns/learned/close")
    said = words(visit.get(done.headers["location"]).text)
    assert "What was learned" in said
    assert "What comes next" in said
    [lead] = {str(campaign.findings().decision.lead)}
    assert lead in said
    assert 'data-headline="/campaigns/learned/headline"' in visit.get("/").text
    assert visit.get("/campaigns/learned/headline").text.startswith(lead)
    # It is computed once: from then on the list has it.
    listed = visit.get("/").text
    assert "data-headline" not in listed
    assert lead in words(listed)


def test_a_token_is_shown_once_and_revoked(service, visit):
    fields = form(visit.get("/tokens").text, "/tokens", {"name": "ben", "role": "operator"})
    page = visit.send("/tokens", {**fields, "campaign": ["spring"], "expires": "2999-12-31"})
    [secret] = re.findall(r"<code>(sqb_\w{38})</code>", page.text)
    assert page.status_code == 200
    assert secret not in visit.get("/tokens").text
    headers = {"Authorization": f"Bearer {secret}"}
    seen = service.client.get("/v1/campaigns", headers=headers)
    assert [one["name"] for one in seen.json()["campaigns"]] == ["spring"]
    # A double click shows the same secret, and creates nothing more.
    twice = visit.send("/tokens", {**fields, "campaign": ["spring"], "expires": "2999-12-31"})
    assert f"<code>{secret}</code>" in twice.text
    assert visit.get("/tokens").text.count("<td>ben</td>") == 1
    # A name signs events: it is taken, and what was typed stays.
    fields = form(visit.get("/tokens").text, "/tokens", {"name": "ben", "role": "operator"})
    again = visit.send("/tokens", fields)
    assert again.status_code == 422
    assert "no other token has" in words(again.text)
    assert 'value="ben"' in again.text
    wrong = visit.send("/tokens", {**fields, "name": "cem", "expires": "soon"})
    assert "a day such as" in words(wrong.text)
    gone = visit.send("/tokens", {**fields, "name": "cem", "campaign": "none-such"})
    assert gone.status_code == 422
    [mine] = re.findall(r'name="id" value="([^"]+)"(?=(?:.(?!<tr))*)', revoking(visit, "ben"))
    hidden = form(visit.get("/tokens").text, "/tokens/revoke")
    assert visit.send("/tokens/revoke", {**hidden, "id": mine}).status_code == 303
    assert service.client.get("/v1/campaigns", headers=headers).status_code == 401
    assert "revoked" in visit.get("/tokens").text


def revoking(visit, name):
    """Return the row of a token."""
    rows = visit.get("/tokens").text.split("<tr>")
    return next(row for row in rows if f"<td>{name}</td>" in row)


def test_tokens_are_changed_by_admins_of_all_campaigns_alone(service, visit):
    fields = form(visit.get("/tokens").text, "/tokens", {"name": "eve", "role": "admin"})
    assert visit.send("/tokens", {**fields, "csrf": "0" * 64}).status_code == 403
    own = next(row for row in visit.get("/tokens").text.split("<tr>") if "yours" in row)
    [mine] = re.findall(r"<code>(sqb_\w{8})</code>", own)
    assert visit.send("/tokens/revoke", {**fields, "id": mine}).status_code == 422
    service.token("some", role="admin", campaigns=("spring",))
    some = Visit(service, secret=service.token("some"))
    assert some.get("/tokens").status_code == 403
    hidden = form(some.get("/campaigns/spring/change").text, "/campaigns/spring/amend")
    assert some.send("/tokens", {**hidden, "name": "eve", "role": "admin"}).status_code == 403
    some.close()


def test_the_api_page_has_every_call(service, visit):
    page = visit.get("/api").text
    schema = service.get("/v1/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in page
    # Nothing is loaded from elsewhere.
    assert not re.search(r"(src|href)=.(https?:)?//", page)
    # Examples of bodies are JSON.
    bodies = re.findall(r'aria-label="body.json">([^<]+)</pre>', page)
    assert bodies
    for body in bodies:
        if "…" not in body:
            json.loads(body.replace("&#34;", '"').replace("&#39;", "'"))


@pytest.mark.slow
@pytest.mark.parametrize("width", ["phone", *thorough("desktop")])
def test_pages_fit_a_window_and_are_short(service, width):
    with started() as browser:
        tab = Tab(browser, service, viewport=WIDTHS[width], bypass_csp=True).sign_in()
        for path in ("/", "/tokens", "/api"):
            tab.page.goto(path)
            assert tab.fits(), path
            assert faults(tab) == []
            assert len(tab.page.inner_text("main").split()) < 300
        tab.close()
        assert tab.wrong == []


def test_each_step_shows_calls_that_exist(service, visit):
    campaign = service.campaign(name="calls")
    campaign.assign(pa.Table.from_pylist(UNITS))
    paths = {
        (method.upper(), path)
        for path, methods in service.get("/v1/openapi.json").json()["paths"].items()
        for method in methods
    }
    for step in ("findings", "units", "outcomes", "close", "change", "report"):
        page = unescape(visit.get(f"/campaigns/calls/{step}").text)
        calls = re.findall(r'curl -X (\w+) "\$SEQBATCH_URL(/v1/campaigns/calls/\w+)"', page)
        programs = re.findall(r"campaign\.(\w+)\(", page)
        assert calls, step
        assert len(programs) == len(calls), step
        for (method, path), name in zip(calls, programs, strict=True):
            assert (method, path.replace("calls", "{name}")) in paths
            assert callable(getattr(RemoteCampaign, name))
