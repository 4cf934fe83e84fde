"""The collapsed simulator against a plain simulation of many trials at once, unit by unit."""

import time

import numpy as np
import pytest
from numpy.random import SeedSequence

from seqbatch import grids
from seqbatch.environments import Gaussian, Uniform
from seqbatch.policies import BPE, LBGL, RBGL, SBPE, SBUCB
from seqbatch.simulation import collapsed, simulate
from tests.cases import thorough
from tests.refusals import refused

# In 16 to 20 dimensions a trial averages over many directions: as many trials in three dimensions
# would leave the mean regret two to three times as uncertain. Other tests here have two to five.
TRIALS = 1_000


def plain(rule, *, d, K, ends, kappa, noise, norm, seed):
    """Simulate greedy trials side by side; `rule` fits theta from the units marked as used."""
    random = np.random.default_rng(seed)
    R = 250
    results = []
    for _ in range(TRIALS // R):
        rotation = np.linalg.qr(random.standard_normal((R, d, d)))[0]
        shape = np.sqrt(np.linspace(kappa, 1, d) / d)[:, None] * rotation
        theta = random.standard_normal((R, d))
        theta *= norm / np.linalg.norm(theta, axis=1, keepdims=True)
        x = random.standard_normal((R, ends[-1], K, d)) @ shape[:, None]
        chosen, rewards = np.empty((R, ends[-1], d)), np.empty((R, ends[-1]))
        guess, start, rows = np.zeros((R, d)), 0, []
        for m, end in enumerate(ends, start=1):
            batch = x[:, start:end]
            action = (batch @ guess[:, None, :, None])[..., 0].argmax(axis=2)
            picked = np.take_along_axis(batch, action[:, :, None, None], axis=2)[:, :, 0]
            means = (batch @ theta[:, None, :, None])[..., 0]
            gained = (picked @ theta[:, :, None])[..., 0]
            chosen[:, start:end] = picked
            rewards[:, start:end] = gained + noise * random.standard_normal(gained.shape)
            guess = rule(chosen[:, :end], rewards[:, :end], m, ends)
            gram = chosen[:, :end].transpose(0, 2, 1) @ chosen[:, :end]
            rows.append(
                [
                    (means.max(axis=2) - gained).sum(axis=1),
                    np.linalg.norm(guess - theta, axis=1),
                    np.linalg.eigvalsh(gram)[:, 0],
                ]
            )
            start = end
        results.append(np.array(rows))
    return np.concatenate(results, axis=2)


def ridge_rule(penalty):
    def fit(x, y, m, ends):  # noqa: ARG001
        gram = x.transpose(0, 2, 1) @ x + penalty * np.eye(x.shape[2])
        return np.linalg.solve(gram, (x.transpose(0, 2, 1) @ y[..., None]))[..., 0]

    return fit


def split_rule(split):
    def fit(x, y, m, ends):
        M, starts, used = len(ends), [0, *ends[:-1]], []
        if m == M:
            m = M - 1  # the estimate stays: T^(M) is never fitted
        for b in range(m):
            n = ends[b] - starts[b]
            pieces, j = (M, m - 1) if split == "even" else (M - b - 1, m - b - 1)
            used += range(starts[b] + j * n // pieces, starts[b] + (j + 1) * n // pieces)
        return ridge_rule(0.0)(x[:, used], y[:, used], m, ends)

    return fit


SETTINGS = {
    "SBPE": (SBPE(), ridge_rule(0.0), {"d": 20, "K": 4, "kappa": 0.2, "noise": 1.0, "norm": 1.0}),
    "SBPE, many actions, little noise": (
        SBPE(), ridge_rule(0.0), {"d": 16, "K": 20, "kappa": 1.0, "noise": 0.3, "norm": 0.5},
    ),
    "RBGL": (RBGL(), ridge_rule(1.0), {"d": 20, "K": 2, "kappa": 0.5, "noise": 1.0, "norm": 1.0}),
    "RBGL, heavy penalty": (
        RBGL(ridge=15.0), ridge_rule(15.0),
        {"d": 16, "K": 6, "kappa": 0.1, "noise": 1.5, "norm": 2.0},
    ),
    "BPE": (BPE(), split_rule("even"), {"d": 20, "K": 4, "kappa": 0.3, "noise": 0.5, "norm": 1.0}),
    "BPE, needed": (
        BPE(split="needed"), split_rule("needed"),
        {"d": 20, "K": 3, "kappa": 0.6, "noise": 0.5, "norm": 1.0},
    ),
}  # fmt: skip
ENDS = {"BPE": (90, 300), "BPE, needed": (100, 200, 300)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "SBPE",
        "RBGL, heavy penalty",
        "BPE, needed",
        *thorough("SBPE, many actions, little noise", "RBGL", "BPE"),
    ],
)
def test_moments_agree_with_unit_by_unit_simulation(name):
    policy, rule, setting = SETTINGS[name]
    ends = ENDS.get(name, (40, 120, 300))
    expected = plain(rule, ends=ends, seed=1, **setting)
    environment = Gaussian(
        dim=setting["d"], actions=setting["K"], kappa=setting["kappa"],
        noise=setting["noise"], norm=setting["norm"],
    )  # fmt: skip
    runs = [
        simulate(policy, environment, grids.explicit(ends), seed=trial, method="collapsed")
        for trial in range(TRIALS)
    ]
    keeps_all = not isinstance(policy, BPE)
    actual = np.array(
        [
            [
                np.diff(run.regret, prepend=0.0),
                run.error,
                run.eigenvalue if keeps_all else run.error,
            ]
            for run in runs
        ]
    ).transpose(2, 1, 0)
    if not keeps_all:
        expected[:, 2] = expected[:, 1]  # BPE drops data that no estimate uses
    gap = actual.mean(axis=2) - expected.mean(axis=2)
    spread = np.sqrt((actual.var(axis=2) + expected.var(axis=2)) / TRIALS)
    assert (np.abs(gap) <= 3 * spread).all(), (gap / spread).round(1)
    # A departure of 3% would show: it is three standard errors or more in the main figures.
    relative = (spread / expected.mean(axis=2))[:, :2]
    assert np.median(relative) < 0.01, relative


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [True, False])
def test_the_sums_of_a_batch_have_the_moments_of_drawn_units(chosen):
    d, K, n, noise, trials = 3, 4, 25, 0.7, 6_000
    rng = np.random.default_rng(5)
    shape = rng.standard_normal((d, d))
    theta = np.array([0.5, -0.3, 0.8])
    guess = np.array([1.0, 0.2, -0.4])
    v = shape @ guess / np.linalg.norm(shape @ guess) if chosen else None
    law = collapsed._Law(K, noise, shape, theta)
    sums = [law.sums(rng, n, v) for _ in range(trials)]
    actual = np.array([np.append(one.gram.ravel(), one.moment.ravel()) for one in sums])
    expected = np.empty_like(actual)
    for trial in range(trials):
        x = rng.standard_normal((n, K, d)) @ shape
        picks = (x @ guess).argmax(axis=1) if chosen else np.zeros(n, dtype=np.int64)
        rows = x[np.arange(n), picks]
        rewards = rows @ theta + noise * rng.standard_normal(n)
        expected[trial] = np.append((rows.T @ rows).ravel(), rows.T @ rewards)
    for one, other in (
        (actual, expected),
        ((actual - actual.mean(axis=0)) ** 2, (expected - expected.mean(axis=0)) ** 2),
        (actual * np.roll(actual, 4, axis=1), expected * np.roll(expected, 4, axis=1)),
    ):
        spread = np.sqrt((one.var(axis=0) + other.var(axis=0)) / trials)
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4 * spread).all()


