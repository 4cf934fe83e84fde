"""The page of the quality study: one table of all methods, then waves, then worlds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.progress import paragraph
from benchmarks.quality.methods import DEFAULT, METHODS, REFERENCE, TEST
from benchmarks.quality.peers import ABSENT, BROKEN
from benchmarks.quality.study import (
    BEST_FOR,
    COMMON,
    GIVEN_TO,
    GRIDS,
    WAVES,
    Quality,
    Results,
)
from benchmarks.quality.worlds import CONFIRMATION
from seqbatch.core.arrays import Floats

if TYPE_CHECKING:
    import polars as pl

# ----------------------------------------------------------------------
# Scores by world and method.


#: For each world and method, the score of each campaign that it played.
Scores = Mapping[str, Mapping[str, Floats]]


@dataclass(frozen=True)
class Compared:
    """A method beside the reference, over worlds.

    Parameters
    ----------
    name
        The method.
    worlds
        How many worlds it played in.
    mean
        Its mean score over these.
    ahead, error
        By how much it is ahead of the reference in the same campaigns, and the standard error.
    rank
        Its mean rank among all methods of a world.
    worst, where
        Its score less the best linear default's, in the world where that is least.
    """

    name: str
    worlds: int
    mean: float
    ahead: float
    error: float
    rank: float
    worst: float
    where: str


def scores_of(campaigns: "pl.DataFrame", worlds: Iterable[str]) -> Scores:
    """Return the scores on the common grid."""
    waves, grid = COMMON
    table = campaigns.filter(waves=waves, grid=grid).sort("number")
    return {
        world: {
            str(name): own["score"].to_numpy()
            for (name,), own in table.filter(world=world).group_by("method", maintain_order=True)
        }
        for world in worlds
    }


def paired(first: Iterable[Floats], second: Iterable[Floats]) -> tuple[float, float]:
    """Return the mean difference over worlds, of campaigns that both played, and its error."""
    gaps = [a[: len(b)] - b[: len(a)] for a, b in zip(first, second, strict=True)]
    squares = [gap.var(ddof=1) / len(gap) for gap in gaps if len(gap) > 1]
    error = float(np.sqrt(sum(squares)) / len(gaps)) if len(squares) == len(gaps) else np.nan
    return float(np.mean([gap.mean() for gap in gaps])), error


def compared(scores: Scores) -> list[Compared]:
    """Return all methods, the best mean rank first."""
    names = list(dict.fromkeys(name for own in scores.values() for name in own))
    found = [_compared(scores, name) for name in names]
    return sorted(found, key=lambda one: one.rank)


def _compared(scores: Scores, name: str) -> Compared:
    own = {world: scored for world, scored in scores.items() if name in scored}
    reference = [one.get(REFERENCE, one[name]) for one in own.values()]
    ahead, error = paired([one[name] for one in own.values()], reference)
    gaps = {world: _behind(scored, name) for world, scored in own.items()}
    where = min(gaps, key=lambda world: gaps[world])
    ranks = [1 + sum(gap(one, name, other) < 0 for other in one) for one in own.values()]
    mean = float(np.mean([typical(one, name) for one in own.values()]))
    return Compared(name, len(own), mean, ahead, error, float(np.mean(ranks)), gaps[where], where)


def gap(scored: Mapping[str, Floats], name: str, other: str) -> float:
    """Return how far one method is ahead of another, in campaigns of a world that both played."""
    both = min(len(scored[name]), len(scored[other]))
    return float((scored[name][:both] - scored[other][:both]).mean())


def typical(scored: Mapping[str, Floats], name: str) -> float:
    """Return a method's mean score in a world, as if it had played all campaigns of it."""
    if REFERENCE not in scored:
        return float(scored[name].mean())
    return float(scored[REFERENCE].mean()) + gap(scored, name, REFERENCE)


def _behind(scored: Mapping[str, Floats], name: str) -> float:
    """Return a method's score less the best linear default's."""
    linear = [other for other in scored if METHODS[other].linear]
    return min((gap(scored, name, other) for other in linear), default=0.0)


# ----------------------------------------------------------------------
# The page.


