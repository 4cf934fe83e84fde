"""Studies in TOML files: read, run, refused by name, and written."""

import importlib
import json
import textwrap

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from seqbatch.environments import Delayed, FeaturePool, GeneralizedLinear, Restricted, Sphere
from seqbatch.grids import GridRule
from seqbatch.policies import RBGL, SBPE, ModelPolicy
from seqbatch.simulation import Line, Study
from tests.refusals import refused

SPEC = """
seed = 5
trials = 3
horizons = [400, 800]

[environments.round]
kind = "Sphere"
dim = 3
actions = 3

[policies.greedy]
kind = "SBPE"
grid = {kind = "minimax", batches = 2}

[policies.mine]
kind = "seqbatch.policies.RBGL"
ridge = 2.0
grid = {kind = "uniform", batches = 4}
"""


def test_a_class_beside_the_spec_is_found(tmp_path):
    written(
        tmp_path / "mine_beside.py",
        """
        from seqbatch.policies import SBPE

        class Own(SBPE):
            pass
        """,
    )
    spec = written(tmp_path / "spec.toml", SPEC.replace("seqbatch.policies.RBGL", "mine_beside.Own")
                   .replace("ridge = 2.0", ""))  # fmt: skip
    for _ in range(2):
        made = Study.load(spec).run(tmp_path / "out")
    assert "mine" in set(made.runs["policy"])


def written(path, text):
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_a_study_of_ones_own(tmp_path):
    spec = written(tmp_path / "spec.toml", SPEC)
    made = Study.load(spec).run(tmp_path / "out")
    assert len(made.summary().rows) == 4
    assert set(made.runs["policy"]) == {"greedy", "mine"}
    assert json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("layout", "line"),
    [
        ("block", 'kind = "SBPE"\nestimate = "pooled"\nfirst = "uniform"'),
        ("block", 'kind = "ThompsonSampling"\nobjective = "choose"\nscale = "outcomes"'),
        ("block", 'kind = "ThompsonSampling"\nestimate = "pooled"\nlast = "greedy"\nsamples = 32'),
        ("block", 'kind = "Lookahead"\nafter = 500'),
        ("block", 'kind = "JointRidge"\nestimate = "averaged"'),
        ("shared", 'kind = "RBGL"\nfirst = "design"\ndesign = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]'),
    ],
)
def test_a_study_of_every_kind_of_estimate(layout, line, tmp_path):
    text = SPEC.replace("actions = 3", f'actions = 3\nlayout = "{layout}"')
    text = text.replace('kind = "seqbatch.policies.RBGL"\nridge = 2.0', line)
    text = text.replace("horizons = [400, 800]", "horizons = [120]")
    made = Study.load(written(tmp_path / "spec.toml", text)).run(tmp_path / "out")
    assert (made.runs["regret"] > 0).all()
    assert set(made.runs["policy"]) == {"greedy", "mine"}


def test_a_study_where_units_may_not_get_everything(tmp_path):
    text = SPEC.replace("actions = 3", "actions = 3\neligible = [1, 0.5, 0.0]")
    spec = written(tmp_path / "spec.toml", text)
    made = Study.load(spec).run(tmp_path / "out")
    free = Study.load(written(tmp_path / "free.toml", SPEC)).run(tmp_path / "free")
    # The same units, with less to choose from: less to lose.
    assert (made.runs["regret"] < free.runs["regret"]).all()


def test_a_study_in_a_world_that_changes_another_one(tmp_path):
    inside = "environment = {kind = 'Sphere', dim = 3, actions = 3, layout = 'block'}"
    world = f"kind = 'GeneralizedLinear'\nintercept = -9.0\n{inside}"
    text = SPEC.replace('kind = "Sphere"\ndim = 3\nactions = 3', world)
    made = Study.load(written(tmp_path / "spec.toml", text)).run(tmp_path / "out")
    # Rare yeses: hardly anything can be lost.
    assert (made.runs["regret"] < 800 * 1e-2).all()
    with refused("invalid-argument", field="environments.round.environment.kind"):
        Study.load(written(tmp_path / "torus.toml", text.replace("'Sphere'", "'Torus'")))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("[environments.round]", "[environments.round"), "spec"),
        (('kind = "Sphere"', 'kind = "Torus"'), "environments.round.kind"),
        (('kind = "Sphere"', "size = 3"), "environments.round.kind"),
        (('kind = "SBPE"', 'kind = "Sphere"'), "policies.greedy.kind"),
        # Not Decision and Feedback, which stand beside the policies.
        (('kind = "SBPE"', 'kind = "SPBE"'), "policies.greedy.kind"),
        (("ridge = 2.0", "rigde = 2.0"), "policies.mine"),
        (("ridge = 2.0", "ridge = -1"), "policies.mine.ridge"),
        (('grid = {kind = "uniform", batches = 4}', "grid = 3"), "policies.mine.grid"),
        (
            ('grid = {kind = "uniform", batches = 4}', 'grid = {kind = "json.JSONEncoder"}'),
            "the rule of 'mine'",
        ),
        (("ridge = 2.0", 'model = {kind = "json.dumps"}'), "policies.mine.model.kind"),
        (("[policies.greedy]", "[lines.greedy]"), "spec"),
        (("horizons = [400, 800]", "horizons = [400]\nbatches = 3"), "batches"),
        (
            ('grid = {kind = "uniform", batches = 4}', 'grid = {kind = "online", batches = 4}'),
            "policies.mine.grid.batches",
        ),
        (("trials = 3", "repeats = 3"), "spec"),
        (("horizons = [400, 800]", ""), "spec"),
        (('"seqbatch.policies.RBGL"', '"json.dumps"'), "policies.mine.kind"),
        (("horizons = [400, 800]", "horizons = 5"), "horizons"),
        (("horizons = [400, 800]", "horizons = [0]"), "horizons"),
        (("seed = 5", "seed = -1"), "seed"),
        (("actions = 3", "actions = 3\neligible = 0.5"), "environments.round.eligible"),
        (
            ("actions = 3", "actions = 3\neligible = [1, 0.5]"),
            "environments.round.eligible",
        ),
    ],
)
def test_a_bad_study_is_refused_before_anything_runs(change, field, tmp_path):
    spec = written(tmp_path / "spec.toml", SPEC.replace(*change))
    with refused("invalid-argument", field=field):
        Study.load(spec)


