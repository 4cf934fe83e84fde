"""The planner's page: a plan has an address, is computed once, and is cancelled if unused."""

import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from html import unescape

import httpx
import pytest

from seqbatch import planning
from seqbatch.planning.result_text import reason, tables
from tests.hostile import SCRIPTS, acts
from tests.service.pages.visiting import Visit
from tests.service.running import running

#: A plan that takes little time.
SMALL = {"units": 900, "actions": 2, "features": 0, "waves": 2, "no-effect": 1, "no-detect": 1}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planner")
    with running(folder / "campaigns.db", plans=3) as made:
        yield made


@pytest.fixture(scope="module")
def visit(service):
    made = Visit(service, "viewer")
    yield made
    made.close()


@pytest.fixture(scope="module")
def known():
    """A plan that takes little time, the answer to most questions here."""
    return planning.plan(units=900, actions=2, features=0, batches=2, quick=True, randomised=0.125)


@pytest.fixture
def asked(monkeypatch, known):
    """Count the plans that are asked for, and with what; those that the rules allow are alike."""
    calls, plan = [], planning.plan

    def counting(*, quick, **options):
        calls.append({**options, "quick": quick})
        if options["units"] < 900:
            return plan(quick=quick, **options)
        request = replace(known.request, quick=quick)
        return replace(known, request=request, wrong_guesses=lambda: known.sensitivity)

    monkeypatch.setattr(planning, "plan", counting)
    return calls


