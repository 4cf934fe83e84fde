"""Other policies judged on a log, and the log handed to other programs."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from seqbatch.inference import Rows, evaluate
from seqbatch.inference.log_export import open_bandit_feedback, vowpal_wabbit_lines, write_parquet
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


def test_pieces_and_order_do_not_matter(log):
    whole, parts = evaluate(log, target), evaluate(cut(log, [10, 33]), target)
    for name in ("inverse_probability", "self_normalised", "doubly_robust"):
        one, other = getattr(whole, name), getattr(parts, name)
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
