"""Oracles and program reproduce the printed check values of the method's pages."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from seqbatch.inference import AsRun, Gain, Lift, Mean, plan_of_shares, planned_units
from seqbatch.inference import verdict as judged
from seqbatch.inference.doubly_robust_scores import CommonShift, OutcomeModel, score
from seqbatch.inference.estimates import pooled_df, same_in_all
from seqbatch.inference.evidence import gathered
from seqbatch.inference.intervals import StudentShape, normal_tail
from seqbatch.inference.rare_events import rare_shape
from seqbatch.inference.return_model import ReturnModel
from seqbatch.inference.score_sums import ScoreColumns, Weighing
from tests.inference.campaigns import logged
from tests.oracles import inference, rare_events, recommendation, return_model
from tests.oracles.campaigns import waves_of

Z = 1.959964


def printed(value, digits):
    """Return a comparison that allows half a unit of the last printed digit."""
    return pytest.approx(value, abs=0.51 * 10**-digits)


def significant(value, digits=6):
    return pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@pytest.mark.parametrize(
    ("theta", "v", "df", "expected", "verdict"),
    [
        (
            (0.62, 0.05, -0.28), (0.0135, 0.025, 0.0165), (70, 45, 60),
            (-0.001, 0.083156, 119.465570, -0.165652, 0.163652,
             0.177217, 27.839630, 0.000001, 0.983396),
            "changed",
        ),
        (
            (0.31, 0.22, 0.36), (0.0135, 0.025, 0.0165), (70, 45, 60),
            (0.308, 0.083156, 119.465570, 0.143348, 0.472652,
             0.306739, 0.473657, 0.789127, 0.003408),
            "give",
        ),
        (
            (0.75, 0.6, 0.12), (0.006, 0.01, 0.008), (90, 60, 80),
            (0.39, 0.056036, 153.719988, 0.279301, 0.500699,
             0.510638, 29.422340, 0.0, 0.091754),
            "changed",
        ),
    ],
)  # fmt: skip
def test_waves_by_size_test_of_change_and_verdict(theta, v, df, expected, verdict):
    parts = [
        {"theta": one, "moderated": two, "df": three}
        for one, two, three in zip(theta, v, df, strict=True)
    ]
    found = inference.weighted(parts, [300, 450, 750])
    last = inference.one_sided(inference.weighted(parts[2:], [750]))
    names = ("theta", "se", "df", "low", "high", "centre", "Q", "p_change")
    assert [*(found[name] for name in names), last] == [printed(one, 6) for one in expected]
    made = recommendation.verdict(
        found["low"], found["high"], last, found["p_change"], recommendation.tail_of(2)
    )
    assert made == verdict


def test_waves_by_size_and_verdict_of_the_program():
    theta, v, df = np.array([0.62, 0.05, -0.28]), np.array([0.0135, 0.025, 0.0165]), [70, 45, 60]
    W = np.array([300, 450, 750]) / 1500
    parts = W**2 * v
    shape = StudentShape(float(W @ theta), math.sqrt(parts.sum()), pooled_df(parts, np.array(df)))
    Q, p = same_in_all(theta, v)
    low, high = shape.limits(0.025)
    assert (shape.estimate, shape.error, shape.df, low, high, Q, p) == (
        printed(-0.001, 6), printed(0.083156, 6), printed(119.465570, 6), printed(-0.165652, 6),
        printed(0.163652, 6), printed(27.839630, 6), printed(0.000001, 6),
    )  # fmt: skip
    last = normal_tail(StudentShape(-0.28, math.sqrt(0.0165), 60).statistic())
    assert last == printed(0.983396, 6)
    assert judged(low, high, same_p=p, latest_p=last, tail=0.025, waves=3) == "changed"


Z2 = (-1.6, -1.2, -0.9, -0.5, -0.3, 0, 0.2, 0.5, 0.8, 1.1, 1.4, 1.9)
BACK = (1, 1, 1, 1, 0, 1, 1, 0, 1, 0, 0, 0)
RETURNS = [
    {"x": [1.0, z], "a": 0, "p": [1.0], "y": 1.0 if back else None}
    for z, back in zip(Z2, BACK, strict=True)
]


def shares(b):
    return [1 / (1 + math.exp(-(b[0] + b[1] * z))) for z in (-1, 0, 1)]


def test_the_return_model():
    begun = return_model.start(RETURNS, 0.6)
    assert begun["q0"] == significant(0.5846153846153845, 15)
    assert begun["R2"] == significant(0.3289704243247057, 12)
    assert list(begun["g"]) == [printed(0.109447, 6), printed(-0.983688, 6)]
    assert list(begun["h"]) == [printed(0.681009, 6), printed(-1.465938, 6)]
    step = [math.log(begun["q0"] / (1 - begun["q0"])) + begun["g"][0], begun["g"][1]]
    assert shares(step) == [printed(one, 6) for one in (0.807661, 0.610924, 0.369936)]
    assert shares(begun["h"]) == [printed(one, 6) for one in (0.895383, 0.663964, 0.313259)]
    H, c = return_model.newton_pass(RETURNS, begun["h"])
    assert list(H.ravel()) == [printed(one, 6) for one in (1.975874, 0.606734, 0.606734, 1.494373)]
    assert list(c) == [printed(0.423272, 6), printed(-2.393455, 6)]
    b = np.linalg.solve(H + return_model.penalty(2), c)
    assert list(b) == [printed(0.549643, 6), printed(-1.093237, 6)]
    assert shares(b) == [printed(one, 6) for one in (0.837927, 0.634053, 0.367352)]


def test_the_return_model_of_the_program():
    # Three units of another action make the overall share 9/15.
    others = [{"x": [1.0, 0.0], "a": 1, "p": [0.5, 0.5], "y": y} for y in (1.0, 2.0, None)]
    [rows] = logged([[{**row, "p": [0.5, 0.5]} for row in RETURNS] + others])
    evidence = gathered(rows)
    assert evidence.share_returned == pytest.approx(0.6)
    made = ReturnModel.fitted(rows, evidence)
    assert list(made.curvature[0].ravel()) == [
        printed(one, 6) for one in (1.975874, 0.606734, 0.606734, 1.494373)
    ]
    assert list(made.target[0]) == [printed(0.423272, 6), printed(-2.393455, 6)]
    assert list(made.coefficients[0]) == [printed(0.549643, 6), printed(-1.093237, 6)]
    [asked] = logged([[{**others[0], "x": [1.0, z]} for z in (-1.0, 0.0, 1.0)]])
    assert list(made.of(asked)[:, 0]) == [printed(one, 6) for one in (0.837927, 0.634053, 0.367352)]


@pytest.fixture(scope="module")
def shifted():
    A = ((0, 1, 0, 1, 0, 1), (1, 1, 0, 1, 1, 0))
    z = ((-1, 0.5, 1, -0.5, 0, 1.5), (-1.5, 0.5, 1, 0, -0.5, 0.2))
    y = ((0.1, 0.9, 0.8, 0.2, 0.3, 1.4), (0.6, 1.9, 1.5, 1.2, None, 1.1))
    p = ([0.5, 0.5], [0.2, 0.8])
    return [
        [
            {"x": [1.0, z[m][i]], "a": A[m][i], "p": p[m], "y": y[m][i]}
            for i in range(6)
        ]
        for m in range(2)
    ]  # fmt: skip


def test_scores_with_the_common_shift(shifted):
    # These values use the share back by action, not the return model.
    past = shifted[0] + shifted[1]
    made = inference.scored(shifted, q=lambda a, _x: return_model.share_back(past, a))
    shifts = (0.343606, 0.211397, 0.271212, 0.319449, 0.29845, 0.286898)
    e = (-0.17443, 0.699609, 0.401527, -0.086996, 0.0, 0.15858)
    control = (0.40406, 1.075774, 3.134384, 0.982846, 0.760866, 1.745489)
    other = (0.522242, 2.211874, 1.597231, 1.161219, 1.145255, 1.357336)
    assert [one["shift"] for one in made] == [printed(one, 6) for one in shifts]
    assert [one["e"] or 0.0 for one in made] == [printed(one, 6) for one in e]
    assert [one["G"][0] for one in made] == [printed(one, 6) for one in control]
    assert [one["G"][1] for one in made] == [printed(one, 6) for one in other]
    gaps = [one["G"][1] - one["G"][0] for one in made]
    means = [sum(one["G"][a] for one in made) / 6 for a in range(2)]
    assert means == [printed(1.350570, 6), printed(1.332526, 6)]
    assert np.mean(gaps) == printed(-0.018044, 6)
    assert np.var(gaps, ddof=1) / 6 == printed(0.133194, 6)


def test_scores_of_the_program(shifted):
    first, second = logged(shifted)
    evidence = gathered(second, gathered(first))
    model = OutcomeModel.fitted(evidence)
    shift = CommonShift.of(gathered(second).statistics, model)
    made = score(second, model, ReturnModel.by_action(evidence).of(second), shift)
    control = (0.40406, 1.075774, 3.134384, 0.982846, 0.760866, 1.745489)
    other = (0.522242, 2.211874, 1.597231, 1.161219, 1.145255, 1.357336)
    e = (-0.17443, 0.699609, 0.401527, -0.086996, 0.0, 0.15858)
    assert list(made.values[:, 0]) == [printed(one, 6) for one in control]
    assert list(made.values[:, 1]) == [printed(one, 6) for one in other]
    assert list(np.nan_to_num(made.residuals)) == [printed(one, 6) for one in e]


def test_tails_of_looks():
    z = stats.norm.isf(inference.look_tails(3))
    assert list(z) == [printed(2.807, 3), printed(2.807, 3), printed(2.054, 3)]


def test_limits_of_a_part_and_of_a_difference():
    part = {"A": 1.0, "B": 0.02, "k": 0.0025, "w": 0.003, "T": 1.0}
    assert rare_events.part_limits(part, Z) == (printed(0.00874766, 8), printed(0.03754269, 8))
    found = rare_events.mover((0.03, 0.015, 0.055), (0.02, 0.008, 0.041))
    assert found == (printed(-0.01580698, 8), printed(0.03773085, 8))


def tiny(amounts):
    waves = [[], []]
    for i in range(150):
        event = 7 * i % 11 == 0 or 5 * i % 17 == 3
        size = 1 + 3 * i % 7 + 20 * (i % 37 == 0) if amounts else 1
        first = i < 60
        waves[0 if first else 1].append(
            {
                "x": [1.0, (i % 5 - 2) / math.sqrt(2)],
                "a": i % 2 if first else int(i % 5 != 0),
                "p": [0.5, 0.5] if first else [0.2, 0.8],
                "y": float(size * event),
            }
        )
    return waves


WEIGHTS = {"mean": (2, 3.125), "lift": (4, 6.25)}
# A contrast: estimate, low, high, planned events, low and high at z = 2.5; then of each part B, v,
# k3, A, k by design, own k, k, w, E, L, U.
PRINTED = """
binary mean 0
  0.177695 0.084275 0.299204 8.624 0.060714 0.332365
  0.177695 0.00271249 4.06965e-05 1 0.0211169 0.0185635
    0.0211169 0.0214096 6.94547 0.0842749 0.299204
