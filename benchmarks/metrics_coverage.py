"""How often the intervals of metrics cover, and how often guardrails are judged wrongly.

`python -m benchmarks.metrics_coverage` runs whole campaigns, from assignment to findings, and
writes docs/metrics-coverage.md. `--trials` sets the campaigns in each cell, `--jobs` the processes.
Run the same command again to continue an interrupted run.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.progress import paragraph, say
from seqbatch.campaign import Campaign
from seqbatch.campaign.views.findings import Findings
from seqbatch.core.arrays import Floats, Integers
from seqbatch.inference import Guarded
from seqbatch.simulation import run_tasks
from seqbatch.simulation.resumable_tasks import Row
from seqbatch.storage import open_store

if TYPE_CHECKING:
    import polars as pl

PAGE, COMMAND = Path("docs/metrics-coverage.md"), "python -m benchmarks.metrics_coverage"
TRIALS, PART = 1_000, 20
SIZES, ACTIONS = (2_000, 3_000, 5_000), ("none", "mail", "call")
POLICIES = ("SBPE", "ThompsonSampling")
#: As published: campaigns have other defaults.
DECLARED: dict[str, dict[str, Any]] = {
    "SBPE": {"kind": "SBPE"},
    "ThompsonSampling": {"kind": "ThompsonSampling", "scale": 1.0, "last": "same"},
}
#: The spread of the logarithms of amounts, and their mean size.
SIGMA, SIZE = 1.2, 40.0
#: The rate of complaints, which no action changes.
COMPLAINTS = (0.005, 0.005, 0.005)


@dataclass(frozen=True)
class World:
    """A kind of campaign: the rates of visits, of leaving and of buying, by action.

    Visits are the objective. All rates depend on a feature, and on a trait that nobody records:
    units that visit more often also leave and buy more often.
    """

    name: str
    visits: tuple[float, ...]
    left: tuple[float, ...]
    bought: tuple[float, ...]

    @property
    def truth(self) -> dict[str, Floats]:
        """The mean of each metric under each action."""
        spend = [SIZE * rate for rate in self.bought]
        means: dict[str, Sequence[float]] = {
            "visit": self.visits, "left": self.left, "complaint": COMPLAINTS, "spend": spend,
        }  # fmt: skip
        return {name: np.array(one, dtype=np.float64) for name, one in means.items()}

    def draw(self, actions: Integers, x: Floats, random: np.random.Generator) -> dict[str, Floats]:
        """Return the values of all metrics for units with these actions and features."""
        trait = random.uniform(-1, 1, len(x))
        visits, left, complaints, bought = (
            (random.random(len(x)) < np.array(rates)[actions] * (1 + 0.4 * x + 0.5 * trait)).astype(
                np.float64
            )
            for rates in (self.visits, self.left, COMPLAINTS, self.bought)
        )
        sizes = SIZE * np.exp(SIGMA * random.standard_normal(len(x)) - SIGMA**2 / 2)
        spend = bought * sizes
        return {"visit": visits, "left": left, "complaint": complaints, "spend": spend}


WORLDS = (
    World("nothing differs", (0.10, 0.10, 0.10), (0.02, 0.02, 0.02), (0.05, 0.05, 0.05)),
    World("all differ", (0.10, 0.12, 0.16), (0.02, 0.02, 0.03), (0.05, 0.05, 0.065)),
)


def spec(policy: str, world: World, seed: int) -> dict[str, Any]:
    """Return a campaign whose guardrails have their bounds at the truth about the last action."""
    left, spend = world.truth["left"], world.truth["spend"]
    return {
        "name": "metrics", "seed": seed, "unit": "customer", "actions": list(ACTIONS),
        "control": "none", "randomised": 0.1, "floor": 0.02, "policy": DECLARED[policy],
        "metrics": {
            "visit": {"kind": "yes/no", "absent": 0},
            "left": {
                "kind": "yes/no", "absent": 0,
                "guardrail": {"at_most_control_plus": float(left[-1] - left[0])},
            },
            "complaint": {
                "kind": "yes/no", "absent": 0, "guardrail": {"at_most": COMPLAINTS[0]},
            },
            "spend": {
                "kind": "amount", "unit": "EUR", "absent": 0,
                "guardrail": {"at_least": float(spend[-1])},
            },
        },
        "objective": {"maximise": "visit"}, "required_outcomes": 0.0,
        "features": {"numeric": {"x": "raw"}}, "grid": {"sizes": list(SIZES)},
    }  # fmt: skip


def run(policy: str, world: World, seed: int) -> Findings:
    """Run a campaign and return its findings; units to whom nothing happens have no row."""
    random = np.random.default_rng([11, seed])
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(str(Path(folder) / "c.db"))
        campaign = Campaign.create(spec(policy, world, seed), store=store)
        for wave, size in enumerate(SIZES):
            ids, x = [f"{wave}-{n}" for n in range(size)], random.uniform(-1, 1, size)
            table: Any = campaign.assign(pa.table({"customer": ids, "x": x})).table
            actions = np.array([ACTIONS.index(name) for name in table["action"].to_pylist()])
            values = world.draw(actions, x, random)
            there = np.any([one > 0 for one in values.values()], axis=0)
            campaign.record(pa.table({"customer": ids, **values}).filter(pa.array(there)))
            campaign.close()
        found = campaign.findings()
        store.close()
    return found


# ----------------------------------------------------------------------
# What is counted.


#: The quantity about guardrails: whether any decision in a campaign is wrong.
GUARDRAILS = "guardrails, all together"


@dataclass(frozen=True)
class MetricsPart:
    """Some campaigns of one cell."""

    policy: str
    world: World
    number: int

    @property
    def name(self) -> str:
        """Its name in the run."""
        return f"{self.policy}, {self.world.name}/{self.number}"

    def __call__(self) -> list[Row]:
        """Run the campaigns; return how often each interval was printed, and missed the truth."""
        rows = []
        for seed in range(self.number * PART, (self.number + 1) * PART):
            found = run(self.policy, self.world, seed)
            rows += [*printed(found, self.world), judged(found, self.world)]
        cell = {"policy": self.policy, "world": self.world.name, "campaigns": PART}
        return [
            {**cell, "metric": metric, "quantity": quantity, **_sums(rows, metric, quantity)}
            for metric, quantity in dict.fromkeys((r["metric"], r["quantity"]) for r in rows)
        ]


def _sums(rows: Sequence[Row], metric: str, quantity: str) -> Row:
    own = [row for row in rows if (row["metric"], row["quantity"]) == (metric, quantity)]
    return {name: sum(row[name] for row in own) for name in ("printed", "above", "below")}


def printed(found: Findings, world: World) -> Iterator[Row]:
    """Yield whether each mean and lift has an interval, and on which side it misses the truth."""
    for metric in found.metrics:
        truth = world.truth[metric.name]
        for kind, answers in (("mean", metric.means), ("lift", metric.lifts)):
            for answer in answers:
                place, one = ACTIONS.index(answer.action), answer.interval
                value = float(truth[place] - (truth[0] if kind == "lift" else 0.0))
                yield {
                    "metric": metric.name, "quantity": f"{kind} of {answer.action}",
                    "printed": one.known, "above": value > one.high, "below": value < one.low,
                }  # fmt: skip


def judged(found: Findings, world: World) -> Row:
    """Return whether any guardrail whose bound is the truth was kept or broken: both are wrong."""
    wrong = any(
        one.code in (Guarded.KEPT, Guarded.BROKEN) and _at_bound(metric.name, one.action, world)
        for metric in found.metrics
        for one in metric.guardrail
    )
    return {"metric": "", "quantity": GUARDRAILS, "printed": True, "above": wrong, "below": False}


def _at_bound(metric: str, action: str, world: World) -> bool:
    """Whether the truth about an action is the bound, which is that about the last one."""
    truth = world.truth[metric]
    return bool(np.isclose(truth[ACTIONS.index(action)], truth[-1]))


# ----------------------------------------------------------------------
# The page.


INTRO = f"""# Do intervals of further metrics hold?

