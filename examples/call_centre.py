"""A call centre that makes 400 calls a week: whom to call, and the value of one more call.

Each of twelve weeks has 4,000 customers. The centre can call a customer, send a letter, send an
e-mail or do nothing; calls and letters are limited. The gain of an action depends on the customer
and must be learned: the first two weeks are random, later ones use the estimates so far. Three ways
to keep the limits are compared, each in its own campaign:

- prices: the best assignment of the whole week within the limits;
- greedy, then truncate: every customer's best action, and nothing beyond the limit;
- first come, first served: customers in turn get the best action that is still available.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from seqbatch.allocation import Limits, limited, rounded
from seqbatch.core.arrays import Floats, Integers
from seqbatch.pictures import COLOURS, INK
from seqbatch.simulation.charts import save

ACTIONS = ("nothing", "e-mail", "letter", "call")
AT_MOST = np.array([np.inf, np.inf, 800, 400])
WEEKS, RANDOM_WEEKS, CUSTOMERS, FEATURES = 12, 2, 4_000, 5
#: Standard deviation of an outcome around its mean, in euros.
NOISE = 20.0
Rule = Callable[[Floats], Integers]


def by_prices(scores: Floats) -> Integers:
    """Return the best actions within the limits."""
    own = np.eye(len(ACTIONS))[scores.argmax(axis=1)]
    table = limited(scores, own, Limits(at_most=AT_MOST))
    return rounded(table.probabilities, key=b"week").actions


def truncated(scores: Floats) -> Integers:
    """Return every customer's best action; beyond its limit, those who gain least get nothing."""
    actions: Integers = scores.argmax(axis=1)
    for action in np.flatnonzero(np.isfinite(AT_MOST)):
        takers = np.flatnonzero(actions == action)
        ranked = takers[np.argsort(-scores[takers, action], kind="stable")]
        actions[ranked[int(AT_MOST[action]) :]] = 0
    return actions


def first_come(scores: Floats) -> Integers:
    """Return actions for customers in turn: the best action that is still available."""
    left = AT_MOST.copy()
    actions = np.empty(len(scores), dtype=np.int64)
    for unit, row in enumerate(scores):
        actions[unit] = np.where(left > 0, row, -np.inf).argmax()
        left[actions[unit]] -= 1
    return actions


def at_random(key: int) -> Integers:
    """Return a balanced random draw within the limits, with equal probabilities for all."""
    uniform = np.full((CUSTOMERS, len(ACTIONS)), 1 / len(ACTIONS))
    return rounded(limited(None, uniform, Limits(at_most=AT_MOST)).probabilities, key=key).actions


class World:
    """Customers and what they would earn under each action, in euros."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        shape = (WEEKS, CUSTOMERS)
        self.features = np.insert(random.normal(size=(*shape, FEATURES)), 0, 1, axis=2)
        effects = random.normal(size=(FEATURES, len(ACTIONS))) * [0.5, 1.5, 3.0, 4.0]
        # Some customers respond to a letter nearly as well as to a call; prices send them letters.
        effects[:, 3] += 0.8 * effects[:, 2]
        effects = np.vstack([[10.0, 10.5, 11.0, 12.0], effects])
        self.means = self.features @ effects
        self.earned = self.means + NOISE * random.normal(size=self.means.shape)


def fitted(world: World, actions: Integers, week: int) -> Floats:
    """Return what each action is estimated to earn from this week's customers."""
    scores = np.empty((CUSTOMERS, len(ACTIONS)))
    past, given = world.features[:week], actions[:week]
    for action in range(len(ACTIONS)):
        mine = given == action
        seen, outcome = past[mine], world.earned[:week, :, action][mine]
        ridge = seen.T @ seen + np.eye(seen.shape[1])
        scores[:, action] = world.features[week] @ np.linalg.solve(ridge, seen.T @ outcome)
    return scores


def campaign(world: World, rule: Rule, *, known: bool = False) -> Floats:
    """Return the mean earnings of each week, above those of doing nothing."""
    actions = np.zeros((WEEKS, CUSTOMERS), dtype=np.int64)
    for week in range(WEEKS):
        if known:
            actions[week] = rule(world.means[week])
        elif week < RANDOM_WEEKS:
            actions[week] = at_random(week)
        else:
            actions[week] = rule(fitted(world, actions, week))
        assert (np.bincount(actions[week], minlength=len(ACTIONS)) <= AT_MOST).all()
    gained = np.take_along_axis(world.means, actions[..., None], axis=2)[..., 0]
    return np.asarray((gained - world.means[..., 0]).sum(axis=1))


def picture(curves: dict[str, Floats]) -> Any:
    """Draw the cumulative earnings by week."""
    import altair as alt

    rows = [
        {"week": week + 1, "earned": total / 1_000, "rule": rule}
        for rule, weekly in curves.items()
        for week, total in enumerate(np.cumsum(weekly).tolist())
    ]
    names = list(curves)
    base = alt.Chart(pl.DataFrame(rows)).encode(
        x=alt.X("week:Q", title="week", axis=alt.Axis(tickMinStep=1, grid=False)),
        y=alt.Y("earned:Q", title="earned so far, thousand euros more than by doing nothing"),
        color=alt.Color(
            "rule:N",
            legend=None,
            scale=alt.Scale(domain=names, range=[INK, *COLOURS[: len(names) - 1]]),
        ),
        strokeDash=alt.StrokeDash(
            "rule:N", legend=None, scale=alt.Scale(domain=names, range=[[5, 4], *[[1, 0]] * 3])
        ),
    )
    ends = base.transform_filter(f"datum.week == {WEEKS}")
    labels = ends.mark_text(align="left", dx=6, fontSize=12).encode(text="rule:N")
    chart = (base.mark_line(strokeWidth=2.5) + labels).properties(width=520, height=340, padding=12)
    return chart.configure_view(stroke=None)


def main() -> None:
    """Run all campaigns, print their earnings, and draw them."""
    world = World(2026)
    curves = {
        "prices, truth known": campaign(world, by_prices, known=True),
        "prices": campaign(world, by_prices),
        "greedy, then truncate": campaign(world, truncated),
        "first come, first served": campaign(world, first_come),
    }
    for name, weekly in curves.items():
        print(f"{name:26} {weekly.sum():10,.0f} euros more than by doing nothing")
    scores = world.means[-1]
    own = np.eye(len(ACTIONS))[scores.argmax(axis=1)]
    last = limited(scores, own, Limits(at_most=AT_MOST))
    for action in (2, 3):
        print(
            f"one more {ACTIONS[action]} in the last week is worth {last.prices[action]:.2f} euros"
        )
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out") / "call_centre.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"picture: {save(picture(curves), path)}")


if __name__ == "__main__":
    main()
