"""Nothing that a viewer can open reveals a seed, or a key that draws are made with."""

from dataclasses import replace
from hashlib import blake2b

import pyarrow as pa
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.draws import md5_key
from seqbatch.campaign.record.current_situation import situation
from seqbatch.campaign.record.events import hash_of
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.steps import create
from seqbatch.campaign.views.history import PUBLIC_SPEC
from seqbatch.service import roles
from seqbatch.storage import open_store
from tests.campaign.warehouse.test_sums import wave
from tests.campaign.warehouses import ELSEWHERE
from tests.conftest import drawn_salt
from tests.refusals import refused
from tests.service.pages.visiting import Visit
from tests.service.running import OUTCOMES, SPEC, UNITS, running

SEED = 7_123_456_789_012_345
#: The routes that a viewer can open, with the parameters that change what they answer.
OPEN = [
    route
    for (method, route), permission in roles.ROUTES.items()
    if method == "GET" and permission is not None and "viewer" in roles.holders(permission)
]
FORMATS = [f"?format={kind}" for kind in ("html", "md", "json")]
ASKED = {
    "/v1/campaigns/{name}/findings": ["?tree=true"],
    "/v1/campaigns/{name}/rule": [
        f"?format={form}&kind={kind}"
        for form in ("json", "sql", "python")
        for kind in ("linear", "tree")
    ],
    "/v1/campaigns/{name}/report": FORMATS,
    "/v1/campaigns/{name}/protocol": FORMATS,
    "/campaigns/{name}/document": [
        f"{asked}&what={what}" for what in ("report", "protocol") for asked in FORMATS
    ],
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(create, "fresh_salt", drawn_salt)
        yield from served(tmp_path_factory)


def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets")
    with running(folder / "campaigns.db") as made:
        here = made.campaign(seed=SEED, draw="balanced")
        here.assign(pa.Table.from_pylist(UNITS), draw=True)
        here.record(pa.Table.from_pylist(OUTCOMES))
        here.close()
        here.amend(reason="more", sizes=[5])
        away = Campaign.create({**ELSEWHERE, "seed": SEED}, store=made.store, who="ann")
        wave(away, folder, 600, 1)
        yield made


def secrets(store):
    """Yield everything from which somebody could compute actions before they are assigned."""
    yield str(SEED)
    yield f"{SEED:x}"
    for name in store.names():
        yield md5_key(SEED, name)
        yield blake2b(f"{SEED}\n{name}".encode(), digest_size=32).hexdigest()
        yield Campaign(store, name).events()[0].payload["salt"]
        for event in Campaign(store, name).events():
            if "draw" in event.payload:
                yield event.payload["draw"]["highest_lot"]


def answers(service):
    """Yield every answer and page that a viewer can open, by its address."""
    visit = Visit(service, "viewer")
    for route in OPEN:
        names = service.store.names() if "{name}" in route else [""]
        for name in names:
            for asked in ASKED.get(route, [""]):
                path = route.replace("{name}", name) + asked
                api = route.startswith("/v1") or route == "/metrics"
                yield path, service.get(path, role="viewer") if api else visit.get(path)
    visit.close()


def test_a_viewer_finds_no_secret(service):
    hidden = list(secrets(service.store))
    assert len(hidden) == 9
    opened = dict(answers(service))
    assert len(opened) > 30
    assert sum(answer.status_code == 200 for answer in opened.values()) > 25
    for path, answer in opened.items():
        for secret in hidden:
            assert secret not in answer.text, path


def test_an_operator_finds_them(service):
    """The search finds what is there."""
    told = service.get(f"/v1/campaigns/{ELSEWHERE['name']}/events", role="operator").text
    assert str(SEED) in told
    statement = Campaign(service.store, ELSEWHERE["name"]).sql(units="u", assignments="a")
    assert md5_key(SEED, ELSEWHERE["name"]) in statement


def test_every_field_of_a_spec_is_public_or_not():
    dumped = Spec.model_validate(SPEC).model_dump(mode="json")
    assert set(dumped) - PUBLIC_SPEC == {"seed", "block_sizes"}
    assert set(dumped) >= PUBLIC_SPEC


def test_no_seed_can_be_tried_against_a_hash(service):
    """A viewer knows all that the first event's hash is taken over, except seed and salt."""
    seen = service.get("/v1/campaigns/spring/events", role="viewer").json()["events"][0]
    stored = Campaign(service.store, "spring").events()[0]
    assert seen["hash"] == stored.hash
    guessed = {**stored.payload, "salt": "0" * 32}
    assert hash_of("spring", replace(stored, payload=guessed)) != stored.hash
    assert len(stored.payload["salt"]) == 32


def test_a_damaged_spec_does_not_tell_the_seed(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    made = Campaign.create({**SPEC, "seed": SEED}, store=store, who="ann")
    [event] = made.events()
    spec = {**event.payload["spec"], "seed": f"x{SEED}"}
    with refused("damaged") as caught:
        situation([replace(event, payload={**event.payload, "spec": spec})])
    assert str(SEED) not in str(caught.value)
    store.close()
