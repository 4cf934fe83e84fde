"""Bounds on means and lifts: the literal Holm, and what must hold whatever the numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seqbatch.inference import (
    Bound,
    FewEvents,
    Guarded,
    Lift,
    Mean,
    Rows,
    judge_bounds,
    pool_by_size,
    summarise,
)
from seqbatch.inference.estimates import EQUAL
from seqbatch.inference.intervals import student, unknown
from tests.oracles import guardrails as oracle
from tests.refusals import refused

NUMBER = st.floats(-3, 3)
QUESTION = st.builds(
    lambda estimate, error, df, value, upper: Bound(
        estimate=student("mean", estimate, error**2, df, level=0.95), value=value, upper=upper
    ),
    NUMBER, st.floats(0.05, 2), st.sampled_from([3.0, 12.0, 1e9]), NUMBER, st.booleans(),
)  # fmt: skip
NOTHING = [
    Bound(estimate=unknown("mean", level=0.95, note="", few=few), value=0.0, upper=True)
    for few in (None, FewEvents(2.0, 5))
]
FAMILY = st.lists(st.one_of(QUESTION, st.sampled_from(NOTHING)), max_size=8)
LEVEL = st.sampled_from([0.8, 0.95, 0.99])


def asked(bound):
    """Return a question as the oracle takes it, with a p-value of Student's t computed anew."""
    one = bound.estimate
    t = abs(one.estimate - bound.value) / one.error if one.known else 0.0
    return {
        "p": 2 * stats.t.sf(t, one.df) if one.known else 1.0, "estimate": one.estimate,
        "bound": bound.value, "upper": bound.upper, "few": one.few is not None,
    }  # fmt: skip


@given(FAMILY, LEVEL)
def test_verdicts_are_those_of_the_literal_steps(bounds, level):
    judged = judge_bounds(bounds, level=level)
    expected = oracle.judged([asked(bound) for bound in bounds], 1 - level)
    assert [one.verdict for one in judged] == [verdict for verdict, _, _ in expected]
    assert [one.adjusted_p for one in judged] == pytest.approx(
        [p for _, _, p in expected], abs=1e-9
    )
    assert [one.interval.level for one in judged] == pytest.approx([own for _, own, _ in expected])


@given(FAMILY, LEVEL)
def test_the_interval_shows_what_the_verdict_says(bounds, level):
    for bound, one in zip(bounds, judge_bounds(bounds, level=level), strict=True):
        if not bound.estimate.known:
            assert one.verdict in (Guarded.NOT_CLEAR, Guarded.TOO_FEW)
            continue
        below, above = one.interval.high < bound.value, one.interval.low > bound.value
        safe, wrong = (below, above) if bound.upper else (above, below)
        assert (one.verdict is Guarded.KEPT) == safe
        assert (one.verdict is Guarded.BROKEN) == wrong
        # No interval is narrower than one that stands alone.
        assert one.interval.low <= bound.estimate.low or level < 0.95
        assert one.interval.level >= level - 1e-12


@given(FAMILY, QUESTION)
def test_another_question_decides_nothing_for_the_others(bounds, another):
    """What is decided beside more questions is decided without them, too."""
    more = judge_bounds([*bounds, another])[:-1]
    for fewer, one in zip(judge_bounds(bounds), more, strict=True):
        assert one.adjusted_p >= fewer.adjusted_p - 1e-12
        assert one.verdict in (fewer.verdict, Guarded.NOT_CLEAR)


def test_one_question_is_its_own_interval():
    estimate = student("mean", 0.5, 0.01, 30.0, level=0.95)
    [one] = judge_bounds([Bound(estimate=estimate, value=0.0, upper=True)])
    assert (one.interval.low, one.interval.high) == pytest.approx((estimate.low, estimate.high))
    assert (one.verdict, one.adjusted_p) == (Guarded.BROKEN, pytest.approx(estimate.p_value))
    assert judge_bounds([]) == ()
    with refused("invalid-argument", field="level"):
        judge_bounds([], level=1.0)


def test_all_decisions_together_are_seldom_wrong():
    """Four true values at their bounds, two far from them: every decision on the four is wrong."""
    random = np.random.default_rng(7)
    wrong, trials = 0, 4_000
    for draws in random.standard_normal((trials, 6)):
        bounds = [
            Bound(estimate=student("", draw + far, 1.0, 1e9, level=0.95), value=0.0, upper=True)
            for draw, far in zip(draws, (0, 0, 0, 0, 5, -5), strict=True)
        ]
        wrong += any(one.verdict is not Guarded.NOT_CLEAR for one in judge_bounds(bounds)[:4])
    assert wrong / trials == pytest.approx(0.05, abs=0.012)


# ----------------------------------------------------------------------
# Yes/no outcomes without an event.


def quiet(count=3_000, events=0, actions=2):
    """Return a wave in which hardly anything happens."""
    random = np.random.default_rng(3)
    given = random.integers(0, actions, count)
    y = np.zeros(count)
    y[np.flatnonzero(given == 0)[:events]] = 1.0
    return Rows.of(np.ones((count, 1)), given, np.full((count, actions), 1 / actions), y)


def test_no_event_is_evidence_of_a_low_rate():
    summaries = summarise([quiet()])
    assert pool_by_size(summaries, Mean(0)).note == EQUAL
    mean = pool_by_size(summaries, Mean(0), yes_no=True)
    assert (mean.estimate, mean.low) == (0.0, 0.0)
    # About 1,500 units: three or four events would have been seen at this rate.
    assert 3.0 / 1_500 < mean.high < 4.0 / 1_500
    lift = pool_by_size(summaries, Lift(1), yes_no=True)
    assert lift.low == pytest.approx(-lift.high, rel=0.1)
    [one] = judge_bounds([Bound(estimate=mean, value=0.02, upper=True)])
    assert one.verdict is Guarded.KEPT


def test_no_event_and_one_event_hardly_differ():
    none, one = (
        pool_by_size(summarise([quiet(events=n)]), Mean(0), yes_no=True).high for n in (0, 1)
    )
    assert none < one < 2 * none


def test_events_are_counted_at_the_bound():
    """Of 1,000 planned units none had an event: too few to print, and enough for a bound of 2%."""
    summaries = summarise([quiet()])
    asked = {"planned": 1_000.0, "yes_no": True}
    assert pool_by_size(summaries, Mean(0), **asked).few == FewEvents(0.0, 5)
    assert pool_by_size(summaries, Mean(0), **asked, rate=0.004).few == FewEvents(4.0, 5)
    assert pool_by_size(summaries, Mean(0), **asked, rate=0.02).known
    # A rate below the one that was seen changes nothing.
    seen = summarise([quiet(events=60)])
    assert pool_by_size(seen, Mean(0), planned=100.0, rate=0.001).few.expected == pytest.approx(2)
