"""A spec that is wrong anywhere, in any way, is refused in words of our own."""

import contextlib
import copy
import datetime
import math
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.spec.toml import KNOWN, check_spec, parse_spec, reason, received
from seqbatch.errors import InvalidArgumentError, InvalidSpecError
from seqbatch.policies import registry
from tests.campaign.instances import SMALL
from tests.refusals import refused

WHOLE = {
    "name": "spring", "seed": 7, "unit": "id", "control": "none", "model": "shared",
    "actions": [
        {"name": "none", "features": {"price": 0.0}}, {"name": "mail", "features": {"price": 1.5}},
    ],
    "features": {
        "intercept": True,
        "numeric": {
            "age": "learn", "spend": {"mean": 10, "sd": 5}, "flag": "raw",
            "debt": {"scale": "learn", "missing": "median", "indicator": 0.1, "clip": [0.1, 0.9],
                     "format": "1.234,56"},
            "size": {"scale": "raw", "missing": 3, "range": [0, 9]},
        },
        "categorical": {
            "zip": ["a", "b"], "city": {"hash": 4},
            "town": {"levels": ["c"], "least": 20, "other": True, "missing": "level"},
        },
        "date": {"signup": {"format": "iso", "parts": ["days", "month"], "missing": "median"}},
        "boolean": {"opt_in": "level"},
        "interactions": [["age", "zip"]],
    },
    "currency": "EUR",
    "metrics": {
        "visit": {
            "kind": "yes/no", "column": "visited", "absent": 0, "after": "15 days", "rows": "any",
            "row_id": "order", "date": "day", "within": "2 weeks",
        },
        "sales": {
            "kind": "amount", "unit": "EUR", "range": [0, 900], "cap": 500, "format": "1.234,56",
            "direction": "max", "guardrail": {"at_least_control_minus": 0.1},
        },
    },
    "objective": {"maximise": {"visit": 1}, "value": 12.5, "less_costs": True},
    "grid": {"calendar": True, "waves": 3, "units": 90},
    "policy": {"kind": "SBPE"}, "randomised": 0.1, "floor": 0.02, "required_outcomes": 0.9,
    "on_unseen_category": "error", "start": datetime.date(2026, 3, 1),
}  # fmt: skip
ODD = [
    None, True, False, 0, -1, 1, 3, 2.5, -0.5, 1e300, math.nan, math.inf, 10**30, 10**4000, "", "x",
    "12", "0.5", "a b", "y" * 300, "y" * 2_000_000, "\ud800", [], [[]], [1], ["a"], ["a", "a"],
    ["x"] * 5000, {}, {"x": 1}, {1: "x"}, {"name": "z"}, datetime.date(2026, 3, 1),
    datetime.datetime(2026, 3, 1, 4), object(), b"bytes", {"hash": "many"}, {"levels": 3},
    {"mean": "x"}, [0, 1, 2], [1, 0],
]  # fmt: skip
#: What Pydantic and Python say, and we do not.
FOREIGN = (
    "Input should", "Field required", "Extra inputs", "Value error", "valid string", "valid int",
    "unable to", "pydantic", "Traceback", "__init__", "argument '", "codec", "Errno",
)  # fmt: skip


def places(value, here=()):
    yield here
    if not isinstance(value, dict | list):
        return
    for key, below in value.items() if isinstance(value, dict) else enumerate(value[:3]):
        yield from places(below, (*here, key))


def changed(place, value):
    """Return the whole spec with another value at one place; `KeyError` stands for none."""
    made = copy.deepcopy(WHOLE)
    at = made
    for key in place[:-1]:
        at = at[key]
    if value is KeyError:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    return made


def refusal(spec):
    try:
        check_spec(spec)
    except InvalidSpecError as error:
        return str(error)
    return ""


def kinds_of_errors(spec):
    try:
        Spec.model_validate(spec)
    except ValidationError as error:
        return {found["type"] for found in error.errors()}
    return set()


