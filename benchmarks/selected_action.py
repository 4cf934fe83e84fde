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
        "one better by 1": (ahead(1.0), ones),
        "one better by 2": (ahead(2.0), ones),
        "one better by 4": (ahead(4.0), ones),
        "each better by 1": (np.arange(count, dtype=np.float64), ones),
        "all equal, errors 1 to 3": (none, wide),
        "the precise one better by 2, errors 1 to 3": (ahead(2.0), wide),
        "the precise one worse by 2, errors 1 to 3": (2 - ahead(2.0), wide),
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


COLUMNS = (
    "| | raw: covered (below, above) | joint | selected (below, above) | width, of joint "
    "| raw: bias, error | shrunken: bias, error |\n|---|---|---|---|---|---|---|"
)


def row(name: str, made: Sequence[Selection]) -> str:
    """Return a row of a table."""
    error = float(np.mean([one.raw.error for one in made]))
    selected = [(one.made.interval, one.truth) for one in made]
    widths = [
        (one.made.interval.high - one.made.interval.low) / (one.joint.high - one.joint.low)
        for one in made
    ]
    cells = [
        name,
        _covered([(one.raw, one.truth) for one in made]),
        _covered([(one.joint, one.truth) for one in made]).partition(" ")[0],
        _covered(selected),
        f"{np.mean(widths):.2f}",
        _wrong([one.raw.estimate - one.truth for one in made], error),
        _wrong([one.made.interval.estimate - one.truth for one in made], error),
    ]
    return f"| {' | '.join(cells)} |"


def _covered(pairs: Sequence[tuple[Interval, float]]) -> str:
    below = 100 * float(np.mean([truth < one.low for one, truth in pairs]))
    above = 100 * float(np.mean([truth > one.high for one, truth in pairs]))
    return f"{100 - below - above:.1f}% ({below:.1f}, {above:.1f})"


def _wrong(errors: Sequence[float], unit: float) -> str:
    bias, size = float(np.mean(errors)), sqrt(float(np.mean(np.square(errors))))
    return f"{bias / unit:+.2f}, {size / unit:.2f}"


INTRO = f"""# The best of several

Written by `{COMMAND}`. Findings say what to expect of the action with the best estimate in a
roll-out ([Campaigns](how-to/findings.md)). The best of several estimates is too high on average,
because luck is selected, too. Here the action with the best estimated lift is selected, and
compared with its own true lift.

*raw* is the lift of the selected action with the 95% interval that it has by itself; *joint* the
interval that covers all lifts together (Dunnett); *selected* the interval that findings print for a
roll-out; *below* and *above* are the shares of truths below and above an interval. *Bias* and
*error* (the root of the mean squared error) are in standard errors of the selected lift.
*Shrunken* is the estimate that findings print for a roll-out.
"""

LIMITS = """## What this shows

Raw intervals miss on one side, below, the more so the more actions compete. The selected interval
covers the lift of whichever action is selected. It has the lower limit of the joint one, so the two
never contradict each other, and an upper limit that is lower unless other actions are measured much
less precisely. The shrunken estimate takes most of the bias away where actions are alike. Where one
action is far better than many that are all equal, it is drawn too far towards them: its bias is
then negative, and its error larger than that of the raw estimate.

With one action against control nothing is selected among estimates: the interval of its lift covers
whatever is recommended. But it is not made for campaigns that were picked because they recommend
the action: among those, estimates are too high on average as well.
"""


def page(trials: int, campaigns: int) -> str:
    """Measure everything, and return the page."""
    lines = [INTRO]
    for count in (2, 3, 5, 10):
        lines += [f"## {count} lifts, normal estimates", "", *_about(count, trials), COLUMNS]
        for name, (truth, errors) in truths(count).items():
            say(f"{count} lifts, {name}")
            lines.append(row(name, list(drawn(truth, errors, trials))))
        lines.append("")
    error = 100 * sqrt(0.95 * 0.05 / campaigns)
    lines += [
        "## Campaigns in three waves",
        "",
        *paragraph(
            f"{campaigns:,} campaigns a row of 3,000 units (9,000 for rates and amounts) with a "
            "control and two features, 10% of later waves at random and a floor of 2%. The "
            f"standard error of a coverage of 95% is {error:.1f} points."
        ),
        COLUMNS,
    ]
    for name, cell in settings():
        say(name)
        lines.append(row(name, list(run(cell, campaigns))))
    return "\n".join([*lines, "", LIMITS])


def _about(count: int, trials: int) -> list[str]:
    if count > 2:
        return []
    error = 100 * sqrt(0.95 * 0.05 / trials)
    return paragraph(
        f"{trials:,} draws a row. Differences are in standard errors of a lift, of which half of "
        "the variance is the control's; where errors differ, they are 1 to 3 times that. The "
        f"standard error of a coverage of 95% is {error:.1f} points."
    )


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
