"""Export a campaign's stored units, outcomes and events as tables for other programs."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.decide.earlier_sums import earlier_sums
from seqbatch.campaign.decide.repeated_rows import id_of
from seqbatch.campaign.files.column_values import decoded
from seqbatch.campaign.files.ids import id_columns
from seqbatch.campaign.files.writing import Writer, require_table
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.current_situation import Situation, events_until, situation
from seqbatch.campaign.record.decisions import assignments, no_assignments
from seqbatch.campaign.record.events import canonical, current
from seqbatch.campaign.record.logged_rows import DAY, KEY, TIME
from seqbatch.campaign.record.outcomes import (
    ACCEPTED,
    COUNTED,
    HELD,
    OUTSIDE,
    VERDICTS,
    Ledger,
    parts_of,
)
from seqbatch.campaign.record.store import Reader, Store
from seqbatch.campaign.record.stored_units import known_outcomes, walk
from seqbatch.campaign.views.interim import Sight, shown_events
from seqbatch.core import arguments
from seqbatch.core.arrays import Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.output_files import atomically, require_target

#: The sums from which a later campaign can start.
SUMS = "sums"
WHAT = ("units", "outcomes", "rows", "held", "events", SUMS)
#: The verdicts of the rows in each export of recorded rows.
SHOWN = {"outcomes": (ACCEPTED,), "rows": (COUNTED, OUTSIDE), "held": HELD}


def export(
    store: Store,
    name: str,
    out: str | Path,
    *,
    what: str,
    at_event: int | None,
    file_format: str | None,
    force: bool,
    sight: Sight,
) -> int:
    """Write one kind of record to a file, in order; return the number of rows.

    Of sums it returns the number of units.
    """
    arguments.choice("what", what, WHAT)
    apart = {"the store": store.files}
    if what == SUMS:
        return _export_sums(store, name, out, at_event, file_format, force=force)
    require_table(out, name="out", file_format=file_format, force=force, apart_from=apart)
    with Writer(out, file_format=file_format) as writer, store.read(name) as reader:
        count = _exported(reader, writer, what=what, at_event=at_event, sight=sight)
        writer.publish()
        return count


def _export_sums(
    store: Store,
    name: str,
    out: str | Path,
    at_event: int | None,
    file_format: str | None,
    *,
    force: bool,
) -> int:
    """Write the sums from which a later campaign can start, as JSON."""
    if file_format not in (None, "json"):
        raise InvalidArgumentError("format", '"json" for sums', repr(file_format))
    if at_event is not None:
        raise InvalidArgumentError("at_event", "left out for sums", at_event)
    to_stdout = str(out) == "-"
    endings = (".json",) if file_format is None else ()
    if not to_stdout:
        apart = {"the store": store.files}
        require_target(out, force=force, endings=endings, apart_from=apart)
    with store.read(name) as reader:
        document = earlier_sums(reader, current(reader))
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if to_stdout:
        sys.stdout.write(text)
    else:
        with atomically(out) as partial:
            partial.write_text(text, encoding="utf-8")
    return int(document["units"])


def _exported(
    reader: Reader, writer: Writer, *, what: str, at_event: int | None, sight: Sight
) -> int:
    events = events_until(reader.events(), at_event)
    now, count = situation(events), 0
    if what != "events":
        now.require_rows()
    if what == "events":
        shown = shown_events(events, current(reader), sight)
        tables = iter([pa.Table.from_pylist([_plain(event) for event in shown])])
    elif what == "units":
        tables = _units(reader, now)
    else:
        tables = _recorded(reader, now, what)
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
    """Yield every unit with its features, decision and outcome."""
    yield _nobody(now)
    names = [action.name for action in now.actions]
    for piece in walk(reader, known_outcomes(reader, now), until=now.sequence, given=True):
        given, decided = decoded(piece.given()), piece.decided(now)
        waves = np.full(len(decided.actions), piece.wave)
        table = assignments(
            now.spec.unit, given.column(0).to_pylist(), waves, decided, names, masked=now.masked
        )
        cells = piece.cells
        outcomes = _outcomes(now, cells, cells.numbers - piece.chunk.first, decided.actions)
        yield _beside(table, given, outcomes)


def _outcomes(
    now: Situation, known: Ledger, rows: Integers, actions: Integers
) -> list[tuple[str, pa.Array]]:
    """Return the units' outcome columns: recorded values, the reward, and whether it was recorded.

    Parameters
    ----------
    now
        The campaign's situation.
    known, rows
        The outcomes, and the row of each outcome's unit.
    actions
        The actions of the units.
    """
    spec, count = now.spec, len(actions)
    recorded = np.where(known.absent, np.nan, known.values)
    cells = [(spec.reward.label, recorded)] if spec.reward.plain else []
    cells += list(zip(spec.parts, known.parts.T, strict=True))
    cells.append(("reward", now.rewards(known.values, actions[rows])))
    columns = []
    for name, values in cells:
        every = np.full(count, np.nan)
        every[rows] = values
        columns.append((name, pa.array(every, type=pa.float64(), from_pandas=True)))
    which = np.zeros(count, dtype=np.int32)
    which[rows] = np.where(np.isnan(known.values), 0, np.where(known.absent, 1, 2))
    observed = pa.DictionaryArray.from_arrays(which, ["none", "absent", "recorded"])
    return [*columns, ("observed", observed.dictionary_decode())]


def _nobody(now: Situation) -> pa.Table:
    """Return a table without rows, which gives an empty export its columns."""
    encoder = now.encoder()
    fields = [(name, part.kept) for name, part in encoder.parts.items()]
    if encoder.cluster is not None:
        fields.append((encoder.cluster, pa.string()))
    fields += [(column.name, column.kept) for column in encoder.beside]
    given = pa.schema([(encoder.unit, pa.string()), *fields]).empty_table()
    names = [action.name for action in now.actions]
    answers = no_assignments(now.spec.unit, names, masked=now.masked)
    none = np.zeros(0, dtype=np.int64)
    known = Ledger.of((), parts=len(now.spec.parts))
    return _beside(answers, given, _outcomes(now, known, none, none))


def _beside(table: pa.Table, given: pa.Table, outcomes: list[tuple[str, pa.Array]]) -> pa.Table:
    """Append features and outcomes to the answers, whose columns keep their names."""
    # The last two outcome columns are the export's own: they keep their names and come last.
    ours = {*table.column_names, *(name for name, _ in outcomes[-2:])}
    # A column whose name is free keeps it; the others are renamed.
    taken = ours | {*given.column_names[1:], *(name for name, _ in outcomes)}
    for name in given.column_names[1:]:
        table = table.append_column(free_name(name, "feature", taken, name in ours), given[name])
    for name, values in outcomes[:-2]:
        clashes = name in ours or name in given.column_names[1:]
        table = table.append_column(free_name(name, "outcome", taken, clashes), values)
    for name, values in outcomes[-2:]:
        table = table.append_column(name, values)
    return table


def free_name(name: str, kind: str, taken: set[str], clashes: bool) -> str:
    """Return an unused column name: the given one, or one prefixed with the column's kind."""
    while clashes:
        name = f"{kind} {name}"
        clashes = name in taken
    taken.add(name)
    return name