binary mean 1
  0.153166 0.089723 0.232743 8.624 0.073611 0.255699
  0.153166 0.0013107 9.74259e-06 1 0.0103053 0.0101051
    0.0103053 0.0108553 14.2322 0.0897232 0.232743
binary lift 1
  -0.029673 -0.170906 0.098588 8.624 -0.208636 0.132949
  0.149385 0.00150322 1.4825e-05 1 0.0120089 0.0118299
    0.0120089 0.0141756 12.2132 0.0816972 0.234569
  0.179058 0.00271516 4.45798e-05 1 0.0220047 0.0184709
    0.0220047 0.0231872 6.66524 0.08317 0.303015
binary as-run -
  0.162937 0.109234 0.227158 22.0 0.095504 0.245668
  0.162937 0.000862865 3.91668e-06 1 0.00666667 0.00632654
    0.00666667 0.00666667 22 0.109234 0.227158
binary gain 0
  -0.018698 -0.132826 0.078813 4.680851 -0.1613 0.105256
  0.106497 0.000585861 2.63223e-06 0.68 0.00666667 0.00652276
    0.00733333 0.00666667 14.96 0.0624698 0.162786
  0.125195 0.00155874 2.90956e-05 0.68 0.0207843 0.01526
    0.0228627 0.0247799 4.79849 0.0455713 0.230489