PAGE = """# Which method earns most?

{answer}

Written by `python -m benchmarks.quality`. Policies of this package, methods written by hand and
libraries as they ship play the same campaigns: the same units and outcomes, the same waves and the
same uniformly random first wave. A score of 0 is uniformly random assignment, 100 the best action
for every unit. Rows have a constant and standardised features, and each action has one model.

By hand: scikit-learn's *logistic regressions* (ridge where outcomes are numbers), *ridge by
cross-validation* or *boosted trees*, fitted to all outcomes so far; the highest prediction wins.
*A/B test*: every unit after the first wave gets its best action. Vowpal Wabbit gets products of
features and actions (`-q sa`). Thompson(noise) is told the standard deviation of the noise. The
default of campaigns is JointRidge, with wave levels if there are features.

{ran}

## {count} worlds, {waves} {grid} waves

{legend}

{summary}

{aims}

## What was tried

JointRidge was chosen on the sixteen worlds with other seeds; nothing may be chosen on the others.
No better: larger penalties, the one-standard-error rule, weights by cross-validation, scales by
feature, Fisher's discriminant, and averaging in the last wave alone or in all. A wider prior of how
scales differ earns more, but more often gives all units the same action. A point mass at no
deviations by feature, with odds of 1 (0.1) to the rest, earns 10.5 ± 2.7 (2.0 ± 1.0) points more in
Hillstrom conversions and 6.2 ± 3.2 (0.0) less in logistic 2%; 75% (60%) of the campaigns of
Hillstrom visits are then locked in, not a quarter.

## Waves

{grids}

{by_grid}

{lock_verdict}

## By world

{by_world_text}

{by_world}
"""

LEGEND = """
*Score*: the mean over worlds. *Beside {reference}*: the difference in the same campaigns
(standard errors over seeds at most {error:.1f}). *Rank*: among all methods of a world, on average.
*Worst*: the score less that of the best linear default, in the world where this is least; linear
defaults are {linear}. Of slow methods, which play fewer campaigns, scores are {reference}'s plus
the difference in campaigns that both played.{confirmed}{log} *Seconds*: of processor time for a
campaign.{yes_no}
"""
CONFIRMED = " *Others*: the mean score in {count} worlds for confirmation."
LOG = """
*Visits* and *conversions*: Hillstrom's log of 64,000 customers, replayed in random orders; methods
learn the outcomes of the third of the customers whom the log gave the same e-mail. The number is
the rate of such customers less that of an A/B test, in percentage points; standard errors are
{errors}, largest for slow methods, and leave out that the log itself is a sample.
"""

GRID_TEXT = """
Our {count} policies with the best mean ranks: the mean score over all worlds, and after the stroke
how many % of the campaigns are *locked in*:
the last wave gives an action to less than {given:.0%} of its units, and the action is best for
more than {best:.0%} of them. *Planned* sizes are those of `plan(quick=True)` for someone who knows
a world's effect and noise; {refused}
"""

BY_WORLD_TEXT = """
Scores of the method with the best mean rank, of the defaults, of the test, and of the best method.
{confirmed}Rewards in the tables with classes (Covertype to wine) are 1 for a right guess.
Hillstrom's outcomes are drawn from a logistic model of each e-mail, fitted to the log. The other
worlds are made: `benchmarks/quality/worlds.py`. The largest standard error is {error:.1f}.
"""
#: How many policies have a row by waves.
POLICIES = 8


def page(study: Quality, results: Results) -> str:
    """Return the page."""
    campaigns = results.campaigns
    main = [world for world in study.worlds if world not in CONFIRMATION]
    others = [world for world in study.worlds if world in CONFIRMATION]
    scores = scores_of(campaigns, main or others)
    confirmed = scores_of(campaigns, others if main else [])
    rows, log = compared(scores), _beside_test(results.replays)
    return PAGE.format(
        answer=_answer(rows),
        ran=ran(study, campaigns),
        count=_word(len(scores)),
        waves=COMMON[0],
        grid=COMMON[1],
        legend=_legend(study, rows, confirmed, log),
        summary=_summary(rows, confirmed, log, seconds_of(campaigns)),
        aims=_aims(rows, campaigns, log),
        grids=_grid_text(results.plans, _ours(rows)),
        by_grid=_by_grid(campaigns, _ours(rows)),
        lock_verdict=_lock_verdict(campaigns),
        by_world_text=_by_world_text(scores, confirmed),
        by_world=_by_world(rows, {**scores, **confirmed}),
    )


def _answer(rows: Sequence[Compared]) -> str:
    top = max(rows, key=lambda one: one.mean)
    test = "".join(
        f" An A/B test, then its best action for all units, comes to {one.mean:.1f}."
        for one in rows
        if one.name == TEST
    )
    return wrapped(
        f"{top.name} has the highest score over the worlds ({top.mean:.1f} of 100), and "
        f"{rows[0].name} the best mean rank ({rows[0].rank:.1f}).{test}"
    )


def ran(study: Quality, campaigns: "pl.DataFrame") -> str:
    """Say what was run, and which libraries are left out."""
    reasons = "; ".join(f"{name}, because {why}" for name, why in BROKEN.items())
    return wrapped(f"{played(study, campaigns)} Not in the table: {reasons}.")


