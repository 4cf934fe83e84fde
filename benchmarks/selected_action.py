"""The winner's curse: how far the best of several estimates is too high, and what covers it.

`python -m benchmarks.selected_action` draws estimates, and simulates campaigns in waves, selects
the action with the best lift in each, and writes docs/selected-action.md.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from pathlib import Path

import numpy as np

from benchmarks.coverage.cells import Cell, Outcome
from benchmarks.coverage.worlds import simulate_campaign
from benchmarks.progress import paragraph, say
from seqbatch.core.arrays import Floats
from seqbatch.inference import (
    Interval,
    Lift,
    SelectedAction,
    control_loadings,
    dunnett_critical,
    pool_by_size,
    selected_action,
    simultaneous_lifts,
    summarise,
)
from seqbatch.inference.intervals import normal_tail, student

COMMAND, PAGE = "python -m benchmarks.selected_action", Path("docs/selected-action.md")
TRIALS, CAMPAIGNS = 4_000, 1_000

# ----------------------------------------------------------------------
# One selection, beside the truth.


@dataclass(frozen=True)
class Selection:
    """The truth about the selected action, and what is said of it.

    Parameters
    ----------
    truth
        Its true lift.
    raw
        Its lift with the interval that it has by itself.
    joint
        The same with the interval that covers jointly.
    made
        What to expect of it.
    """

    truth: float
    raw: Interval
    joint: Interval
    made: SelectedAction


def selection(
    lifts: Sequence[Interval],
    joint: Sequence[Interval],
    loadings: Sequence[float],
    truth: Sequence[float],
) -> Selection:
    """Select the best of several lifts."""
    made = selected_action(joint, loadings)
    assert made is not None
    place = made.place
    return Selection(float(truth[place]), lifts[place], joint[place], made)


# ----------------------------------------------------------------------
# Normal estimates with known errors, which share the control.


def truths(count: int) -> dict[str, tuple[Floats, Floats]]:
    """Return true lifts and errors of so many actions, by what they are like."""
    none, ones = np.zeros(count), np.ones(count)
    wide = np.linspace(1, 3, count)

    def ahead(by: float) -> Floats:
        return np.array([by, *none[1:]])

    return {
        "all equal": (none, ones),
        "one better by 2": (ahead(2.0), ones),
        "one better by 4": (ahead(4.0), ones),
        "all equal, errors 1 to 3": (none, wide),
        "the precise one better by 2, errors 1 to 3": (ahead(2.0), wide),
    }


def drawn(truth: Floats, errors: Floats, trials: int) -> Iterator[Selection]:
    """Yield selections among lifts whose control has the error sqrt(1/2)."""
    control = sqrt(0.5)
    loadings = (control / errors).tolist()
    tail = normal_tail(dunnett_critical(loadings))
    random = np.random.default_rng([29, len(truth), int(100 * errors.sum() + truth.sum())])
    for _ in range(trials):
        own = np.sqrt(errors**2 - control**2) * random.standard_normal(len(truth))
        seen = truth + own - control * random.standard_normal()
        lifts = [
            student("lift", one, error**2, inf, level=0.95)
            for one, error in zip(seen.tolist(), errors.tolist(), strict=True)
        ]
        ends = [one.limits(tail) for one in lifts]
        joint = [
            replace(one, low=low, high=high) for one, (low, high) in zip(lifts, ends, strict=True)
        ]
        yield selection(lifts, joint, loadings, truth.tolist())


# ----------------------------------------------------------------------
# Campaigns in three waves that adapt.


SEVERAL = Cell(units=3_000, randomised=0.1, floor=0.02)
YES_NO = Outcome(kind="yes/no", rate=0.1)
AMOUNTS = Outcome(kind="amounts", rate=0.2, spread=1.0)


def settings() -> list[tuple[str, Cell]]:
    """Return the campaigns, in words."""
    same, one = ((0.0,),) * 4, ((0.2,), (0.0,), (0.0,), (0.0,))
    rates, greedy = ((0.0,),) * 4, SEVERAL
    return [
        ("2 lifts, equal; greedy", replace(greedy, lifts=same[:2])),
        ("4 lifts, equal; greedy", replace(greedy, lifts=same)),
        ("4 lifts, one better by 0.2; greedy", replace(greedy, lifts=one)),
        ("4 lifts, equal; Thompson", replace(greedy, lifts=same, policy="Thompson")),
        ("4 lifts, one better by 0.2; Thompson", replace(greedy, lifts=one, policy="Thompson")),
        ("4 lifts by feature, equal on average; greedy",
         replace(greedy, lifts=same, slope=0.2)),
        ("4 lifts, equal, levels of waves 0, 0.5, 1; greedy",
         replace(greedy, lifts=same, level=(0.0, 0.5, 1.0))),
        ("4 lifts of a rate of 10%, equal; greedy",
         replace(greedy, lifts=rates, outcome=YES_NO, units=9_000)),
        ("4 lifts of amounts with 80% zeros, equal; Thompson",
         replace(greedy, lifts=rates, outcome=AMOUNTS, units=9_000, policy="Thompson")),
    ]  # fmt: skip


def run(cell: Cell, campaigns: int) -> Iterator[Selection]:
    """Yield the selection of each campaign."""
    lifts = [Lift(action) for action in range(1, cell.actions)]
    for number in range(campaigns):
        random = np.random.default_rng([29, number, cell.units, len(lifts)])
        made = simulate_campaign(cell, random)
        summaries = summarise(made.waves)
        yield selection(
            [pool_by_size(summaries, one) for one in lifts],
            simultaneous_lifts(summaries),
            control_loadings(summaries),
            [made.lift(action) for action in range(1, cell.actions)],
        )


# ----------------------------------------------------------------------
# The page.


INTRO = f"""# Is the winner's lift too high?

