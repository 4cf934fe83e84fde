"""Policies by models of your own: what they fit, predict, explore and log."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from seqbatch import Learner, checks, grids
from seqbatch.checks import policies as rules
from seqbatch.environments import Gaussian, GeneralizedLinear
from seqbatch.grids import GridRule
from seqbatch.policies import RBGL, ModelPolicy, UniformRandom
from seqbatch.simulation import Line, simulate
from tests.refusals import refused
from tests.studies import runs_of

random = np.random.default_rng(5)
X = random.standard_normal((300, 2))
Y = random.standard_normal(300) + X[:, 0]


class Mean:
    """The mean of the outcomes, with its standard error."""

    def fit(self, rows, y):
        assert len(rows) == len(y)
        self.mean, self.error = y.mean(), y.std(ddof=1) / np.sqrt(len(y))

    def predict(self, rows, return_std=False):
        means = np.full(len(rows), self.mean)
        return (means, np.full(len(rows), self.error)) if return_std else means


class Plain:
    """The mean of the outcomes alone."""

    def fit(self, rows, y):  # noqa: ARG002
        self.mean = y.mean()

    def predict(self, rows):
        return np.full((len(rows), 1), self.mean)


def after_a_batch(policy, outcomes=Y, layout="block", contexts=X, actions=3):
    grid = grids.explicit([200, 300])
    made = Learner(policy, grid, actions=actions, dim=contexts.shape[-1], layout=layout, seed=1)
    first = made.assign(contexts[:200])
    made.observe(outcomes[:200])
    return first, made.assign(contexts[200:])


SETTINGS = [
    (ModelPolicy(LinearRegression()), None),
    (ModelPolicy(BayesianRidge(), explore="posterior", models="one"), ("block",)),
    (ModelPolicy(DecisionTreeRegressor(max_depth=2), explore="bootstrap", samples=3), ("block",)),
    (ModelPolicy(Plain(), explore="ucb", samples=3), ("shared", "disjoint")),
    (ModelPolicy(Mean(), explore="epsilon"), ("disjoint",)),
    # A classifier is checked with rewards of 0 and 1.
    (ModelPolicy(LogisticRegression()), ("block",)),
]


@pytest.mark.parametrize(("policy", "layouts"), SETTINGS, ids=lambda value: str(value)[:40])
def test_models_keep_the_rules_of_every_policy(policy, layouts):
    report = checks.check_policy(policy, layouts=layouts)
    where = "in every layout" if layouts is None else f"in {' and '.join(layouts)}"
    assert report.scope == f", {where}"


def test_layouts_to_check_are_stated_as_layouts():
    with refused("invalid-argument", field="layouts"):
        checks.check_policy(RBGL(), layouts="block")
    with refused("invalid-argument", field="layouts"):
        checks.check_policy(RBGL(), layouts=("square",))
    # A linear policy's first batch depends on the layout; layouts are compared nevertheless.
    rules.check_layouts_agree(rules._InLayouts(RBGL(), ("shared", "block")))


@pytest.mark.parametrize("layout", ["block", "disjoint", "shared"])
def test_greedy_takes_the_highest_prediction_of_the_models_it_says(layout):
    contexts = X if layout == "block" else random.standard_normal((300, 3, 2))
    first, second = after_a_batch(ModelPolicy(LinearRegression()), layout=layout, contexts=contexts)
    assert (first.probabilities == 1 / 3).all()
    seen = contexts[:200] if layout == "block" else contexts[:200][np.arange(200), first.actions]
    expected = np.empty((100, 3))
    for action in range(3):
        own = np.arange(200) if layout == "shared" else np.flatnonzero(first.actions == action)
        design = np.column_stack([np.ones(len(own)), seen[own]])
        beta = np.linalg.lstsq(design, Y[:200][own], rcond=None)[0]
        new = contexts[200:] if layout == "block" else contexts[200:, action]
        expected[:, action] = beta[0] + new @ beta[1:]
    np.testing.assert_allclose(second.means, expected, rtol=1e-8)
    assert np.array_equal(second.actions, expected.argmax(axis=1))
    assert (second.probabilities.max(axis=1) == 1).all()


def test_one_model_for_all_sees_which_action_it_was():
    first, second = after_a_batch(ModelPolicy(LinearRegression(), models="one"))
    design = np.column_stack([X[:200], np.eye(3)[first.actions]])
    beta = np.linalg.lstsq(design, Y[:200], rcond=None)[0]
    np.testing.assert_allclose(second.means, (X[200:] @ beta[:2])[:, None] + beta[2:], rtol=1e-8)


def test_classifiers_predict_the_mean_of_their_classes():
    clicks = (Y > 0).astype(float) * 2
    first, second = after_a_batch(ModelPolicy(LogisticRegression()), outcomes=clicks)
    own = np.flatnonzero(first.actions == 1)
    model = LogisticRegression().fit(X[:200][own], clicks[own])
    np.testing.assert_allclose(second.means[:, 1], 2 * model.predict_proba(X[200:])[:, 1])
    # A classifier refuses one class, of which the prediction is known.
    _, sure = after_a_batch(ModelPolicy(LogisticRegression()), outcomes=np.ones(300))
    assert (sure.means == 1).all()


def chance_of_highest(first):
    """The probability that action 1 is better than action 0, by means and their errors."""
    parts = [Y[:200][first.actions == action] for action in range(2)]
    gap = parts[1].mean() - parts[0].mean()
    return float(ndtr(gap / np.sqrt(sum(part.var(ddof=1) / len(part) for part in parts))))


@pytest.mark.parametrize("explore", ["bootstrap", "posterior"])
def test_thompson_logs_the_share_of_draws_and_says_how_far_it_is_off(explore):
    samples = 400
    policy = ModelPolicy(Mean(), explore=explore, samples=samples)
    first, second = after_a_batch(policy, actions=2)
    share = second.probabilities[0, 1]
    assert share * samples == pytest.approx(round(share * samples))
    assert second.errors[0, 1] == pytest.approx(np.sqrt(share * (1 - share) / samples))
    assert not first.errors.any()
    wanted = chance_of_highest(first)
    assert 0.02 < wanted < 0.98
    assert abs(share - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / samples) + 0.01
    # The model takes no notice of contexts: all units have these probabilities.
    assert (second.probabilities == second.probabilities[0]).all()
    assert abs(second.actions.mean() - share) < 4 * np.sqrt(share * (1 - share) / 100)


class Drawn(Plain):
    """A model that draws from its own posterior."""

    def fit(self, rows, y):
        super().fit(rows, y)
        self.error = y.std(ddof=1) / np.sqrt(len(y))

    def draws(self, rows, samples, seed):
        normals = np.random.default_rng(seed).standard_normal((samples, 1))
        return np.tile(self.mean + self.error * normals, len(rows))


def test_a_model_may_draw_from_its_own_posterior():
    policy = ModelPolicy(Drawn(), explore="posterior", samples=400)
    first, second = after_a_batch(policy, actions=2)
    wanted = chance_of_highest(first)
    assert second.probabilities[:, 1] == pytest.approx(wanted, abs=0.1)
    assert second.widths[0, 1] == pytest.approx(
        Y[:200][first.actions == 1].std() / np.sqrt((first.actions == 1).sum()), rel=0.15
    )
    checks.check_policy(ModelPolicy(Drawn(), explore="posterior", samples=5), layouts=("block",))


@pytest.mark.parametrize(
    ("model", "tolerance"), [(Mean(), 1e-9), (Plain(), 0.25)], ids=["Mean", "Plain"]
)
def test_ucb_adds_the_stated_width(model, tolerance):
    first, second = after_a_batch(ModelPolicy(model, explore="ucb", width=1.5, samples=60))
    for action in range(3):
        part = Y[:200][first.actions == action]
        error = part.std(ddof=1) / np.sqrt(len(part))
        assert second.widths[0, action] == pytest.approx(error, rel=tolerance)
    np.testing.assert_allclose(second.scores, second.means + 1.5 * second.widths)
    assert np.array_equal(second.actions, second.scores.argmax(axis=1))


def test_epsilon_explores_among_eligible_actions():
    policy = ModelPolicy(Mean(), explore="epsilon", epsilon=0.3)
    made = Learner(policy, grids.explicit([200, 300]), actions=3, dim=2, layout="block")
    made.assign(X[:200])
    made.observe(Y[:200])
    may = np.tile([True, True, False], (100, 1))
    shares = made.assign(X[200:], eligible=may).probabilities
    assert np.sort(shares[0]).tolist() == pytest.approx([0.0, 0.15, 0.85])
    assert (shares[:, 2] == 0).all()


def test_an_action_without_outcomes_is_predicted_the_mean_of_all():
    made = Learner(ModelPolicy(Mean()), grids.explicit([4, 8]), actions=2, dim=1, layout="block")
    may = np.tile([True, False], (4, 1))
    made.assign(np.ones((4, 1)), eligible=may)
    made.observe([1.0, 2.0, np.nan, np.nan])
    assert made.assign(np.ones((4, 1))).means[0].tolist() == [1.5, 1.5]


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(n_estimators=5),
        make_pipeline(StandardScaler(), MLPClassifier(hidden_layer_sizes=(3,), max_iter=20)),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_random_models_repeat_themselves_and_are_never_changed(model, tmp_path):
    policy, clicks = ModelPolicy(model), (Y > 0).astype(float)
    before = repr(model.get_params())
    (_, one), (_, other) = (after_a_batch(policy, outcomes=clicks) for _ in range(2))
    assert np.array_equal(one.scores, other.scores)
    assert repr(model.get_params()) == before
    assert not hasattr(model, "classes_")
    made = Learner(policy, grids.explicit([200, 300]), actions=3, dim=2, layout="block", seed=1)
    made.assign(X[:200])
    made.observe(clicks[:200])
    made.save(tmp_path / "learner")
    loaded = Learner.load(tmp_path / "learner", policy=policy)
    assert np.array_equal(loaded.assign(X[200:]).scores, one.scores)
    with refused("other-policy"):
        Learner.load(tmp_path / "learner", policy=ModelPolicy(Mean()))


def test_models_run_in_simulations_and_sweeps(tmp_path):
    world = GeneralizedLinear(Gaussian(dim=2, actions=3, layout="block", norm=6.0))
    grid = grids.explicit([300, 1_000, 3_000])
    policy = ModelPolicy(LogisticRegression(), explore="bootstrap", samples=5)
    regret = [simulate(kind, world, grid, seed=1).regret[-1] for kind in (policy, UniformRandom())]
    assert regret[0] < 0.4 * regret[1]
    rule = GridRule(kind="explicit", shares=(0.3, 1))
    table = runs_of(
        environments={"clicks": world},
        policies={"logit": Line(policy, rule), "random": Line(UniformRandom(), rule)},
        horizons=[400],
        trials=2,
        out=tmp_path,
    )
    assert table.height == 4


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: ModelPolicy(LinearRegression), "model"),
        (lambda: ModelPolicy(StandardScaler()), "model"),
        (lambda: ModelPolicy(object()), "model"),
        (lambda: ModelPolicy(LinearRegression(), explore="random"), "explore"),
        (lambda: ModelPolicy(LinearRegression(), explore="posterior"), "model"),
        (lambda: ModelPolicy(LinearRegression(), models="two"), "models"),
        (lambda: ModelPolicy(LinearRegression(), epsilon=2), "epsilon"),
        (lambda: ModelPolicy(LinearRegression(), samples=1), "samples"),
        (lambda: after_a_batch(ModelPolicy(LogisticRegression())), "model"),
        # More neighbours than outcomes: it can be fitted, but not predict.
        (lambda: after_a_batch(ModelPolicy(KNeighborsRegressor(500))), "model"),
        (
            lambda: Learner(
                ModelPolicy(Mean(), models="own"), grids.explicit([9]), actions=2, dim=1
            ),
            "layout",
        ),
    ],
)
def test_what_is_no_model_is_refused(build, field):
    with refused("invalid-argument", field=field):
        build()


def test_a_model_is_shown_by_what_is_not_usual():
    policy = ModelPolicy(LogisticRegression(C=0.5), explore="bootstrap")
    made = Learner(policy, grids.explicit([9]), actions=2, dim=1)
    text = "ModelPolicy(model = LogisticRegression(C=0.5), explore = bootstrap, models = None, "
    assert repr(made).startswith(f"<Learner: {text}")


def test_policies_need_no_scikit_learn():
    code = "import sys, seqbatch.policies; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
