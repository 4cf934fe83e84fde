"""Other policies judged on a log, and the log handed to other programs."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from seqbatch import Learner, grids
from seqbatch.inference import Rows, evaluate
from seqbatch.inference.log_export import open_bandit_feedback, vowpal_wabbit_lines, write_parquet
from seqbatch.policies import RBGL
from tests.inference.campaigns import campaign, cut, literal, rows_of
from tests.oracles import inference as oracle
from tests.oracles.return_model import returned
from tests.refusals import refused


@pytest.fixture(scope="module")
def log():
    return rows_of(np.random.default_rng(0), 80)


def target(rows):
    """Return a policy that depends on features."""
    right = (rows.features[:, 1] > 0).astype(float)
    return np.column_stack([0.1 + 0 * right, 0.9 * (1 - right), 0.9 * right])


def test_against_a_literal_sum(log):
    made = evaluate(log, target(log))
    assert f"). Effective sample size {made.effective:,.0f} of 80 units" in str(made)
    [rows] = literal([log])
    q = [returned([rows], a) for a in range(3)]
    table, wanted = oracle.scores([rows], shift=False), target(log)
    weights, plain, robust = [], [], []
    for row, line, pi in zip(rows, table, wanted, strict=True):
        a = row["a"]
        w = 0.0 if row["y"] is None else pi[a] / (row["p"][a] * q[a](row["x"]))
        weights.append(w)
        plain.append(0.0 if row["y"] is None else w * row["y"])
        robust.append(sum(pi[k] * line[k] for k in range(3)))
    n = len(rows)
    assert made.inverse_probability.estimate == pytest.approx(sum(plain) / n)
    assert made.self_normalised.estimate == pytest.approx(sum(plain) / sum(weights))
    assert made.doubly_robust.estimate == pytest.approx(sum(robust) / n)
    assert made.effective == pytest.approx(sum(weights) ** 2 / sum(w**2 for w in weights))
    assert made.largest_weight == pytest.approx(max(weights))
    ratio, mean = sum(plain) / sum(weights), sum(weights) / n
    parts = [(p - ratio * w) / mean for p, w in zip(plain, weights, strict=True)]
    assert made.self_normalised.error**2 == pytest.approx(np.var(parts, ddof=1) / n)
    assert made.inverse_probability.error**2 == pytest.approx(np.var(plain, ddof=1) / n)
    assert made.doubly_robust.error**2 == pytest.approx(np.var(robust, ddof=1) / n)
    assert made.unsupported == 0


@pytest.mark.parametrize("limit", [1.5, 10.0])
def test_weights_above_a_limit_against_a_literal_sum(log, limit):
    made, [rows], n = evaluate(log, target(log), limit=limit), literal([log]), log.count
    parts = oracle.scored([rows], shift=False)
    switch, shrunk, clipped = [], [], []
    for row, part, pi in zip(rows, parts, target(log), strict=True):
        a = row["a"]
        model = sum(pi[k] * part["G"][k] for k in range(3))
        w, e = (0.0, 0.0) if row["y"] is None else (pi[a] / row["p"][a] / part["q"][a], part["e"])
        model -= w * e
        switch.append(model + (w if w <= limit else 0) * e)
        shrunk.append(model + limit**2 * w / (w**2 + limit**2) * e)
        clipped.append(model + min(w, limit) * e)
    for one, values in ((made.switch, switch), (made.shrunk, shrunk), (made.clipped, clipped)):
        assert one.estimate == pytest.approx(sum(values) / n)
        assert one.error**2 == pytest.approx(np.var(values, ddof=1) / n)
        assert one.valid == (made.largest_weight <= limit)


def several(waves):
    """Return the units of several waves as one log, in no order."""
    names = ("features", "actions", "probabilities", "outcomes")
    order = np.random.default_rng(1).permutation(sum(wave.count for wave in waves))
    parts = [np.concatenate([getattr(wave, name) for wave in waves])[order] for name in names]
    numbers = np.repeat(np.arange(1, len(waves) + 1), [wave.count for wave in waves])[order]
    return Rows.of(*parts, waves=numbers)


def test_waves_against_a_literal_sum():
    waves = campaign(3, sizes=(60, 55, 80))
    log, rows = several(waves), literal(waves)
    made = evaluate(cut(log, [40, 90]), target)
    total, squares, outcomes, weights, means, variances = 0.0, 0.0, 0, [], [], []
    for m in range(1, 4):
        table, wave, wanted = oracle.scored(rows[:m]), rows[m - 1], target(waves[m - 1])
        n, own = len(wave), [line["e"] for line in table if line["e"] is not None]
        scores = [float(np.dot(pi, line["G"])) for pi, line in zip(wanted, table, strict=True)]
        pairs = list(zip(wave, wanted, strict=True))
        cost = sum(pi[a] ** 2 / row["p"][a] for row, pi in pairs for a in range(3))
        total, mean = total + sum(scores), sum(scores) / n
        squares, outcomes = squares + sum(e**2 for e in own), outcomes + len(own)
        second = sum((s - mean) ** 2 for s in scores)
        kurtosis = n * sum((s - mean) ** 4 for s in scores) / second**2
        effective = len(own) * n / cost
        df = max(min(2 * n / (kurtosis - 1), effective), 1)
        expected = squares / outcomes / effective
        variances.append((df * second / (n - 1) / n + 10 * expected) / (df + 10))
        weights.append(n / np.sqrt(cost / n))
        means.append(mean)
    assert made.doubly_robust.estimate == pytest.approx(total / log.count)
    one, w = made.adaptively_weighted, np.array(weights) / sum(weights)
    assert one.estimate == pytest.approx(w @ means)
    assert one.error**2 == pytest.approx(w**2 @ variances)
    assert str(made).startswith("adaptively weighted")


def test_weights_by_unit_against_a_literal_sum():
    waves = campaign(3, sizes=(60, 55, 80))
    log, rows, sizes = several(waves), literal(waves), (60, 55, 80)
    random = np.random.default_rng(2)
    # In the order of the waves, then of their units: what each would have got in every wave.
    tables = [random.dirichlet(np.ones(3), (size, 3)) for size in sizes]
    for m, wave in enumerate(waves):
        tables[m][:, m] = wave.probabilities
    order = np.random.default_rng(1).permutation(sum(sizes))
    by_wave = np.concatenate(tables)[order]
    made = evaluate(cut(replace(log, by_wave=by_wave), [40, 90]), target)
    estimate, squares, outcomes, variance = 0.0, 0.0, 0, 0.0
    for m in range(3):
        parts, wanted, n = oracle.scored(rows[: m + 1]), target(waves[m]), sizes[m]
        weighted, cost = [], 0.0
        for line, pi, table in zip(parts, wanted, tables[m], strict=True):
            h = [1 / sum(pi[a] ** 2 / table[k][a] for a in range(3)) ** 0.5 for k in range(3)]
            weight = h[m] / sum(size * one for size, one in zip(sizes, h, strict=True))
            weighted.append(weight * sum(pi[a] * line["G"][a] for a in range(3)))
            cost += weight**2 / h[m] ** 2
        own = [line["e"] for line in parts if line["e"] is not None]
        squares, outcomes = squares + sum(e**2 for e in own), outcomes + len(own)
        off = [one - sum(weighted) / n for one in weighted]
        kurtosis = n * sum(one**4 for one in off) / sum(one**2 for one in off) ** 2
        effective = len(own) / n / (cost * sum(sizes) ** 2 / n**2)
        df = max(min(2 * n / (kurtosis - 1), effective), 1)
        raw = n * sum(one**2 for one in off) / (n - 1)
        expected = squares / outcomes * cost * n / len(own)
        estimate, variance = (
            estimate + sum(weighted),
            variance + (df * raw + 10 * expected) / (df + 10),
        )
    assert made.contextually_weighted.estimate == pytest.approx(estimate)
    assert made.contextually_weighted.error**2 == pytest.approx(variance)
    assert evaluate(log, target).contextually_weighted is None


def test_rules_of_waves_that_cannot_be_are_refused(log):
    own = log.probabilities[:, None, :]
    parts = (log.features, log.actions, log.probabilities, log.outcomes)
    waves = np.ones(log.count, dtype=int)
    for field, given in (
        ("by_wave", {"by_wave": own}),
        ("by_wave", {"by_wave": 1 - own, "waves": waves}),
        ("waves", {"by_wave": own, "waves": waves + 1}),
        ("by_wave", {"by_wave": own[:, :, :2], "waves": waves}),
        ("contexts", {"contexts": np.ones((3, 2))}),
    ):
        with refused("invalid-argument", field=field):
            Rows.of(*parts, **given)
    one = evaluate(Rows.of(*parts, waves=waves, by_wave=own), target)
    assert one.contextually_weighted.estimate == pytest.approx(one.doubly_robust.estimate)


def test_contexts_that_no_wave_supports_are_said():
    waves = campaign(4, sizes=(90, 70))
    log, order = several(waves), np.random.default_rng(1).permutation(160)
    tables = np.concatenate([wave.probabilities for wave in waves])[:, None].repeat(2, axis=1)
    by_wave = tables[order]
    assert evaluate(replace(log, by_wave=by_wave), 1).contextually_weighted.valid
    one = int(np.flatnonzero(log.actions != 1)[0])
    p = np.where(np.arange(160)[:, None] == one, np.eye(3)[log.actions[one]], log.probabilities)
    by_wave[one] = p[one]
    made = evaluate(replace(log, probabilities=p, by_wave=by_wave), 1)
    assert not made.contextually_weighted.valid


def test_waves_without_support_do_not_count_in_the_adaptive_weights():
    waves = campaign(4, sizes=(90, 70))
    p = np.tile([0.0, 1.0, 0.0], (70, 1))
    sure = Rows.of(waves[1].features, np.ones(70, dtype=int), p, waves[1].outcomes)
    both, first = evaluate(several([waves[0], sure]), 0), evaluate(waves[0], 0)
    assert not both.doubly_robust.valid
    assert both.adaptively_weighted.valid
    assert both.adaptively_weighted.error < 1.5 * first.adaptively_weighted.error
    # Of one unit each, waves have no variance: they are joined.
    tiny = several([waves[0].some(slice(place, place + 1)) for place in range(90)])
    whole = several([waves[0].some(slice(0, 50)), waves[0].some(slice(50, 90))])
    assert evaluate(tiny, 0).units == 90
    one, other = (evaluate(log, 0).adaptively_weighted for log in (tiny, whole))
    assert one.low == pytest.approx(other.low)


def test_pieces_and_order_do_not_matter(log):
    whole, parts = evaluate(log, target), evaluate(cut(log, [10, 33]), target)
    assert len(whole.estimates) == 7
    for one, other in zip(whole.estimates.values(), parts.estimates.values(), strict=True):
        assert (one.estimate, one.low) == pytest.approx((other.estimate, other.low))
    assert whole.effective == pytest.approx(parts.effective)


def test_copies_of_units_in_clusters_do_not_narrow_intervals(log):
    places = np.repeat(np.arange(log.count), 4)
    parts = [part[places] for part in (log.features, log.actions, log.probabilities, log.outcomes)]
    known, plain = Rows.of(*parts, clusters=places), Rows.of(*parts)
    for name in ("inverse_probability", "self_normalised"):
        once, careful, careless = (
            getattr(evaluate(rows, target), name).error for rows in (log, known, plain)
        )
        assert careful == pytest.approx(once, rel=0.05)
        assert careless == pytest.approx(once / 2, rel=0.05)


def test_clusters_of_one_unit_change_nothing(log):
    parts = (log.features, log.actions, log.probabilities, log.outcomes)
    alone = evaluate(Rows.of(*parts, clusters=np.arange(log.count)), target)
    plain = evaluate(log, target)
    for name in ("inverse_probability", "self_normalised", "doubly_robust"):
        one, other = getattr(alone, name), getattr(plain, name)
        assert (one.low, one.high) == pytest.approx((other.low, other.high))


def test_the_intervals_cover():
    """A policy worth 2 + 0.4 E[(1 + x) a] in the tests' world, judged on logs of 400 units."""
    hits = []
    for seed in range(120):
        rows = rows_of(np.random.default_rng(seed), 400)
        # Under the target, action 2 goes to x > 0 with 0.9, action 1 to the others.
        half = np.sqrt(2 / np.pi) / 2
        truth = 2 + 0.4 * (0.9 * 1 * (0.5 - half) + 0.9 * 2 * (0.5 + half))
        made = evaluate(rows, target)
        hits.append(
            [
                one.low <= truth <= one.high
                for one in (made.inverse_probability, made.self_normalised, made.doubly_robust)
            ]
        )
    assert np.mean(hits, axis=0).min() > 0.87