def played(study: Quality, campaigns: "pl.DataFrame") -> str:
    """Say how many campaigns were played, and how long that took."""
    fewer = [
        f"{name} {most}"
        for name in study.methods
        if (most := METHODS[name].seeds or study.seeds) < study.seeds
    ]
    hours = campaigns["seconds"].sum() / 3600
    text = (
        f"This run: seed {study.seed}, {study.seeds} campaigns of each method in each world"
        f"{f' (fewer of slow ones: {_listed(fewer)})' if fewer else ''}, {len(campaigns):,} "
        f"campaigns in all, {60 * hours:.0f} minutes of processor time for the methods. "
    )
    if ABSENT:
        text += f"Left out, as they were not installed: {_listed(ABSENT)}. "
    return wrapped(text)


def seconds_of(campaigns: "pl.DataFrame") -> Mapping[str, float]:
    import polars as pl

    waves, grid = COMMON
    table = campaigns.filter(waves=waves, grid=grid).group_by("method").agg(pl.mean("seconds"))
    return dict(table.iter_rows())


def maker_of(name: str) -> str:
    kind = METHODS[name].kind
    return kind if kind in ("seqbatch", "by hand") else "library"


# ----------------------------------------------------------------------
# The table of all methods.


#: For each method and outcome of the log, its rate less the test's in each replay, in points.
Beside = Mapping[str, Mapping[str, Floats]]


def _beside_test(replays: "pl.DataFrame | None") -> Beside:
    if replays is None or TEST not in set(replays["method"]):
        return {}
    found: dict[str, dict[str, Floats]] = {}
    for outcome in dict.fromkeys(replays["outcome"]):
        test = _rates(replays, outcome, TEST)
        for name in dict.fromkeys(replays["method"]):
            own = _rates(replays, outcome, name)
            found.setdefault(name, {})[outcome] = own - test[: len(own)]
    return found


def _rates(replays: "pl.DataFrame", outcome: str, name: str) -> Floats:
    table = replays.filter(outcome=outcome, method=name).sort("number")
    rates: Floats = 100 * table["value"].to_numpy()
    return rates


def _legend(study: Quality, rows: Sequence[Compared], confirmed: Scores, log: Beside) -> str:
    ours = [name for name in study.methods if METHODS[name].kind == "seqbatch"]
    but = [name for name in ours if not METHODS[name].linear]
    by_hand = [name for name in study.methods if METHODS[name].linear and name not in ours]
    linear = _listed([*by_hand, "our policies"]) + (f", but for {_listed(but)}" if but else "")
    few = [name for name in study.methods if METHODS[name].yes_or_no]
    return wrapped(
        LEGEND.format(
            reference=REFERENCE,
            error=max((one.error for one in rows if one.name != REFERENCE), default=0.0),
            linear=linear,
            confirmed=CONFIRMED.format(count=_word(len(confirmed)).lower()) if confirmed else "",
            log=" " + LOG.strip().format(errors=_errors(log)) if log else "",
            yes_no=f" Worlds of yes/no outcomes only: {_listed(few)}." if few else "",
        )
    )


def _errors(log: Beside) -> str:
    """Say how large the standard errors of the log's rates are, by outcome."""
    sizes: dict[str, list[float]] = {}
    for name, own in log.items():
        for outcome, gaps in own.items():
            if name != TEST:
                sizes.setdefault(outcome, []).append(_error(gaps))
    return _listed([
        f"{min(one):.2f} to {max(one):.2f} ({outcome}s)" for outcome, one in sizes.items()
    ])  # fmt: skip


def _summary(
    rows: Sequence[Compared], confirmed: Scores, log: Beside, seconds: Mapping[str, float]
) -> str:
    others = {one.name: one.mean for one in compared(confirmed)} if confirmed else {}
    heads = ["method", "score", f"beside {REFERENCE}", "rank", "worst"]
    heads += ["others"] * bool(others) + ["visits", "conversions"] * bool(log) + ["seconds"]
    lines = []
    for one in rows:
        beside = "" if one.name == REFERENCE else f"{one.ahead:+.1f}"
        cells = [one.name, f"{one.mean:.1f}", beside, f"{one.rank:.1f}"]
        cells.append(f"{one.worst:+.0f} ({one.where})")
        if others:
            cells.append(f"{others[one.name]:.1f}" if one.name in others else "")
        cells += [
            "" if one.name == TEST else f"{gaps.mean():+.2f}"
            for gaps in log.get(one.name, {}).values()
        ]
        lines.append([*cells, f"{seconds[one.name]:.2f}"])
    return markdown(heads, lines)


#: The aims: a mean of 62, and at most 2 behind the best linear default in every world.
MEAN, BEHIND = 62, -2


