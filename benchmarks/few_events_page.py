"""The page on few events: how often rules err if nothing differs, and what they find otherwise."""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt

import numpy as np

from benchmarks.few_events_campaign import (
    ALIKE,
    ALPHA,
    AMOUNTS,
    HEAVY_AMOUNTS,
    LOSSES,
    MIXED,
    PURCHASES,
    Setting,
    Verdicts,
)
from benchmarks.progress import paragraph
from seqbatch.inference.rare_events import ENOUGH_AMOUNTS, ENOUGH_BINARY

WORTH = {ALIKE: "yes/no", MIXED: "mixed", LOSSES: "losses", AMOUNTS: "amounts",
         HEAVY_AMOUNTS: "heavy amounts", PURCHASES: "purchases"}  # fmt: skip
WAYS = {"harm": -1, "success": 1}
#: The error that no setting should exceed: the declared one and some room.
LIMIT = 0.065
#: With fewer looks made than this share, a rule can hardly find anything.
SELDOM = 0.05

Results = Mapping[Setting, Verdicts]

COLUMNS = ("costs", "control", "outcomes", "at random", "units", "in wave 1")

PAGE = """# Few events

Written by `python -m benchmarks.few_events`. If at least half of the outcomes have the same value
(0, or 1 if most outcomes are 1), the others are events. Before a look, the plan's effective units
are multiplied by the share of outcomes so far that are events, all actions together. The look needs
{binary} such events if outcomes are yes/no and {amounts} otherwise; with fewer it is not made, and
spends nothing ([Campaigns](how-to/stopping.md)). Statistics come from score intervals of
outcomes before costs; a difference in costs is a difference that the lift must exceed. This page
measures how often rules err without and with the rule of events, and how often they find a
difference. Units have no features; their counts are drawn, and a test compares statistics with
those of campaigns.

## Nothing differs after costs

Every action earns exactly its cost, so every stop, for success or for harm, is an error. The
declared two-sided error is {alpha:g} for all looks and actions together, {half:g} in one direction.
Each cell shows Pocock's rule first and O'Brien and Fleming's second, for the same {trials:,}
campaigns; at a true error of {alpha:g} the standard error is {error:.4f}.

- *costs*: of each action, the control first; 1% is a hundredth of the average event.
- *control*: the share of units with an event under the control.
- *outcomes*: *yes/no*; *mixed*, nine of ten events are worth 0.5 and one 5.5; *amounts* and *heavy
  amounts*, with sizes of log-normal distributions (sigma 1 and 1.5); *purchases*, 1 to 3;
  *losses*, each -1. *(min)*: less is better.
- *at random*: *all* units, or this share from the second wave on, while the others get the action
  with the best mean after costs so far.
- *in wave 1*: the events expected there of the action that has most of them.
- *looks made*: after each wave, the percentage of campaigns with enough events.
- *harm*, *success*: the two directions of an error, with the rule of events.

{errors}

{verdict}
{silent}
## Something differs

The table shows how many of {other_trials:,} campaigns have stopped in the right direction by the
end of each wave, in percent. *brings* is what the other actions earn, as a multiple of what they
must earn to equal the control after costs: 0 is harm, 2 and 3 are success. If all actions cost the
same, it is the multiple of the control's events.

{others}

{price}
## Limits

- Waves of 10 to 40 units of which few are assigned at random have only one or two units of the
  action that looks worse. The model of its outcomes then rests on a handful of units, and the
  designed variance allows for its error only roughly: see the last rows. Larger waves help.
- Without a single event there is no look: all outcomes are equal. If neither the control nor an
  action that costs something sells anything, the rule never stops.
- A size that has not occurred yet is unknown. Before the first large event of *mixed* outcomes,
  nothing shows that it exists; these rows are why amounts need {amounts} events.
- Outcomes with values below 0 (*losses*) use Student's t, which errs with few events; the rule of
  events needs {amounts} there as well.
- Numbers of purchases count as yes/no outcomes until the first number above 1.
- With several actions the error is shared, and harm means that all of them are worse: the rules err
  less often than declared.
"""


def page(errors: Results, others: Results) -> str:
    """Return the page, from when and why the campaigns of each setting stopped."""
    trials = _trials(errors)
    return PAGE.format(
        binary=ENOUGH_BINARY,
        amounts=ENOUGH_AMOUNTS,
        alpha=ALPHA,
        half=ALPHA / 2,
        trials=trials,
        error=sqrt(ALPHA * (1 - ALPHA) / trials),
        errors=_table(
            ("row", *COLUMNS, "looks made", "no rule of events", "with it", *WAYS),
            [
                [str(row), *error_cells(setting, made)]
                for row, (setting, made) in enumerate(errors.items(), start=1)
            ],
        ),
        verdict="\n".join(paragraph(verdict(errors))),
        silent="\n".join(paragraph(silent(errors))),
        other_trials=_trials(others),
        others=_table(
            (*COLUMNS, "brings", *(f"{name}, {how}" for name in ("Pocock", "O'Brien-Fleming")
                                   for how in ("no rule of events", "with it"))),
            [other_cells(setting, made) for setting, made in others.items()],
        ),
        price="\n".join(paragraph(price(others))),
    )  # fmt: skip