def test_choices_that_the_log_could_not_make_are_said():
    p = np.tile([0.5, 0.5, 0.0], (6, 1))
    rows = Rows.of(np.ones((6, 1)), [0, 1, 0, 1, 0, 1], p, np.arange(6.0))
    made = evaluate(rows, np.tile([0.5, 0.0, 0.5], (6, 1)))
    assert made.unsupported == 0.5
    assert not made.doubly_robust.valid
    assert "have probability 0 in the log" in str(made)
    with refused("invalid-argument", field="policy"):
        evaluate(rows, np.tile([0.0, 0.0, 1.0], (6, 1)))


def test_policies_that_are_none_are_refused(log):
    with refused("invalid-argument", field="policy", received="[1. 1. 1.] for unit 0"):
        evaluate(log, np.ones((80, 3)))
    with refused("invalid-argument", field="policy", received="ndarray"):
        evaluate([log], target(log))
    for action in (-1, 3, True, "the best", None):
        with refused("invalid-argument", field="policy"):
            evaluate(log, action)
    with refused("invalid-argument", field="log"):
        evaluate(log, Learner(RBGL(), grids.explicit([9]), actions=3, dim=2))
    assert "Overlap" in evaluate(log, target)._repr_html_()


def test_open_bandit_feedback_gives_the_same_inverse_probability_estimate(log):
    made = open_bandit_feedback(log)
    # As Open Bandit Pipeline's InverseProbabilityWeighting computes it, by its own keys.
    pi = target(log)[log.returned][:, :, None]
    rounds = np.arange(made["n_rounds"])
    weights = pi[rounds, made["action"], 0] / made["pscore"]
    assert made["pi_b"].sum(axis=1) == pytest.approx(1)
    assert made["pi_b"][rounds, made["action"], 0] == pytest.approx(made["pscore"])
    whole = evaluate(Rows.of(*_returned(log)), target(log)[log.returned])
    estimate = (weights * made["reward"]).mean()
    assert whole.inverse_probability.estimate == pytest.approx(estimate)