@pytest.mark.slow
@pytest.mark.parametrize("policy", [LBGL(scale=0.1), *thorough(SBPE(first="uniform"))])
def test_moments_agree_with_the_direct_method(policy):
    environment, grid = Gaussian(dim=3, actions=3), grids.explicit([300, 1_500])
    runs = {
        method: np.array(
            [
                simulate(policy, environment, grid, seed=trial, method=method).regret
                for trial in range(500)
            ]
        )
        for method in ("direct", "collapsed")
    }
    gap = runs["direct"].mean(axis=0) - runs["collapsed"].mean(axis=0)
    spread = np.sqrt((runs["direct"].var(axis=0) + runs["collapsed"].var(axis=0)) / 500)
    assert (np.abs(gap) <= 3 * spread).all(), gap / spread


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 10])
def test_many_units_match_the_exact_sum_in_three_moments(K):
    """Just above the limit the shifted gamma has the moments of the term-by-term sum."""
    n = collapsed.EXACT
    exact = np.array([
        collapsed._sum_of_squared_maxima(np.random.default_rng(s), n, K) for s in range(4_000)
    ])  # fmt: skip
    matched = np.array([
        collapsed._sum_of_squared_maxima(np.random.default_rng(s), n + 1, K) for s in range(4_000)
    ])  # fmt: skip
    error = exact.std() / np.sqrt(len(exact))
    assert abs(exact.mean() - matched.mean()) < 4 * error + 2
    assert matched.std() == pytest.approx(exact.std(), rel=0.05)
    mean, variance, third = collapsed.squared_maximum_moments(K)
    maxima = np.random.default_rng(0).standard_normal((400_000, K)).max(axis=1) ** 2
    assert maxima.mean() == pytest.approx(mean, rel=0.01)
    assert maxima.var() == pytest.approx(variance, rel=0.02)
    assert ((maxima - mean) ** 3).mean() == pytest.approx(third, rel=0.1)


