"""The next statement for findings from sums: what it is, its result, and what was recorded.

Findings take up to three statements over all closed waves: the evidence, a step of the return model
if outcomes are missing, and the scores. Each has the numbers that follow from the one before.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from math import fsum, isclose
from typing import Any

from seqbatch.campaign.decide.stopping import look_from, looks_taken
from seqbatch.campaign.files.column_values import python_value
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.events import current, utc_now
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.warehouse.closed_wave import (
    CHECKS,
    KEYS,
    TEXTS,
    Group,
    Tables,
    closed_waves,
    differences,
)
from seqbatch.campaign.warehouse.dialects import DIALECTS, dialect_of
from seqbatch.campaign.warehouse.evidence import evidence_sums
from seqbatch.campaign.warehouse.returns import return_query, return_sums
from seqbatch.campaign.warehouse.statement import (
    BLANK,
    fingerprint,
    header,
    mark_in,
    marked,
    of_another,
    require_tables,
    written_for,
    wrong_statement,
)
from seqbatch.campaign.warehouse.summed_waves import OBJECTIVE, PASSES, Pass, SummedWaves
from seqbatch.core.threads import one_thread
from seqbatch.errors import (
    CampaignStateError,
    InvalidArgumentError,
    InvalidFileError,
    Remedy,
    RowProblem,
)

# ----------------------------------------------------------------------
# What was recorded, and what is still to be summed up.


def summed_waves(
    now: Situation, events: Sequence[Event], *, at: datetime | None = None
) -> SummedWaves:
    """Return a campaign's waves as sums; those of before an amendment do not count."""
    groups: dict[Pass, list[Group]] = {kind: [] for kind in PASSES}
    for event in events:
        if event.kind == "amend":
            groups = {kind: [] for kind in PASSES}
        if event.kind == "sums" and event.payload["pass"] in PASSES:
            groups[event.payload["pass"]] += map(Group.of, event.payload["groups"])
    closed = closed_waves(events)
    waves = tuple(wave.number for wave in closed)
    segments = now.spec.report.segments
    return SummedWaves(now, waves, at or utc_now(), closed, events, groups, segments=segments)


@dataclass(frozen=True)
class Pending:
    """A statement that is to be run next.

    Parameters
    ----------
    kind
        What it sums up.
    parts
        The waves that it reads, each with a metric; empty for the objective.
    """

    kind: Pass
    parts: tuple[tuple[int, str], ...]

    @property
    def waves(self) -> str:
        """The waves, in words."""
        numbers = list(dict.fromkeys(str(wave) for wave, _ in self.parts))
        return f"wave{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def pending(data: SummedWaves) -> Pending | None:
    """Return the statement that findings need next; None if they have all sums."""
    every = [(wave, metric) for wave in data.waves for metric in data.metrics]
    for kind in PASSES:
        wanted = every
        if kind == "returns":
            starts = {metric: data.starts(metric) for metric in data.metrics}
            wanted = [(wave, metric) for wave, metric in every
                      if starts[metric][data.waves.index(wave)]]  # fmt: skip
        there = {(one.wave, one.metric) for one in data.groups[kind]}
        if left := tuple(part for part in wanted if part not in there):
            return Pending(kind, left)
    return None


def require_sums(data: SummedWaves) -> None:
    """Refuse findings whose sums were not recorded yet."""
    if (left := pending(data)) is not None:
        raise CampaignStateError(
            f"campaign {data.now.name} keeps its rows elsewhere, and findings need sums over them "
            f"that are not recorded yet ({left.kind} of {left.waves}). Write the statement",
            Remedy("sql", what="findings", assignments=..., outcomes=...),
            ", run it where the rows are, and record its result",
            Remedy("record-sums", sums=..., statement=...),
            ".",
            code="sums-missing",
        )


# ----------------------------------------------------------------------
# The statement.


def next_statement(
    store: Store, name: str, *, dialect: str, assignments: str | None, outcomes: str | None
) -> str:
    """Return the statement that a campaign's findings need next."""
    if assignments is None or outcomes is None:
        raise InvalidArgumentError(
            "what", "findings from the tables assignments and outcomes", "no such tables"
        )
    require_tables(assignments, outcomes)
    tables = Tables(dialect_of(dialect), assignments, outcomes)
    with store.read(name) as reader:
        return findings_statement(current(reader), reader.events(), tables)


def findings_statement(now: Situation, events: Sequence[Event], tables: Tables) -> str:
    """Return the statement that findings need next, with its fingerprint in every row."""
    data = summed_waves(now, events)
    _require_summable(now, data)
    with one_thread():
        left = pending(data)
        if left is None:
            raise CampaignStateError(
                f"campaign {now.name} has all sums that findings need.", code="nothing-to-sum"
            )
        queries = list(_queries(data, left, tables))
    about = {"what": "findings", "pass": left.kind, "assignments": tables.assignments,
             "outcomes": tables.outcomes}  # fmt: skip
    said = [f"Sums for findings: {left.kind} of {left.waves}. Hand the result back with "
            "record-sums."]  # fmt: skip
    union = "\nUNION ALL\n".join(
        f"SELECT * FROM (\n{query}\n) AS part{place}" for place, query in enumerate(queries)
    )
    body = (
        f"SELECT parts.*,\n  {tables.sql.text(BLANK)} AS statement\nFROM (\n{union}\n) AS parts\n"
        f"ORDER BY {', '.join(KEYS)}\n"
    )
    blank = written_for(now, tables.sql, about, said, body)
    return blank.replace(BLANK, fingerprint(blank))


