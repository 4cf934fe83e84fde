"""What is stored, as tables for other programs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.answers import Writer, answer
from seqbatch.campaign.blobs import unpack
from seqbatch.campaign.chain import canonical
from seqbatch.campaign.contract import Reader
from seqbatch.campaign.decisions import Decided
from seqbatch.campaign.ledger import ACCEPTED, VERDICTS, Ledger
from seqbatch.campaign.situation import Situation, events_until, situation
from seqbatch.campaign.stored import decoded, widened
from seqbatch.core import arguments

WHAT = ("units", "outcomes", "held", "events")


def export(reader: Reader, writer: Writer, *, what: str, at: int | None) -> int:
    """Write one kind of records, in order; return how many."""
    arguments.choice("what", what, WHAT)
    events = events_until(reader.events(), at)
    now, count = situation(events), 0
    if what == "events":
        tables = iter([pa.Table.from_pylist([_plain(event) for event in events])])
    elif what == "units":
        tables = _units(reader, now)
    else:
        tables = _recorded(reader, now, held=what == "held")
    for table in tables:
        writer.write(table)
        count += table.num_rows
    return count


def _plain(event: Any) -> dict[str, Any]:
    return {
        **vars(event),
        "counts": canonical(event.counts),
        "payload": canonical(event.payload),
    }


def _units(reader: Reader, now: Situation) -> Iterator[pa.Table]:
    """Yield every unit with what was given, decided and known of its outcome."""
    known = Ledger.of(reader.outcome_chunks()).known(at=now.sequence)
    names = [action.name for action in now.actions]
    for chunk in reader.unit_chunks(given=True):
        if chunk.event > now.sequence:
            continue
        given = decoded(unpack(chunk.given))
        decided = widened(Decided.of(unpack(chunk.decided)), len(names))
        waves = np.full(chunk.count, chunk.wave)
        table = answer(now.spec.unit, given.column(0).to_pylist(), waves, decided, names)
        for name in given.column_names[1:]:
            # A feature may be called as one of the answers; the answer keeps its name.
            free = name if name not in table.column_names else f"feature {name}"
            table = table.append_column(free, given[name])
        here = known.within(chunk.first, chunk.first + chunk.count)
        values = np.full(chunk.count, np.nan)
        values[here.numbers - chunk.first] = here.values
        column = now.spec.reward.column
        free = column if column not in table.column_names else f"outcome {column}"
        yield table.append_column(free, pa.array(values, from_pandas=True))


def _recorded(reader: Reader, now: Situation, *, held: bool) -> Iterator[pa.Table]:
    """Yield recorded rows: the accepted ones in all their versions, or those that are held."""
    for chunk in reader.outcome_chunks():
        if chunk.event > now.sequence:
            continue
        rows = unpack(chunk.rows)
        wanted = pc.equal(rows["verdict"], VERDICTS.index(ACCEPTED))
        rows = rows.filter(pc.invert(wanted) if held else wanted)
        if not rows.num_rows:
            continue
        verdicts = pa.array([VERDICTS[code] for code in rows["verdict"].to_pylist()])
        columns = {
            "event": pa.array(np.full(rows.num_rows, chunk.event)),
            "line": rows["line"],
            now.spec.unit: rows["unit"],
            now.spec.reward.column: rows["value"],
            "version": rows["version"],
            "verdict": verdicts,
            "reason": rows["reason"].cast(pa.string()),
        }
        if now.spec.outcome:
            columns[now.spec.outcome] = rows["outcome"]
        yield pa.table(columns)