def _aims(rows: Sequence[Compared], campaigns: "pl.DataFrame", log: Beside) -> str:
    """Set what was aimed at beside what the default reaches, with and without wave levels."""
    own = [one for one in rows if one.name in (DEFAULT, f"{DEFAULT}, wave levels")]
    best = rows[0]
    aims = [
        (f"a score of {MEAN} or more", [f"{one.mean:.1f}" for one in own]),
        (f"the best mean rank (here {best.rank:.1f}, {best.name})",
         [f"{one.rank:.1f}" for one in own]),
        (f"never more than {-BEHIND} behind the best linear default",
         [f"{one.worst:+.0f} ({one.where})" for one in own]),
        ("never locked in, on any grid",
         [f"up to {max(_locked(campaigns, one.name)):.0f}%" for one in own]),
    ]  # fmt: skip
    if log:
        aims.append(
            ("on the log never behind an A/B test",
             [" and ".join(f"{gap.mean():+.2f}" for gap in log[one.name].values()) for one in own])
        )  # fmt: skip
    if not own:
        return ""
    heads = ("aim of a default", *(one.name for one in own))
    return markdown(heads, [(aim, *reached) for aim, reached in aims])


# ----------------------------------------------------------------------
# Waves, and worlds.


def _ours(rows: Sequence[Compared]) -> list[str]:
    """Return the policies of this package with the best mean ranks."""
    return [one.name for one in rows if METHODS[one.name].kind == "seqbatch"][:POLICIES]


def _grid_text(plans: "pl.DataFrame | None", names: Sequence[str]) -> str:
    count = _word(len(names)).lower()
    return wrapped(
        GRID_TEXT.format(count=count, given=GIVEN_TO, best=BEST_FOR, refused=_refused(plans))
    )


def _refused(plans: "pl.DataFrame | None") -> str:
    import polars as pl

    if plans is None:
        return ""
    none = plans.filter(pl.col("ends").list.len() == 0)
    where = [
        f"{world} ({', '.join(str(one) for one in sorted(own['waves']))} waves)"
        for (world,), own in none.group_by("world", maintain_order=True)
    ]
    if not where:
        return "the planner refuses none."
    return f"doubling ones stand in where the planner refuses: {_listed(where)}."


def _by_grid(campaigns: "pl.DataFrame", names: Sequence[str]) -> str:
    """Return the mean score and the % of campaigns locked in, on every grid."""
    rows = []
    for name in names:
        both = zip(_by(campaigns, name, "score"), _locked(campaigns, name), strict=True)
        rows.append((name, *(f"{round(score)}/{round(share)}" for score, share in both)))
    return markdown(("method", *(f"{waves} {grid}" for waves in WAVES for grid in GRIDS)), rows)


def _by(campaigns: "pl.DataFrame", name: str, column: str) -> list[float]:
    """Return the mean of the worlds' means on every grid."""
    import polars as pl

    means = campaigns.filter(method=name).group_by("waves", "grid", "world").agg(pl.mean(column))
    return [
        float(means.filter(waves=waves, grid=grid)[column].to_numpy().mean())
        for waves in WAVES
        for grid in GRIDS
    ]


def _locked(campaigns: "pl.DataFrame", name: str) -> list[float]:
    """Return the % of campaigns that are locked in on every grid."""
    return [100 * share for share in _by(campaigns, name, "locked")]


def _lock_verdict(campaigns: "pl.DataFrame") -> str:
    table = campaigns.filter(locked=True, method=DEFAULT)
    if table.is_empty():
        return f"No campaign of {DEFAULT} is locked in."
    where, count = table["world"].value_counts(sort=True).row(0)
    return wrapped(
        f"Of the campaigns of {DEFAULT} that are locked in ({len(table)}), {count} are in {where}. "
        "If actions differ little by feature, the best methods give nearly all units the same one, "
        "which this measure counts, too."
    )


def _by_world_text(scores: Scores, confirmed: Scores) -> str:
    every = (*scores.values(), *confirmed.values())
    errors = [_error(one) for own in every for one in own.values()]
    told = f"The last {_word(len(confirmed)).lower()} confirm. " if confirmed else ""
    return wrapped(BY_WORLD_TEXT.format(confirmed=told, error=max(errors)))


def _by_world(rows: Sequence[Compared], scores: Scores) -> str:
    played = {one.name for one in rows}
    shown = dict.fromkeys((rows[0].name, DEFAULT, f"{DEFAULT}, wave levels", TEST))
    names = [name for name in shown if name in played]
    lines = []
    for world, own in scores.items():
        best = max(own, key=lambda name: typical(own, name))
        cells = [f"{round(typical(own, name))}" if name in own else "" for name in names]
        lines.append((world, *cells, f"{round(typical(own, best))} ({best})"))
    return markdown(("world", *names, "best"), lines)


# ----------------------------------------------------------------------
# Words and tables.


def _error(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def wrapped(text: str) -> str:
    return "\n".join(paragraph(text.strip())[:-1])


def _word(count: int) -> str:
    return {2: "Two", 6: "Six", 7: "Seven", 8: "Eight", 9: "Nine", 16: "Sixteen"}.get(
        count, str(count)
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
