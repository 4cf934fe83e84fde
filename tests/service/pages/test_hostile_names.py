"""Names, ids, reasons and files that mean no good are shown, and do nothing, on every page."""

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.service.roles import PAGES as NEEDED
from tests.campaign.specs import about
from tests.hostile import EVERY, SCRIPTS, TERMINAL, acts
from tests.service.pages.visiting import Visit
from tests.service.running import running

NAME = "x"
PAGES = [route for (method, route), role in NEEDED.items() if method == "GET" and role]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile-pages")
    with running(folder / "campaigns.db") as made:
        hostile_campaign(made.store)
        yield made


def hostile_campaign(store):
    actions = [*SCRIPTS, *TERMINAL]
    spec = {
        "name": NAME, "actions": actions, "control": actions[0], **about(SCRIPTS[0]),
        "features": {"categorical": {SCRIPTS[1]: list(EVERY)}}, "randomised": 1.0,
        "grid": {"sizes": [len(EVERY), len(EVERY)]},
    }  # fmt: skip
    made = Campaign.create(spec, store=store, who=SCRIPTS[2])
    made.assign(pl.DataFrame({"unit": EVERY, SCRIPTS[1]: EVERY}))
    made.record(pl.DataFrame({"unit": EVERY, SCRIPTS[0]: 1.0}), reason=SCRIPTS[3])
    made.close(force=True, reason=SCRIPTS[4])
    return made


@pytest.fixture(scope="module")
def visit(service):
    made = Visit(service, secret=service.token(SCRIPTS[0], role="admin"))
    yield made
    made.close()


def inert(text):
    assert acts(text) == set()
    assert text.count("<script") == 1
    assert "<img src=x" not in text
    assert "<svg onload" not in text
    assert 'href="javascript:' not in text


@pytest.mark.parametrize("route", [route for route in PAGES if "{once}" not in route])
def test_pages_are_inert(visit, route):
    answer = visit.get(route.replace("{name}", NAME).replace("{fingerprint}", SCRIPTS[1]))
    if answer.headers["content-type"].startswith("text/html") and "document" not in route:
        inert(answer.text)


@pytest.mark.parametrize("name", [f"{text}.csv" for text in (*SCRIPTS, *TERMINAL)])
def test_names_of_files_are_inert(visit, name):
    page = f"/campaigns/{NAME}/units"
    column = SCRIPTS[1].replace('"', '""')
    content = f'unit,"{column}"\n<b>a,"nothing of the kind"\n'.encode()
    answer = visit.fill(page, page, files={"file": (name, content)})
    assert answer.status_code == 303
    shown = visit.get(answer.headers["location"])
    assert shown.status_code == 200
    inert(shown.text)


def test_reasons_are_inert(service, visit):
    made = Campaign(service.store, NAME)
    page = f"/campaigns/{NAME}"
    answer = visit.fill(f"{page}/change", f"{page}/amend", {"reason": SCRIPTS[0], "floor": "0.01"})
    inert(visit.get(answer.headers["location"]).text)
    assert made.events()[-1].why == SCRIPTS[0]
    assert made.events()[-1].who == SCRIPTS[0]
    inert(visit.get(f"{page}/history").text)
    answer = visit.fill(f"{page}/change", f"{page}/amend", {"reason": "x", "floor": SCRIPTS[1]})
    assert answer.status_code == 422
    inert(answer.text)


@pytest.mark.parametrize("path", [f"/{text}" for text in SCRIPTS])
def test_addresses_are_inert(visit, path):
    for prefix in ("", "/campaigns", f"/campaigns/{NAME}/done", "/sign-in?next="):
        inert(visit.get(f"{prefix}{path}").text)