amount mean 0
  0.96447 0.289938 2.395312 8.624 0.092159 3.045898
  0.96447 0.205853 0.0603664 1 0.173716 0.241784
    0.186261 0.288446 6.94547 0.289938 2.39531
amount mean 1
  0.633201 0.248779 1.995281 8.624 0.137256 2.732077
  0.633201 0.0265635 0.0011699 1 0.0847756 0.0454495
    0.0847756 0.145701 14.2322 0.248779 1.99528
amount lift 1
  -0.305686 -1.470319 0.888019 8.624 -1.906822 1.402864
  0.60202 0.0284287 0.00159645 1 0.0987901 0.0509508
    0.0987901 0.190265 12.2132 0.190952 1.59727
  0.907706 0.168954 0.0436 1 0.18102 0.209218
    0.186548 0.300798 6.66524 0.248612 1.99738
amount as-run -
  0.776124 0.428064 2.402957 22.0 0.332201 3.325964
  0.776124 0.0377637 0.00310002 1 0.0548428 0.0537255
    0.0548428 0.0894801 22 0.428064 2.40296
amount gain 0
  -0.024315 -0.968633 0.786314 4.680851 -1.351291 1.143828
  0.449903 0.0126558 0.000359832 0.68 0.0548428 0.0305904
    0.060327 0.0894801 14.96 0.183434 1.10167
  0.474217 0.0327737 0.00257397 0.68 0.17098 0.0755125
    0.188078 0.332596 4.79849 -0.00777335 1.38016
