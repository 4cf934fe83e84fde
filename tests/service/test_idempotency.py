"""A call that comes again under its key is made once, and gets the same answer."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from seqbatch.campaign import Campaign
from seqbatch.storage import answers
from tests.service.running import OUTCOMES, SPEC, UNITS, running


@pytest.fixture
def service(store_url):
    with running(store_url) as made:
        yield made


def test_every_change_is_made_once(service):
    steps = [
        ("/v1/campaigns", {"spec": SPEC}),
        ("/v1/campaigns/spring/assignments", {"units": UNITS}),
        ("/v1/campaigns/spring/outcomes", {"outcomes": OUTCOMES}),
        ("/v1/campaigns/spring/close", {}),
        ("/v1/campaigns/spring/amend", {"reason": "more", "sizes": [9]}),
        ("/v1/campaigns/spring/abort", {"reason": "enough"}),
    ]
    first = [service.post(path, body, key=f"k{n}") for n, (path, body) in enumerate(steps)]
    assert {answer.status_code for answer in first} == {200, 201}
    events = len(service.get("/v1/campaigns/spring/events").json()["events"])
    again = [service.post(path, body, key=f"k{n}") for n, (path, body) in enumerate(steps)]
    for one, other in zip(first, again, strict=True):
        assert (one.status_code, one.content) == (other.status_code, other.content)
        assert one.headers["content-type"] == other.headers["content-type"]
    assert len(service.get("/v1/campaigns/spring/events").json()["events"]) == events == 6


def test_another_body_under_the_same_key_is_refused(service):
    service.campaign()
    path = "/v1/campaigns/spring/assignments"
    assert service.post(path, {"units": UNITS[:1]}, key="k").status_code == 200
    refused = service.post(path, {"units": UNITS[1:2]}, key="k")
    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:seqbatch:key-reused"
    assert service.post("/v1/campaigns/spring/close", {}, key="k").status_code == 422
    # Another token's keys are its own.
    assert service.post(path, {"units": UNITS[1:2]}, key="k", role="operator").status_code == 200


def test_what_was_refused_is_not_kept(service):
    service.campaign()
    path = "/v1/campaigns/spring/close"
    assert service.post(path, {}, key="k").status_code == 409
    service.post("/v1/campaigns/spring/assignments", {"units": UNITS})
    service.post("/v1/campaigns/spring/outcomes", {"outcomes": OUTCOMES})
    assert service.post(path, {}, key="k").status_code == 200


@pytest.mark.parametrize("key", ["x" * 256, "a\tb", "é"])
def test_a_key_must_be_short_and_printable(service, key):
    service.campaign()
    answer = service.call(
        "POST", "/v1/campaigns/spring/close", json={},
        headers={"idempotency-key": key.encode("latin-1")},
    )  # fmt: skip
    assert answer.status_code in (400, 422)


def test_the_same_call_at_the_same_time_is_made_once(service):
    service.campaign(grid={"sizes": [4, 4, 4]})
    service.post("/v1/campaigns/spring/assignments", {"units": UNITS})
    service.post("/v1/campaigns/spring/outcomes", {"outcomes": OUTCOMES})
    with ThreadPoolExecutor(8) as threads:
        # Without the key's check within the transaction, further waves would be closed.
        found = list(
            threads.map(
                lambda _: service.post(
                    "/v1/campaigns/spring/close", {"force": True, "reason": "r"}, key="k"
                ),
                range(8),
            )
        )
        assert {(each.status_code, each.content) for each in found} == {(200, found[0].content)}
        body = {"units": [{"unit": "z", "age": 1}]}
        found = list(
            threads.map(
                lambda _: service.post("/v1/campaigns/spring/assignments", body, key="one"),
                range(8),
            )
        )
        assert {(each.status_code, each.content) for each in found} == {(200, found[0].content)}
    assert Campaign(service.store, "spring").situation().wave == 2


def test_a_call_that_was_answered_while_it_waited_is_not_made_again(service, monkeypatch):
    service.campaign(grid={"sizes": [4, 4, 4]})
    service.post("/v1/campaigns/spring/assignments", {"units": UNITS})
    path, body = "/v1/campaigns/spring/close", {"force": True, "reason": "r"}
    first = service.post(path, body, key="k")
    # As it was before the first one was answered.
    monkeypatch.setattr(answers, "find", lambda *_: None)
    again = service.post(path, body, key="k")
    assert (again.status_code, again.content) == (200, first.content)
    assert Campaign(service.store, "spring").situation().wave == 2


def test_an_answer_is_forgotten_after_a_week(service):
    service.campaign()
    service.post("/v1/campaigns/spring/assignments", {"units": UNITS}, key="k")
    assert answers.forget(service.store) == 0
    assert answers.forget(service.store, now=datetime.now(UTC) + timedelta(days=8)) == 1
    again = service.post("/v1/campaigns/spring/assignments", {"units": UNITS}, key="k")
    assert again.json()["event"] is None
