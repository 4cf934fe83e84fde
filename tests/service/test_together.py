"""Calls that arrive together share a transaction, and none of them spoils another."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from seqbatch.campaign import Campaign
from seqbatch.service.group_commit import FEW
from tests.service.running import running

ASSIGN = "/v1/campaigns/spring/assignments"


@pytest.fixture
def service(store_url):
    with running(store_url) as made:
        yield made


def test_many_clients_get_each_unit_its_one_action(service):
    service.campaign(grid={"sizes": [200, 200]})
    # Every unit is asked for by three clients at once; some calls have several units, or bad ones.
    calls = [[{"unit": f"u{n}", "age": n % 70}] for n in range(30) for _ in range(3)]
    calls += [[{"unit": f"u{n}", "age": n % 70}, {"unit": f"v{n}", "age": 2}] for n in range(5)]
    bad = [[{"unit": f"w{n}", "age": "old"}] for n in range(5)]
    bad += [[{"unit": f"w{n}", "size": 3}] for n in range(5)]

    def ask(units):
        return service.post(ASSIGN, {"units": units})

    with ThreadPoolExecutor(16) as threads:
        good, refused = list(threads.map(ask, calls)), list(threads.map(ask, bad))
    assert {each.status_code for each in good} == {200}
    assert {each.status_code for each in refused} == {422}
    actions, fresh = {}, Counter()
    for asked, answer in zip(calls, good, strict=True):
        rows = answer.json()["assignments"]
        assert [row["unit"] for row in rows] == [unit["unit"] for unit in asked]
        for row in rows:
            fresh[row["unit"]] += not row.pop("repeated")
            assert actions.setdefault(row["unit"], row) == row
    assert len(actions) == 35
    assert set(fresh.values()) == {1}
    campaign = Campaign(service.store, "spring")
    assert campaign.situation().assigned == 35
    assert campaign.verify().sound


def test_odd_ids_and_kinds_get_their_own_rows(service):
    service.campaign(grid={"sizes": [200, 200]})
    odd = ["a\u2028b", 'q"\\', "line\nbreak", "\x85", "é", "e\u0301", "😀", "null", "\x1f"]
    calls = [{"unit": name, "age": 1} for name in odd]
    # Numbers for ids, and numbers of other kinds: each as if it had come alone.
    calls += [{"unit": 7, "age": 2}, {"unit": "8", "age": 2.5}, {"age": 3, "unit": "9"}]
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda unit: service.post(ASSIGN, {"units": [unit]}), calls * 3))
    assert {answer.status_code for answer in found} == {200}
    for unit, answer in zip(calls * 3, found, strict=True):
        [row] = answer.json()["assignments"]
        assert row["unit"] == str(unit["unit"])
    # Very many rows of one answer are written in another way.
    many = [f"{name}{number}" for name in odd for number in range(9)]
    body = {"units": [{"unit": name, "age": 1} for name in many]}
    assert [row["unit"] for row in service.post(ASSIGN, body).json()["assignments"]] == many
    assert len(many) > FEW
    assert Campaign(service.store, "spring").verify().sound


def test_where_the_wave_has_room_for_some_they_get_in(service):
    service.campaign(grid={"sizes": [10, 10]})
    with ThreadPoolExecutor(16) as threads:
        found = list(
            threads.map(
                lambda n: service.post(ASSIGN, {"units": [{"unit": f"u{n}", "age": 1}]}),
                range(24),
            )
        )
    codes = [each.status_code for each in found]
    assert (codes.count(200), codes.count(409)) == (10, 14)
    assert Campaign(service.store, "spring").verify().sound


def test_patients_who_are_enrolled_at_once_fill_blocks(service):
    """Whoever comes first, and whatever is refused between them, every block is filled."""
    service.campaign(draw="blocks", block_sizes=[6], grid={"sizes": [200, 200]})
    actions = len(Campaign(service.store, "spring").situation().actions)
    assert 6 % actions == 0
    calls = [{"unit": f"u{n}", "age": n} for n in range(24) for _ in range(2)]
    calls += [{"unit": f"w{n}", "age": "old"} for n in range(6)]
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda unit: service.post(ASSIGN, {"units": [unit]}), calls))
    assert [each.status_code for each in found] == [200] * 48 + [422] * 6
    given = {}
    for answer in found[:48]:
        [row] = answer.json()["assignments"]
        given[row["unit"]] = row["action"]
    assert set(Counter(given.values()).values()) == {24 // actions}
    assert Campaign(service.store, "spring").verify().sound


def test_groups_are_counted(service):
    service.campaign()
    service.post(ASSIGN, {"units": [{"unit": "a", "age": 1}]})
    text = service.get("/metrics").text
    assert "seqbatch_group_calls_total 1" in text
    route = 'method="POST",route="/v1/campaigns/{name}/assignments",status="200"'
    assert f"seqbatch_requests_total{{{route}}} 1" in text
