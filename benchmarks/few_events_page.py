"""The page on few events: how often rules err at break-even, and what waiting for events costs."""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt

import numpy as np

from benchmarks.few_events_campaign import (
    ALIKE,
    ALPHA,
    GUARDS,
    LOSSES,
    MIXED,
    RULES,
    Setting,
)
from benchmarks.progress import paragraph
from seqbatch.campaign.decide.logged_waves import ENOUGH_EVENTS
from seqbatch.core.arrays import Bools, Floats, Integers

WORTH = {ALIKE: "alike", MIXED: "mixed", LOSSES: "losses"}
NAMES = {"pocock": "Pocock", "obrien-fleming": "O'Brien-Fleming"}
WAYS = {"harm": -1, "success": 1}
GUARDED = GUARDS.index(ENOUGH_EVENTS)
#: By how many standard errors an error must be above the declared one to be said to be.
SURE = 3.0
#: An error below this is shown as none.
NOTHING = 0.0005

Results = Mapping[Setting, Integers]

COLUMNS = ("costs", "control", "events", "at random", "units", "in wave 1")
HEADS = ("no guard", *(str(guard) for guard in GUARDS[1:]))

PAGE = """# Few events

Written by `python -m benchmarks.few_events`. A stopping rule judges an action that costs
more or less than the control only once it would have had {enough} events at break-even
([Campaigns](campaigns.md#stopping)). This page measures how often rules err without that guard, and
with it at {guards} events, and what waiting for events costs. Units have no features; their
counts are drawn, and all later steps (scores, pooled lifts, boundaries, verdicts) run a campaign's
own code.

## Actions that just pay for themselves

Every action earns exactly its cost, so every stop, for success or for harm, is an error. The
declared two-sided error is {alpha:g} for all looks and actions together, {half:g} in one direction.
Each cell shows Pocock's rule first and O'Brien and Fleming's second, for the same {trials:,}
campaigns; at a true error of {alpha:g} the standard error is {error:.3f}.

- *costs*: of each action, the control first, in sales: 1% is a hundredth of the average sale.
- *control*: the share of units with an event under the control.
- *events*: *alike*, all worth the same; *mixed*, nine of ten worth 0.5 and one worth 5.5; *losses*,
  such as complaints, of which the costlier action must prevent enough to pay for its cost.
- *at random*: *all* units, or this share from the second wave on, while the others get the action
  with the best mean so far.
- *in wave 1*: the events expected there of the action that has most of them.
- *harm*, *success*: the two directions of an error, with the guard at {enough}.

{errors}

{verdict}
The value of an event is estimated from the events so far. Before the first large one, break-even
seems to need fewer events than it does, and the guard allows looks too early: see *mixed* events
with a control that has none. If the control has no events and all events are worth the same, the
rules find harm too often and success too seldom: the fewer sales an action happens to have, the
smaller its standard error.

## Actions that do not pay for themselves

The table shows how often the rule has stopped for harm by the end of each wave, in percent of
{lost_trials:,} campaigns; *brings* is the share of its cost that every action but the control
earns. If later waves bring the events, waiting for them costs about one wave. If a campaign gives
most units the action that looks best, an action that does not pay for itself soon gets few units,
its events at break-even hardly grow, and the guarded rule may never judge it: few units are harmed,
and the campaign goes on.

{lost}
"""


def page(errors: Results, lost: Results) -> str:
    """Return the page, from when and why the campaigns of each setting stopped."""
    trials = min(map(len, errors.values()))
    return PAGE.format(
        enough=ENOUGH_EVENTS,
        guards=_listed([str(guard) for guard in GUARDS[1:]]),
        alpha=ALPHA,
        half=ALPHA / 2,
        trials=trials,
        error=sqrt(ALPHA * (1 - ALPHA) / trials),
        errors=_table(
            ("row", *COLUMNS, *HEADS, *WAYS),
            [
                [str(row), *error_cells(setting, made)]
                for row, (setting, made) in enumerate(errors.items(), start=1)
            ],
        ),
        verdict="\n".join(paragraph(verdict(errors))),
        lost_trials=min(map(len, lost.values())),
        lost=_table(
            (*COLUMNS, "brings", "rule", *HEADS),
            [cells for setting, made in lost.items() for cells in lost_cells(setting, made)],
        ),
    )


def error_cells(setting: Setting, made: Integers) -> list[str]:
    """Return a setting's row of the first table."""
    one_way = [stopped(made, way)[:, GUARDED] for way in WAYS.values()]
    cells = [*wrong(made).mean(axis=0).T, *one_way]
    return [*described(setting), *(" / ".join(f"{rate:.3f}" for rate in one) for one in cells)]