"""


def read(text):
    """Return amounts, kind, action, the contrast and its parts of every row."""
    for block in re.split(r"\n(?=[a-z])", text.strip()):
        head, *lines = block.split("\n")
        name, kind, action = head.split()
        numbers = [float(one) for line in lines for one in line.split()]
        parts = [numbers[place : place + 11] for place in range(6, len(numbers), 11)]
        chosen = None if action == "-" else int(action)
        yield name == "amount", kind.replace("-", " "), chosen, numbers[:6], parts


@pytest.mark.parametrize(("amounts", "kind", "action", "whole", "parts"), list(read(PRINTED)))
def test_rare_events(monkeypatch, amounts, kind, action, whole, parts):
    # The values were made before the common shift of a wave, and what a fitted model adds.
    monkeypatch.setattr(rare_events, "FITTED", 0.0)
    waves = tiny(amounts)
    W = None
    if kind in WEIGHTS:
        W = rare_events.weights_by_shares(waves, kind, action, WEIGHTS[kind])
    found = rare_events.contrast(waves, kind, action, W, shift=False)
    power = 2 * len(parts)
    for part, expected in zip(found["parts"], parts, strict=True):
        names = ("B", "v", "k3", "A", "k_design", "k_own", "k", "w", "E")
        made = [*(part[name] for name in names), *rare_events.part_limits(part, Z, amounts, power)]
        assert made == [significant(one) for one in expected]
    rule = rare_events.rule_of_events(waves, kind, 2, 0.0, 0.2)
    made = [
        rare_events.estimate(found),
        *rare_events.limits(found, Z),
        rule["expected"],
        *rare_events.limits(found, 2.5),
    ]
    assert made == [printed(one, 6) for one in whole]


CONTRASTS = {"mean": Mean, "lift": Lift, "as run": AsRun, "gain": Gain}


@pytest.mark.parametrize(("amounts", "kind", "action", "whole", "parts"), list(read(PRINTED)))
def test_rare_events_of_the_program(monkeypatch, amounts, kind, action, whole, parts):
    monkeypatch.setattr("seqbatch.inference.rare_events.FITTED", 0.0)
    contrast = CONTRASTS[kind](*([] if action is None else [action]))
    tallies, evidence = [], None
    for rows in logged(tiny(amounts)):
        evidence = gathered(rows, evidence)
        q = ReturnModel.by_action(evidence).of(rows)
        # The values were made before the common shift of a wave.
        scores = score(rows, OutcomeModel.fitted(evidence), q, None)
        weighing = Weighing.of(rows, [contrast])
        tallies.append(ScoreColumns.of(weighing, scores.values, q).tally())
    weights = np.array([60.0, 90.0])
    if kind in WEIGHTS:
        weights /= np.sqrt(WEIGHTS[kind] * np.array([one.costs[0] / one.units for one in tallies]))
    events = evidence.events(0)
    made = rare_shape(
        tallies, [0, 0], weights / weights.sum(), [1.0, 1.0], events,
        widening=contrast.widening, mirrored=False, charges=np.zeros(2),
    )  # fmt: skip
    for part, expected in zip((made.more, made.less), parts, strict=False):
        assert (part.size, part.scale, part.skew, *part.limits(Z)) == tuple(
            significant(expected[place]) for place in (0, 6, 7, 9, 10)
        )
    plan = plan_of_shares([60, 90], actions=2, randomised=0, floor=0.2)
    found = [
        made.estimate, *made.limits(float(stats.norm.sf(Z))),
        planned_units(plan.designs, contrast) * events.share,
        *made.limits(float(stats.norm.sf(2.5))),
    ]  # fmt: skip
    assert found == [printed(one, 6) for one in whole]


def test_events_of_the_tiny_sets():
    sums = [
        rare_events.totals([*tiny(amounts)[0], *tiny(amounts)[1]], 2) for amounts in (False, True)
    ]
    assert [one["events"] for one in sums] == [[7, 15], [7, 15]]
    assert [sum(one["Y1"]) for one in sums] == [22, 106]


@pytest.mark.parametrize("kind", ["binary", "common", "amount"])
@pytest.mark.parametrize("t", [-0.3, 0.3])
def test_the_statistic_is_where_a_limit_is_the_value(kind, t):
    found = rare_events.contrast(waves_of(kind=kind), "lift", 1)
    z = rare_events.statistic(found, t)
    assert 0 < z < 40
    assert rare_events.limits(found, z)[t > 0] == pytest.approx(t, abs=1e-9)


def test_common_events_are_mirrored():
    waves = waves_of(kind="common")
    assert rare_events.form(waves) == {
        "binary": True, "mirrored": True, "rare": True, "few": True,
    }  # fmt: skip
    found = rare_events.contrast(waves, "mean", 1)
    sizes = [len(wave) for wave in waves]
    mean = inference.by_size(waves, "mean", 1)["theta"]
    assert rare_events.estimate(found) == pytest.approx(mean)
    low, high = rare_events.limits(found, Z)
    assert low < mean < high <= 1
    assert mean - low > high - mean
    units = inference.units_of(waves[:1], "lift", 1)
    assert inference.quotient_sums(units, 1)[0] == [0, sizes[0], 0]


def test_waves_without_a_missing_outcome_count_as_a_pass_at_the_usual_share():
    waves = waves_of(missing=0)
    rows = [row for row in waves[0] if row["a"] == 1]
    h = np.array([math.log(0.98 / 0.02), 0, 0])
    for one, other in zip(
        return_model.complete_waves(rows, 3), return_model.newton_pass(rows, h), strict=True
    ):
        assert one == pytest.approx(other)
    assert return_model.newton_sums(waves, 1) is None
    assert return_model.returned(waves, 1)([1.0, 0.3, 2.0]) == 1


def test_a_gain_over_random_in_a_uniform_wave_is_known_exactly():
    found = inference.wave_estimate(waves_of(sizes=(40,)), "gain over random")
    assert (found["theta"], found["moderated"], found["df"]) == (0, 0, math.inf)


@pytest.mark.parametrize(
    ("low", "high", "p_recent", "p_change", "code"),
    [
        (0.1, 0.5, 0.09, 0.05, "give"),
        (0.1, 0.5, 0.024, 0.049, "give-changed"),
        (0.1, 0.5, 0.025, 0.049, "changed"),
        (0.1, 0.5, 0.10, 0.05, "unconfirmed"),
        (0.0, 0.5, 0.012, 0.049, "better-now"),
        (0.0, 0.5, 0.013, 0.049, "changed"),
        (-0.5, -0.1, 0.001, 0.049, "changed"),
        (-0.5, -0.1, 0.9, 0.05, "worse"),
        (-0.5, 0.1, 0.001, 0.05, "not-clear"),
        (0.1, 0.5, None, None, "give"),
        (-0.5, -0.1, None, None, "worse"),
        (-0.5, 0.1, None, None, "not-clear"),
    ],
)
def test_verdicts(low, high, p_recent, p_change, code):
    tail = recommendation.tail_of(3)
    assert recommendation.verdict(low, high, p_recent, p_change, tail) == code


@pytest.mark.parametrize(
    ("above", "p_recent", "p_change", "code"),
    [
        (2, 0.049, 0.05, "give"),
        (2, 0.05, 0.05, "unconfirmed"),
        (4, 0.024, 0.05, "give"),
        (4, 0.026, 0.05, "unconfirmed"),
        (2, 0.012, 0.049, "give-changed"),
        (2, 0.013, 0.049, "changed"),
    ],
)
def test_verdicts_if_several_are_better(above, p_recent, p_change, code):
    tail = recommendation.tail_of(5)
    assert recommendation.verdict(0.1, 0.5, p_recent, p_change, tail, above) == code