def _returned(log):
    back = log.returned
    return log.features[back], log.actions[back], log.probabilities[back], log.outcomes[back]


def test_vowpal_wabbit_lines_read_back(log):
    features, actions, probabilities, outcomes = _returned(log)
    lines = list(vowpal_wabbit_lines(cut(log, [30]), labels=["constant", "income", "age"]))
    assert len(lines) == len(actions)
    for place, line in enumerate(lines):
        label, _, rest = line.partition(" | ")
        action, cost, probability = label.split(":")
        assert int(action) == actions[place] + 1
        assert -float(cost) == outcomes[place]
        assert float(probability) == probabilities[place, actions[place]]
        pairs = dict(part.split(":") for part in rest.split())
        assert [float(pairs[name]) for name in ("income", "age")] == features[place, 1:].tolist()
    with refused("invalid-argument", field="labels"):
        next(vowpal_wabbit_lines(log, labels=["constant", "a b"]))


def test_parquet_with_a_data_dictionary(tmp_path):
    log = campaign(sizes=(40,), clusters=7)[0]
    path = tmp_path / "log.parquet"
    assert write_parquet(cut(log, [15]), path, labels=["constant", "income", "age"]) == 40
    table = pq.read_table(path)
    words = json.loads(table.schema.metadata[b"data_dictionary"])
    assert list(words) == table.column_names
    for field in table.schema:
        assert field.metadata[b"description"].decode() == words[field.name]
    assert table["outcome"].null_count == int((~log.returned).sum())
    assert table["feature_income"].to_numpy().tolist() == log.features[:, 1].tolist()
    assert table["probability_2"].to_numpy().tolist() == log.probabilities[:, 2].tolist()
    assert table["segment_half"].to_pylist() == log.groups["half"].tolist()
    assert table["cluster"].to_pylist() == log.clusters.tolist()
