"""The page on replanning: its table, and whether the aim was met."""

import math
from dataclasses import dataclass

from benchmarks.progress import paragraph
from seqbatch.core.arrays import Floats


@dataclass(frozen=True)
class Setting:
    """A layout, and the stated effect over the true one."""

    layout: str
    factor: float


def share(part: Floats, whole: Floats) -> tuple[float, float]:
    """Return a ratio of means over campaigns, and its standard error (the delta method)."""
    value = float(part.mean() / whole.mean())
    error = float((part - value * whole).std(ddof=1) / math.sqrt(len(part)) / abs(whole.mean()))
    return value, error


def described(setting: Setting, lost: Floats) -> str:
    """Return a setting's row of the table."""
    means = [f"{column.mean():.0f}" for column in lost.T]
    before, right, after, knowing, hedged, both = lost.T
    if setting.factor == 1:
        cells = [
            "costs {:.1%} ± {:.1%}".format(*share(part - start, right))
            for part, start in ((after, before), (knowing, before), (both, hedged))
        ]
    else:
        cells = [
            "{:.0%} ± {:.0%}".format(*share(before - part, before - right))
            for part in (after, knowing, both)
        ]
    return f"| {' | '.join([setting.layout, said(setting.factor), *means, *cells])} |"


def said(factor: float) -> str:
    """Return how wrong the stated effect is."""
    if factor == 1:
        return "right"
    return f"{factor:g} times too large" if factor > 1 else f"{1 / factor:g} times too small"


COLUMNS = (
    "layout", "stated effect", "planned", "right plan", "replanned", "told", "law",
    "law, replanned", "recovered", "by the told", "by law, replanned",
)  # fmt: skip
PAGE_TEXT = """# What does replanning save?

Written by `python -m benchmarks.replanning`. Every campaign has {units:,} units, {actions} actions
and {waves} waves, with least squares and greedy choices; the true effect is {effect:g}, the noise
{noise:g}. The shared layout has a vector of {dim} numbers for each action; the block layout
{features} features, a constant and one model per action.

- *planned* treats the stated effect as certain (`effect_spread=1`);
- *right plan* is planned for the true effect;
- *replanned* adopts the proposal after every wave;
- *told* learns the true effect after the first wave: the most that knowing it can still save;
- *law* is the default of `plan`, a distribution of effects around the stated one.

Regret, the mean of {campaigns} campaigns or more (standard errors at most {error:.0%} of it). The
last columns are shares recovered of the loss: the regret of *planned* less that of the *right
plan*.

{columns}
{table}

{verdict}
If the stated effect is too small, the first wave is too large, and its loss comes before the first
outcome: only a first wave that does not trust the guess helps (*law*). If it is too large, a larger
or more random second wave can recover some of the loss. *Law* costs a little if the guess is right.
"""

#: What replanning was meant to recover of the loss, and may cost where the guess was right.
AIM, PRICE = 0.6, 0.02


def verdict(results: dict[Setting, Floats]) -> str:
    """Say where the aim was met, where it was not, and where it cannot be met."""
    wrong = {setting: lost.T for setting, lost in results.items() if setting.factor != 1}
    recovered = {
        setting: [share(before - part, before - right)[0] for part in (after, knowing, both)]
        for setting, (before, right, after, knowing, _, both) in wrong.items()
    }
    beyond = {setting: row for setting, row in recovered.items() if row[1] < AIM}
    within = {setting: row for setting, row in recovered.items() if row[1] >= AIM}
    lines = [
        f"The aim was to recover {AIM:.0%} of the loss where the guess is wrong by 4 or more, at "
        f"a cost of less than {PRICE:.0%} where it is right. Replanning alone meets it in "
        f"{_met(recovered, 0)}, the law of effects with replanning in {_met(recovered, 2)}. "
        f"In {len(beyond)} of {len(wrong)} settings even the told recovers less."
    ]
    if within:
        rest = (
            f"{_named(one)}: told {b:.0%}, replanned {a:.0%}" for one, (a, b, _) in within.items()
        )
        lines.append(f"In the others it is within reach ({'; '.join(rest)}).")
    costs = [
        f"{setting.layout} {share(lost.T[2] - lost.T[0], lost.T[1])[0]:.1%}"
        for setting, lost in results.items()
        if setting.factor == 1
    ]
    if costs:
        lines.append(f"Where the guess is right, replanning costs {' and '.join(costs)}.")
    return "\n".join(paragraph(" ".join(lines)))


def _met(recovered: dict[Setting, list[float]], column: int) -> str:
    number = sum(row[column] >= AIM for row in recovered.values())
    return f"{number} of {len(recovered)} settings"


def _named(setting: Setting) -> str:
    return f"{setting.layout}, {said(setting.factor)}"


def page(results: dict[Setting, Floats], **facts: float) -> str:
    """Return the page; the facts are numbers that its text names."""
    table = "\n".join(described(setting, lost) for setting, lost in results.items())
    columns = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"
    runs = list(results.values())
    errors = [lost.std(axis=0, ddof=1) / lost.mean(axis=0) / len(lost) ** 0.5 for lost in runs]
    return PAGE_TEXT.format(
        columns=columns, table=table, verdict=verdict(results), campaigns=min(map(len, runs)),
        error=max(float(one.max()) for one in errors), **facts,
    )  # fmt: skip
