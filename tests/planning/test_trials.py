"""Ensembles compared with the policies' own code, and their parts with direct computations."""

import warnings

import numpy as np
import pytest
from benchmarks.worlds import World
from numpy.random import SeedSequence
from scipy import stats

from seqbatch import grids
from seqbatch.core import Statistics, kernels
from seqbatch.core.joint_regression import JointSums, joint_fit
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.planning.trials.draws import KeptDraws, chi_squares, wishart_factors
from seqbatch.planning.trials.greedy_block_model import BlockEnsemble
from seqbatch.planning.trials.greedy_runs import KnownPast, estimated, jointly, solve
from seqbatch.planning.trials.greedy_shared_model import SharedEnsemble, agreements
from seqbatch.planning.trials.thinned_units import ThinnedTrial
from seqbatch.policies import RBGL, SBPE, SBUCB, JointRidge, ThompsonSampling
from seqbatch.simulation import simulate
from tests.cases import thorough

GREEDY = SBPE(first="uniform", ties="random")


def test_chi_squares_are_quantiles():
    normals = np.linspace(-3.5, 3.5, 15)
    for freedom in (0.5, 1, 2, 7, 30, 31, 100, 5_000, 1e9):
        expected = stats.chi2.ppf(stats.norm.cdf(normals), freedom)
        tolerance = 1e-9 if freedom <= 30 else 1.5e-3
        np.testing.assert_allclose(
            chi_squares(normals, np.array(freedom)), expected, rtol=tolerance, atol=1e-12
        )


@pytest.mark.parametrize("vectors", [2, 4, 30])
def test_wishart_factors_have_the_laws_moments_and_rank(vectors):
    rng = np.random.default_rng(1)
    factors = wishart_factors(
        np.tril(rng.standard_normal((40_000, 4, 4)), -1),
        rng.standard_normal((40_000, 4)),
        np.full(40_000, float(vectors)),
    )
    grams = factors @ np.swapaxes(factors, 1, 2)
    rows = rng.standard_normal((40_000, vectors, 4))
    expected = np.swapaxes(rows, 1, 2) @ rows
    for power in (1, 2):
        one, other = grams**power, expected**power
        error = np.sqrt(one.var(axis=0) + other.var(axis=0)) / 200
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4.5 * error + 1e-9).all()
    assert (np.linalg.matrix_rank(grams[:50], tol=1e-9) == min(vectors, 4)).all()


def test_draws_are_kept_and_do_not_depend_on_the_order():
    one, other = KeptDraws(SeedSequence(5)), KeptDraws(SeedSequence(5))
    first = one.normals(1, 0, (3, 2))
    other.normals(2, 0, (4,))
    assert one.normals(1, 0, (3, 2)) is first
    np.testing.assert_array_equal(first, other.normals(1, 0, (3, 2)))
    assert (first != other.normals(1, 1, (3, 2))).all()