def test_a_missing_spec_is_refused(tmp_path):
    with refused("invalid-argument", field="spec"):
        Study.load(tmp_path / "no.toml")


OWN = """
from dataclasses import dataclass

import numpy as np

from seqbatch import grids
from seqbatch.environments import GeneralEnvironment


@dataclass(frozen=True, kw_only=True)
class Steps(GeneralEnvironment):
    height: float = 0.3

    def contexts(self, random, size):
        return random.uniform(-1, 1, (size, self.dim))

    def means(self, contexts, times, truth):
        return 0.2 + self.height * (contexts[:, : self.actions] > 0)


@dataclass(frozen=True)
class Halves:
    first: float = 0.5

    def grid(self, units, dim):
        return grids.explicit([round(self.first * units), units])
"""


def test_a_study_in_python_is_written_and_read_again(tmp_path, monkeypatch):
    """Everything that a file can state, and what runs from it is the same to the bit."""
    written(tmp_path / "own_parts.py", OWN)
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("own_parts")
    clicks = GeneralizedLinear(Sphere(dim=2, actions=3, layout="block"), intercept=-1.0)
    study = Study(
        environments={
            "steps": own.Steps(dim=3, actions=3, family="bernoulli", height=0.4),
            'late "clicks"': Delayed(Restricted(clicks, shares=[1.0, 0.5, 1.0]), missing=0.2),
        },
        policies={
            "logit": ModelPolicy(LogisticRegression(C=0.5), explore="bootstrap", samples=3),
            "pooled": SBPE(estimate="pooled", first="uniform"),
            "own": Line(RBGL(ridge=2), own.Halves(first=0.3)),
        },
        horizons=[120],
        batches=[2, 3],
        grid=GridRule("uniform"),
        trials=2,
        seed=4,
        method="direct",
    )
    again = Study.load(study.save(tmp_path / "study.toml"))
    assert again.horizons == study.horizons
    assert again.policies["own"].rule == own.Halves(first=0.3)
    # Not an empty check: the models differ from the default.
    assert again.policies["logit"].model.C == 0.5
    runs = study.run(tmp_path / "run").runs
    assert again.run(tmp_path / "run").runs.equals(runs)
    text = (tmp_path / "study.toml").read_text(encoding="utf-8")
    assert 'model = {kind = "sklearn.linear_model.LogisticRegression", C = 0.5}' in text
    assert "fit_intercept" not in text


def test_a_colon_also_parts_a_module_from_its_class(tmp_path):
    path = 'kind = "ModelPolicy"\nmodel = {kind = "sklearn.linear_model:Ridge", alpha = 3.0}'
    text = SPEC.replace('kind = "seqbatch.policies.RBGL"\nridge = 2.0', path)
    assert Study.load(written(tmp_path / "s.toml", text)).policies["mine"].policy.model.alpha == 3


class Unstated:
    """A model whose parameters no file can know."""

    def __init__(self, scale):
        self.scale = scale

    def fit(self, X, y):
        pass

    def predict(self, X):
        return X[:, 0] * self.scale


@pytest.mark.parametrize(
    ("policy", "world", "field"),
    [
        (ModelPolicy(Unstated(2)), Sphere(dim=2, actions=2), "policies.p.model"),
        (
            SBPE(),
            FeaturePool(rows=np.ones((9_000, 2)), theta=[1.0, 1.0]),
            "environments.w.rows",
        ),
    ],
    ids=["parameters", "numbers"],
)
def test_a_study_that_a_file_cannot_state_is_refused(policy, world, field, tmp_path):
    study = Study(environments={"w": world}, policies={"p": policy}, horizons=[50], trials=1)
    with refused("invalid-argument", field=field):
        study.save(tmp_path / "study.toml")
    assert not (tmp_path / "study.toml").exists()
