"""Take outcomes in: every row of a file ends as exactly one of four things.

accepted
    The unit's outcome, or with `correct` a new version of it.
duplicate
    The unit has this very outcome already.
conflict
    The unit has another outcome: the row is held, nothing is overwritten.
quarantined
    The row cannot be an outcome (unknown unit, wrong wave, out of range, not a finite number); it
    is kept with its line and the reason.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seqbatch.campaign import chain
from seqbatch.campaign.blobs import pack, unpack
from seqbatch.campaign.columns import holds_numbers, texts
from seqbatch.campaign.columns import numbers as parsed
from seqbatch.campaign.contract import Change, Extent, OutcomeChunk, Reader
from seqbatch.campaign.files import Source
from seqbatch.campaign.ledger import DUPLICATE, QUARANTINED, VERDICTS, accepted
from seqbatch.campaign.logbook import Logbook
from seqbatch.campaign.situation import Situation, situation
from seqbatch.errors import InvalidFileError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
BATCH = "batch"
#: Verdicts by number, as rows carry them while they are judged.
_ACCEPTED, _DUPLICATE, _CONFLICT, _QUARANTINED = range(4)


@dataclass(frozen=True)
class Recorded:
    """What a call of record did.

    Parameters
    ----------
    rows
        Rows read; the next four sum to it.
    accepted, duplicate, conflict, quarantined
        What became of them.
    late
        Accepted outcomes of waves that are closed; they enter the next estimate.
    corrected
        Accepted outcomes that replace another.
    held
        The first conflicts and quarantined rows: line, unit, verdict, reason.
    event
        The number of the event; None where there was nothing but duplicates.
    """

    rows: int
    accepted: int
    duplicate: int
    conflict: int
    quarantined: int
    late: int
    corrected: int
    held: tuple[tuple[int, str, str, str], ...]
    event: int | None


def check_columns(now: Situation, source: Source) -> list[str]:
    """Return the columns to read: unit and reward, and where there, the wave and outcome id."""
    there = set(source.columns())
    wanted = [now.spec.unit, now.spec.reward.column]
    lacking = [name for name in (*wanted, now.spec.outcome) if name and name not in there]
    if lacking:
        problems = [(0, name, "the file has no such column") for name in lacking]
        raise InvalidFileError(source.name, problems, "nothing was recorded")
    if now.spec.outcome:
        wanted.append(now.spec.outcome)
    if BATCH in there and BATCH not in wanted:
        wanted.append(BATCH)
    return wanted


class Recording:
    """One call of record within its transaction."""

    SHOWN = 20

    def __init__(self, change: Change, logbook: Logbook, *, correct: bool) -> None:
        self._change = change
        self._logbook = logbook
        self._correct = correct
        self._now = situation(change.events())
        self._extents = change.extents()
        self._chunk = change.outcome_chunk_count()
        self._counts: Counter[str] = Counter()
        self._late = self._corrected = 0
        self._owners = outcome_owners(change) if self._now.spec.outcome else {}
        self._hashes: list[str] = []
        self._held: list[tuple[int, str, str, str]] = []

    def run(self, source: Source, *, why: str, report: Callable[[int], None]) -> Recorded:
        """Judge and keep every row of a file."""
        columns, row = check_columns(self._now, source), 0
        for batch in source.batches(columns):
            self._require_numbers(batch, source)
            read = np.arange(row + 1, row + 1 + batch.num_rows)
            self._batch(batch, source.lines(source.rows(read)))
            row += batch.num_rows
            report(row)
        for number, _, reason in source.ragged:
            self._keep_ragged(int(source.lines(np.array([number]))[0]), reason)
            row += 1
        if not row:
            raise InvalidFileError(
                source.name, [(0, "", "the file has no rows")], "nothing was recorded"
            )
        counts = {verdict: self._counts[verdict] for verdict in VERDICTS}
        event = self._finish(row, counts, why)
        return Recorded(
            rows=row,
            **counts,
            late=self._late,
            corrected=self._corrected,
            held=tuple(self._held),
            event=event,
        )

    def _require_numbers(self, batch: Any, source: Source) -> None:
        """Refuse a file whose values are of a type that holds no numbers, such as dates."""
        for name in (self._now.spec.reward.column, BATCH):
            if name in batch.schema.names and name != self._now.spec.outcome:
                kind = batch.column(name).type
                # A column of nothing at all is one of missing values, each held by itself.
                if not (holds_numbers(kind) or pa.types.is_null(kind)):
                    problem = (0, name, f"must be numbers; received {kind}")
                    raise InvalidFileError(source.name, [problem], "nothing was recorded")

    def _batch(self, batch: Any, lines: Integers) -> None:
        judged = self._judge(batch)
        verdicts = judged.verdicts
        for place, name in enumerate(VERDICTS):
            self._counts[name] += int((verdicts == place).sum())
        taken = verdicts == _ACCEPTED
        self._corrected += int((judged.versions[taken] > 1).sum())
        if self._now.wave > 1 and taken.any():
            waves = waves_of(self._extents, judged.numbers[taken])
            self._late += int((waves < self._now.wave).sum())
        kept = np.flatnonzero(verdicts != _DUPLICATE)
        if len(kept):
            self._keep(judged, kept, lines)

    def _judge(self, batch: Any) -> "_Judged":
        spec = self._now.spec
        units, no_unit = texts(batch.column(spec.unit))
        values, no_value = parsed(batch.column(spec.reward.column))
        count = len(units)
        if no_value:
            values = values.copy()
            values[list(no_value)] = np.nan
        reasons: dict[int, str] = {
            row: f"{spec.reward.column} {why}" for row, why in no_value.items()
        }
        reasons.update({row: f"{spec.unit} {why}" for row, why in no_unit.items()})
        # No unit has an id with a NUL character, and not every database could be asked for one.
        if any("\0" in unit for unit in units):
            reasons.update(
                {
                    row: f"{spec.unit} holds a NUL character"
                    for row, u in enumerate(units)
                    if "\0" in u
                }
            )
            units = ["" if "\0" in unit else unit for unit in units]
        numbers = self._change.numbers(units)
        for row in np.flatnonzero(numbers < 0):
            reasons.setdefault(int(row), "no such unit in this campaign")
        if spec.reward.range is not None:
            low, high = spec.reward.range
            for row in np.flatnonzero(~((values >= low) & (values <= high))):
                why = f"{spec.reward.column} must be between {low:g} and {high:g}"
                reasons.setdefault(int(row), f"{why}; received {values[row]:g}")
        if BATCH in batch.schema.names and BATCH not in (spec.reward.column, spec.outcome):
            self._wrong_waves(batch.column(BATCH), numbers, reasons)
        verdicts = np.full(count, _ACCEPTED)
        verdicts[list(reasons)] = _QUARANTINED
        judged = _Judged(units, numbers, values, verdicts, np.zeros(count, np.int64), reasons, None)
        if spec.outcome:
            self._one_by_one(judged, batch.column(spec.outcome))
        else:
            self._against_known(judged)
        return judged

    def _one_by_one(self, judged: "_Judged", column: Any) -> None:
        """Compare rows that have outcome ids with what is known, and with earlier rows.

        An id belongs to the unit of the first row with it that is accepted, so that what becomes
        of a row depends on what became of those before it.
        """
        judged.ids, wrong = texts(column)
        name = self._now.spec.outcome
        rows = np.flatnonzero(judged.verdicts == _ACCEPTED)
        found, known = self._change.outcomes(judged.numbers[rows])
        versions = found.tolist()
        current: dict[int, tuple[int, float]] = {}
        for place, row in enumerate(rows.tolist()):
            number, value, key = int(judged.numbers[row]), judged.values[row], judged.ids[row]
            version, has = current.get(number, (versions[place], known[place]))
            if row in wrong:
                judged.hold(row, _QUARANTINED, f"{name} {wrong[row]}")
            elif self._owners.get(key, number) != number:
                why = f"{name} {key!r} was recorded for another unit already"
                judged.hold(row, _CONFLICT, why)
            elif version and has == value:
                judged.verdicts[row] = _DUPLICATE
            elif version and not self._correct:
                judged.hold(row, _CONFLICT, _has_another(has, value))
            else:
                self._owners[key] = number
                current[number] = (version + 1, value)
                judged.versions[row] = version + 1

    def _wrong_waves(self, column: Any, numbers: Integers, reasons: dict[int, str]) -> None:
        said, wrong = parsed(column)
        for row, why in wrong.items():
            if why != "is missing":
                received = why.partition("; ")[2]
                reasons.setdefault(row, f"{BATCH} must be a wave's number; {received}")
        waves = waves_of(self._extents, np.maximum(numbers, 0))
        for row in np.flatnonzero((numbers >= 0) & (said != waves)).tolist():
            if row not in wrong:
                why = (
                    f"wrong wave: the unit was assigned in {waves[row]}, the row says {said[row]:g}"
                )
                reasons.setdefault(row, why)

    def _against_known(self, judged: "_Judged") -> None:
        """Compare rows that could be outcomes with what is known, and with earlier rows."""
        rows = np.flatnonzero(judged.verdicts == _ACCEPTED)
        if not len(rows):
            return
        numbers, values = judged.numbers[rows], judged.values[rows]
        versions, known = self._change.outcomes(numbers)
        _, firsts, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        earlier = firsts[inverse] != np.arange(len(rows))
        simple = ~earlier
        verdicts = np.full(len(rows), _ACCEPTED)
        has = (versions > 0) & simple
        same = has & (known == values)
        verdicts[same] = _DUPLICATE
        differs = has & (known != values)
        if not self._correct:
            verdicts[differs] = _CONFLICT
        new_versions = versions + 1
        # Units that stand in the file more than once are rare; they are taken one by one.
        current = {}
        for row in np.flatnonzero(earlier):
            key = int(numbers[row])
            if key not in current:
                first = int(firsts[inverse[row]])
                taken = verdicts[first] == _ACCEPTED
                current[key] = (
                    (values[first], new_versions[first])
                    if taken
                    else (known[first], versions[first])
                )
            value, version = current[key]
            if value == values[row]:
                verdicts[row] = _DUPLICATE
            elif self._correct:
                new_versions[row] = version + 1
                current[key] = (values[row], version + 1)
            else:
                verdicts[row] = _CONFLICT
        for row in np.flatnonzero(verdicts == _CONFLICT):
            has_now = known[row] if versions[row] > 0 else current[int(numbers[row])][0]
            judged.reasons[int(rows[row])] = _has_another(has_now, values[row])
        judged.verdicts[rows] = verdicts
        judged.versions[rows] = np.where(verdicts == _ACCEPTED, new_versions, 0)

    def _keep(self, judged: "_Judged", kept: NDArray[np.intp], lines: Integers) -> None:
        verdicts = judged.verdicts[kept]
        said = judged.reasons
        reasons = [said.get(row, "") for row in kept.tolist()] if said else [""] * len(kept)
        columns: dict[str, Any] = {
            "line": lines[kept],
            "unit": pa.array(judged.units).take(kept) if len(kept) < len(lines) else judged.units,
            "number": judged.numbers[kept],
            "value": judged.values[kept],
            "version": judged.versions[kept].astype(np.int32),
            "verdict": verdicts.astype(np.int8),
            "reason": pa.array(reasons, type=pa.string()).dictionary_encode(),
        }
        if judged.ids is not None:
            columns["outcome"] = [judged.ids[row] for row in kept]
        taken = kept[verdicts == _ACCEPTED]
        self._add(
            pa.table(columns), judged.numbers[taken], judged.versions[taken], judged.values[taken]
        )
        for place in np.flatnonzero(verdicts != _ACCEPTED)[: max(self.SHOWN - len(self._held), 0)]:
            row = kept[place]
            held = (int(lines[row]), judged.units[row], VERDICTS[verdicts[place]], reasons[place])
            self._held.append(held)

    def _keep_ragged(self, line: int, reason: str) -> None:
        """Keep a row of a CSV file that is not as long as its header."""
        self._counts[QUARANTINED] += 1
        self._held.append((line, "", QUARANTINED, reason))
        one = np.zeros(1, dtype=np.int64)
        columns: dict[str, Any] = {
            "line": [line], "unit": [""], "number": one - 1, "value": [np.nan],
            "version": one.astype(np.int32), "verdict": one.astype(np.int8) + np.int8(_QUARANTINED),
            "reason": pa.array([reason]).dictionary_encode(),
        }  # fmt: skip
        if self._now.spec.outcome:
            columns["outcome"] = [""]
        self._add(pa.table(columns), one[:0], one[:0], np.zeros(0))

    def _add(self, table: pa.Table, numbers: Integers, versions: Integers, values: Floats) -> None:
        chunk = OutcomeChunk(
            chunk=self._chunk,
            event=self._now.sequence + 1,
            count=table.num_rows,
            rows=pack(table),
            hash="",
        )
        chunk = replace(chunk, hash=chain.outcomes_hash(self._change.name, chunk))
        self._change.add_outcomes(chunk, numbers, versions, values)
        self._hashes.append(chunk.hash)
        self._chunk += 1

    def _finish(self, rows: int, counts: dict[str, int], why: str) -> int | None:
        if counts[DUPLICATE] == rows:
            return None
        event = self._logbook.write(
            self._change,
            sequence=self._now.sequence + 1,
            previous=self._now.hash,
            kind="record",
            why=why,
            counts={"rows": rows, **counts, "late": self._late, "corrected": self._corrected},
            payload={"correct": self._correct, "chunks": len(self._hashes)},
            rows=self._hashes,
        )
        return event.sequence


@dataclass
class _Judged:
    """Rows while they are judged; what each becomes is filled in step by step."""

    units: list[str]
    numbers: Integers
    values: Floats
    verdicts: Integers
    versions: Integers
    reasons: dict[int, str]
    ids: list[str] | None

    def hold(self, row: int, verdict: int, reason: str) -> None:
        """Hold a row, and say why."""
        self.verdicts[row], self.reasons[row] = verdict, reason


def _has_another(known: float, received: float) -> str:
    return f"the unit has the outcome {known:g} already; received {received:g}"


def outcome_owners(reader: Reader) -> dict[str, int]:
    """Return the unit number of every outcome id that was accepted."""
    owners: dict[str, int] = {}
    for chunk in reader.outcome_chunks():
        rows = accepted(unpack(chunk.rows))
        owners.update(zip(rows["outcome"].to_pylist(), rows["number"].to_pylist(), strict=True))
    return owners


def waves_of(extents: list[Extent], numbers: Integers) -> Integers:
    """Return the wave of each unit number."""
    firsts = np.array([extent.first for extent in extents], dtype=np.int64)
    waves = np.array([extent.wave for extent in extents], dtype=np.int64)
    if not len(firsts):
        return np.zeros(len(numbers), dtype=np.int64)
    return waves[np.searchsorted(firsts, numbers, side="right") - 1]
