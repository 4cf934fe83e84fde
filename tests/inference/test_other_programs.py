"""Logs read by the programs they are exported for, where these are installed.

Neither is among the project's requirements: Open Bandit Pipeline brings PyTorch along. In an
environment of your own, `pip install vowpalwabbit obp==0.4.1` and run this file.
"""

import numpy as np
import pytest
from benchmarks.off_policy import beside, left_out_predictions

from seqbatch.inference import evaluate, open_bandit_feedback, vowpal_wabbit_lines
from tests.inference.campaigns import rows_of
from tests.inference.test_evaluate import target

LABELS = ["constant", "income", "age"]


@pytest.fixture(scope="module")
def log():
    return rows_of(np.random.default_rng(3), 3_000, missing=0)


@pytest.mark.filterwarnings("ignore")
def test_open_bandit_pipeline_estimates_the_same(log):
    ope = pytest.importorskip("obp.ope", exc_type=ImportError)
    made = ope.OffPolicyEvaluation(
        bandit_feedback=open_bandit_feedback(log),
        ope_estimators=[
            ope.InverseProbabilityWeighting(),
            ope.SelfNormalizedInverseProbabilityWeighting(),
            ope.DoublyRobust(),
            ope.SwitchDoublyRobust(tau=1.5),
            ope.DoublyRobustWithShrinkage(lambda_=1.5**2),
        ],
    ).estimate_policy_values(
        action_dist=target(log)[:, :, None],
        estimated_rewards_by_reg_model=left_out_predictions(log)[:, :, None],
    )
    ours = evaluate(log, target(log), limit=1.5)
    assert made == pytest.approx(
        {
            "ipw": ours.inverse_probability.estimate,
            "snipw": ours.self_normalised.estimate,
            "dr": ours.doubly_robust.estimate,
            "switch-dr": ours.switch.estimate,
            "dr-os": ours.shrunk.estimate,
        },
        rel=1e-9,
    )


@pytest.mark.filterwarnings("ignore")
def test_open_bandit_pipeline_estimates_the_same_on_its_own_data():
    pytest.importorskip("obp.ope", exc_type=ImportError)
    cells = [line.strip("| ").split(" | ") for line in beside()[-10:]]
    assert {row[0] for row in cells} == {"random", "bts"}
    assert [row[2] for row in cells] == [row[3] for row in cells]


def test_vowpal_wabbit_reads_what_was_written(log):
    vw = pytest.importorskip("vowpalwabbit")
    lines = list(vowpal_wabbit_lines(log, labels=LABELS))
    with vw.Workspace("--cb 3 --strict_parse --quiet") as reader:
        place = {name: reader.hash_feature(name, 0) & (2**18 - 1) for name in LABELS[1:]}
        for row in range(50):
            example = reader.example(lines[row])
            [cost] = example.get_label().costs
            assert cost.action == log.actions[row] + 1
            assert cost.cost == pytest.approx(-log.outcomes[row], rel=1e-6)
            assert cost.probability == pytest.approx(log.taken[row], rel=1e-6)
            found = dict(example.iter_features())
            for column, name in enumerate(LABELS[1:], start=1):
                assert found[place[name]] == pytest.approx(log.features[row, column], rel=1e-6)
            reader.finish_example(example)


def test_vowpal_wabbit_learns_what_pays_from_the_file(log, tmp_path):
    vw = pytest.importorskip("vowpalwabbit")
    path = tmp_path / "log.vw"
    lines = vowpal_wabbit_lines(log, labels=LABELS)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options = f"--cb 3 --cb_type dr --strict_parse --quiet --passes 5 -k --holdout_off -d {path}"
    with vw.Workspace(f"{options} --cache_file {tmp_path / 'log.cache'}") as learner:
        # Outcomes rise by 0.4 (1 + income) with each action.
        assert learner.predict("| income:2 age:0") == 3
        assert learner.predict("| income:-3 age:0") == 1