def test_a_sum_of_a_few_units_has_their_rank():
    law = collapsed._Law(3, 1.0, np.eye(5), np.ones(5))
    for v in (None, np.ones(5) / np.sqrt(5)):
        sums = law.sums(np.random.default_rng(0), 2, v)
        assert np.linalg.matrix_rank(sums.gram[0]) == 2
        # The moment lies in the span of the units, as sums of rewards times contexts do.
        assert np.linalg.matrix_rank(np.column_stack([sums.gram[0], sums.moment[0]]), tol=1e-8) == 2


def test_statistics_give_back_the_noise():
    law = collapsed._Law(4, 0.5, np.eye(3) / np.sqrt(3), np.array([1.0, 0.0, 0.0]))
    from seqbatch.core import least_squares

    sums = law.sums(np.random.default_rng(0), 10**6, np.array([0.6, 0.8, 0.0]))
    theta = least_squares(sums).theta[0]
    residual = sums.squares[0] - 2 * theta @ sums.moment[0] + theta @ sums.gram[0] @ theta
    assert residual / 10**6 == pytest.approx(0.25, rel=0.01)


def test_a_million_million_units_take_no_time():
    environment, grid = (
        Gaussian(dim=10, actions=10),
        grids.minimax(units=10**12, dim=10, batches=3),
    )
    start = time.process_time()
    regret = [simulate(SBPE(), environment, grid, seed=trial).regret[-1] for trial in range(50)]
    assert time.process_time() - start < 10  # a guard against drawing contexts, not a speed test
    assert np.isfinite(regret).all()
    assert simulate(SBPE(), environment, grid).counts.sum() == 10**12


def test_auto_collapses_only_where_it_applies():
    grid = grids.explicit([50, 100])
    assert collapsed.collapses(SBPE(), Gaussian(dim=2, actions=2))
    assert not collapsed.collapses(SBUCB(), Gaussian(dim=2, actions=2))
    assert not collapsed.collapses(SBPE(), Uniform(dim=2, actions=2))
    assert not collapsed.collapses(SBPE(), Gaussian(dim=2, actions=2, layout="disjoint"))
    with refused("invalid-argument", field="method", received="'collapsed' with SBUCB in Gaussian"):
        simulate(SBUCB(), Gaussian(dim=2, actions=2), grid, method="collapsed")
    with refused("invalid-argument", field="method", received="'fast'"):
        simulate(SBUCB(), Gaussian(dim=2, actions=2), grid, method="fast")


def test_checkpoints_lie_on_the_lines_between_ends():
    grid = grids.explicit([100, 300])
    run = simulate(SBPE(), Gaussian(dim=2, actions=2), grid, checkpoints=[50, 100, 200, 999])
    assert run.checkpoints.tolist() == [50, 100, 200]
    assert run.checkpoint_regret[0] == pytest.approx(run.regret[0] / 2)
    assert run.checkpoint_regret[1] == pytest.approx(run.regret[0])
    assert run.checkpoint_regret[2] == pytest.approx(run.regret.mean())


def test_policies_share_the_instance():
    environment, seed = Gaussian(dim=3, actions=3), SeedSequence(5)
    direct = environment.instance(seed).theta
    grid = grids.explicit([100, 200])
    first = [simulate(p, environment, grid, seed=seed).regret[0] for p in (SBPE(), RBGL())]
    assert first[0] == first[1]
    assert np.array_equal(environment.instance(seed).theta, direct)


@pytest.mark.parametrize(
    "policy",
    [LBGL(), LBGL(first="fixed"), LBGL(ties="random"), BPE(first="uniform"), SBPE(ties="random")],
    ids=str,
)
def test_counts_tell_who_played_one_action_throughout(policy):
    environment, grid = Gaussian(dim=3, actions=3), grids.explicit([600, 1_500])
    counts = [
        simulate(policy, environment, grid, method=method).counts
        for method in ("direct", "collapsed")
    ]
    # The same batches go to one action alone.
    assert np.array_equal(counts[0].max(axis=1) == [600, 900], counts[1].max(axis=1) == [600, 900])
    assert np.array_equal(counts[0].sum(axis=1), counts[1].sum(axis=1))


def test_the_last_batch_need_not_be_learned_from():
    environment, grid = Gaussian(dim=3, actions=3), grids.explicit([100, 700, 9_000])
    whole, short = (
        simulate(SBPE(), environment, grid, learn_last=learn) for learn in (True, False)
    )
    assert np.array_equal(whole.regret, short.regret)
    assert short.error[2] == short.error[1] != whole.error[2]
