"""Who may open which page and press which button: every role at every address."""

import re

import pyarrow as pa
import pytest

from seqbatch.service import roles
from seqbatch.service.app import PAGES
from seqbatch.storage.tokens import ROLES
from tests.service.pages.visiting import Visit, form, token
from tests.service.running import OUTCOMES, UNITS, running

WHO = ("nobody", *ROLES)
API, NEEDED = (
    {
        key: None if permission is None else roles.holders(permission)
        for key, permission in table.items()
    }
    for table in (roles.API, roles.PAGES)
)
SIGNED = {key: role for key, role in NEEDED.items() if role is not None and key[1] != "/sign-out"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roles")
    with running(folder / "campaigns.db", token_seconds=0.0) as made:
        campaign = made.campaign()
        campaign.assign(pa.Table.from_pylist(UNITS))
        campaign.record(pa.Table.from_pylist(OUTCOMES))
        campaign.close()
        yield made


@pytest.fixture(scope="module")
def visits(service):
    made = {who: Visit(service, None if who == "nobody" else who) for who in WHO}
    yield made
    for visit in made.values():
        visit.close()


def filled(route):
    path = route.replace("{name}", "spring").replace("{fingerprint}", "0" * 64)
    return path.replace("{once}", "nothing-of-the-kind")


def called(visit, method, path):
    if method == "GET":
        return visit.get(path)
    fields = {"once": "x" * 20, "csrf": ""}
    if "seqbatch" in visit.client.cookies:
        fields["csrf"] = token(visit.get("/").text)
    return visit.send(path, fields)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize(("method", "route"), SIGNED, ids=lambda each: each)
def test_every_role_at_every_page(visits, method, route, who):
    answer = called(visits[who], method, filled(route))
    if who == "nobody":
        assert answer.status_code == (303 if method == "GET" else 401)
    elif who not in SIGNED[method, route]:
        assert answer.status_code == 403
        assert f"this call needs the role {' or '.join(SIGNED[method, route])}" in answer.text
    else:
        # What is not there and what is not filled in is refused for that alone.
        assert answer.status_code in (200, 404, 409, 415, 422), answer.text
        assert answer.headers["content-type"].startswith(("text/html", "text/csv", "text/plain"))


def test_every_page_is_in_the_table():
    routes = [route for router in PAGES for route in router.routes]
    assert {(method, route.path) for route in routes for method in route.methods} == set(NEEDED)
    assert not any(route.include_in_schema for route in routes)


@pytest.mark.parametrize(("method", "route"), [key for key in SIGNED if "{name}" in key[1]])
def test_a_token_for_other_campaigns_finds_none(service, method, route):
    name = "apart"
    secret = service.token(name, role="admin", campaigns=("autumn",))
    visit = Visit(service, secret=secret)
    answer = called(visit, method, filled(route))
    assert answer.status_code == 404
    assert "the campaign does not exist, or this token may not see it." in answer.text
    assert "spring" not in visit.get("/").text
    visit.close()


def shown(route):
    """Say whether an address is a page, and not a file."""
    return not route.endswith(("/document", "/export"))


def test_nobody_is_shown_what_they_may_not_press(visits):
    for who in ROLES:
        for route in (route for method, route in SIGNED if method == "GET" and shown(route)):
            page = visits[who].get(filled(route)).text
            links = re.findall(r'(?:href|action)="(/[^"?#]*)', page)
            known = {filled(r): role for (_, r), role in NEEDED.items() if role}
            for link in links:
                assert who in known.get(link, ROLES), (who, route, link)


#: The tabs of a campaign whose wave is open.
TABS = ("", "/findings", "/units", "/outcomes", "/close", "/report", "/history", "/files",
        "/change")  # fmt: skip


@pytest.mark.parametrize("who", ROLES)
def test_a_role_is_shown_the_tabs_that_it_may_open(visits, who):
    page = visits[who].get("/campaigns/spring").text
    tabs = re.search(r'<nav class="tabs".*?</nav>', page, re.DOTALL)[0]
    allowed = [tab for tab in TABS if who in NEEDED["GET", f"/campaigns/{{name}}{tab}"]]
    assert re.findall(r'href="/campaigns/spring([^"]*)"', tabs) == allowed
    assert ('href="/new"' in page) == (who == "admin")


def test_a_viewer_finds_no_unit_anywhere(visits):
    for (method, route), role in SIGNED.items():
        if method == "GET" and "viewer" in role and shown(route):
            text = visits["viewer"].get(filled(route)).text
            cells = set(re.findall(r"<td[^>]*>([^<]*)</td>", text))
            assert not cells & {unit["unit"] for unit in UNITS}


POSTS = [route for (method, route), role in NEEDED.items() if method == "POST" and role]


def with_file(route):
    if route in ("/new", "/campaigns/{name}/units", "/campaigns/{name}/outcomes"):
        return {"files": {"file": ("units.csv", b"unit,age\nz,1\n")}}
    return {}


@pytest.mark.parametrize("proof", ["missing", "wrong", "of another session", "of no session"])
@pytest.mark.parametrize("route", POSTS)
def test_a_form_without_its_proof_is_refused(service, visits, route, proof):
    events = service.get("/v1/campaigns/spring").json()["events"]
    visit, other = visits["admin"], visits["operator"]
    csrf = {
        "missing": {},
        "wrong": {"csrf": "0" * 64},
        "of another session": {"csrf": token(other.get("/").text)},
        "of no session": {"csrf": token(visits["nobody"].get("/sign-in").text)},
    }[proof]
    fields = {"once": "y" * 20, "reason": "x", "sure": "yes", **csrf}
    answer = visit.send(filled(route), fields, **with_file(route))
    assert answer.status_code == 403, answer.text
    assert "this form belongs to another session" in answer.text
    assert service.get("/v1/campaigns/spring").json()["events"] == events
    assert visit.get("/").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://example.org"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"}, {"sec-fetch-site": "none"}, {"origin": "http://["},
    ],
)  # fmt: skip
@pytest.mark.parametrize("route", [*POSTS, "/sign-in"])
def test_a_form_from_elsewhere_is_refused(visits, route, headers):
    visit = visits["admin"]
    fields = {"once": "z" * 20, "csrf": token(visit.get("/").text)}
    answer = visit.send(filled(route), fields, headers=headers, **with_file(route))
    assert answer.status_code == 403
    assert "sent by a page of another site" in answer.text


