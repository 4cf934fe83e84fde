"""Messages name what there is where they are read: calls have no Python and no shell."""

import re

import polars as pl
import pytest

from seqbatch.campaign.files.writing import Writer
from tests.campaign.specs import about
from tests.service.running import SPEC, UNITS, running

#: What only Python or a shell can do: options, calls of functions, commands that calls can do.
ELSEWHERE = re.compile(
    r"=True|=\.\.\.|--\w|in Python|\w\(\.\.\.\)|seqbatch campaign (amend|continue|close)"
)
MANY = [{"unit": f"u{n}", "age": 30} for n in range(6)]
SPELLED = about("visit", range=[0, 5000])


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
    given(service, "unclear", **SPELLED)
    cells = zip("ab", ("1.234", "7"), strict=True)
    rows = [{"unit": unit, "visit": cell} for unit, cell in cells]
    return service.post("/v1/campaigns/unclear/outcomes", {"outcomes": rows})


def another_grid(service):
    spec = {**SPEC, "name": "ucb", "policy": {"kind": "LinUCB"}}
    return service.post("/v1/campaigns", {"spec": spec})


FORCE = {"action": "close", "options": {"force": True, "reason": None}}
#: What is refused: its code, its field, a part of its text, and what can be done instead.
REFUSALS = {
    too_many: ("too-many-units", None, "from the list (draw = true)", ["draw", "partial"]),
    both_ways: ("invalid-argument", "draw", "left out if partial is given", []),
    drawn_without_a_size: ("wave-without-size", None, "this wave, without drawing", []),
    not_ready: ("too-few-outcomes", None, "it anyway: force = true, with a reason.", ["close"]),
    without_control: ("invalid-argument", "retire", "is intended, add force = true.", ["force"]),
    against_the_rule: (
        "stopped", None, "or continue it anyway, with", ["stop", "continue"],
    ),
    unclear_numbers: ("invalid-rows", "visit", "declare its format", ["amend", "amend"]),
    another_grid: ("invalid-spec", "policy", "Use an online grid, or SBUCB", []),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.__name__)
def test_a_refusal_has_a_code_a_field_and_remedies(service, case):
    answer = case(service)
    said, problem = refused(answer), answer.json()
    code, field, text, remedies = REFUSALS[case]
    assert (problem["code"], problem.get("field")) == (code, field)
    assert [each["action"] for each in problem.get("remedies", [])] == remedies
    assert text in said
    assert not ELSEWHERE.search(said), said


def test_remedies_are_fields_of_the_body(service):
    given(service, "closable")
    [remedy] = service.post("/v1/campaigns/closable/close", {"wave": 1}).json()["remedies"]
    assert remedy == FORCE
    body = {**remedy["options"], "reason": "a test", "wave": 1}
    assert service.post("/v1/campaigns/closable/close", body).status_code == 200


@pytest.mark.parametrize(
    ("column", "cell", "named"),
    [
        ("visit", "0,5", 'metrics {"visit": {"format": "1.234,56"}}'),
        ("calls", "0,5", 'metrics {"calls": {"format": "1.234,56"}}'),
        ("calls", "($2.50)", 'metrics {"calls": {"format": "(1,234.56 $)"}}'),
    ],
)
def test_advice_about_spelled_numbers_is_for_calls(service, column, cell, named):
    spec = {
        **SPEC,
        "name": f"spelled-{column}-{len(cell)}",
        **about("visit", metrics={"calls": {}}),
    }
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