Written by `{COMMAND}`. [Findings](how-to/findings.md) estimate the mean and the lift of every
metric as they do the objective's. Here the policy adapts to visits (yes/no, about 10%), and three
further metrics are measured: *left* (yes/no, about 2%), *complaint* (yes/no, 0.5%), and *spend* (0
for 95% of customers, log-normal for the others, standard deviation of logarithms {SIGMA:g}). All
depend on a feature and on a trait that is not recorded. Files hold only customers to whom something
happened; all others count as 0.
"""


def page(table: "pl.DataFrame") -> str:
    """Return the page."""
    import polars as pl

    keys = ["policy", "world", "metric", "quantity"]
    table = table.group_by(keys, maintain_order=True).agg(pl.exclude(keys).sum())
    trials = int(table["campaigns"][0])
    sizes = ", ".join(f"{size:,}" for size in SIZES)
    error = sqrt(0.95 * 0.05 / trials)
    lines = [
        INTRO,
        *paragraph(
            f"Each row is {trials:,} whole campaigns of {len(SIZES)} waves ({sizes} customers) "
            f"with {len(ACTIONS)} actions; 10% of later waves are assigned at random, and every "
            "action keeps a probability of 2%. *Printed* is the share of campaigns with enough "
            "events for an interval. *Covered* is the range over the means of all actions and "
            f"their lifts, at a nominal 95% (standard error {100 * error:.1f} points); *missed* "
            "is the largest share of truths above or below one of these intervals."
        ),
        "| policy | world | metric | printed | covered | missed |",
        "|---|---|---|---|---|---|",
    ]
    for (policy, world, metric), part in table.group_by(keys[:3], maintain_order=True):
        if metric in ("left", "complaint", "spend"):
            cells = _cells(part.to_dicts(), trials)
            lines.append(f"| {policy} | {world} | {metric} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_guardrails(table.to_dicts(), trials)]) + "\n"


def _cells(rows: Sequence[Row], trials: int) -> list[str]:
    """Return the worst of a metric's intervals: printed, covered and missed."""
    known = [row for row in rows if row["printed"]]
    if not known:
        return ["0%", "", ""]
    sides = [row[side] / row["printed"] for row in known for side in ("above", "below")]
    shares = [1 - (row["above"] + row["below"]) / row["printed"] for row in known]
    return [
        f"{100 * min(row['printed'] for row in rows) / trials:.0f}%",
        f"{100 * min(shares):.1f}% to {100 * max(shares):.1f}%",
        f"{100 * max(sides):.1f}%",
    ]


