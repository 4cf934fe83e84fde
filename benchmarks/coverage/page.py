"""The page on coverage: each quantity's cells summarised, the worst cells, and where it fails."""

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.coverage.measures import (
    ACTION,
    BY_SHARES,
    BY_SIZE,
    CONTROL,
    GIVEN,
    INTERVALS,
    JOINT,
    LATEST,
    LIFT_CHANGED,
    NAIVE,
    NEXT,
    OVER_CONTROL,
    OVER_RANDOM,
    SIGNED,
    TAIL,
    TOO_LATE,
    VALUE,
    WRONGLY,
)
from benchmarks.coverage.study import (
    CAREFUL,
    CHANGE,
    CONCERNS,
    GROUPS,
    JOINT_EVERY,
    LOW,
    MOSTLY,
    NEVER_BETTER,
    SIDE,
    estimate,
    fewest,
    valid,
)
from seqbatch.lab.experiment import Claim
from seqbatch.simulation.resumable_tasks import Row

if TYPE_CHECKING:
    import polars as pl

#: So many of the worst cells are listed.
WORST = 4
MEANING = {
    CONTROL: "mean outcome if every unit got control",
    ACTION: "the same of the last action",
    BY_SIZE: "lift of the last action over the units of the campaign; findings begin with it",
    BY_SHARES: "lift if it was the same in every wave; looks use it",
    JOINT: f"lifts of all actions together (Dunnett), in one of {JOINT_EVERY} campaigns",
    VALUE: "mean outcome of the campaign as run",
    OVER_CONTROL: "gain of the campaign as run over control for every unit",
    OVER_RANDOM: "its gain over random assignment",
    NEXT: "gain over control of the rule suggested next, judged on the last wave",
    LATEST: "lift in the latest waves alone: at least a fifth of all units",
}

PAGE = """# Do the printed intervals hold?

Written by `python -m benchmarks.coverage`: simulated campaigns, analysed by the code that you run,
and compared with the truth. {campaigns:,} campaigns or more in each of {cells} cells of policy,
outcome, change between waves, missing outcomes, size and design. The standard error of a coverage
of 0.95 is {error:.3f}.

The claim: nominal 95% intervals cover at least {low:.0%} and miss at most {side:.1%} on each side,
in every cell that prints the interval in {mostly:.0%} or more of its campaigns. Coverage above
{careful:.0%} is allowed. Outcomes with few events print no interval ("too few events").

{verdict}

## Claims

A claim is held or fails if its 95% interval, widened for the number of cells, leaves no doubt.
Tests of the lift and of the level reject at 5% where neither changes; looks are made after every
wave, at the lift of the last action, where no action differs from control.

{claims}

## Intervals

Coverage over all cells of a group, and the lowest of a cell in brackets. *Printed*: cells that
mostly print the interval. *Missed*: the largest share missed on one side. *Wrong sign*: the largest
share of intervals in a cell that claim a sign which the truth does not have.

{quantities}

## Verdicts

{verdicts}

## The worst cells

Of {tails:,} shares missed on one side in cells with a claim, the {worst} that are least likely if
2.5% are missed:

{worst_cells}

## Where it does not hold

Amounts are skewed, and so are scores whose model is wrong: with skewness 0.15, Student's interval
misses about 3.8% on one side and 1.2% on the other. If a lift changes its sign in the last wave,
the next rule is better than its interval says.

{limits}
"""


def page(table: "pl.DataFrame", claims: Sequence[Claim]) -> str:
    """Return the page."""
    campaigns = fewest(table)
    one = estimate(0.95 * campaigns, campaigns)
    return PAGE.format(
        campaigns=campaigns,
        cells=table["cell"].n_unique(),
        error=one.error,
        low=LOW,
        side=SIDE,
        mostly=MOSTLY,
        careful=CAREFUL,
        verdict=_verdict(claims),
        claims=_claims(claims),
        quantities=_quantities(table),
        verdicts=_verdicts(table),
        worst=WORST,
        tails=len(_missed(table)),
        worst_cells=_worst(table),
        limits=_limits(table),
    )


def _verdict(claims: Sequence[Claim]) -> str:
    failed = [f"{claim.source} ({claim.text})" for claim in claims if claim.held is False]
    held = sum(claim.held is True for claim in claims)
    text = f"Of {len(claims)} claims {held} are held"
    if not failed:
        return f"{text}, and none fails; the others need more campaigns to be decided."
    return f"{text}, and {len(failed)} fail: {'; '.join(failed)}."


def _claims(claims: Sequence[Claim]) -> str:
    """Return a table of the claims that are not of an interval."""
    words = {True: "held", False: "**did not hold**", None: "not decided"}
    others = [(c.text, c.measured, words[c.held]) for c in claims if c.source not in MEANING]
    return _table(("claim", "measured", ""), others)


def _quantities(table: "pl.DataFrame") -> str:
    """Return a row for each interval, with its cells summarised by group."""
    import polars as pl

    rows = []
    for name, meaning in MEANING.items():
        mostly = valid(table, name)
        cells = len(table.filter(pl.col("claimed"), quantity=name))
        cases = list(mostly.iter_rows(named=True))
        signs = [row["wrong"] / row["printed"] for row in cases]
        missed = [row[side] / row["printed"] for row in cases for side in ("above", "below")]
        rows.append(
            (
                f"{name}: {meaning}",
                f"{len(mostly)} of {cells}",
                *(_covered(mostly.filter(group=group)) for group in GROUPS),
                f"{max(missed):.3f}" if missed else "-",
                f"{max(signs):.3f}" if name in SIGNED and signs else "-",
            )
        )
    return _table(("interval", "printed", *GROUPS, "missed", "wrong sign"), rows)


