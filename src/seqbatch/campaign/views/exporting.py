"""What is stored, as tables for other programs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.events import canonical
from seqbatch.campaign.record.outcomes import ACCEPTED, VERDICTS, Ledger
from seqbatch.campaign.record.situation import Situation, events_until, situation
from seqbatch.campaign.record.store import Reader, Store
from seqbatch.campaign.tables.assignments import Decided, assignments, no_assignments, widened
from seqbatch.campaign.tables.columns import decoded
from seqbatch.campaign.tables.writing import Writer, require_table
from seqbatch.core import arguments
from seqbatch.core.arrays import Floats

WHAT = ("units", "outcomes", "held", "events")


def export(
    store: Store,
    name: str,
    out: str | Path,
    *,
    what: str,
    at_event: int | None,
    file_format: str | None,
    force: bool,
) -> int:
    """Write one kind of records to a file, in order; return how many."""
    arguments.choice("what", what, WHAT)
    apart = {"the store": store.files}
    require_table(out, name="out", file_format=file_format, force=force, apart_from=apart)
    with Writer(out, file_format=file_format) as writer, store.read(name) as reader:
        count = _exported(reader, writer, what=what, at_event=at_event)
        writer.publish()
        return count


def _exported(reader: Reader, writer: Writer, *, what: str, at_event: int | None) -> int:
    events = events_until(reader.events(), at_event)
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
    yield _nobody(now)
    known = Ledger.of(reader.outcome_chunks(until_event=now.sequence)).known()
    names = [action.name for action in now.actions]
    for chunk in reader.unit_chunks(given=True):
        if chunk.event > now.sequence:
            continue
        given = decoded(unpack(chunk.given))
        decided = widened(Decided.of(unpack(chunk.decided)), len(names))
        waves = np.full(chunk.count, chunk.wave)
        table = assignments(now.spec.unit, given.column(0).to_pylist(), waves, decided, names)
        here = known.within(chunk.first, chunk.first + chunk.count)
        values = np.full(chunk.count, np.nan)
        values[here.numbers - chunk.first] = here.values
        yield _beside(table, given, now.spec.reward.column, values)


def _nobody(now: Situation) -> pa.Table:
    """Return the table of no units, so that a file has its columns although nobody is in it."""
    features = now.spec.features
    kinds = [pa.string(), *[pa.float64()] * len(features.numeric)]
    kinds += [pa.string()] * len(features.categorical)
    fields = zip(now.encoder().columns, kinds, strict=True)
    given = pa.schema(list(fields)).empty_table()
    answers = no_assignments(now.spec.unit, [action.name for action in now.actions])
    return _beside(answers, given, now.spec.reward.column, np.zeros(0))


def _beside(table: pa.Table, given: pa.Table, reward: str, values: Floats) -> pa.Table:
    """Put what was given and the outcomes beside answers, which keep their names."""
    # Names that are free as they are come first to them; the others give way.
    taken = {*table.column_names, *given.column_names[1:], reward}
    for name in given.column_names[1:]:
        clashes = name in table.column_names
        table = table.append_column(free_name(name, "feature", taken, clashes), given[name])
    outcomes = pa.array(values, type=pa.float64(), from_pandas=True)
    clashes = reward in table.column_names
    return table.append_column(free_name(reward, "outcome", taken, clashes), outcomes)


def free_name(name: str, kind: str, taken: set[str], clashes: bool) -> str:
    """Return a name that no other column has: its own, or one that says what kind it is of."""
    while clashes:
        name = f"{kind} {name}"
        clashes = name in taken
    taken.add(name)
    return name


def _recorded(reader: Reader, now: Situation, *, held: bool) -> Iterator[pa.Table]:
    """Yield recorded rows: the accepted ones in all their versions, or those that are held."""
    schema = _recorded_columns(now)
    yield schema.empty_table()
    for chunk in reader.outcome_chunks():
        if chunk.event > now.sequence:
            continue
        rows = unpack(chunk.rows)
        wanted = pc.equal(rows["verdict"], VERDICTS.index(ACCEPTED))
        rows = rows.filter(pc.invert(wanted) if held else wanted)
        if not rows.num_rows:
            continue
        verdicts = pa.array([VERDICTS[code] for code in rows["verdict"].to_pylist()])
        columns = [
            pa.array(np.full(rows.num_rows, chunk.event)),
            rows["line"],
            rows["unit"],
            # A value that could not be read is none.
            pc.if_else(pc.is_nan(rows["value"]), None, rows["value"]),
            rows["version"],
            verdicts,
            rows["reason"].cast(pa.string()),
        ]
        if now.spec.outcome:
            columns.append(rows["outcome"])
        yield pa.table(columns, names=schema.names).cast(schema)


def _recorded_columns(now: Situation) -> pa.Schema:
    """Return the columns of recorded rows; those of the user's that are called alike give way."""
    own = {"event": pa.int64(), "line": pa.int64()}
    own |= {now.spec.unit: pa.string()}
    ours = ("event", "line", "version", "verdict", "reason")
    reward, outcome = now.spec.reward.column, now.spec.outcome
    taken = {*ours, now.spec.unit, reward, *([outcome] if outcome else [])}
    own[free_name(reward, "outcome", taken, reward in ours)] = pa.float64()
    own |= {"version": pa.int32(), "verdict": pa.string(), "reason": pa.string()}
    if outcome:
        own[free_name(outcome, "outcome id", taken, outcome in ours)] = pa.string()
    return pa.schema(list(own.items()))