def _guardrails(rows: Sequence[Row], trials: int) -> list[str]:
    made = [
        "## Guardrails",
        "",
        *paragraph(
            "Each bound is the truth about the last action, so every decision about that action "
            "is wrong. *Wrong* is the share of campaigns with any such decision, all guardrails "
            "and actions together; the nominal error is 5%."
        ),
        "| policy | world | wrong |",
        "|---|---|---|",
    ]
    for row in rows:
        if row["quantity"] == GUARDRAILS:
            wrong = f"{100 * row['above'] / trials:.1f}%"
            made.append(f"| {row['policy']} | {row['world']} | {wrong} |")
    return made


def main() -> None:
    """Measure, and write the page if there are enough campaigns."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS, help="campaigns in each cell")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    parser.add_argument("--out", type=Path, default=Path("out/metrics-coverage"), help="a folder")
    told = parser.parse_args()
    parts = [
        MetricsPart(policy, world, number)
        for number in range(told.trials // PART)
        for policy, world in product(POLICIES, WORLDS)
    ]
    # Without the number of campaigns: a longer run goes on from a shorter one.
    table = run_tasks(
        parts, out=told.out, declaration=(POLICIES, WORLDS, SIZES), jobs=told.jobs,
        report=lambda so_far: say(f"{so_far.done} of {so_far.total}"),
    )  # fmt: skip
    text = page(table)
    print(text)
    if told.trials >= TRIALS:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