def error_cells(setting: Setting, made: Verdicts) -> list[str]:
    """Return a setting's row of the first table."""
    both = made.errors().T
    one_way = [made.stopped(way)[:, 1] for way in WAYS.values()]
    looks = ", ".join(f"{100 * share:.0f}" for share in made.made.mean(axis=0))
    cells = [" / ".join(f"{rate:.3f}" for rate in rates) for rates in (*both, *one_way)]
    return [*described(setting), looks, *cells]


def other_cells(setting: Setting, made: Verdicts) -> list[str]:
    """Return a setting's row of the second table."""
    way = right_way(setting)
    rules = range(made.ends.shape[1])
    shares = [
        _found(made, rule, guarded, way, setting.waves) for rule in rules for guarded in (0, 1)
    ]
    return [*described(setting), f"{setting.pays:g}", *shares]


def right_way(setting: Setting) -> int:
    """Return 1 if the other actions earn more than they must, -1 if less."""
    return 1 if setting.pays > 1 else -1


def _found(made: Verdicts, rule: int, guarded: int, way: int, waves: int) -> str:
    """Return in percent how many have stopped in a direction by the end of each wave."""
    ends = made.ends[:, rule, guarded]
    by = [((ends[:, 1] == way) & (ends[:, 0] <= wave)).mean() for wave in range(1, waves + 1)]
    return ", ".join(f"{100 * share:.0f}" for share in by)


def described(setting: Setting) -> list[str]:
    """Return the columns that describe a setting."""
    sizes, even = setting.sizes, setting.growth == 1
    less = " (min)" if setting.direction == "min" else ""
    return [
        ", ".join(_percent(cost) for cost in setting.costs),
        _percent(setting.chances[0, 1:].sum()),
        WORTH[setting.worth] + less,
        "all" if setting.randomised == 1 else _percent(setting.randomised),
        f"{len(sizes)} x {sizes[0]:,}" if even else " + ".join(f"{size:,}" for size in sizes),
        f"{setting.events:g}",
    ]


def verdict(errors: Results) -> str:
    """Say in how many settings rules err more often than they should, and where the most."""
    said = []
    for guarded, name in enumerate(("Without the rule of events", "With it")):
        rates = [float(made.errors()[:, guarded].max()) for made in errors.values()]
        above = [str(row) for row, rate in enumerate(rates, start=1) if rate > LIMIT]
        said.append(
            f"{name}, one of the two rules errs in more than {LIMIT:g} of campaigns in "
            f"{len(above)} of {len(rates)} settings ({_rows(above)}), and in at most "
            f"{max(rates):.3f} (row {_row(rates)})."
        )
    for name, way in WAYS.items():
        one = [float(made.stopped(way)[:, 1].max()) for made in errors.values()]
        said.append(f"With it, {name} is found in at most {max(one):.3f} (row {_row(one)}).")
    return " ".join(said)


def silent(errors: Results) -> str:
    """Name the rows in which the rule of events allows hardly any look."""
    rows = [
        str(row)
        for row, made in enumerate(errors.values(), start=1)
        if made.made.any(axis=1).mean() < SELDOM
    ]
    return (
        f"In {_rows(rows)} fewer than {SELDOM:.0%} of campaigns have a look: nothing goes wrong "
        "there, and nothing would be found."
    )


def price(others: Results) -> str:
    """Say how much power the rule of events takes away."""
    lost = []
    for setting, made in others.items():
        found = made.stopped(right_way(setting))
        lost.append(found[:, 0] - found[:, 1])
    losses = np.array(lost)
    most = losses.max(axis=1)
    return (
        f"By the last wave, the rule of events loses more than 5 points of power in "
        f"{int((most > 0.05).sum())} of {len(most)} rows, at most {100 * most.max():.0f} points. "
        "Where looks are made late it finds a difference one or more waves later."
    )


def _trials(results: Results) -> int:
    return min(len(made.ends) for made in results.values())


def _row(rates: Sequence[float]) -> int:
    return 1 + int(np.argmax(rates))


def _percent(share: float) -> str:
    return f"{100 * share:g}%" if share else "0"


def _rows(rows: Sequence[str]) -> str:
    if not rows:
        return "no row"
    return f"row {rows[0]}" if len(rows) == 1 else f"rows {', '.join(rows[:-1])} and {rows[-1]}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
