"""The file that a spec was proposed for, as the comment at its beginning says."""

import json
import re
from itertools import takewhile


def proposed_for(text: str) -> str:
    r"""Return the file of units that `init` looked at, "" where the spec names none.

    >>> proposed_for('# A campaign in waves, proposed for "my units.csv" (40\n# rows).\nseed = 1')
    'my units.csv'
    >>> proposed_for('name = "spring"  # proposed for "other.csv" (1 rows)')
    ''
    """
    lines = takewhile(lambda line: line.startswith("# "), text.splitlines())
    heading = " ".join(line.removeprefix("# ") for line in lines)
    found = re.search(r'proposed for ("(?:[^"\\]|\\.)*") \(', heading)
    try:
        return str(json.loads(found[1])) if found else ""
    except ValueError:
        # Somebody rewrote the comment.
        return ""