def _require_summable(now: Situation, data: SummedWaves) -> None:
    if now.spec.rows != "elsewhere":
        raise CampaignStateError(
            f"campaign {now.name} keeps its rows here, so findings need no sums.", code="rows-here"
        )
    if not data.waves:
        raise CampaignStateError(
            f"campaign {now.name}: no wave is closed, so there is nothing to sum up.",
            code="no-wave-closed",
        )


def _queries(data: SummedWaves, left: Pending, tables: Tables) -> Iterator[str]:
    if left.kind == "scores":
        scored = [data.scored(wave, name, data.asked(name), tables) for wave, name in left.parts]
        width = max(len(one.sums.texts) for one in scored)
        yield from (one.query(width=width) for one in scored)
        return
    for wave, metric in left.parts:
        units = data.units(wave, metric, tables)
        if left.kind == "evidence":
            sums = evidence_sums(units)
            yield units.selected(sums, width=len(sums))
        else:
            starts = data.starts(metric)[data.waves.index(wave)]
            width = len(return_sums(units.vector))
            yield return_query(units, starts, data.turn, width=width)


# ----------------------------------------------------------------------
# A statement that is handed back, perhaps on another machine, which rounds differently.


NUMBER = re.compile(r"(\(?-?[0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?\)?)")
#: By how much numbers of a statement may differ.
NEAR = 1e-6


def wrong_findings(now: Situation, events: Sequence[Event], text: str) -> str:
    """Return why a statement is not the one that findings need next; "" if it is."""
    about = header(text)
    if about.get("what") != "findings" or about.get("dialect") not in DIALECTS:
        return "is not a statement for findings that seqbatch wrote"
    if problem := of_another(now, about):
        return problem
    tables = Tables(dialect_of(about["dialect"]), str(about.get("assignments")),
                    str(about.get("outcomes")))  # fmt: skip
    own = findings_statement(now, events, tables)
    return "" if _alike(own, text) else "was changed: it differs from the campaign's statement"


def _alike(one: str, other: str) -> bool:
    """Return whether a statement is the campaign's, up to rounding of its numbers."""
    mark = mark_in(other)
    blank = other.replace(mark, BLANK) if mark else other
    if fingerprint(blank) != mark:
        return False
    pairs = zip_longest(
        NUMBER.split(one.replace(marked(one), BLANK)), NUMBER.split(blank), fillvalue=""
    )
    return all(left == right or _near(left, right) for left, right in pairs)


def _near(left: str, right: str) -> bool:
    if not (NUMBER.fullmatch(left) and NUMBER.fullmatch(right)):
        return False
    numbers = [float(text.strip("()")) for text in (left, right)]
    return isclose(*numbers, rel_tol=NEAR, abs_tol=NEAR)


# ----------------------------------------------------------------------
# The result.


WHOLE = re.compile(r"(-?[0-9]{1,28})(?:\.0*)?")


def findings_sums(
    now: Situation, events: Sequence[Event], source: Source, text: str
) -> dict[str, Any]:
    """Return what is stored of a statement and its result."""
    data, mark = summed_waves(now, events), marked(text)
    left = pending(data)
    assert left is not None
    groups = _read_groups(source, data, left, mark)
    data.groups[left.kind].extend(map(Group.of, groups))
    complete = pending(data) is None
    look = {"stopping": _look(data)} if complete and now.unlooked else {}
    return {
        "pass": left.kind,
        "complete": complete,
        "statement": text,
        "fingerprint": mark,
        "groups": groups,
        **look,
    }


def _look(data: SummedWaves) -> dict[str, Any] | None:
    """Return the look after the last closed wave, as that closing would have taken it from rows."""
    before = data.events[: data.now.closes[-1] - 1]
    with one_thread():
        summaries = data.summaries(data.asked(OBJECTIVE), data.divisions(OBJECTIVE))
        taken = look_from(data, data.closed[-1].now, summaries, before, looks_taken(data.events))
    return None if taken is None else taken.plain()


def differing_sums(now: Situation, events: Sequence[Event], said: dict[str, Any]) -> str:
    """Return what is wrong with recorded sums beside those that close waves; "" if nothing is."""
    if said["pass"] == "scaling":
        problem = wrong_statement(now, said["statement"])
        return f"the statement {problem}" if problem else ""
    if problem := wrong_findings(now, events, said["statement"]):
        return f"the statement {problem}"
    data = summed_waves(now, events)
    left = pending(data)
    assert left is not None
    problems = _incomplete(data, left, said["groups"])
    return problems[0].reason if problems else ""