def lost_cells(setting: Setting, made: Integers) -> list[list[str]]:
    """Return a setting's rows of the second table, one for each rule."""
    rows = []
    for rule, ends in zip(RULES, np.moveaxis(made, 1, 0), strict=True):
        shares = [_found(ends[:, guard], setting.waves) for guard in range(len(GUARDS))]
        rows.append([*described(setting), f"{setting.pays:.0%}", NAMES[rule], *shares])
    return rows


def _found(ends: Integers, waves: int) -> str:
    """Return in percent how many have stopped for harm by the end of each wave."""
    harmed = ends[:, 1] < 0
    by = [(harmed & (ends[:, 0] <= wave)).mean() for wave in range(1, waves + 1)]
    return ", ".join(f"{100 * share:.0f}" for share in by)


def described(setting: Setting) -> list[str]:
    """Return the columns that say what a setting is."""
    sizes = setting.sizes
    even = setting.growth == 1
    return [
        ", ".join(_percent(cost) for cost in setting.costs),
        _percent(setting.chances[0, 1:].sum()),
        WORTH[setting.worth],
        "all" if setting.randomised == 1 else _percent(setting.randomised),
        f"{len(sizes)} x {sizes[0]:,}" if even else " + ".join(f"{size:,}" for size in sizes),
        f"{setting.events:g}",
    ]


def wrong(made: Integers) -> Bools:
    """Return which campaigns were stopped, where nothing should stop: (trials, rules, guards)."""
    ended: Bools = made[..., 0] > 0
    return ended


def stopped(made: Integers, way: int) -> Floats:
    """Return how often rules stopped for success, 1, or for harm, -1: shape (rules, guards)."""
    shares: Floats = (made[..., 1] == way).mean(axis=0)
    return shares


def verdict(errors: Results) -> str:
    """Say in how many settings each guard's rules err more than declared, and where the most."""
    said = []
    for place, guard in enumerate(GUARDS):
        rates = [float(wrong(made).mean(axis=0)[:, place].max()) for made in errors.values()]
        bad = [
            rate > _limit(ALPHA, len(made))
            for rate, made in zip(rates, errors.values(), strict=True)
        ]
        name = f"with the guard at {guard}" if guard else "without a guard"
        said.append(f"{name} in {sum(bad)}, at most {max(rates):.3f} (row {_row(rates)})")
    return (
        f"Of these {len(errors)} settings one of the two rules errs more often than declared, by "
        f"more than {SURE:g} standard errors: {'; '.join(said)}. {_still_wrong(errors)}"
    )


def _still_wrong(errors: Results) -> str:
    """Name the rows in which the guard as it is does not keep the declared error."""
    rates = [float(wrong(made).mean(axis=0)[:, GUARDED].max()) for made in errors.values()]
    trials = [len(made) for made in errors.values()]
    silent = [str(row) for row, rate in enumerate(rates, start=1) if rate < NOTHING]
    ways = []
    for name, way in WAYS.items():
        one = [float(stopped(made, way)[:, GUARDED].max()) for made in errors.values()]
        found = _rows(_above(one, ALPHA / 2, trials))
        ways.append(f"{name} in {found} (at most {max(one):.3f}, in row {_row(one)})")
    return (
        f"So the rule as it is, with {ENOUGH_EVENTS} events, errs more often than the declared "
        f"{ALPHA:g} in {_rows(_above(rates, ALPHA, trials))}. In one direction, with {ALPHA / 2:g} "
        f"declared, it says {' and '.join(ways)} too often. In {_rows(silent)} hardly any look "
        "counts: nothing goes wrong there, and nothing would be found."
    )


def _above(rates: Sequence[float], alpha: float, trials: Sequence[int]) -> list[str]:
    """Return the rows in which an error is surely above the declared one."""
    return [
        str(row)
        for row, (rate, count) in enumerate(zip(rates, trials, strict=True), start=1)
        if rate > _limit(alpha, count)
    ]


def _row(rates: Sequence[float]) -> int:
    return 1 + int(np.argmax(rates))


def _limit(alpha: float, trials: int) -> float:
    return alpha + SURE * sqrt(alpha * (1 - alpha) / trials)


def _percent(share: float) -> str:
    return f"{100 * share:g}%" if share else "0"


def _rows(rows: Sequence[str]) -> str:
    if not rows:
        return "no row"
    return f"row {rows[0]}" if len(rows) == 1 else f"rows {_listed(rows)}"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
