"""A call that comes again under its key is made once, and gets the same answer."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from seqbatch.campaign import Campaign
from seqbatch.storage import answers, open_store, tokens
from tests.campaign.instances import created, lose_commit
from tests.refusals import refused
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


def old_answers(store, count):
    """Keep answers of a month ago, as a service would have."""
    with store.transaction(write=True) as connection:
        for number in range(count):
            call = answers.IdempotentCall(token="t", key=f"{number}", request="r")
            made = answers.StoredAnswer(status=200, headers={}, pieces=[b"a", b"b"])
            answers.keep(connection, call, made)
    return datetime.now(UTC) + timedelta(days=8)


def test_old_answers_are_forgotten_a_few_at_a_time(store_url, monkeypatch):
    store = open_store(store_url)
    now, between = old_answers(store, 7), []
    monkeypatch.setattr(answers, "AT_ONCE", 3)

    def paused(seconds):
        # The lock is free: other changes are made meanwhile.
        created(store, name=f"c{len(between)}")
        with store.transaction(write=False) as connection:
            count = connection.execute(sa.text("SELECT count(*) FROM answers")).scalar_one()
        between.append((seconds, count))

    monkeypatch.setattr(answers.time, "sleep", paused)
    assert answers.forget(store, now=now) == 7
    assert between == [(answers.PAUSE, 4), (answers.PAUSE, 1)]
    assert answers.forget(store, now=now) == 0
    with store.transaction(write=False) as connection:
        assert connection.execute(sa.text("SELECT * FROM answer_pieces")).all() == []
    store.close()


def test_old_answers_are_found_by_an_index(tmp_path):
    store = open_store(tmp_path / "x.db")
    query = "EXPLAIN QUERY PLAN SELECT token, key FROM answers WHERE at < 'x' ORDER BY at LIMIT 9"
    with store.transaction(write=False) as connection:
        [plan] = connection.execute(sa.text(query)).mappings()
    assert "USING INDEX answers_at" in plan["detail"]
    store.close()


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("small", [True, False])
def test_a_commit_whose_answer_was_lost_is_told_as_such(tmp_path, monkeypatch, stored, small):
    """The client cannot know; the same call under the same key settles it."""
    path, body = "/v1/campaigns/spring/close", {}
    if small:
        path, body = "/v1/campaigns/spring/assignments", {"units": UNITS}
    with running(tmp_path / "x.db") as service:
        campaign = service.campaign()
        service.token("admin")
        if not small:
            service.post("/v1/campaigns/spring/assignments", {"units": UNITS})
            service.post("/v1/campaigns/spring/outcomes", {"outcomes": OUTCOMES})
        before = campaign.situation().sequence
        lose_commit(monkeypatch, service.store, stored=stored)
        lost = service.post(path, body, key="k")
        assert lost.status_code == 503
        assert (lost.json()["type"], lost.json()["code"]) == (
            "urn:seqbatch:uncertain-commit", "uncertain-commit",
        )  # fmt: skip
        assert campaign.situation().sequence == before + stored
        again = service.post(path, body, key="k")
        assert again.status_code == 200
        assert campaign.situation().sequence == before + 1
        assert again.content == service.post(path, body, key="k").content


def test_a_token_whose_commit_was_lost(tmp_path, monkeypatch):
    store = open_store(tmp_path / "x.db")
    lose_commit(monkeypatch, store, stored=True)
    with refused("uncertain-commit", match="revoke it"):
        tokens.create(store, "shop", role="viewer")
    store.close()
