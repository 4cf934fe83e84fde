"""A plan as a page of its own: words, picture, tables and assumptions."""

from typing import TYPE_CHECKING

from seqbatch import pages
from seqbatch.pictures import svg
from seqbatch.planning.picture import panels
from seqbatch.planning.tables import tables
from seqbatch.planning.words import assumptions, describe

if TYPE_CHECKING:
    from seqbatch.planning.result import Plan


def page(plan: "Plan") -> str:
    """Return the page; it needs no network and no script."""
    title, *words = describe(plan).removesuffix(assumptions(plan)).splitlines()
    return pages.page(
        title.removesuffix("."),
        [
            pages.paragraphs("\n".join(words)),
            svg(panels(plan)),
            *(pages.table(*one) for one in tables(plan)),
            "<h2>Assumptions</h2>",
            pages.paragraphs(assumptions(plan)),
        ],
    )
