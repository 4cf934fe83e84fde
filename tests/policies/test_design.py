"""A first batch by leverage: the design, and every reader of its rule."""

import numpy as np
import polars as pl
import pytest
from numpy.random import SeedSequence

from seqbatch import Learner, checks, grids
from seqbatch.campaign import Campaign
from seqbatch.core import Contexts, Problem
from seqbatch.environments import Gaussian
from seqbatch.policies import (
    BPE,
    RBGL,
    SBPE,
    SBUCB,
    LinUCB,
    SupSBUCB,
    ThompsonSampling,
    design_of,
    registry,
)
from seqbatch.policies.design import root_of, squares
from seqbatch.simulation import simulate
from seqbatch.simulation.collapsed import collapses
from seqbatch.simulation.device.assignment import Rules
from seqbatch.simulation.device.backend import backend
from seqbatch.storage import open_store
from tests.oracles import design as oracle
from tests.refusals import refused

ENDS = (60, 200, 400)


def units(count, K, d, seed=0, spread=None):
    random = np.random.default_rng(seed)
    x = random.standard_normal((count, K, d))
    return x * (np.linspace(0.2, 3, d) if spread is None else spread)


@pytest.fixture(scope="module")
def design():
    return design_of(units(300, 4, 3))


def test_the_design_is_the_literal_one(design):
    assert np.allclose(design, oracle.design(units(300, 4, 3)))
    # Only so many units are looked at.
    many = units(2_100, 3, 2)
    assert np.array_equal(design_of(many), design_of(many[:2_000]))


@pytest.mark.parametrize(("K", "d"), [(3, 10), (10, 10), (50, 10), (4, 2)])
def test_the_widest_square_has_the_mean_d(K, d):
    """The optimum of Kiefer and Wolfowitz, whatever the covariance."""
    x = units(2_000, K, d)
    widest = squares(x, root_of(design_of(x))).max(axis=1).mean()
    assert abs(widest - d) < 0.01 * d
    if d == 10:
        # A uniform choice has the mean widest square of all vectors' own moments: more is left.
        even = np.einsum("nki,nkj->ij", x, x) / (2_000 * K)
        assert squares(x, root_of(even)).max(axis=1).mean() > 1.3 * d


def linear(design):
    given = {"first": "design", "design": design}
    return [
        SBPE(**given, unknown="avoid"),
        BPE(**given),
        RBGL(ridge=0.3, **given, ties="random"),
        SBUCB(gamma=0.0, **given),
        SBUCB(gamma=0.7, ridge=0.4, **given),
        ThompsonSampling(samples=8, **given),
    ]


@pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")
def test_every_reader_takes_the_action_that_teaches_most(design):
    problem = Problem(ends=ENDS, actions=4, dim=3, layout="shared")
    x, draws = units(60, 4, 3, seed=1), np.random.default_rng(3).random(60)
    wanted = [oracle.widest(one, design) for one in x]
    assert len(set(wanted)) == 4
    for policy in linear(design):
        state = policy.begin(problem)
        decision = policy.assign(state, Contexts.of(x, problem), draws, np.arange(60))
        assert decision.actions.tolist() == wanted
        assert (decision.probabilities.max(axis=1) == 1).all()
        rules = Rules.of(policy.rule(state), 1, backend("numpy"), np.eye(3)[None])
        assert rules.actions(x[None], lambda: draws[None], problem)[0].tolist() == wanted
        eligible = np.array([[False, True, True, True]] * 60)
        masked = Contexts.of(x, problem, eligible=eligible)
        given = policy.assign(state, masked, draws, np.arange(60)).actions
        assert given.tolist() == [1 + oracle.widest(one[1:], design) for one in x]


@pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")
@pytest.mark.parametrize("kind", [SBUCB, LinUCB])
def test_a_compiled_replay_begins_with_the_design(kind, design):
    x, random = units(400, 4, 3, seed=2), np.random.default_rng(4)
    table = x @ [1.0, -0.5, 0.2] + random.standard_normal((400, 4))
    policy = kind(gamma=0.3, first="design", design=design)
    grid = grids.online(units=400) if kind is LinUCB else grids.explicit(list(ENDS))
    learners = [Learner(policy, grid, actions=4, dim=3, layout="shared", seed=6) for _ in range(2)]
    replayed = learners[0].replay(x, table)
    start, single = 0, []
    for end in grid.ends:
        single.append(learners[1].assign(x[start:end]).actions)
        learners[1].observe(table[np.arange(start, end), single[-1]])
        start = end
    assert np.array_equal(replayed, np.concatenate(single))
    assert replayed[0] == oracle.widest(x[0], design)


