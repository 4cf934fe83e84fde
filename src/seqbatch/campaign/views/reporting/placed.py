"""Where the tables of findings stand in a report."""

from collections import defaultdict

from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.findings_tables import with_sections
from seqbatch.display import Table


def placed(found: Findings) -> dict[str, list[Table]]:
    """Return the tables of findings by the section in which they stand."""
    made: dict[str, list[Table]] = defaultdict(list)
    for section, table in with_sections(found):
        made[section].append(table)
    return made
