"""A plan as a page of its own: words, picture, tables, assumptions and settings."""

from typing import TYPE_CHECKING

from seqbatch import display
from seqbatch.planning.assumed import assumptions, settings
from seqbatch.planning.picture import panels
from seqbatch.planning.words import describe, tables

if TYPE_CHECKING:
    from seqbatch.planning.result import Plan


def page(plan: "Plan") -> str:
    """Return the page; it needs no network and no script."""
    title, *words = describe(plan).removesuffix(assumptions(plan)).splitlines()
    return display.page(
        title.removesuffix("."),
        [
            display.paragraph("\n".join(words)),
            display.picture(lambda: panels(plan), "Regret against the number of batches"),
            *(table.html() for table in tables(plan)),
            "<h2>Assumptions</h2>",
            display.paragraph(assumptions(plan)),
            "<h2>Settings</h2>",
            display.paragraph(settings(plan)),
        ],
    )