def words(page):
    """Return what a page says, without its marks."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_without_a_question_there_is_the_form_alone(visit, asked):
    page = visit.get("/plan/research")
    assert page.status_code == 200
    assert "data-ask" in page.text
    assert 'name="units" type="number"' in page.text
    assert asked == []


def test_a_plan_has_an_address(visit, asked, known):
    page = visit.get("/plan/research", params={**SMALL, "randomised": 20, "missing": 5})
    assert page.status_code == 200
    assert 'data-step="whole"' in page.text
    said = words(page.text)
    for size in known.grid.sizes:
        assert f"{size:,} units" in said
    assert words(reason(known, noun="wave")) in said
    for table in tables(known, noun="wave"):
        assert words(table.title) in said
    assert not re.search(r"\bbatch", said)
    assert "What will be detected" in said
    assert 'role="img" aria-label="Expected regret by number of waves: 1 wave: ' in page.text
    assert 'value="900"' in page.text
    del asked[0]["progress"]
    assert asked == [
        {
            "units": 900, "actions": 2, "features": 0, "batches": 2, "effect": None, "noise": 1.0,
            "base_rate": None, "randomised": 0.2, "missing": 0.05, "after": 0, "purpose": "earn",
            "detect": None, "quick": False,
        }
    ]  # fmt: skip


def test_a_plan_for_the_choice_of_one_action(visit):
    asked = {**SMALL, "units": 600, "no-after": 1, "part": "quick"}
    page = visit.get("/plan/research", params={**asked, "choose": 1})
    assert page.status_code == 200
    said = words(page.text)
    assert "right choice at the end" in said
    assert "Simple regret by number of waves" in said
    form = visit.get("/plan/research", params={**SMALL, "units": "", "choose": 1}).text
    assert re.search(r'name="choose" value="1"[^>]* checked', form)
    both = visit.get(
        "/plan/research", params={**asked, "choose": 1, "after": 1_000, "no-after": ""}
    )
    assert both.status_code == 422
    assert "purpose must be" in words(both.text)


def test_a_plan_is_made_in_earnest(visit):
    page = visit.get("/plan/research", params={**SMALL, "units": 500, "part": "quick"})
    made = planning.plan(units=500, actions=2, features=0, batches=2, quick=True)
    assert f'data-said="2 waves of {", ".join(map(str, made.grid.sizes))} units"' in page.text


def test_a_first_answer_comes_soon_and_both_are_remembered(visit, asked):
    question = {**SMALL, "units": 1_000}
    first = visit.get("/plan/research", params={**question, "part": "quick"})
    whole = visit.get("/plan/research", params={**question, "part": "whole"})
    assert [call["quick"] for call in asked] == [True, False]
    assert 'data-step="quick"' in first.text
    assert "If the true effect differs" not in first.text
    assert "If the true effect differs" in whole.text
    assert "<html" not in first.text + whole.text
    # What is known in full is not asked in short.
    again = visit.get("/plan/research", params={**question, "part": "quick"})
    assert again.text == whole.text
    assert len(asked) == 2
    # No more are remembered than the service's settings say.
    for units in (1_100, 1_200, 1_300):
        visit.get("/plan/research", params={**SMALL, "units": units, "part": "quick"})
    visit.get("/plan/research", params={**question, "part": "whole"})
    assert [call["units"] for call in asked] == [1_000, 1_000, 1_100, 1_200, 1_300, 1_000]


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"units": ""}, "units", "units must be a whole number of at least 1; received 0"),
        ({"units": "many"}, "units", "units must be a number; received many."),
        ({"actions": 1}, "actions", "actions must be a whole number of at least 2; received 1"),
        ({"actions": 2.5}, "actions", "actions must be a whole number; received 2.5."),
        (
            {"units": 900_000, "features": 400},
            "features",
            "with 2 actions; received 400. A larger plan",
        ),
        ({"waves": 21}, "waves", "waves must be at most 20; received 21."),
        ({"waves": "2,5"}, "waves", "waves must be a number; received 2,5."),
        ({"effect": "0,5", "no-effect": ""}, "effect", "effect must be a number; received 0,5."),
        ({"randomised": 300}, "randomised", "at most 1; received 3.0. (1 is 100%)"),
        ({"effect": "-1", "no-effect": ""}, "effect", "effect must be a finite number above 0"),
        ({"detect": "nan", "no-detect": ""}, "detect", "detect must be a number; received nan."),
        ({"detect": "1e-9", "no-detect": ""}, "detect", "To detect it, plan for about"),
        ({"base_rate": "120"}, "base_rate", "above 0% and below 100%"),
        ({"noise": "1e400"}, "noise", "noise must be a number; received 1e400."),
    ],
)
def test_what_cannot_be_planned_is_said_at_its_field(visit, change, field, said):
    page = visit.get("/plan/research", params={**SMALL, **change})
    assert page.status_code == 422
    assert said in words(page.text)
    shown = re.search(rf'<input id="{field}"[^>]*>', page.text)[0]
    assert 'aria-invalid="true"' in shown
    assert f'value="{change.get(field, SMALL.get(field, ""))}"' in shown
    part = visit.get("/plan/research", params={**SMALL, **change, "part": "whole"})
    assert part.status_code == 422
    assert f'data-field="{field}"' in part.text


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("text", SCRIPTS)
def test_what_is_typed_is_inert(visit, text):
    for name in ("units", "effect", "part", text):
        page = visit.get("/plan/research", params={**SMALL, name: text})
        assert acts(page.text) == set()
        assert "<img src=x" not in page.text


@pytest.mark.usefixtures("asked")
def test_only_who_may_create_is_led_there(service, visit):
    question = {**SMALL, "randomised": 12.5}
    assert 'href="/new' not in visit.get("/plan/research", params=question).text
    admin = Visit(service)
    link = re.search(r'href="(/new\?[^"]+)"', admin.get("/plan/research", params=question).text)[1]
    admin.close()
    asked = httpx.URL(unescape(link)).params
    assert asked["actions"] == "2"
    assert asked["randomised"] == "12.5"
    assert sum(map(int, asked["sizes"].split(","))) == 900


@pytest.mark.usefixtures("asked")
def test_a_session_plans_one_at_a_time(service, visit, monkeypatch):
    running_now, most, plan, held = [], [], planning.plan, threading.Event()

    def slow(**options):
        running_now.append(1)
        most.append(len(running_now))
        held.wait(0.1 if len(most) <= 3 else 60)
        running_now.pop()
        return plan(**options)

    monkeypatch.setattr(planning, "plan", slow)
    cookies = dict(visit.client.cookies)

    def ask(units):
        with httpx.Client(base_url=service.url, cookies=cookies, timeout=60) as client:
            asked = {**SMALL, "units": units, "part": "quick"}
            return client.get("/plan/research", params=asked, headers={"accept": "x"}).status_code

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(ask, (2_001, 2_002, 2_003))) == [200, 200, 200]
    assert most == [1, 1, 1]
    # One is being made, as long as nobody is turned away; few may wait for it.
    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(ask, units) for units in range(3_000, 3_012)]
        try:
            assert next(as_completed(asked, timeout=60)).result() == 429
        finally:
            held.set()


def test_a_plan_that_nobody_waits_for_ends(visit, monkeypatch):
    begun, ended, over = threading.Event(), threading.Event(), threading.Event()

    def endless(*, progress, **_options):
        begun.set()
        try:
            while not over.wait(0.01):
                progress(0.1)
        finally:
            ended.set()

    monkeypatch.setattr(planning, "plan", endless)
    asked = visit.client.build_request("GET", "/plan/research", params={**SMALL, "units": 4_000})
    head = f"GET {asked.url.raw_path.decode()} HTTP/1.1\r\nhost: {asked.url.netloc.decode()}\r\n"
    with socket.create_connection((asked.url.host, asked.url.port), timeout=60) as connection:
        connection.sendall(f"{head}cookie: {asked.headers['cookie']}\r\n\r\n".encode())
        assert begun.wait(60)
        assert not ended.is_set()
    try:
        assert ended.wait(60)
    finally:
        over.set()
