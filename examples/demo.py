"""A campaign in three waves, simulated with the library alone, printed and drawn.

Thirty thousand customers, three offers. A customer is described by eight numbers, and each offer
suits some customers better than others; how, nobody knows at the start. All customers of a wave get
their offer before any of its outcomes is seen.
"""

from pathlib import Path

import altair as alt
import numpy as np
from numpy.typing import NDArray

from seqbatch import Learner, grids
from seqbatch.policies import FixedAction, Policy, ThompsonSampling, UniformRandom

OFFERS = ("discount", "free delivery", "early access")
UNITS, FEATURES, WAVES = 30_000, 8, 3
NOISE = 2.0
OUT = Path("out")


def population() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return customers, each offer's mean profit for each, and what would be observed."""
    random = np.random.default_rng(2026)
    customers = random.standard_normal((UNITS, FEATURES))
    customers[:, 0] = 1.0  # an intercept: some offers are better on the whole
    effects = 0.25 * random.standard_normal((len(OFFERS), FEATURES))
    means = customers @ effects.T
    return customers, means, means + NOISE * random.standard_normal(means.shape)


def run(policy: Policy, grid: grids.Grid, *, report: bool) -> NDArray[np.float64]:
    """Run the campaign wave by wave; return what each customer lost against their best offer."""
    customers, means, outcomes = population()
    learner = Learner(policy, grid, actions=len(OFFERS), dim=FEATURES, layout="block", seed=1)
    lost, start = np.zeros(UNITS), 0
    for wave, end in enumerate(grid.ends, start=1):
        rows = np.arange(start, end)
        decision = learner.assign(customers[start:end])
        learner.observe(outcomes[rows, decision.actions])
        lost[rows] = means[rows].max(axis=1) - means[rows, decision.actions]
        if report:
            shares = np.bincount(decision.actions, minlength=len(OFFERS)) / len(rows)
            best = (lost[rows] == 0).mean()
            cells = "".join(f"{share:>15.1%}" for share in shares)
            gained = means[rows, decision.actions].mean()
            print(f"{wave:>4} {len(rows):>10,}{cells} {gained:>9.3f} {best:>12.1%}")
        start = end
    return lost


def picture(lost: dict[str, NDArray[np.float64]], grid: grids.Grid) -> alt.LayerChart:
    """Draw the profit lost so far against customers served, with the waves' ends."""
    served = np.arange(0, UNITS + 1, 250)
    rows = [
        {"customers": int(t), "lost": float(values[:t].sum()), "assignment": name}
        for name, values in lost.items()
        for t in served
    ]
    lines = (
        alt.Chart({"values": rows})
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("customers:Q", title="customers served"),
            y=alt.Y("lost:Q", title="profit lost against each customer's best offer"),
            color=alt.Color(
                "assignment:N",
                title=None,
                sort=list(lost),
                scale=alt.Scale(range=["#0072B2", "#E69F00", "#999999"]),
                legend=alt.Legend(orient="top", labelLimit=400),
            ),
        )
    )
    ends = [{"end": end, "label": f"wave {m} ends"} for m, end in enumerate(grid.ends, start=1)]
    rules = alt.Chart({"values": ends[:-1]}).encode(x="end:Q")
    marks = rules.mark_rule(strokeDash=[4, 4], color="#666666") + rules.mark_text(
        align="left", dx=5, color="#444444"
    ).encode(text="label:N", y=alt.value(12))
    chart: alt.LayerChart = (lines + marks).properties(
        width=640, height=380, title="What adapting twice is worth: a campaign in three waves"
    )
    return chart


def main() -> None:
    """Run the campaign and two baselines on the same customers."""
    grid = grids.minimax(units=UNITS, dim=FEATURES * len(OFFERS), batches=WAVES)
    print(f"{UNITS:,} customers, {len(OFFERS)} offers, {WAVES} waves.")
    print(f"The minimax grid ends the waves after {', '.join(f'{end:,}' for end in grid.ends)}.")
    print("The first wave is assigned at random; each later one by what was learned before it.\n")
    heads = "".join(f"{offer:>15}" for offer in OFFERS)
    print(f"wave  customers{heads}    profit  best offer")
    adaptive = ThompsonSampling(scale=NOISE, ridge=4.0, first="uniform")
    lost = {"adaptive, three waves": run(adaptive, grid, report=True)}
    lost["always random"] = run(UniformRandom(), grid, report=False)
    fixed = {
        offer: run(FixedAction(action=number), grid, report=False)
        for number, offer in enumerate(OFFERS)
    }
    best = min(fixed, key=lambda offer: float(fixed[offer].sum()))
    lost[f"{best} for all (best in hindsight)"] = fixed[best]
    print("\nProfit lost against giving every customer their best offer:")
    for name, values in lost.items():
        print(f"  {name:<40}{values.sum():>10,.0f}")
    OUT.mkdir(exist_ok=True)
    target = OUT / "demo.png"
    picture(lost, grid).save(target, scale_factor=2.0)
    print(f"\nPicture: {target}")


if __name__ == "__main__":
    main()