def test_every_place_with_every_odd_value_is_refused_in_our_words():
    check_spec(WHOLE)
    met = set()
    for place in list(places(WHOLE))[1:]:
        for value in [*ODD, KeyError]:
            spec = changed(place, value)
            met |= kinds_of_errors(spec)
            said = refusal(spec)
            assert not any(word in said for word in FOREIGN), (place, value, said)
            assert len(said) < 10_000
    met |= kinds_of_errors({**WHOLE, "hold": 1}) | kinds_of_errors({})
    assert met <= KNOWN
    assert {"missing", "extra_forbidden", "value_error", "literal_error", "form"} < met
    assert len(met) > 20


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_several_odd_values_at_once(data):
    spec = copy.deepcopy(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        every = [place for place in places(spec) if place]
        if not every:
            break
        at = spec
        *path, last = data.draw(st.sampled_from(every))
        for key in path:
            at = at[key]
        at[last] = copy.copy(data.draw(st.sampled_from(ODD)))
    assert kinds_of_errors(spec) <= KNOWN
    assert not any(word in refusal(spec) for word in FOREIGN)


def test_kinds_of_errors_that_nobody_thought_of_are_not_quoted():
    said = reason({"type": "novel", "msg": "Input should be new", "input": 3, "loc": ("x",)})
    assert said == "must be in a form that is known here; received 3"


def test_a_setting_that_is_nearly_right_is_named():
    assert "randomized: is not a setting; did you mean randomised?" in refusal(
        {**WHOLE, "randomized": 0.1}
    )


def test_a_setting_of_another_table_is_not_said_to_mean_itself():
    assert "units: belongs to another table" in refusal({**WHOLE, "units": 40})


@pytest.mark.parametrize(("value", "shown"), [
    (None, "nothing"), ("a\n", '"a\\n"'), (2.5, "2.5"), (datetime.date(2026, 3, 1), "2026-03-01"),
    (b"x", "a value of type bytes"), (10**999, "a number of very many digits"),
    ([1] * 99, "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ..."),
])  # fmt: skip
def test_values_are_shown_as_they_are_written(value, shown):
    assert received(value) == shown


@pytest.mark.parametrize(("text", "said"), [
    ("name = ;", "it is not at line 1, column 8"),
    ("a = 1\nb = [;", "it is not at line 2, column 6"),
    ('x = """', "it is not at its end"),
    (f"seed = {'9' * 5_000}", "a number in it has too many digits"),
])  # fmt: skip
def test_what_is_no_toml(text, said):
    with pytest.raises(InvalidSpecError) as caught:
        parse_spec(text)
    assert said in str(caught.value)
    assert "(at " not in str(caught.value)


@pytest.mark.parametrize("kind", sorted(registry.kinds()))
def test_no_parameter_of_a_policy_is_refused_by_python(kind):
    for field in fields(registry.kinds()[kind]):
        for value in (None, 10**400, "x", [], [["x"]], {}, datetime.date(2026, 3, 1), math.nan):
            with contextlib.suppress(InvalidArgumentError):
                registry.make(kind, **{"theta": [1.0], field.name: value})


def test_policies_and_plans_name_what_they_have():
    with refused("invalid-argument", field="no", received="'no'"):
        registry.make("SBPE", no=3)
    with refused("invalid-argument", field="policy"):
        registry.make("Oracle")
    for plan, said in (
        ({"unit": 900}, "'unit' is not a setting of a plan. The settings are: units, "),
        ({"batches": 3}, "grid.plan: units is missing"),
        ({"units": [1]}, "grid.plan: units must be a whole number"),
    ):
        from seqbatch.campaign.steps.create import prepare

        with pytest.raises(InvalidSpecError) as caught:
            prepare({**SMALL, "grid": {"plan": plan}})
        assert said in str(caught.value)
