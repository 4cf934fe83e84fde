"""Sessions: who gets in, what their cookie is, how they get out, and what forms must carry."""

from datetime import UTC, datetime, timedelta

import pytest

from seqbatch.storage import tokens
from tests.service.pages.visiting import Visit, token
from tests.service.running import running


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    proxied = {"proxy_headers": True, "forwarded_allow_ips": ["127.0.0.1"]}
    with running(folder / "campaigns.db", token_seconds=0.0, server=proxied) as made:
        made.campaign()
        yield made


@pytest.fixture
def visit(service):
    made = Visit(service)
    yield made
    made.close()


@pytest.fixture
def guest(service):
    made = Visit(service, role=None)
    yield made
    made.close()


def test_nobody_is_led_to_sign_in_and_from_there_to_the_page(service, guest):
    answer = guest.get("/campaigns/spring?x=1")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/sign-in?next=%2Fcampaigns%2Fspring%3Fx%3D1"
    answer = guest.sign_in(service.token("viewer"), next="/campaigns/spring?x=1")
    assert answer.headers["location"] == "/campaigns/spring?x=1"
    assert guest.get("/").status_code == 200


@pytest.mark.parametrize("elsewhere", ["//example.org", "https://example.org", "/\\x", "x", "/\n"])
def test_signing_in_leads_nowhere_else(service, guest, elsewhere):
    answer = guest.sign_in(service.token("viewer"), next=elsewhere)
    assert answer.headers["location"] == "/"


def test_the_cookie_is_out_of_reach(service, guest):
    cookie = guest.sign_in(service.token("viewer")).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert service.token("viewer") not in cookie


def test_behind_tls_the_cookie_is_bound_to_it(service):
    proxied = {"x-forwarded-proto": "https"}
    guest = Visit(service, role=None, headers=proxied)
    page = guest.get("/sign-in")
    assert page.headers["set-cookie"].startswith("__Host-seqbatch-guest=")
    cookies = {"cookie": page.headers["set-cookie"].partition(";")[0]}
    fields = {"token": service.token("viewer"), "csrf": token(page.text)}
    cookie = guest.send("/sign-in", fields, headers=cookies).headers["set-cookie"]
    assert cookie.startswith("__Host-seqbatch=")
    assert "Secure" in cookie
    guest.close()


@pytest.mark.parametrize(
    "given",
    ["", "sqb_", "x" * 300, "sqb_" + "0" * 38, tokens.new()],
    ids=["empty", "prefix", "long", "zeros", "unknown"],
)
def test_what_is_no_token_opens_nothing(guest, given):
    page = guest.get("/sign-in").text
    answer = guest.send("/sign-in", {"token": given, "csrf": token(page)})
    assert answer.status_code == 401
    assert "This token is invalid, expired or revoked" in answer.text
    assert guest.get("/").status_code == 303


def test_signing_out_ends_the_session_itself(visit):
    stolen = dict(visit.client.cookies)
    assert visit.fill("/", "/sign-out").status_code == 303
    visit.client.cookies.update(stolen)
    assert visit.get("/").status_code == 303


def test_signing_in_again_ends_the_session_before(service):
    visit = Visit(service)
    before = dict(visit.client.cookies)
    visit.sign_in(service.token("viewer"))
    assert visit.client.cookies["seqbatch"] != before["seqbatch"]
    assert visit.get("/").status_code == 200
    visit.client.cookies = before
    assert visit.get("/").status_code == 303
    visit.close()


def test_revoking_the_token_ends_the_session(service):
    visit = Visit(service, secret=service.token("short", role="admin"))
    assert visit.get("/").status_code == 200
    tokens.revoke(service.store, "short")
    assert visit.get("/").status_code == 303
    visit.close()


def test_a_session_expires_and_is_dropped(service):
    store = service.store
    token = tokens.find(store, service.token("admin"))
    now = datetime.now(UTC)
    secret = tokens.begin_session(store, token, until=now + timedelta(hours=1))
    assert tokens.find_session(store, secret) == token
    assert tokens.find_session(store, secret, now=now + timedelta(hours=2)) is None
    assert tokens.forget_sessions(store, now=now + timedelta(minutes=30)) == 0
    assert tokens.forget_sessions(store, now=now + timedelta(days=1)) >= 1
    assert tokens.find_session(store, secret) is None


def test_a_session_is_kept_as_a_hash(service, visit):
    secret = visit.client.cookies["seqbatch"]
    for file in service.store.files:
        if file.exists():
            assert secret.encode() not in file.read_bytes()


def test_a_link_from_elsewhere_gets_a_page_that_comes_again(guest):
    answer = guest.get("/campaigns/spring", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0">' in answer.text
    assert guest.get("/", headers={"sec-fetch-site": "same-origin"}).status_code == 303


def test_every_page_carries_its_policy(visit):
    for path in ("/", "/sign-in", "/nothing", "/campaigns/none"):
        answer = visit.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert " style=" not in answer.text
        assert answer.text.count("<script") == 1


def test_programs_get_documents_and_people_get_pages(service, visit):
    for path, accept in (("/v1/campaigns", "text/html"), ("/", "application/json")):
        answer = service.client.get(path, headers={"accept": accept})
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
    assert "Nothing found at this address" in visit.get("/nothing").text


def test_a_file_that_is_not_listed_is_not_served(guest):
    assert guest.get("/static/style.css").headers["content-type"].startswith("text/css")
    for path in ("/static/base.html", "/static/..%2fsigning.py", "/static/"):
        assert guest.get(path).status_code == 404
