"""A plan's tables, in cells for people."""

import math
from typing import TYPE_CHECKING, NamedTuple

from seqbatch.planning.words import number

if TYPE_CHECKING:
    from seqbatch.planning.result import Plan, Row

SHARES = ("earned", "best_share")


class Cells(NamedTuple):
    """A table: its title, the heads of its columns, and rows of text."""

    title: str
    heads: list[str]
    rows: list[list[str]]


def tables(plan: "Plan") -> list[Cells]:
    """Return what numbers of batches cost, and what a wrong guess of the effect does."""
    return [_costs(plan), *([_wrong_guesses(plan)] if plan.sensitivity else [])]


def _costs(plan: "Plan") -> Cells:
    names = {
        "regret": "regret",
        "error": "±",
        "of_online": "times online",
        "earned": "gain earned",
        "best_share": "best action",
        "lower_bound": "lower bound",
        "rate": "guarantee" if plan.contexts == "adversarial" else "theorem's rate",
        "total_cost": "total cost",
    }
    rows = (*plan.rows, plan.online)
    kept = [name for name in names if any(_cell(row, name) for row in rows)]
    return Cells(
        "What other numbers of batches cost (* recommended)",
        ["M", *(names[name] for name in kept)],
        [[_count(plan, row), *(_cell(row, name) for name in kept)] for row in rows],
    )


def _count(plan: "Plan", row: "Row") -> str:
    if row.batches is None:
        return "online"
    return f"{row.batches} *" if row.batches == plan.batches else str(row.batches)


def _cell(row: "Row", name: str) -> str:
    value = getattr(row, name)
    if math.isnan(value):
        return ""
    if name in SHARES:
        return f"{value:.1%}"
    return f"{value:.2f}" if name == "of_online" else number(value)


def _wrong_guesses(plan: "Plan") -> Cells:
    return Cells(
        "If the true effect differs from the assumed one: regret of this grid, the paper's, and "
        "the best",
        ["effect times", "this grid", "paper's", "best for it"],
        [
            [f"{one.factor:g}", number(one.regret), number(one.paper), number(one.best)]
            for one in plan.sensitivity
        ],
    )