def look_again(now: Situation, events: Sequence[Event], said: dict[str, Any]) -> Any:
    """Return the look that recorded sums give, to be compared with the one beside them."""
    data = summed_waves(now, events)
    data.groups[said["pass"]].extend(map(Group.of, said["groups"]))
    return _look(data)


def _read_groups(
    source: Source, data: SummedWaves, left: Pending, mark: str
) -> list[dict[str, Any]]:
    """Return the rows of a result as stored; refuse a file that is not the statement's result.

    The result may come in parts, one below the other: each from a part of the table of
    assignments.
    """
    found = {name.lower(): name for name in source.columns()}
    sums = [name for name in found if re.fullmatch("s[0-9]+", name)]
    sums.sort(key=lambda name: int(name[1:]))
    wanted = [*KEYS, *CHECKS, "statement", *(f"s{place}" for place in range(len(sums)))]
    if missing := [name for name in wanted if name not in found]:
        said = "is missing; give the whole result of the statement"
        gone = [RowProblem(0, name, said, "no-such-column") for name in missing]
        raise InvalidFileError(source.name, gone)
    rows, problems = list[dict[str, Any]](), list[RowProblem]()
    for batch in source.batches([found[name] for name in wanted]):
        for row in range(batch.num_rows):
            cells = {name: _text(python_value(batch.column(found[name])[row])) for name in wanted}
            made, problem = _row(cells, len(sums), len(data.order), mark, len(rows) + 1)
            rows.append(made)
            problems += [problem] if problem else []
    whole = [] if problems else _together(rows, left.kind)
    problems += [] if problems else _incomplete(data, left, whole)
    if problems:
        raise InvalidFileError(source.name, problems, "nothing was recorded")
    return whole


def _together(rows: Sequence[dict[str, Any]], kind: Pass) -> list[dict[str, Any]]:
    """Return the rows of all parts of a result, those of the same units added up."""
    parts: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault(tuple(row[name] for name in KEYS), []).append(row)
    return [own[0] if len(own) == 1 else _added_up(own, kind) for own in parts.values()]


def _added_up(rows: Sequence[dict[str, Any]], kind: Pass) -> dict[str, Any]:
    columns = list(
        zip(*([float(each) for each in row["sums"].split()] for row in rows), strict=True)
    )
    # Sums of `fsum` do not depend on the order of the parts.
    sums = [fsum(column) for column in columns]
    if kind == "evidence":
        sums[-2:] = min(columns[-2]), max(columns[-1])
    checks = [sum(own) for own in zip(*(row["checks"] for row in rows), strict=True)]
    return {**rows[0], "checks": checks, "sums": " ".join(map(repr, sums))}


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _row(
    cells: dict[str, str], sums: int, actions: int, mark: str, place: int
) -> tuple[dict[str, Any], RowProblem | None]:
    """Return a row as stored, and its problem if it has one."""
    if cells["statement"] != mark:
        said = "is not the fingerprint of this statement"
        return {}, RowProblem(place, "statement", said, "wrong-statement")
    whole = [name for name in (*KEYS, *CHECKS) if name not in TEXTS]
    texts = {name: cells[name] or ("0" if name in ("rewards", "absent") else "") for name in whole}
    for name, text in texts.items():
        if not WHOLE.fullmatch(text):
            said = f"must be a whole number; received {text!r}"
            return {}, RowProblem(place, name, said, "not-a-number")
    numbers = {name: int(WHOLE.sub(r"\1", text)) for name, text in texts.items()}
    if not 0 <= numbers["action"] < actions:
        said = f"must be between 0 and {actions - 1}; received {numbers['action']}"
        return {}, RowProblem(place, "action", said, "unknown-action")
    own = [cells[f"s{k}"] or "0" for k in range(sums)]
    for k, text in enumerate(own):
        try:
            float(text)
        except ValueError:
            said = f"must be a number; received {text!r}"
            return {}, RowProblem(place, f"s{k}", said, "not-a-number")
    return {
        **{name: cells[name] if name in TEXTS else numbers[name] for name in KEYS},
        "checks": [numbers[name] for name in CHECKS],
        "sums": " ".join(own),
    }, None


def _incomplete(
    data: SummedWaves, left: Pending, rows: Sequence[dict[str, Any]]
) -> list[RowProblem]:
    """Return what of the statement's waves is missing, or is not as it was when they closed."""
    groups = [Group.of(row) for row in rows]
    there = {(one.wave, one.metric) for one in groups}
    gone = [part for part in left.parts if part not in there]
    if gone or there - set(left.parts):
        said = f"the result must have rows of {left.waves} alone"
        return [RowProblem(0, "wave", said, "incomplete")]
    names = [data.now.actions[number].name for number in data.order]
    read = [wave for wave in data.closed if wave.number in {one.wave for one in groups}]
    return [
        RowProblem(
            0,
            "wave",
            f"the units or outcomes of wave {wave} are not those that closed it: keep both tables "
            "as they were, or leave later outcomes out by a view",
            "altered",
        )
        for wave in dict.fromkeys(differences(read, names, groups))
    ]