@pytest.mark.filterwarnings("ignore::seqbatch.errors.RankDeficiencyWarning")
def test_simulations_begin_with_the_design():
    environment = Gaussian(dim=3, actions=4)
    policy = SBPE(first="design", design=design_of(units(200, 4, 3, spread=np.ones(3))))
    assert not collapses(policy, environment)
    assert collapses(SBPE(), environment)
    settings = {"seed": SeedSequence(1), "grid": grids.explicit(list(ENDS))}
    by_unit = simulate(policy, environment, **settings)
    by_device = simulate(policy, environment, **settings, method="device", device="numpy")
    # Different units, and actions that all are used alike at the start.
    for found in (by_unit, by_device):
        assert found.counts[0].min() > 3
    assert by_unit.regret[0] > 10


def test_conformance():
    bigger = design_of(units(200, 3, 4))
    report = checks.check_policy(RBGL(first="design", design=bigger))
    assert "in shared" in str(report)


def test_a_policy_with_a_design_comes_back_from_its_description(design):
    policy = SBPE(first="design", design=design)
    described = registry.describe(policy)
    assert registry.make(**{**described, "design": [list(row) for row in described["design"]]}) == (
        policy
    )
    assert hash(policy) != hash(SBPE())
    assert "design" not in registry.describe(SBPE())
    assert registry.plainly(described).startswith("the first wave where it teaches most, then")


def test_what_a_design_must_be(design):
    for given in ({"first": "design"}, {"design": design}, {"first": "uniform", "design": design}):
        with refused("invalid-argument", field="design"):
            SBPE(**given)
    for wrong in (np.ones((2, 3)), [[1.0, 2.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, -1.0]], []):
        with refused("invalid-argument", field="design"):
            SBPE(first="design", design=wrong)
    with refused("invalid-argument", field="first"):
        SupSBUCB(first="design", design=design)
    policy = SBPE(first="design", design=design)
    with refused("invalid-argument", field="layout", match="uniform"):
        policy.begin(Problem(ends=ENDS, actions=4, dim=3, layout="block"))
    with refused("invalid-argument", field="design"):
        policy.begin(Problem(ends=ENDS, actions=4, dim=5, layout="shared"))
    with refused("invalid-argument", field="contexts"):
        design_of(np.empty((0, 3, 2)))


def test_a_campaign_by_design_needs_a_chance_for_every_action(tmp_path):
    store = open_store(tmp_path / "c.db")
    actions = [{"name": name, "features": {"price": price}} for name, price in (("a", 0), ("b", 1))]
    policy = {"kind": "JointRidge", "first": "design", "design": np.eye(2).tolist()}
    spec = {
        "name": "c", "seed": 1, "model": "shared", "actions": actions, "grid": {"sizes": [20, 20]},
        "metrics": {"bought": {"kind": "yes/no"}}, "objective": {"maximise": "bought"},
        "features": {"intercept": True},
    }  # fmt: skip
    with refused("invalid-spec", match='policy.first = "design" decides the action of every unit'):
        Campaign.create({**spec, "policy": policy}, store=store)
    campaign = Campaign.create({**spec, "policy": policy, "floor": 0.02}, store=store)
    with refused("invalid-argument", field="floor"):
        campaign.amend(floor=0, reason="less")
    given = campaign.assign(pl.DataFrame({"unit": [str(n) for n in range(20)]})).table
    assert min(given["p(a)"].to_pylist()) == 0.02
    # Draws give every action a chance in a later wave, unless that is the last.
    drawn = {**policy, "kind": "ThompsonSampling"}
    Campaign.create({**spec, "name": "d", "policy": drawn, "grid": {"sizes": [20, 20, 20]}},
                    store=store)  # fmt: skip
    with refused("invalid-spec"):
        Campaign.create({**spec, "name": "e", "policy": drawn}, store=store)
    store.close()
