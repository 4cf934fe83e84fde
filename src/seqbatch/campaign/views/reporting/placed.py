"""Where the tables of findings stand in a report."""

from collections import defaultdict

from seqbatch.campaign.views.findings import Findings
from seqbatch.display import Table

#: The section of a table, by how its title begins; all others are about data.
SECTIONS = {
    "What each action brings": "outcomes",
    "The mean outcome": "outcomes",
    "Wave by wave": "outcomes",
    "The campaign as run": "value",
    "The rule to run next": "who",
    "Lifts over": "who",
    "Splits suggested": "who",
    "Looks (": "stopping",
    "NOT VALID": "methods",
}


def placed(found: Findings) -> dict[str, list[Table]]:
    """Return the tables of findings by the section in which they stand."""
    made: dict[str, list[Table]] = defaultdict(list)
    for table in found.tables():
        begins = (key for start, key in SECTIONS.items() if table.title.startswith(start))
        made[next(begins, "quality")].append(table)
    return made
