"""How often the intervals of metrics cover, and how often guardrails are judged wrongly.

`python -m benchmarks.metrics_coverage` runs whole campaigns, from assignment to findings, and
writes docs/metrics-coverage.md. `--trials` sets the campaigns in each cell, `--jobs` the processes.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.progress import paragraph
from seqbatch.campaign import Campaign
from seqbatch.campaign.views.findings import Findings
from seqbatch.core.arrays import Floats, Integers
from seqbatch.inference import Guarded
from seqbatch.storage import open_store

PAGE, COMMAND = Path("docs/metrics-coverage.md"), "python -m benchmarks.metrics_coverage"
TRIALS, PART = 1_000, 20
SIZES, ACTIONS = (2_000, 3_000, 5_000), ("none", "mail", "call")
POLICIES = ("SBPE", "ThompsonSampling")
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
        "control": "none", "randomised": 0.1, "floor": 0.02, "policy": {"kind": policy},
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


#: Printed, covered, the truth above, the truth below; and for guardrails: judged, wrong.
Counts = dict[tuple[str, str], Integers]


def counted(found: Findings, world: World) -> Counts:
    """Return what is counted of one campaign, by metric and quantity."""
    made: Counts = {}
    for metric in found.metrics:
        truth = world.truth[metric.name]
        for kind, answers in (("mean", metric.means), ("lift", metric.lifts)):
            for answer in answers:
                place = ACTIONS.index(answer.action)
                value = float(truth[place] - (truth[0] if kind == "lift" else 0.0))
                one = answer.interval
                seen = [one.known, one.low <= value <= one.high, value > one.high, value < one.low]
                key = (metric.name, f"{kind} of {answer.action}")
                made[key] = np.array(seen, dtype=np.int64)
    judged = [one for metric in found.metrics for one in metric.guardrail]
    decided = (Guarded.KEPT, Guarded.BROKEN)
    wrong = [
        one.code in decided
        for metric in found.metrics
        for one in metric.guardrail
        if _at_bound(metric.name, one.action, world)
    ]
    made["guardrails", "all together"] = np.array([len(judged) > 0, any(wrong), 0, 0])
    return made


def _at_bound(metric: str, action: str, world: World) -> bool:
    """Whether the truth is the bound, so that every decision is wrong."""
    truth, place = world.truth[metric], ACTIONS.index(action)
    if metric == "left":
        return bool(np.isclose(truth[place] - truth[0], truth[-1] - truth[0]))
    return bool(np.isclose(truth[place], truth[-1]))


def part(task: tuple[str, World, int, int]) -> Counts:
    """Count some campaigns of a cell."""
    policy, world, first, count = task
    total: Counts = {}
    for seed in range(first, first + count):
        for key, one in counted(run(policy, world, seed), world).items():
            total[key] = total.get(key, np.zeros(4, dtype=np.int64)) + one
    return total


# ----------------------------------------------------------------------
# The page.


INTRO = f"""# Metrics besides the objective

Written by `{COMMAND}`. Findings have the mean of every metric under each action and its lift over
the control, by the same estimators as those of the objective ([Campaigns](campaigns.md#findings)).
Here the policy adapts to visits (yes/no, about 10%). Three further metrics are measured: *left*, a
yes or no of about 2%; *complaint*, one of 0.5%; and *spend*, an amount that is 0 for 95% of
customers and log-normal for the others (standard deviation of logarithms {SIGMA:g}). All depend on
a feature and on a trait that is not recorded: customers who visit more often also leave, complain
and buy more often. Files hold only customers to whom something happened; all others count as 0.
"""


def page(results: Mapping[tuple[str, World], Counts], trials: int) -> str:
    """Return the page."""
    sizes = ", ".join(f"{size:,}" for size in SIZES)
    error = sqrt(0.95 * 0.05 / trials)
    lines = [
        INTRO,
        *paragraph(
            f"Each cell is {trials:,} whole campaigns of {len(SIZES)} waves ({sizes} customers) "
            f"with {len(ACTIONS)} actions, from assignment to findings; 10% of later waves are "
            "assigned at random, and every action keeps a probability of 2%. The nominal coverage "
            f"is 95%; its standard error is {100 * error:.1f} points. *Printed* is the share of "
            "campaigns with an interval: the others had too few events. Coverage is among those."
        ),
    ]
    for (policy, world), counts in results.items():
        lines += [f"## {policy}, {world.name}", "", *_table(counts, trials), ""]
    return "\n".join([*lines, *_guardrails(results, trials)]) + "\n"


def _table(counts: Counts, trials: int) -> list[str]:
    rows = [
        "| metric | quantity | printed | covered | truth above | truth below |",
        "|---|---|---|---|---|---|",
    ]
    for (metric, what), (known, *shares) in counts.items():
        if metric != "guardrails" and metric != "visit":
            cells = [f"{100 * known / trials:.0f}%"]
            cells += [f"{100 * one / known:.1f}%" if known else "" for one in shares]
            rows.append(f"| {metric} | {what} | {' | '.join(cells)} |")
    return rows


def _guardrails(results: Mapping[tuple[str, World], Counts], trials: int) -> list[str]:
    rows = [
        "## Guardrails",
        "",
        *paragraph(
            "The bounds are the truth about the last action: *left* at most as far above the "
            "control's as it is, *complaint* at most and *spend* at least what it is. So every "
            "decision about that action is wrong, and about the others as far as they do not "
            "differ from it. *Wrong* is the share of campaigns with any such decision, of all "
            "guardrails and actions together; the nominal error is 5%. Complaints are judged even "
            "where too few were seen for an interval: at the bound there would be enough."
        ),
        "| policy | world | wrong |",
        "|---|---|---|",
    ]
    for (policy, world), counts in results.items():
        _, wrong, *_ = counts["guardrails", "all together"]
        rows.append(f"| {policy} | {world.name} | {100 * wrong / trials:.1f}% |")
    return rows


def measured(trials: int, jobs: int) -> dict[tuple[str, World], Counts]:
    """Run all cells."""
    results: dict[tuple[str, World], Counts] = {}
    with ProcessPoolExecutor(jobs) as pool:
        for policy, world in product(POLICIES, WORLDS):
            tasks = [(policy, world, at, min(PART, trials - at)) for at in range(0, trials, PART)]
            total: Counts = {}
            for one in pool.map(part, tasks):
                total = {key: total.get(key, np.zeros(4, dtype=np.int64)) + own
                         for key, own in one.items()}  # fmt: skip
            results[policy, world] = total
            print(policy, world.name, flush=True)
            print(*_table(total, trials), sep="\n", flush=True)
    return results


def main(given: Sequence[str] | None = None) -> None:
    """Measure, and write the page if all campaigns were run."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS, help="campaigns in each cell")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    told = parser.parse_args(given)
    text = page(measured(told.trials, told.jobs), told.trials)
    print(text)
    if told.trials >= TRIALS:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
