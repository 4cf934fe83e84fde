"""Is a file of units as it should be? The whole of it, before anything is decided."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from seqbatch.campaign.columns import Problems
from seqbatch.campaign.draws import Draws, draws
from seqbatch.campaign.features import Encoder
from seqbatch.campaign.files import Source
from seqbatch.campaign.situation import Situation
from seqbatch.errors import InvalidFileError

NOTHING = "nothing was assigned"


def check_units(
    now: Situation, source: Source, encoder: Encoder, report: Callable[[int], None]
) -> list[Draws]:
    """Check a whole file of units; return the units' draws, piece by piece."""
    there = set(source.columns())
    problems, made, start = Problems(), [], 0
    for name in encoder.columns:
        if name not in there:
            problems.whole(name, "the file has no such column")
    if problems.found:
        raise InvalidFileError(source.name, problems.found, NOTHING)
    for batch in source.batches(encoder.columns):
        units, _ = encoder.prepared(batch, start, problems)
        if any("\0" in unit for unit in units):
            nul = {row: "must not hold a NUL character" for row, u in enumerate(units) if "\0" in u}
            problems.add(start, now.spec.unit, nul)
        made.append(draws(now.spec.seed, now.name, units))
        start += len(units)
        report(start)
    if source.ragged:
        places = source.rows(np.array([row for row, _, _ in problems.found], dtype=np.int64))
        problems.found = [
            (int(place), column, reason)
            for place, (_, column, reason) in zip(places, problems.found, strict=True)
        ]
        problems.found.extend(source.ragged)
    if not start and not problems.found:
        problems.whole("", "the file has no rows")
    if not problems.found:
        problems.found.extend(_repeated(now, source, made))
    if problems.found:
        raise InvalidFileError(source.name, sorted(problems.found), NOTHING)
    return made


def _repeated(now: Situation, source: Source, made: list[Draws]) -> list[tuple[int, str, str]]:
    """Return the rows whose id stood in an earlier row, found by fingerprint and then by text."""
    prints = np.concatenate([piece.fingerprint for piece in made])
    ordered = np.sort(prints)
    twins = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(twins):
        return []
    suspects = set(np.flatnonzero(np.isin(prints, twins)).tolist())
    seen: dict[str, int] = {}
    found, row = [], 0
    for batch in source.batches([now.spec.unit]):
        for unit in batch.column(0).cast(pa.string()).to_pylist():
            if row in suspects:
                if unit in seen:
                    reason = f"repeats the id {unit!r} of row {seen[unit]:,}"
                    found.append((row + 1, now.spec.unit, reason))
                seen.setdefault(unit, row + 1)
            row += 1
    return found