def _covered(found: "pl.DataFrame") -> str:
    """Return the coverage over all cells of a group, and the lowest."""
    if not len(found):
        return "-"
    missed = sum(sum(found[side].to_list()) for side in ("above", "below"))
    missed /= sum(found["printed"].to_list())
    return f"{1 - missed:.3f} ({min(found['share'].to_list()):.3f})"


def _verdicts(table: "pl.DataFrame") -> str:
    """Say how often verdicts recommend an action, and are wrong."""
    tested = set(table.filter(quantity=LIFT_CHANGED)["cell"])
    right: list[float] = []
    wrong: list[float] = []
    false: list[float] = []
    late: list[float] = []
    for row in table.filter(quantity=GIVEN).iter_rows(named=True):
        own = table.filter(cell=row["cell"])
        gone, after = (own.filter(quantity=name).row(0, named=True) for name in (WRONGLY, TOO_LATE))
        given = row["above"] / row["campaigns"]
        if row["cell"] not in tested:
            false.append(gone["above"] / gone["campaigns"])
            late.append(after["above"] / after["campaigns"])
        else:
            (wrong if gone["most"] == NEVER_BETTER else right).append(given)
    lines = []
    for shares, what in (
        (wrong, "No action is better in any wave"),
        (right, "Lifts differ from 0 and are the same in all waves"),
    ):
        if shares:
            lines.append(
                f'- {what} ({len(shares)} cells): the verdict is "give" in {median(shares):.3f} '
                f"(median) and at most {max(shares):.3f} of campaigns."
            )
    if false:
        lines.append(
            f'- Lifts change ({len(false)} cells): "give" is false in the waves that the verdict '
            f"looks at in at most {max(false):.3f}, and in the last wave in at most "
            f"{max(late):.3f}."
        )
    return "\n".join(lines)


def _missed(table: "pl.DataFrame") -> list[tuple[float, str, Row]]:
    """Return all shares missed on one side, the least likely at 2.5% first."""
    import polars as pl

    rows = table.filter(
        pl.col("claimed"), pl.col("shown") >= MOSTLY, pl.col("printed") > 1,
        pl.col("quantity").is_in(list(MEANING)),
    )  # fmt: skip
    missed = [
        (row[side] / row["printed"], side, row)
        for row in rows.iter_rows(named=True)
        for side in ("above", "below")
    ]
    return sorted(missed, key=lambda one: -(one[0] - TAIL) * sqrt(one[2]["printed"]))


def _worst(table: "pl.DataFrame") -> str:
    return _table(
        ("missed", "truth", "coverage", "quantity", "cell"),
        [
            (
                f"{share:.3f}",
                side,
                f"{row['share']:.3f}",
                row["quantity"],
                row["cell"],
            )
            for share, side, row in _missed(table)[:WORST]
        ],
    )


def _limits(table: "pl.DataFrame") -> str:
    """Return where no claim is made, what was measured there, and what is not printed."""
    import polars as pl

    rows = []
    for reason in table.filter(pl.col("beyond") != "")["beyond"].unique(maintain_order=True):
        found = [
            row
            for row in table.filter(beyond=reason).iter_rows(named=True)
            if row["quantity"] in INTERVALS
            and row["quantity"] not in (NAIVE, BY_SHARES)
            and row["printed"] > 1
        ]
        low = min(found, key=lambda row: row["share"])
        of = _listed(CONCERNS.get(reason) or ["all"])
        side = max(row[side] / row["printed"] for row in found for side in ("above", "below"))
        rows.append((reason, of, f"{low['share']:.3f} ({low['quantity']})", f"{side:.3f}"))
    heads = ("nothing is claimed for", "intervals", "lowest coverage", "missed most on one side")
    lines = [_table(heads, rows), ""] if rows else []
    changed = table.filter(
        (pl.col("group") == CHANGE) & (pl.col("printed") > 1), quantity=BY_SHARES
    )
    if len(changed):
        lines.append(
            "- **By shares under a change**: another average than the lift over the campaign's "
            f"units. It covers that in {min(changed['share'].to_list()):.3f} of campaigns of the "
            "worst cell."
        )
    shares = table.filter(quantity=TOO_LATE).select(pl.col("above") / pl.col("campaigns"))
    lines.append(
        "- **A turn in the last of several small waves**: the verdict looks at the fewest last "
        "waves with enough units and outcomes of both actions. It recommends an action whose lift "
        f"is gone in the last wave in {max(shares['above'].to_list()):.3f} of campaigns of the "
        "worst cell."
    )
    some = table.filter(
        pl.col("claimed"), pl.col("shown") < MOSTLY, pl.col("printed") >= 20,
        pl.col("quantity").is_in(INTERVALS),
    )  # fmt: skip
    if len(some):
        lines.append(
            f"- **Events close to the number needed** ({len(some)} intervals): printed in less "
            f"than half of a cell's campaigns. Lowest coverage {min(some['share'].to_list()):.3f}."
        )
    none = table.filter(
        pl.col("printed") == 0, pl.col("quantity").is_in(INTERVALS), pl.col("claimed")
    )
    lines.append(
        f"- **Too few events**: {len(none)} intervals of {none['cell'].n_unique()} cells are never "
        "printed."
    )
    return "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
