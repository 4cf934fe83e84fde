"""The small language of eligibility: what it reads, what it refuses, and what rules mean."""

import operator
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.campaign.features.eligibility import Eligibility
from seqbatch.campaign.spec.eligibility import (
    Among,
    BooleanColumn,
    Both,
    Compare,
    EligibilityRule,
    Missing,
    Not,
    columns,
    parsed,
)

SIGNS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("may_phone", BooleanColumn("may_phone")),
        ("  may phone ", BooleanColumn("may phone")),
        ("`may phone`", BooleanColumn("may phone")),
        ("age >= 18", Compare("age", ">=", 18.0)),
        ("18 <= age", Compare("age", ">=", 18.0)),
        ("-1.5e2 < age", Compare("age", ">", -150.0)),
        ("region <> 'north'", Compare("region", "!=", "north")),
        ('region = "a or b"', Compare("region", "==", "a or b")),
        ("vip = true", BooleanColumn("vip")),
        ("vip != true", Not(BooleanColumn("vip"))),
        ("vip = false", Not(BooleanColumn("vip"))),
        ("NOT vip", Not(BooleanColumn("vip"))),
        ("city in ['a', 'b']", Among("city", ("a", "b"))),
        ("code not in [1, 2]", Not(Among("code", (1.0, 2.0)))),
        (
            "a and b or c",
            Both(
                (Both((BooleanColumn("a"), BooleanColumn("b")), every=True), BooleanColumn("c")),
                every=False,
            ),
        ),
        (
            "a and (b or c)",
            Both(
                (BooleanColumn("a"), Both((BooleanColumn("b"), BooleanColumn("c")), every=False)),
                every=True,
            ),
        ),
        ("not a and b", Both((Not(BooleanColumn("a")), BooleanColumn("b")), every=True)),
        ("größe > 3", Compare("größe", ">", 3.0)),
        ("opted_out is missing", Missing("opted_out")),
        ("`opted out` IS Missing", Missing("opted out")),
        ("seen is not missing", Not(Missing("seen"))),
        ("a and b is missing", Both((BooleanColumn("a"), Missing("b")), every=True)),
        # Alone these are names of columns, as before.
        ("is member", BooleanColumn("is member")),
        ("missing", BooleanColumn("missing")),
        ("missing is missing", Missing("missing")),
    ],
)
def test_rules_are_read(text: str, rule: EligibilityRule) -> None:
    assert parsed(text) == rule


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must not be empty"),
        ("age >=", "received the end"),
        ("age > 'x'", "order"),
        ("age >= 18 region", "received 'region'"),
        ("(age > 1", "expected a closing bracket"),
        ("age > 1)", "received ')'"),
        ("age ~ 3", "received '~ 3'"),
        ("name = 'x", "close the quotes"),
        ("city in []", "received ']'"),
        ("city in ['a', 1]", "only numbers or only texts"),
        ("3 > 2", "expected a column"),
        ("__import__('os')", "and, or, or the end"),
        ("(" * 60 + "a" + ")" * 60, "at most 50 deep"),
        ("a > true", "= or !="),
        ("a and b is 3", "expected missing, or not missing; received '3'"),
        ("a is not empty", "expected missing; received 'empty'"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parsed(text)


def test_columns_are_told_with_what_they_are_used_as() -> None:
    rule = parsed("age >= 18 and region != 'north' and (vip or code in [1]) and seen is missing")
    assert dict(columns(rule)) == {
        "age": "number", "region": "text", "vip": "yes or no", "code": "number", "seen": None,
    }  # fmt: skip


def _literal(rule: EligibilityRule, row: dict[str, object]) -> bool | None:
    """Return what a rule says of one row, by hand: None where that is not known."""
    match rule:
        case BooleanColumn(name):
            return row[name]  # type: ignore[return-value]
        case Compare(name, sign, value):
            return None if row[name] is None else SIGNS[sign](row[name], value)
        case Among(name, values):
            return None if row[name] is None else row[name] in values
        case Missing(name):
            return row[name] is None
        case Not(inner):
            said = _literal(inner, row)
            return None if said is None else not said
        case Both(rules, every):
            said = [_literal(each, row) for each in rules]
            if (not every) in said:
                return not every
            return None if None in said else every


RULES = st.recursive(
    st.one_of(
        st.just(BooleanColumn("vip")),
        st.builds(
            Compare, st.just("age"), st.sampled_from(sorted(SIGNS)), st.integers(0, 3).map(float)
        ),
        st.builds(Compare, st.just("city"), st.sampled_from(["==", "!="]), st.sampled_from("abc")),
        st.builds(Among, st.just("city"), st.lists(st.sampled_from("abc"), min_size=1).map(tuple)),
        st.builds(Missing, st.sampled_from(["vip", "age", "city"])),
    ),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(Both, st.lists(inner, min_size=2, max_size=3).map(tuple), st.booleans()),
    ),
    max_leaves=8,
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "vip": st.sampled_from([True, False, None]),
            "age": st.sampled_from([0.0, 1.0, 2.0, 3.0, None]),
            "city": st.sampled_from(["a", "b", "c", None]),
        }
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=200)
@given(rule=RULES, rows=ROWS)
def test_rules_mean_what_they_say_of_each_row(
    rule: EligibilityRule, rows: list[dict[str, object]]
) -> None:
    types = {"vip": pa.bool_(), "age": pa.float64(), "city": pa.string()}
    table = pa.table(
        {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}
    )
    table = table.set_column(2, "city", table["city"].dictionary_encode())
    found = Eligibility(("x", "y"), (rule, None), None).mask(table)
    assert found[:, 0].tolist() == [_literal(rule, row) is True for row in rows]
    assert found[:, 1].all()


def test_the_fallback_is_for_those_who_may_get_nothing_else() -> None:
    rules = (None, BooleanColumn("phone"), BooleanColumn("mail"))
    table = pa.table({"phone": [True, False, None], "mail": [False, False, True]})
    found = Eligibility(("none", "call", "letter"), rules, 0).mask(table)
    assert found.tolist() == [[False, True, False], [True, False, False], [False, False, True]]
