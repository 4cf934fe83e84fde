"""The page on coverage: each quantity's cells summarised, the worst cells, and where it fails."""

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.coverage.measures import (
    ACTION,
    BETTER,
    BY_SHARES,
    BY_SIZE,
    CONTROL,
    GIVEN,
    INTERVALS,
    JOINT,
    LATEST,
    LEVEL_CHANGED,
    LIFT_CHANGED,
    LOOKS,
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
WORST = 20
MEANING = {
    CONTROL: "The mean outcome if every unit got control, over the units of the campaign.",
    ACTION: "The same of the last action.",
    BY_SIZE: "The lift of the last action over control, over the units of the campaign: the number "
    "that findings lead with.",
    BY_SHARES: "The lift if it was the same in every wave; cells without a change. Looks use it.",
    JOINT: f"The lifts of all actions together (Dunnett), in one of {JOINT_EVERY} campaigns of "
    "cells with three or more actions: no lift may be missed.",
    VALUE: "The mean outcome of the campaign as it was run.",
    OVER_CONTROL: "The gain of the campaign as run over giving everybody control.",
    OVER_RANDOM: "The gain of the campaign as run over random assignment.",
    NEXT: "The gain over control of the rule that the data suggest, judged on the last wave.",
    LATEST: "The lift of the last action in the latest waves alone: at least a fifth of all units.",
}

PAGE = """# Where the printed intervals hold

Written by `python -m benchmarks.coverage`: simulated campaigns, analysed by the code that you run,
beside what is true in them. {campaigns:,} campaigns or more in each of {cells} cells of policy,
outcome, change between waves, missing outcomes, size and design. A share of 0.95 has a standard
error of {error:.3f}.

Intervals have a nominal coverage of 95%, so the truth should lie above 2.5% of them and below
2.5%. The claim is a coverage of at least {low:.0%} and at most {side:.1%} missed on each side, in
every cell in which the interval is printed in {mostly:.0%} or more of the campaigns. Coverage above
{careful:.0%} is allowed: such intervals are wider than necessary. Outcomes with few events print no
interval ("too few events"); *printed* is the share of campaigns that print one.

{verdict}

## Claims

A claim is held or fails if its 95% interval, widened for the number of cells, leaves no doubt.

{claims}

## Intervals

*Together*: the coverage over all cells of a row. *Above* and *below*: the largest share of
campaigns in any of these cells whose truth lies above or below the interval. *Sign*: the largest
share of intervals that claim a sign which the truth does not have. *Width*: the median over cells,
in the unit of the outcome.

{quantities}

## Tests, looks and verdicts

*Test of the lift* and *of the level* reject at 5% where neither changes. Looks are made after every
wave, at the lift of the last action, where no action differs from control.

{tests}

*Give*: how often the verdict recommends an action; *false* if its lift is 0 or negative in the
latest waves that the verdict looks at, *too late* if that is so in the last wave alone, when small
waves make it look at several. *Unconfirmed*: better over the campaign, but not in the latest waves.
The cells are those whose lifts change.

{verdicts}

## The worst cells

The {worst} shares missed on one side that are least likely if 2.5% are missed, of all quantities
and all cells in which the interval is mostly printed, with cells for which nothing is claimed. Of
{tails:,} such shares some are large by chance.

{worst_cells}

## Where it does not hold

Three reasons were found by this study. Two are skewness: of an estimate with skewness 0.15,
Student's interval misses about 3.8% on one side and 1.2% on the other. Amounts are skewed, and so
are scores whose model is wrong. The third is that the rule to run next is judged by rules fitted
without a part of the last wave: if the lift changed its sign there, they choose differently from
the rule of all units, which is then better than it is said to be.

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
        quantities="\n\n".join(_quantity(table, name) for name in INTERVALS if name != NAIVE),
        tests=_tests(table),
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
    words = {True: "held", False: "**did not hold**", None: "not decided"}
    rows = [(c.source, c.text, c.measured, words[c.held]) for c in claims]
    return _table(("of", "the claim", "measured", ""), rows)


def _quantity(table: "pl.DataFrame", name: str) -> str:
    """Return one quantity's cells, summarised by group."""
    import polars as pl

    claimed = table.filter(pl.col("claimed"), quantity=name)
    mostly = valid(table, name)
    rows = []
    for group in [one for one in GROUPS if one in claimed["group"].to_list()]:
        every, rows_shown = claimed.filter(group=group), mostly.filter(group=group)
        found = list(rows_shown.iter_rows(named=True))
        if not found:
            rows.append((group, f"0 of {len(every)}", *("-" * 7)))
            continue
        shares = [row["share"] for row in found]
        signs = [row["wrong"] / row["printed"] for row in found]
        missed, of = (
            sum(row["above"] + row["below"] for row in found),
            sum(row["printed"] for row in found),
        )
        rows.append(
            (
                group,
                f"{len(found)} of {len(every)}",
                f"{min(row['shown'] for row in found):.2f}",
                f"{1 - missed / of:.3f}",
                f"{min(shares):.3f} / {median(shares):.3f} / {max(shares):.3f}",
                f"{_largest(found, 'above'):.3f}",
                f"{_largest(found, 'below'):.3f}",
                f"{max(signs):.3f}" if name in SIGNED else "-",
                f"{median(row['width'] for row in found):.3g}",
            )
        )
    heads = (
        "cells", "printed in", "printed at least", "together", "lowest / median / highest", "above",
        "below", "sign", "width",
    )  # fmt: skip
    return f"### {name.capitalize()}\n\n{MEANING[name]}\n\n{_table(heads, rows)}"


def _largest(rows: Sequence[Row], side: str) -> float:
    return max(float(row[side] / row["printed"]) for row in rows)


def _tests(table: "pl.DataFrame") -> str:
    rows = []
    for name in (LIFT_CHANGED, LEVEL_CHANGED, *LOOKS.values()):
        found = list(table.filter(quantity=name, claimed=True).iter_rows(named=True))
        if found:
            shares = [row["above"] / row["campaigns"] for row in found]
            worst = max(found, key=lambda row: row["above"] / row["campaigns"])
            middle = f"{min(shares):.3f} / {median(shares):.3f} / {max(shares):.3f}"
            rows.append((name, str(len(found)), middle, worst["cell"]))
    return _table(("", "cells", "error lowest / median / highest", "highest in"), rows)


def _verdicts(table: "pl.DataFrame") -> str:
    """Return how often each verdict is given: where lifts change, and the others summarised."""
    tested = set(table.filter(quantity=LIFT_CHANGED)["cell"])
    rows: list[tuple[str, ...]] = []
    right: list[float] = []
    wrong: list[float] = []
    for row in table.filter(quantity=GIVEN).iter_rows(named=True):
        own = table.filter(cell=row["cell"])
        gone, late, better = (
            own.filter(quantity=name).row(0, named=True) for name in (WRONGLY, TOO_LATE, BETTER)
        )
        given = row["above"] / row["campaigns"]
        if row["cell"] not in tested:
            shares = [one["above"] / one["campaigns"] for one in (row, gone, late, better)]
            shares[-1] -= given
            rows.append((row["cell"], *(f"{share:.3f}" for share in shares)))
        else:
            (wrong if gone["most"] == NEVER_BETTER else right).append(given)
    lines = [_table(("cell", "give", "false", "too late", "unconfirmed"), rows)]
    for shares, what in (
        (wrong, "no action is better in any wave"),
        (right, "lifts differ from 0 and are the same in all waves"),
    ):
        if shares:
            lines.append(
                f'Where {what} ({len(shares)} cells), "give" has a median of '
                f"{median(shares):.3f} and a maximum of {max(shares):.3f}."
            )
    return "\n\n".join(lines)


def _missed(table: "pl.DataFrame") -> list[tuple[float, str, Row]]:
    """Return all shares missed on one side, the least likely at 2.5% first."""
    import polars as pl

    rows = table.filter(
        pl.col("shown") >= MOSTLY, pl.col("printed") > 1, pl.col("quantity").is_in(INTERVALS),
        pl.col("quantity") != NAIVE,
        (pl.col("quantity") != BY_SHARES) | (pl.col("group") != CHANGE),
    )  # fmt: skip
    missed = [
        (row[side] / row["printed"], side, row)
        for row in rows.iter_rows(named=True)
        for side in ("above", "below")
    ]
    return sorted(missed, key=lambda one: -(one[0] - TAIL) * sqrt(one[2]["printed"]))


def _worst(table: "pl.DataFrame") -> str:
    return _table(
        ("missed", "truth", "coverage", "quantity", "cell", "claimed"),
        [
            (
                f"{share:.3f}",
                side,
                f"{row['share']:.3f}",
                row["quantity"],
                row["cell"],
                f"no: {row['beyond']}" if row["beyond"] else "yes",
            )
            for share, side, row in _missed(table)[:WORST]
        ],
    )


def _limits(table: "pl.DataFrame") -> str:
    """Return where no claim is made, what was measured there, and what is not printed."""
    import polars as pl

    lines = []
    for reason in table.filter(pl.col("beyond") != "")["beyond"].unique(maintain_order=True):
        found = [
            row
            for row in table.filter(beyond=reason).iter_rows(named=True)
            if row["quantity"] in INTERVALS
            and row["quantity"] not in (NAIVE, BY_SHARES)
            and row["printed"] > 1
        ]
        low = min(found, key=lambda row: row["share"])
        of = CONCERNS.get(reason)
        lines.append(
            f"- **{reason.capitalize()}**: nothing is claimed{f' of {_listed(of)}' if of else ''}. "
            f"Lowest coverage {low['share']:.3f}: {low['quantity']} ({low['cell']}). "
            f"{_largest_side(found)}."
        )
    changed = table.filter(
        (pl.col("group") == CHANGE) & (pl.col("printed") > 1), quantity=BY_SHARES
    )
    if len(changed):
        low = min(changed.iter_rows(named=True), key=lambda row: row["share"])
        lines.append(
            "- **By shares under a change**: the lift by shares is another average than the lift "
            f"over the campaign's units. It covers that in {low['share']:.3f} of campaigns of the "
            f"worst cell ({low['cell']})."
        )
    late = max(
        table.filter(quantity=TOO_LATE).iter_rows(named=True),
        key=lambda row: row["above"] / row["campaigns"],
    )
    lines.append(
        "- **A turn in the last of several small waves**: the verdict looks at the fewest last "
        "waves with enough units and outcomes of both actions. It recommends an action whose lift "
        f"is gone in the last wave in {late['above'] / late['campaigns']:.3f} of campaigns of the "
        f"worst cell ({late['cell']})."
    )
    some = table.filter(
        pl.col("claimed"), pl.col("shown") < MOSTLY, pl.col("printed") >= 20,
        pl.col("quantity").is_in(INTERVALS),
    )  # fmt: skip
    if len(some):
        low = min(some.iter_rows(named=True), key=lambda row: row["share"])
        lines.append(
            f"- **Events close to the number needed**: printed in less than half of a cell's "
            f"campaigns, those with more events than expected ({len(some)} of all). Lowest "
            f"coverage among those printed {low['share']:.3f}: {low['quantity']} ({low['cell']}; "
            f"printed in {low['shown']:.2f})."
        )
    none = table.filter(
        pl.col("printed") == 0, pl.col("quantity").is_in(INTERVALS), pl.col("claimed")
    )
    lines.append(
        f"- **Too few events**: {len(none)} intervals of {none['cell'].n_unique()} cells are never "
        "printed."
    )
    return "\n".join(lines)


def _largest_side(rows: Sequence[Row]) -> str:
    sides = [(row[side] / row["printed"], side, row) for row in rows for side in ("above", "below")]
    share, side, row = max(sides, key=lambda one: one[0])
    return f"Missed most on one side: {share:.3f}, truth {side}, {row['quantity']}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
