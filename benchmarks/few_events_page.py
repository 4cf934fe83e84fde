"""The page on few events: how often rules err if nothing differs, and what they find otherwise."""

import textwrap
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
from seqbatch.inference.rare_events import ENOUGH_AMOUNTS, ENOUGH_BINARY

WORTH = {ALIKE: "yes/no", MIXED: "mixed", LOSSES: "losses", AMOUNTS: "amounts",
         HEAVY_AMOUNTS: "heavy amounts", PURCHASES: "purchases"}  # fmt: skip
#: Harm and success.
WAYS = (-1, 1)
#: The error that no setting should exceed: the declared one and some room.
LIMIT = 0.065
#: With fewer looks made than this share, a rule can hardly find anything.
SELDOM = 0.05

Results = Mapping[Setting, Verdicts]

COLUMNS = ("costs", "control", "outcomes", "at random", "units", "in wave 1")

PAGE = """# Do stopping rules hold with few events?

Written by `python -m benchmarks.few_events`: how often [stopping rules](how-to/stopping.md) err
while there are few events, and how often they find a difference. An event is an outcome of the
rarer kind (1, or 0 if most outcomes are 1). A look needs {binary} events if outcomes are yes/no and
{amounts} otherwise; a look with fewer is not made and spends no error. Units have no features.

## Nothing differs after costs

Every action earns exactly its cost, so every stop is an error. The declared two-sided error is
{alpha:g} for all looks and actions together, {half:g} in one direction. Each cell shows Pocock's
rule / O'Brien and Fleming's, each the worst of a group of settings: {settings} settings in all,
{trials:,} campaigns each (standard error {error:.4f}).

- *outcomes*: *mixed*, nine of ten events are worth 0.5 and one 5.5; *amounts* and *heavy amounts*,
  log-normal with sigma 1 and 1.5; *purchases*, 1 to 3; *losses*, each -1.
- *at random*: *all* units, or *some* from the second wave on (5% to 30%), while the others get the
  best action so far.
- *one direction*: the worse of harm and success, with the rule of events.

{errors}

{verdict}

## Something differs

The percentage of {other_trials:,} campaigns that have stopped in the right direction by the last
wave, with the rule of events: Pocock / O'Brien-Fleming. *Brings* is what the other actions earn, as
a multiple of what they must earn to equal the control after costs: 0 is harm, 2 and 3 are success.
*In wave 1*: the events expected there of the action that has most.

{others}

{price}

## Limits

- Waves of 10 to 40 units of which few are random have one or two units of the worse action, and
  rules err slightly more often. Use larger waves.
- Without a single event there is no look. If neither the control nor an action that costs something
  sells anything, the rule never stops.
- Before the first large event of *mixed* outcomes nothing shows that it exists; therefore amounts
  need {amounts} events. Outcomes below 0 (*losses*) need them too.
- Numbers of purchases count as yes/no until the first number above 1.
- With several actions the error is shared, and harm means that all of them are worse: rules err
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
        settings=len(errors),
        trials=trials,
        error=sqrt(ALPHA * (1 - ALPHA) / trials),
        errors=_table(
            ("outcomes", "at random", "settings", "no rule of events", "with it", "one direction"),
            _worst(errors),
        ),
        verdict=verdict(errors),
        other_trials=_trials(others),
        others=_table((*COLUMNS, *(f"brings {pays:g}" for pays in _pays(others))), _found(others)),
        price=price(others),
    )


def _worst(errors: Results) -> list[list[str]]:
    """Return the worst errors of each group of settings."""
    groups: dict[tuple[str, ...], list[Verdicts]] = {}
    for setting, made in errors.items():
        random = "all" if setting.randomised == 1 else "some"
        groups.setdefault((WORTH[setting.worth], random), []).append(made)
    rows = []
    for group, found in groups.items():
        both = np.max([made.errors().T for made in found], axis=0)
        one_way = np.max([made.stopped(way)[:, 1] for made in found for way in WAYS], axis=0)
        cells = [" / ".join(f"{rate:.3f}" for rate in rates) for rates in (*both, one_way)]
        rows.append([*group, str(len(found)), *cells])
    return rows


def _pays(others: Results) -> list[float]:
    return sorted({setting.pays for setting in others})


def _found(others: Results) -> list[list[str]]:
    """Return how often each setting's difference is found, a column for each of its sizes."""
    rows: dict[tuple[str, ...], dict[float, str]] = {}
    for setting, made in others.items():
        found = made.stopped(right_way(setting))[:, 1]
        cell = " / ".join(f"{100 * share:.0f}" for share in found)
        rows.setdefault(tuple(described(setting)), {})[setting.pays] = cell
    return [[*row, *(cells.get(pays, "-") for pays in _pays(others))]
            for row, cells in rows.items()]  # fmt: skip


def right_way(setting: Setting) -> int:
    """Return 1 if the other actions earn more than they must, -1 if less."""
    return 1 if setting.pays > 1 else -1


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
    """Say in how many settings rules err more often than they should, and how often at most."""
    said = []
    for guarded, name in enumerate(("Without the rule of events", "With it")):
        rates = [float(made.errors()[:, guarded].max()) for made in errors.values()]
        above = sum(rate > LIMIT for rate in rates)
        said.append(
            f"{name}, a rule errs in more than {LIMIT:g} of campaigns in {above} of {len(rates)} "
            f"settings, and in at most {max(rates):.3f}."
        )
    silent = sum(made.made.any(axis=1).mean() < SELDOM for made in errors.values())
    said.append(
        f"In {silent} settings fewer than {SELDOM:.0%} of campaigns have a look: no rule errs "
        "there, and none would find anything."
    )
    return "\n".join(textwrap.wrap(" ".join(said), 100))


def price(others: Results) -> str:
    """Say how much power the rule of events takes away."""
    lost = []
    for setting, made in others.items():
        found = made.stopped(right_way(setting))
        lost.append(found[:, 0] - found[:, 1])
    most = np.array(lost).max(axis=1)
    said = (
        f"By the last wave, the rule of events loses more than 5 points of power in "
        f"{int((most > 0.05).sum())} of {len(most)} cells, at most {100 * most.max():.0f} points. "
        "Where looks are made late it finds a difference one or more waves later."
    )
    return "\n".join(textwrap.wrap(said, 100))


def _trials(results: Results) -> int:
    return min(len(made.ends) for made in results.values())


def _percent(share: float) -> str:
    return f"{100 * share:g}%" if share else "0"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