def _recorded(reader: Reader, now: Situation, what: str) -> Iterator[pa.Table]:
    """Yield recorded rows: every version of the outcomes, the logged rows, or the held rows."""
    with_keys = what != "outcomes" and now.logged + now.conflicts + now.quarantined > 0
    schema = _recorded_columns(now, with_keys=with_keys)
    yield schema.empty_table()
    parts, wanted = len(now.spec.parts), pa.array(map(VERDICTS.index, SHOWN[what]), pa.int8())
    for chunk in reader.outcome_chunks():
        if chunk.event > now.sequence:
            continue
        rows = unpack(chunk.rows)
        rows = rows.filter(pc.is_in(rows["verdict"], value_set=wanted))
        if not rows.num_rows:
            continue
        verdicts = pa.array([VERDICTS[code] for code in rows["verdict"].to_pylist()])
        # An unreadable value is exported as missing.
        cells = [rows["value"].to_numpy(), *parts_of(rows, parts).T]
        columns = [
            pa.array(np.full(rows.num_rows, chunk.event)),
            # A combined outcome is no line of the file.
            pc.if_else(pc.greater(rows["line"], 0), rows["line"], None),
            *id_columns(rows["unit"].to_pylist(), now.spec.unit).values(),
            *(pa.array(cell, type=pa.float64(), from_pandas=True) for cell in cells),
            rows["version"],
            verdicts,
            rows["reason"].cast(pa.string()),
        ]
        if with_keys:
            columns += _keys(rows)
        yield pa.table(columns, names=schema.names).cast(schema)


#: The columns of logged rows: the id and the date, as an instant in UTC or a whole day.
KEYS = {"row id": pa.string(), "row time": pa.timestamp("us", "UTC"), "row day": pa.bool_()}


def _keys(rows: pa.Table) -> list[pa.Array]:
    """Return the ids and times of rows, null if they have none."""
    if KEY not in rows.column_names:
        return [pa.nulls(rows.num_rows, kind) for kind in KEYS.values()]
    ids = [id_of(key) or None for key in rows[KEY].to_pylist()]
    return [pa.array(ids, pa.string()), rows[TIME], rows[DAY]]


def _recorded_columns(now: Situation, *, with_keys: bool) -> pa.Schema:
    """Return the columns of recorded rows; user columns whose names clash are renamed."""
    spec = now.spec
    own = {"event": pa.int64(), "line": pa.int64(), **dict.fromkeys(spec.unit, pa.string())}
    ours = ("event", "line", "version", "verdict", "reason", *KEYS)
    cells = (spec.reward.label, *spec.parts)
    taken = {*ours, *spec.unit, *cells}
    for place, name in enumerate(cells):
        clashes = name in ours or name in cells[:place]
        own[free_name(name, "outcome", taken, clashes)] = pa.float64()
    own |= {"version": pa.int32(), "verdict": pa.string(), "reason": pa.string()}
    return pa.schema(list((own | (KEYS if with_keys else {})).items()))
