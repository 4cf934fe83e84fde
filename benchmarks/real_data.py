"""Plans for real data, where rewards are neither linear nor normal: predicted and actual regret.

Mushroom and Covertype are labelled: an action is a guess of the class, and a right guess earns 1.
For each of Hillstrom's customers the outcome of only one e-mail is known: logistic models with all
pairs of features, fitted to the log, serve as the truth, and visits are drawn from them.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from benchmarks.progress import paragraph, say
from seqbatch import Learner, datasets, grids
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.grids import Grid
from seqbatch.planning import Plan, Sample, plan
from seqbatch.planning.trials.greedy_block_model import BlockEnsemble
from seqbatch.policies import SBPE

RUNS, BATCHES = 40, 3
#: Rows of features that the plan gets as a sample.
TOLD = 4_000
#: Rows to use of a larger file.
POPULATION = 60_000
GREEDY = SBPE(first="uniform", ties="random")


@dataclass(frozen=True, eq=False)
class World:
    """Units of a data set, and the mean reward of every action for each.

    Parameters
    ----------
    name
        Which data.
    features
        With a constant first, shape (n, p).
    means
        Shape (n, K).
    units
        How many of them a campaign has.
    """

    name: str
    features: Floats
    means: Floats
    units: int

    @cached_property
    def linear(self) -> Floats:
        """What the best linear models of each action's mean reward predict."""
        weights = np.linalg.lstsq(self.features, self.means, rcond=None)[0]
        predicted: Floats = self.features @ weights
        return predicted

    @cached_property
    def best(self) -> Floats:
        """The mean reward of each unit under the rule of the best linear models."""
        chosen = self.linear.argmax(axis=1)
        earned: Floats = self.means[np.arange(len(chosen)), chosen]
        return earned

    @property
    def effect(self) -> float:
        """What that rule gains a unit over a random action."""
        return float(self.best.mean() - self.means.mean())

    @property
    def noise(self) -> float:
        """The standard deviation of rewards of 0 or 1 around the linear models."""
        return float(np.sqrt((self.means - 2 * self.means * self.linear + self.linear**2).mean()))

    @cached_property
    def told(self) -> Integers:
        """The rows that the plan gets as a sample."""
        return np.random.default_rng(0).choice(len(self.means), TOLD, replace=False)

    def planned(self) -> Plan:
        """Return the plan of someone who knows effect, noise and some rows."""
        return plan(
            units=self.units,
            actions=self.means.shape[1],
            features=Sample(self.features[self.told, 1:]),
            effect=self.effect,
            effect_spread=1,
            noise=self.noise,
            batches=BATCHES,
            max_batches=BATCHES,
        )

    def coefficients(self, made: Plan) -> Floats:
        """Return the linear models' coefficients in the plan's own coordinates, constants first."""
        assert made.model.rows is not None
        rows = np.column_stack([np.ones(TOLD), made.model.rows])
        fitted = np.linalg.lstsq(rows, self.linear[self.told], rcond=None)[0].T
        return np.asarray(fitted, dtype=np.float64)

    def largest_share(self, made: Plan) -> float:
        """Return how much of the actions' squared differences one coordinate has, at most."""
        apart = self.coefficients(made) - self.coefficients(made).mean(axis=0)
        squares = (apart**2).sum(axis=0)
        return float(squares.max() / squares.sum())

    def knowing(self, made: Plan) -> tuple[float, float]:
        """Return what the plan would predict with these coefficients instead of drawn ones."""
        trials = made.request.judging
        assert isinstance(trials, BlockEnsemble)
        theta = np.broadcast_to(self.coefficients(made), trials.theta.shape).copy()
        return replace(trials, theta=theta, gain=None).rates(made.grid.sizes).total(made.grid.sizes)

    def regret(self, grid: Grid, seed: int) -> float:
        """Return what one campaign loses against the rule of the best linear models."""
        random = np.random.default_rng(seed)
        order = random.permutation(len(self.means))[: self.units]
        means = self.means[order]
        rewards = (random.random(means.shape) < means).astype(np.float64)
        learner = Learner(
            GREEDY,
            grid,
            actions=means.shape[1],
            dim=self.features.shape[1],
            layout="block",
            seed=seed,
        )
        with warnings.catch_warnings():
            # A first batch that leaves directions open is part of what is measured.
            warnings.simplefilter("ignore", RankDeficiencyWarning)
            chosen = learner.replay(self.features[order], rewards)
        return float((self.best[order] - means[np.arange(len(order)), chosen]).sum())


def _with_constant(features: Floats) -> Floats:
    return np.column_stack([np.ones(len(features)), features])