def test_a_form_of_our_own_says_so(visits):
    visit = visits["admin"]
    own = {"origin": str(visit.client.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    fields = form(visit.get("/campaigns/spring/change").text, "/campaigns/spring/amend")
    answer = visit.send("/campaigns/spring/amend", {**fields, "reason": "x"}, headers=own)
    # It came as far as the step itself, which has nothing to change.
    assert answer.status_code == 422
    assert "A value breaks a rule" in answer.text


def test_no_page_and_no_answer_tells_a_viewer_the_seed(service, visits):
    """Who knows it can compute the action of a unit before it is assigned."""
    seed = 4_611_686_018_427
    campaign = service.campaign(name="spring-2", seed=seed)
    campaign.assign(pa.Table.from_pylist(UNITS))
    opened = [
        route.replace("{name}", "spring-2")
        for (method, route), role in NEEDED.items()
        if method == "GET" and role and "viewer" in role and "{once}" not in route
    ]
    for path in (*opened, "/campaigns/spring-2/document?what=protocol&format=json"):
        assert str(seed) not in visits["viewer"].get(path).text, path
    headers = {"Authorization": f"Bearer {service.token('viewer')}"}
    calls = [
        route.replace("{name}", "spring-2")
        for (method, route), role in API.items()
        if method == "GET" and role and "viewer" in role
    ]
    for path in calls:
        assert str(seed) not in service.client.get(path, headers=headers).text, path
    events = "/v1/campaigns/spring-2/events"
    told = {"Authorization": f"Bearer {service.token('operator')}"}
    assert str(seed) in service.client.get(events, headers=told).text
