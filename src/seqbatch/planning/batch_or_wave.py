"""The noun in a plan's texts: theory has batches, a campaign has waves."""

from typing import Literal

from seqbatch.display import plural

#: The noun for units that are assigned before any of their outcomes is seen.
Noun = Literal["batch", "wave"]

#: What a plan is compared with: a policy that learns after every outcome.
ONLINE_GAIN = "what learning after every outcome (fully online) would gain over a random assignment"


def more(noun: Noun) -> str:
    """Return the words for a longer table; only functions that say "batch" have `max_batches`.

    >>> more("batch"), more("wave")
    ('more batches (max_batches)', 'more waves')
    """
    return f"more {plural(noun)}{' (max_batches)' if noun == 'batch' else ''}"