def test_agreements_of_two_rankings():
    angles, agreement = agreements(2)
    np.testing.assert_allclose(agreement, 1 - angles / np.pi, atol=0.01)
    _, many = agreements(7)
    assert many[0] == 1
    assert many[len(many) // 2] == pytest.approx(1 / 7, abs=0.02)
    assert (np.diff(many) <= 0.01).all()


def directly(world, sizes, trials, policy=GREEDY):
    """Return the regret of each batch in each trial, unit by unit, and the true parameters."""
    grid = grids.explicit(int(end) for end in np.cumsum(sizes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankDeficiencyWarning)
        runs = [simulate(policy, world, grid, seed=seed, method="direct") for seed in range(trials)]
    theta = np.array([world.instance(SeedSequence(seed)).theta for seed in range(trials)])
    return np.diff([run.regret for run in runs], axis=1, prepend=0.0), theta


def weighted(trials, sizes):
    """Return what each trial's batches lose, as much as the trial counts."""
    rates = trials.rates(sizes)
    return rates.weight[:, None] * rates.regret * sizes


SHARED = [
    (3, 2, [200, 2_000], 1.0, 0.2),
    (5, 4, [100, 500, 3_000], 0.5, 0.1),
    *thorough((3, 3, [40] * 24, 1.0, 0.3), (8, 6, [12, 30, 200, 3_000], 2.0, 0.5)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "actions", "sizes", "noise", "spread"), SHARED)
def test_shared_trials_lose_what_the_policy_loses(dim, actions, sizes, noise, spread):
    world = World(dim=dim, actions=actions, noise=noise, spread=spread)
    lost, theta = directly(world, sizes, trials=160)
    # Every true parameter several times over, so that the ensemble's own noise is small.
    many = np.repeat(theta[:, 0], 8, axis=0)
    trials = SharedEnsemble(many, actions, np.full(len(many), noise), KeptDraws(SeedSequence(1)))
    predicted = weighted(trials, sizes).reshape(160, 8, -1).mean(axis=1)
    check_alike(predicted, lost)


BLOCKS = [
    (2, 1, [300, 2_000], 1.0, 0.3),
    (4, 2, [40, 100, 500, 2_000], 1.0, 0.5),
    (3, 0, [60, 1_000], 1.0, 0.3),
    *thorough(
        (2, 2, [50] * 20, 1.0, 0.3),
        (3, 8, [400, 1_000, 4_000], 0.5, 0.1),
        (5, 3, [100, 300, 3_000], 1.0, 0.3),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("actions", "features", "sizes", "noise", "spread"), BLOCKS)
def test_block_trials_lose_what_the_policy_loses(actions, features, sizes, noise, spread):
    world = World(dim=1 + features, actions=actions, layout="block", noise=noise, spread=spread)
    # Without features a trial either finds the best action or loses a lot.
    number = 160 if features else 600
    lost, theta = directly(world, sizes, trials=number)
    many = np.repeat(theta, 8, axis=0)
    trials = BlockEnsemble(many, np.full(len(many), noise), KeptDraws(SeedSequence(1)))
    predicted = weighted(trials, sizes).reshape(number, 8, -1).mean(axis=1)
    check_alike(predicted, lost)
    starts = [0, *np.cumsum(sizes[:-1]).tolist()]
    bound = trials.rates_seeing_all(starts, np.full(len(many), spread)) * sizes
    assert bound.sum(axis=1).mean() < predicted.sum(axis=1).mean()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["shared", "block"])
def test_trials_with_a_penalty_lose_what_ridge_regression_loses(layout):
    sizes, noise, spread = [20, 60, 1_500], 1.0, 0.15
    world = World(dim=8, actions=3, layout=layout, noise=noise, spread=spread)
    penalty = (noise / spread) ** 2
    policy = RBGL(ridge=penalty, first="uniform", ties="random")
    lost, theta = directly(world, sizes, trials=160, policy=policy)
    many, draws = np.repeat(theta, 8, axis=0), KeptDraws(SeedSequence(1))
    noises = np.full(len(many), noise)
    trials = (
        SharedEnsemble(many[:, 0], 3, noises, draws, penalty=penalty)
        if layout == "shared"
        else BlockEnsemble(many, noises, draws, penalty=penalty)
    )
    check_alike(weighted(trials, sizes).reshape(160, 8, -1).mean(axis=1), lost)


def test_estimates_with_a_common_part_are_those_of_a_joint_regression():
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((2, 4, 5, 3))
    gram = np.swapaxes(rows, -1, -2) @ rows
    moment = rng.standard_normal((2, 4, 3))
    penalty, common = np.array([0.5, 3.0]), np.array([0.1, 0.01])
    found = jointly(gram, moment, penalty, common)
    for trial in range(2):
        sums = JointSums.of([Statistics(gram[trial], moment[trial], np.ones(4), np.full(4, 5))])
        fit = joint_fit(
            sums, deviations=np.full(3, penalty[trial]), common=np.full(3, common[trial])
        )
        np.testing.assert_allclose(found[trial], fit.theta, rtol=1e-9)


def check_alike(predicted, lost):
    """Check that paired trials agree on average, batch by batch, and that 8% would be seen."""
    total = (predicted - lost).sum(axis=1)
    error = total.std(ddof=1) / np.sqrt(len(total))
    assert error < 0.08 * lost.sum(axis=1).mean()
    assert abs(total.mean()) < 3.5 * error
    gap = predicted - lost
    assert (np.abs(gap.mean(axis=0)) < 4 * gap.std(axis=0, ddof=1) / np.sqrt(len(gap)) + 1e-9).all()


def test_the_share_of_best_actions():
    world = World(dim=4, actions=3, spread=0.3)
    block = World(dim=4, actions=3, spread=0.3, layout="block")
    for kind in (world, block):
        theta = np.array([kind.instance(SeedSequence(seed)).theta for seed in range(400)])
        noise, draws = np.ones(400), KeptDraws(SeedSequence(2))
        trials = (
            SharedEnsemble(theta[:, 0], 3, noise, draws)
            if kind is world
            else BlockEnsemble(theta, noise, draws)
        )
        share = trials.rates([300, 1_000]).best.mean(axis=0)
        assert share[0] == pytest.approx(1 / 3)
        right = 0
        for seed in range(60):
            instance = kind.instance(SeedSequence(seed))
            first = instance.block(0)
            rng = np.random.default_rng(seed)
            actions = rng.integers(0, 3, 300)
            rewards = first.means[np.arange(300), actions] + first.noise[:300]
            if kind is world:
                rows = first.contexts[np.arange(300), actions]
                guess = np.linalg.lstsq(rows, rewards, rcond=None)[0]
                scores = first.contexts[300:] @ guess
            else:
                fits = [
                    np.linalg.lstsq(
                        first.contexts[:300][actions == a], rewards[actions == a], rcond=None
                    )[0]
                    for a in range(3)
                ]
                scores = first.contexts[300:] @ np.array(fits).T
            right += (scores.argmax(axis=1) == first.means[300:].argmax(axis=1)).mean() / 60
        assert share[1] == pytest.approx(right, abs=0.04)


def test_what_is_known_already_is_used():
    theta = np.full((50, 3), 0.2)
    sure = KnownPast(np.eye(3)[None] * 1e9, theta[:1] * 1e9)
    trials = SharedEnsemble(theta, 4, np.ones(50), KeptDraws(SeedSequence(1)), sure)
    assert trials.rates([100, 100]).regret.max() < 1e-6
    rows = np.full((50, 2, 3), 0.2)
    rows[:, 1] = -0.2
    known = KnownPast(np.broadcast_to(np.eye(3) * 1e9, (2, 3, 3)), rows[0] * 1e9)
    blocks = BlockEnsemble(rows, np.ones(50), KeptDraws(SeedSequence(1)), past=known)
    assert blocks.rates([100, 100]).regret.max() < 1e-6
    assert blocks.rates([100, 100]).best.min() > 0.99


def test_regret_is_a_smooth_function_of_the_ends():
    rng = np.random.default_rng(3)
    shared = SharedEnsemble(
        rng.standard_normal((60, 6)) / 5, 4, np.ones(60), KeptDraws(SeedSequence(1))
    )
    block = BlockEnsemble(
        rng.standard_normal((60, 3, 5)) / 5, np.ones(60), KeptDraws(SeedSequence(1))
    )
    for trials in (shared, block):
        costs = np.array(
            [
                trials.rates([n, 10**6 - n]).regret.mean(axis=0) @ [n, 10**6 - n]
                for n in range(5_000, 5_050)
            ]
        )
        assert np.abs(np.diff(costs)).max() < 0.01 * costs.mean()
        assert costs.tolist() == [
            float(trials.rates([n, 10**6 - n]).regret.mean(axis=0) @ [n, 10**6 - n])
            for n in range(5_000, 5_050)
        ]


def test_points_choose_as_plain_code_does():
    rng = np.random.default_rng(8)
    trials, number, actions, decisive, wide = 3, 40, 4, 3, 5
    points = rng.standard_normal((trials, number, wide))
    guess = rng.standard_normal((trials, actions - 1, 1 + decisive))
    truth = rng.standard_normal((trials, actions - 1, 1 + wide))
    regret, best = np.empty(trials), np.empty(trials)
    gram = np.full((trials, actions, 1 + decisive, 1 + decisive), 7.0)
    count = np.full((trials, actions), 7, dtype=np.int64)
    across = np.ascontiguousarray(np.swapaxes(points, 1, 2))
    kernels.choose_points(across, guess, truth, 25, regret, best, gram, count)
    for r in range(trials):
        ones = np.ones((number, 1))
        row = np.hstack([ones, points[r, :, :decisive]])
        scores = np.hstack([0 * ones, row @ guess[r].T])
        true = np.hstack([0 * ones, np.hstack([ones, points[r]]) @ truth[r].T])
        chosen = scores.argmax(axis=1)
        loss = true.max(axis=1) - true[np.arange(number), chosen]
        assert regret[r] == pytest.approx(loss.mean())
        assert best[r] == pytest.approx((loss == 0).mean())
        for a in range(actions):
            mine = row[:25][chosen[:25] == a]
            assert count[r, a] == len(mine)
            np.testing.assert_allclose(gram[r, a], mine.T @ mine, atol=1e-12)


def test_least_squares_has_nearly_the_least_norm():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((3, 6))
    rewards = rng.standard_normal(3)
    theta = estimated(rows.T @ rows, rows.T @ rewards)
    np.testing.assert_allclose(theta, np.linalg.pinv(rows) @ rewards, atol=1e-5)


def test_the_luck_of_first_batches_is_1_on_average():
    theta = np.random.default_rng(5).standard_normal((60, 4, 3))
    rates = BlockEnsemble(theta, np.ones(60), KeptDraws(SeedSequence(1))).rates([15, 500])
    assert rates.luck.std() > 0.1
    assert rates.luck.mean() == pytest.approx(1.0)
    np.testing.assert_array_equal(rates.weight, rates.luck)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        GREEDY,
        ThompsonSampling(scale=0.7, ridge=3.0, samples=64, first="uniform", ties="random"),
        SBUCB(gamma=1.0, ridge=2.0, first="uniform", ties="random"),
    ],
    ids=lambda policy: type(policy).__name__,
)
@pytest.mark.parametrize("layout", ["shared", "block"])
def test_few_units_stand_for_a_batch(policy, layout):
    world = World(dim=3, actions=3, layout=layout, noise=0.7, spread=0.2)
    sizes = [300, 4_000, 4_000]
    lost, _ = directly(world, sizes, trials=80, policy=policy)

    def contexts(random, units):
        values = world.contexts(random, units, np.eye(3))
        return values if layout == "shared" else values[:, 0]

    thinned = []
    for seed in range(80):
        theta = world.instance(SeedSequence(seed)).theta
        trial = ThinnedTrial(theta, 0.7, 3, layout, contexts)
        random = np.random.default_rng(seed)
        thinned.append(trial.regret(policy, sizes, random, most=500))
    gap = np.array(thinned) - lost.sum(axis=1)
    error = gap.std(ddof=1) / np.sqrt(80)
    assert error < 0.1 * lost.sum(axis=1).mean()
    assert abs(gap.mean()) < 3.5 * error + 0.03 * lost.sum(axis=1).mean()


def test_few_units_stand_for_whole_numbers_of_units():
    """Sums and counts agree also where hundreds of actions share few units, in many batches."""

    class Counting(JointRidge):
        def close(self, state):
            every = self.evidence_used(state)
            np.testing.assert_allclose(every.gram[:, 0, 0], every.count)
            assert every.count.sum() == state.problem.ends[state.batch - 1]
            return super().close(state)

    def contexts(random, units):
        return np.concatenate([np.ones((units, 1)), random.standard_normal((units, 2))], axis=1)

    trial = ThinnedTrial(np.zeros((60, 3)), 1.0, 60, "block", contexts)
    policy = Counting(constant=0, waves="own level", ties="random")
    assert trial.regret(policy, [700] * 6, np.random.default_rng(1), most=500) == 0


def test_systems_are_solved_as_the_library_does():
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((7, 3, 20, 9))
    matrices, vectors = np.swapaxes(rows, -1, -2) @ rows, rng.standard_normal((7, 3, 9))
    expected = np.linalg.solve(matrices, vectors[..., None])[..., 0]
    np.testing.assert_allclose(solve(matrices, vectors), expected, rtol=1e-9)