Written by `{COMMAND}`. The best of several estimates is too high on average, because luck is
selected too. Here the action with the best estimated lift is selected and compared with its own
true lift, as in [findings](how-to/findings.md).

- *raw*: the lift of the selected action with its own 95% interval.
- *joint*: the interval that covers all lifts together (Dunnett).
- *selected*: the interval that findings print for a roll-out, with its *shrunken* estimate.

The selected interval covers the lift of whichever action is selected; raw intervals miss more, the
more actions compete. It has the lower limit of the joint one. The shrunken estimate removes most of
the bias where actions are equal. Where one action is far better than many equal ones, it is drawn
too far towards them: its bias is negative, and its error larger than the raw one's.

With one action against control nothing is selected. But among campaigns that were picked because
they recommend the action, estimates are too high on average as well.
"""


def covered(pairs: Sequence[tuple[Interval, float]]) -> str:
    """Return how many intervals cover, in percent."""
    return f"{100 * float(np.mean([one.low <= truth <= one.high for one, truth in pairs])):.1f}"


def biases(made: Sequence[Selection]) -> str:
    """Return the raw and the shrunken estimate's bias, in standard errors of the selected lift."""
    error = float(np.mean([one.raw.error for one in made]))
    raw = float(np.mean([one.raw.estimate - one.truth for one in made]))
    shrunken = float(np.mean([one.made.interval.estimate - one.truth for one in made]))
    return f"{raw / error:+.2f} / {shrunken / error:+.2f}"


def width(made: Sequence[Selection]) -> float:
    """Return the width of the selected interval, as a share of the joint one's."""
    return float(
        np.mean(
            [
                (one.made.interval.high - one.made.interval.low) / (one.joint.high - one.joint.low)
                for one in made
            ]
        )
    )


def raw_and_selected(made: Sequence[Selection]) -> str:
    """Return the coverage of the raw and of the selected interval."""
    raw = covered([(one.raw, one.truth) for one in made])
    return f"{raw} / {covered([(one.made.interval, one.truth) for one in made])}"


COUNTS = (2, 3, 5, 10)


def page(trials: int, campaigns: int) -> str:
    """Measure everything, and return the page."""
    coverage, bias, widths = [], [], []
    for name in truths(2):
        say(name)
        found = [list(drawn(*truths(count)[name], trials)) for count in COUNTS]
        coverage.append([name, *(raw_and_selected(made) for made in found)])
        bias.append([name, *(biases(made) for made in found)])
        widths += [width(made) for made in found]
    normal = 100 * sqrt(0.95 * 0.05 / trials)
    waves = []
    for name, cell in settings():
        say(name)
        made = list(run(cell, campaigns))
        joint = covered([(one.joint, one.truth) for one in made])
        waves.append([name, raw_and_selected(made), joint, biases(made), f"{width(made):.2f}"])
    error = 100 * sqrt(0.95 * 0.05 / campaigns)
    heads = [f"{count} lifts" for count in COUNTS]
    lines = [
        INTRO,
        "## Normal estimates",
        "",
        *paragraph(
            f"{trials:,} draws a cell (standard error {normal:.1f} points). Differences are in "
            "standard errors of a lift; half of the variance is the control's. The selected "
            f"interval is {min(widths):.2f} to {max(widths):.2f} times as wide as the joint one."
        ),
        "Coverage in percent, raw / selected:",
        "",
        *_table(["", *heads], coverage),
        "",
        "Bias in standard errors of the selected lift, raw / shrunken:",
        "",
        *_table(["", *heads], bias),
        "",
        "## Campaigns in three waves",
        "",
        *paragraph(
            f"{campaigns:,} campaigns a row of 3,000 units (9,000 for rates and amounts) with a "
            "control and two features, 10% of later waves at random and a floor of 2%. Standard "
            f"error of a coverage: {error:.1f} points."
        ),
        *_table(["", "coverage: raw / selected", "joint", "bias: raw / shrunken",
                 "width, of joint"], waves),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


def main() -> None:
    """Measure, and write the page if there are enough trials."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS, help="draws in each row")
    parser.add_argument("--campaigns", type=int, default=CAMPAIGNS, help="campaigns in each row")
    told = parser.parse_args()
    text = page(told.trials, told.campaigns)
    print(text)
    if told.trials >= TRIALS and told.campaigns >= CAMPAIGNS:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
