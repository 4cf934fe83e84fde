"""Messages name what there is where they are read: calls have no Python and no shell."""

import re

import polars as pl
import pytest

from seqbatch.campaign.files.writing import Writer
from seqbatch.service.pages.rendering import for_people
from tests.service.running import SPEC, UNITS, running

#: What only Python or a shell can do: options, calls of functions, commands that calls can do.
ELSEWHERE = re.compile(
    r"=True|=\.\.\.|--\w|in Python|\w\(\.\.\.\)|seqbatch campaign (amend|continue|close)"
)
MANY = [{"unit": f"u{n}", "age": 30} for n in range(6)]
SPELLED = {"column": "visit", "range": [0, 5000]}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("words") / "campaigns.db") as made:
        yield made


def given(service, name, **changes):
    """Return a campaign of which every unit of the first wave has its action."""
    made = service.campaign(name=name, **changes)
    made.assign(pl.DataFrame(UNITS))
    return made


def refused(answer):
    """Return what a refusal says, all of it."""
    assert answer.status_code in (409, 422), answer.text
    places = answer.json().get("errors") or []
    return "\n".join([answer.json()["detail"], *(place["reason"] for place in places)])


def too_many(service):
    service.campaign(name="room")
    return service.post("/v1/campaigns/room/assignments", {"units": MANY})


def both_ways(service):
    service.campaign(name="both")
    body = {"units": MANY, "draw": True, "partial": True}
    return service.post("/v1/campaigns/both/assignments", body)


def drawn_without_a_size(service):
    service.campaign(name="weekly", grid={"calendar": True, "waves": 2, "units": 8})
    return service.post("/v1/campaigns/weekly/assignments", {"units": MANY, "draw": True})


def not_ready(service):
    given(service, "early")
    return service.post("/v1/campaigns/early/close", {"wave": 1})


def without_control(service):
    actions = ["none", "mail", "call"]
    service.campaign(name="control", actions=actions, control="none", randomised=0.1)
    body = {"retire": ["none"], "reason": "no need"}
    return service.post("/v1/campaigns/control/amend", body)


def against_the_rule(service):
    rule = {"control": "none", "randomised": 0.5, "stopping": {"rule": "obrien-fleming"}}
    made = service.campaign(name="ruled", grid={"sizes": [40, 40]}, **rule)
    units = pl.DataFrame({"unit": [f"u{number}" for number in range(40)], "age": range(40)})
    table = pl.from_arrow(made.assign(units).table)
    made.record(table.select("unit", visit=(pl.col("action") == "mail").cast(pl.Int64)))
    made.close()
    late = [{"unit": "late", "age": 30}]
    return service.post("/v1/campaigns/ruled/assignments", {"units": late})


def unclear_numbers(service):
    given(service, "unclear", reward=SPELLED)
    cells = zip("ab", ("1.234", "7"), strict=True)
    rows = [{"unit": unit, "visit": cell} for unit, cell in cells]
    return service.post("/v1/campaigns/unclear/outcomes", {"outcomes": rows})


def another_grid(service):
    spec = {**SPEC, "name": "ucb", "policy": {"kind": "LinUCB"}}
    return service.post("/v1/campaigns", {"spec": spec})


#: What is refused, what it says to who sent a call, and to who looks at a page.
REFUSALS = {
    too_many: ("from the list (draw = true)", "the first ones that fit."),
    both_ways: ("left out with partial = true", "the first ones that fit are taken."),
    drawn_without_a_size: ("this wave, without draw = true.", "wave, without drawing from them."),
    not_ready: ("it is: force = true, with a reason.", "Or close it as it is, below."),
    without_control: ("is meant, add force = true.", "waves could be compared with it."),
    against_the_rule: ("or continue it all the same, with", "or continue it all the same, with"),
    unclear_numbers: ('an amendment with reward_format "', 'how outcomes are spelled to "'),
    another_grid: ("Use an online grid, or SBUCB", "Use an online grid, or SBUCB"),
}


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.__name__)
def test_a_refusal_names_what_a_call_and_a_page_have(service, case):
    said = refused(case(service))
    in_a_call, on_a_page = REFUSALS[case]
    assert in_a_call in said
    assert on_a_page in for_people(said)
    assert not ELSEWHERE.search(said), said


@pytest.mark.parametrize(
    ("column", "cell", "named"),
    [
        ("visit", "0,5", 'reward_format "1.234,56"'),
        ("calls", "0,5", 'metric_formats {"calls": "1.234,56"}'),
        ("calls", "($2.50)", 'metric_formats {"calls": "(1,234.56 $)"}'),
    ],
)
def test_advice_about_spelled_numbers_is_for_calls(service, column, cell, named):
    spec = {**SPEC, "name": f"spelled-{column}-{len(cell)}", "metrics": [{"column": "calls"}]}
    service.post("/v1/campaigns", {"spec": spec})
    at = f"/v1/campaigns/{spec['name']}"
    service.post(f"{at}/assignments", {"units": UNITS})
    rows = [{"unit": unit, "visit": "1", "calls": "1", column: cell} for unit in "abcd"]
    answer = service.post(f"{at}/outcomes", {"outcomes": rows}).json()
    [said] = answer["advice"]
    [[example]] = answer["formats"].values()
    assert list(answer["formats"]) == [column]
    assert example in named
    assert (
        said == f"{column} can be read after an amendment with {named} and a reason; then "
        "record it again."
    )
    body = {"spec": {**spec, "name": "tried"}, "units": UNITS, "outcomes": rows}
    tried = service.post("/v1/campaigns/validate", body).json()
    assert tried["outcomes"]["advice"] == [said]


def test_what_a_trial_finds_is_said_for_calls(service):
    body = {"spec": {**SPEC, "policy": {"kind": "LinUCB"}}, "units": UNITS}
    problems = "\n".join(service.post("/v1/campaigns/validate", body).json()["problems"])
    assert "Use an online grid" in problems
    assert not ELSEWHERE.search(problems)


def test_an_answer_that_cannot_be_written_leaves_nothing_done(service, monkeypatch):
    made = service.campaign(name="disk")

    def full(_writer):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Writer, "publish", full)
    answer = service.call(
        "POST", "/v1/campaigns/disk/assignments", content=b"unit,age\na,31\n",
        headers={"content-type": "text/csv"},
    )  # fmt: skip
    assert answer.status_code == 500
    assert answer.json()["detail"] == (
        "the answer could not be written; nothing was done. Make the same call again."
    )
    assert made.situation().assigned == 0
