"""Who may do what: every role at every route, and what a token must be."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from seqbatch.service import make_app, roles
from seqbatch.storage import open_store, tokens
from seqbatch.storage.tokens import ROLES
from tests.service.running import OUTCOMES, SPEC, UNITS, running

#: A body for every route that reads one, that breaks no rule.
BODIES = {
    "/v1/plan": {"units": 100, "actions": 2, "features": 1, "batches": 1, "max_batches": 1,
                 "contexts": "adversarial"},
    "/v1/plan/campaign": {
        "customers": 2_000, "actions": 2, "base_rate": "4%", "smallest_lift": "1pp", "waves": 1,
    },
    "/v1/campaigns": {"spec": {**SPEC, "name": "other"}},
    "/v1/campaigns/validate": {"spec": SPEC},
    "/v1/campaigns/rehearse": {
        "spec": SPEC, "truths": [{"none": 0.3, "spread": {"sd": 0.1}}], "campaigns": 1,
    },
    "/v1/campaigns/{name}/assignments": {"units": UNITS},
    "/v1/campaigns/{name}/outcomes": {"outcomes": OUTCOMES},
    "/v1/campaigns/{name}/close": {"wave": 1},
    "/v1/campaigns/{name}/amend": {"reason": "more", "sizes": [5]},
    "/v1/campaigns/{name}/continue": {"reason": "more"},
    "/v1/campaigns/{name}/screen": {"assessed": 10},
    "/v1/campaigns/{name}/sign": {"meaning": "read"},
    "/v1/campaigns/{name}/erase": {"units": [{"unit": "a"}], "reason": "request 12"},
    "/v1/campaigns/{name}/stop": {"reason": "enough"},
    "/v1/campaigns/{name}/abort": {"reason": "enough"},
}  # fmt: skip
WHO = ("nobody", *ROLES)
#: The roles that may make a call; None if it needs no token.
NEEDED = {
    key: None if permission is None else roles.holders(permission)
    for key, permission in roles.API.items()
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("access")
    with running(folder / "campaigns.db", token_seconds=0.0) as made:
        made.campaign()
        for role in ROLES:
            made.token(role)
        yield made


def called(service, method, route, headers, name="spring"):
    options = {} if method == "GET" else {"json": BODIES[route]}
    return service.client.request(method, route.replace("{name}", name), headers=headers, **options)


def bearer(secret):
    return {"authorization": f"Bearer {secret}"}


@pytest.mark.usefixtures("few_trials")
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize(("method", "route"), NEEDED, ids=lambda each: each)
def test_every_role_at_every_route(service, method, route, who):
    headers = {} if who == "nobody" else bearer(service.token(who))
    answer = called(service, method, route, headers)
    needed = NEEDED[method, route]
    if needed is None or who in needed:
        assert answer.status_code not in (401, 403, 500), answer.text
        return
    assert answer.status_code == (401 if who == "nobody" else 403)
    assert answer.headers["content-type"] == "application/problem+json"


def of_app(routes):
    """Yield what an application answers to, routers within routers, in the schema or not."""
    for route in routes:
        inner = getattr(route, "original_router", route)
        if getattr(inner, "routes", None):
            yield from of_app(inner.routes)
        else:
            yield from ((method, route.path) for method in route.methods)


def test_every_route_is_in_the_table(service, tmp_path):
    listed = service.get("/v1/openapi.json").json()["paths"]
    found = {(method.upper(), path) for path, methods in listed.items() for method in methods}
    assert found == set(NEEDED)
    store = open_store(tmp_path / "campaigns.db")
    every = set(of_app(make_app(store).routes))
    store.close()
    assert every == set(roles.ROUTES)
    assert len(roles.ROUTES) == len(roles.API) + len(roles.PAGES)


def test_every_permission_is_one_roles_and_is_asked_for():
    assert tuple(roles.GRANTS) == ROLES
    for granted in roles.GRANTS.values():
        assert len(set(granted)) == len(granted)
    every = {permission for granted in roles.GRANTS.values() for permission in granted}
    # What a caller may see of a campaign is asked within a route.
    within = {"results", "interim", "seed", "every seed"}
    assert {*filter(None, roles.ROUTES.values())} | within == every


@pytest.mark.parametrize(("method", "route"), [key for key in NEEDED if "{name}" in key[1]])
def test_a_token_for_other_campaigns_finds_none(service, method, route):
    secret = service.token(f"apart {method} {route}", role="admin", campaigns=("autumn",))
    answer = called(service, method, route, bearer(secret))
    assert answer.status_code == 404
    missing = called(service, method, route, bearer(service.token("admin")), name="nothing")
    # Nothing tells a campaign that is hidden from one that is not there.
    assert missing.json() == answer.json()


def test_a_token_for_other_campaigns_creates_and_lists_none(service):
    secret = service.token("apart", role="admin", campaigns=("autumn",))
    answer = called(service, "POST", "/v1/campaigns", bearer(secret))
    assert answer.status_code == 404
    listed = called(service, "GET", "/v1/campaigns", bearer(secret))
    assert listed.json() == {"campaigns": []}


@pytest.mark.parametrize(
    "header",
    [
        "", "Bearer", "Basic YTpi", "Bearer sqb_", "Bearer sqb_" + "0" * 38,
        "Bearer " + "x" * 5_000, "bearer\tnone",
    ],
)  # fmt: skip
def test_what_is_no_token_opens_nothing(service, header):
    answer = service.client.get("/v1/campaigns", headers={"authorization": header})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_an_expired_and_a_revoked_token_open_nothing(service):
    past = datetime.now(UTC) - timedelta(days=2)
    old, _ = tokens.create(
        service.store, "old", role="admin", expires=past + timedelta(days=1), now=past
    )
    assert service.client.get("/v1/campaigns", headers=bearer(old)).status_code == 401
    short = service.token("short", role="admin")
    assert service.client.get("/v1/campaigns", headers=bearer(short)).status_code == 200
    tokens.revoke(service.store, "short")
    assert service.client.get("/v1/campaigns", headers=bearer(short)).status_code == 401


def test_a_token_is_kept_as_a_hash(service):
    secret = service.token("hidden", role="viewer")
    for file in service.store.files:
        if file.exists():
            assert secret.encode() not in file.read_bytes()
    assert tokens.well_formed(secret)
    changed = secret[:-1] + ("a" if secret[-1] != "a" else "b")
    assert not tokens.well_formed(changed)


def test_every_answer_carries_security_headers(service):
    for path in ("/health", "/nothing", "/v1/campaigns"):
        answer = service.get(path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers or "uvicorn" not in answer.headers["server"]


def test_the_page_has_the_table_of_roles():
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z, ]+) \| (`[^|]+`) \|$", page, re.MULTILINE)
    shown = {call: roles for roles, calls in rows for call in re.findall("`([^`]+)`", calls)}
    asked = {
        f"{method} {route}": ", ".join(role for role in ROLES if role in needed)
        for (method, route), needed in NEEDED.items()
        if needed is not None
    }
    assert shown == asked