def _labelled(name: str, data: datasets.Labelled, columns: Sequence[int], units: int) -> World:
    """Return the problem of guessing a class from some columns."""
    rows = np.random.default_rng(0).permutation(len(data))[:POPULATION]
    features = data.features[rows][:, list(columns)]
    varied = features[:, features.std(axis=0) > 0]
    return World(name, _with_constant(varied), np.eye(len(data.classes))[data.labels[rows]], units)


def mushroom() -> World:
    """Return Mushroom's first five attributes."""
    data = datasets.mushroom()
    attributes = list(dict.fromkeys(name.split("=")[0] for name in data.columns))
    first = [a for a in attributes if a != "intercept"][:5]
    columns = [n for n, name in enumerate(data.columns) if name.split("=")[0] in first]
    return _labelled("Mushroom, five attributes", data, columns, len(data))


def covertype() -> World:
    """Return Covertype with all its columns."""
    data = datasets.covertype()
    return _labelled("Covertype, all columns", data, range(len(data.columns)), 20_000)


def hillstrom() -> World:
    """Return Hillstrom's customers, and a model of their visits for each e-mail."""
    log = datasets.hillstrom()
    x = log.features[:, 1:]
    pairs = [x[:, i] * x[:, j] for i in range(x.shape[1]) for j in range(i)]
    wide = np.column_stack([np.ones(len(x)), x, *pairs])
    means = np.column_stack(
        [
            _logistic(wide[log.actions == arm], log.rewards[log.actions == arm])(wide)
            for arm in range(len(log.names))
        ]
    )
    return World("Hillstrom, visits", log.features, means, len(log))


def _logistic(x: Floats, y: Floats, penalty: float = 3.0) -> Callable[[Floats], Floats]:
    """Fit a ridge logistic regression by Newton's method."""
    b = np.zeros(x.shape[1])
    for _ in range(12):
        p = 1 / (1 + np.exp(-x @ b))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + penalty * np.eye(len(b))
        b += np.linalg.solve(curvature, x.T @ (y - p) - penalty * b)
    return lambda rows: 1 / (1 + np.exp(-rows @ b))


def _doubling(units: int) -> Grid:
    shares = 2.0 ** np.arange(BATCHES)
    return grids.explicit(int(end) for end in np.rint(units * shares.cumsum() / shares.sum()))


def _paper(units: int, dim: int) -> list[Grid]:
    return [
        make(units=units, dim=dim, batches=BATCHES) for make in (grids.minimax, grids.geometric)
    ]


def table() -> list[str]:
    """Return a line for each data set: the prediction, and what each grid loses."""
    heads = ("data", "predicted", "knowing the models", "planned grid", "equal", "doubling")
    lines = [
        *paragraph(
            f"Predicted regret, and the loss of {BATCHES} batches against the rule of linear "
            f"models fitted to every outcome, in {RUNS} random orders of the rows. The plan gets "
            f"that rule's gain, the residual noise and {TOLD:,} rows. In Mushroom and Covertype an "
            "action is a guess of the class, and a right guess earns 1; Hillstrom's visits are "
            "drawn from logistic models with all pairs of features, fitted to the log."
        ),
        f"| {' | '.join(heads)} | paper's minimax | paper's geometric |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for make in (hillstrom, covertype, mushroom):
        world = make()
        made = world.planned()
        options = [
            made.grid,
            grids.uniform(units=world.units, batches=BATCHES),
            _doubling(world.units),
            *_paper(world.units, made.model.dim),
        ]
        predicted = (made.row.regret, made.row.error), world.knowing(made)
        cells = [_name(world, made), *(f"{mean:,.0f} ± {error:,.0f}" for mean, error in predicted)]
        for grid in options:
            lost = np.array([world.regret(grid, seed) for seed in range(RUNS)])
            error = lost.std(ddof=1) / np.sqrt(RUNS)
            cells.append(f"{lost.mean():,.0f} ± {error:,.0f}")
        lines.append(f"| {' | '.join(cells)} |")
        say(lines[-1])
    return [
        *lines,
        "",
        *paragraph(
            "Predictions are too high here: a plan draws all coefficients with the same "
            "distribution, and in these data few coefficients matter. With the linear models' own "
            "coefficients (*knowing the models*) most of the difference is gone. For data like "
            "these, read a prediction as an upper limit."
        ),
    ]


def _name(world: World, made: Plan) -> str:
    return (
        f"{world.name} (effect {world.effect:.3g}, noise {world.noise:.3g}; "
        f"{world.largest_share(made):.0%} of the differences in one of {made.model.dim - 1} "
        "directions)"
    )
