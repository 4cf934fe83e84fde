"""The open wave as one SQL statement, and learning from the sums that it returns."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Literal, get_args

from seqbatch.campaign.decide.learning import ended
from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.warehouse.assignments import AssignmentsTable, WaveEntry
from seqbatch.campaign.warehouse.closed_wave import closed_waves
from seqbatch.campaign.warehouse.decisions import DecisionStages, require_expressible, rule_of
from seqbatch.campaign.warehouse.dialects import DIALECTS, SqlDialect, dialect_of
from seqbatch.campaign.warehouse.features import Item
from seqbatch.campaign.warehouse.scaling import is_unscaled, joined, learning, scaling_body
from seqbatch.campaign.warehouse.stages import named
from seqbatch.campaign.warehouse.sums import Row, StoredStages, learned_sums, summing
from seqbatch.errors import CampaignStateError, InvalidArgumentError, Remedy
from seqbatch.policies.rule import Rule

# ----------------------------------------------------------------------
# The open wave's rule as one SQL statement: decisions, or the wave's sums.


What = Literal["assign", "scaling", "sums", "findings"]
#: The names of a statement's stages.
STAGES = (
    "given", "offered", "counted", "other_waves", "others", "recorded", "entered", "checked",
    "taken", "known", "drawn", "crossed", "rooted", "scored", "ranked", "picked", "weighed",
    "shared", "decided", "told", "told_once", "told_of", "judged", "rounded", "had_before",
    "cells", "marked", "held", "folded", "unit", "predicted", "missed", "moved", "weighted",
    "summed", "parts",
)  # fmt: skip
#: The placeholder for a statement's fingerprint while the fingerprint is computed.
BLANK = "0" * 64


def statement(
    store: Store,
    name: str,
    *,
    what: str,
    dialect: str,
    units: str | None,
    assignments: str | None,
    outcomes: str | None,
    write: bool,
    partial: bool,
) -> str:
    """Return the open wave's rule as an SQL statement.

    Parameters
    ----------
    store, name
        The campaign.
    what
        ``"assign"``: every unit's action, probabilities and score. ``"scaling"``: what is learned
        about columns from the first wave. ``"sums"``: the sums, by action, from which closing the
        wave learns.
    dialect
        The SQL dialect; see :data:`seqbatch.campaign.warehouse.dialects.DIALECTS`.
    units, assignments, outcomes
        The tables, as table or schema.table: units only to assign; outcomes only for sums.
    write, partial
        Whether to insert the wave into the table of assignments, and whether it may have fewer
        units than planned.
    """
    if what not in get_args(What):
        raise InvalidArgumentError("what", f"one of {', '.join(get_args(What))}", repr(what))
    require_tables(units, assignments, outcomes)
    sql = dialect_of(dialect)
    with store.read(name) as reader:
        now, record = current(reader), reader.last_state()
    assert record is not None
    now.require_no_stop()
    state = unpack_state(record.content, now)
    rule = rule_of(now, state)
    if what == "scaling":
        if units is not None or write or partial or outcomes is not None or assignments is None:
            raise InvalidArgumentError(
                "what", "scaling of the table assignments, and of no other", repr(what)
            )
        return scaling(now, AssignmentsTable(now, sql, assignments))
    if what == "sums":
        if units is not None or write or partial or outcomes is None or assignments is None:
            raise InvalidArgumentError(
                "what", "sums of the tables assignments and outcomes, and of no other", repr(what)
            )
        return summed_up(now, AssignmentsTable(now, sql, assignments), outcomes)
    if units is None or outcomes is not None:
        raise InvalidArgumentError(
            "what", "assign for a table of units, without outcomes", repr(what)
        )
    if assignments is None:
        _require_assignments(now, write=write, partial=partial)
        return assigning(now, rule, sql, units)
    table = AssignmentsTable(now, sql, assignments)
    return assigning(now, rule, sql, units, WaveEntry(table, units, partial, write))


def _require_assignments(now: Situation, *, write: bool, partial: bool) -> None:
    """Refuse to decide for all units of a table where the campaign has no other list of them."""
    if now.spec.rows == "elsewhere" or write or partial:
        raise InvalidArgumentError(
            "assignments",
            "the table of assignments, which keeps the waves apart",
            "none",
            "Name a table in the database; with write, the script creates it if there is none.",
            remedies=[Remedy("sql", what="assign", units=..., assignments=..., write=True)],
        )


def assigning(
    now: Situation, rule: Rule, sql: SqlDialect, units: str, entry: WaveEntry | None = None
) -> str:
    """Return the statement that decides for the units of a table, or for those that enter."""
    made = DecisionStages(now, rule, sql, units, entry)
    K = len(now.active)
    names = [now.actions[number].name for number in now.active]
    spelled = " ".join(f"WHEN {a} THEN {sql.text(name)}" for a, name in enumerate(names))
    scores, chances = (
        " ".join(f"WHEN {action} THEN {prefix}{action}" for action in range(K)) for prefix in "sp"
    )
    action = f"CASE chosen {spelled} END"
    if entry and entry.write:
        unit = f"'unit ' || COALESCE(id, '') || ': ' || problem || {sql.text(CORRECT)}"
        action = f"CASE WHEN problem IS NULL THEN {action} ELSE {sql.as_text(sql.fail(unit))} END"
    ids = [(alias, sql.name_of(name)) for alias, name in zip(made.ids, now.spec.unit, strict=True)]
    items = [
        *ids,
        (action, "action"),
        (str(now.wave), "wave"),
        (f"CASE chosen {scores} END", "score"),
        (f"CASE chosen {chances} END", "probability"),
        *(_unless_refused(each) for each in ("randomised", *(f"p{a}" for a in range(K)), "part")),
    ]
    said = ["Each unit's action. " + ", ".join(f"p{a}: {_plain(n)}" for a, n in enumerate(names))]
    about: dict[str, Any] = {"what": "assign", "units": units}
    if entry is None:
        said.append("A unit with a problem gets no action. Every unit must be in the table once.")
        return written_for(
            now, sql, about, said, made.stages.statement([*items, *named("problem")])
        )
    table = entry.table
    items.insert(len(ids) + 1, (table.label, "campaign"))
    items += [(alias, column) for alias, (column, _) in table.stored.items()]
    about |= {"assignments": table.name, "write": entry.write, "partial": entry.partial}
    said.append(f"Units of {_plain(table.name)} get none: they had their wave.")
    chosen = "CROSS JOIN checked\nWHERE verdict = 0"
    if not entry.write:
        items.append(("problem", "problem"))
        return written_for(now, sql, about, said, made.stages.statement(items, after=chosen))
    said.append("A second run changes nothing. Whatever is wrong ends the script with a message.")
    insert = table.inserted(made.stages.statement(items, after=chosen).rstrip())
    if table.more and not sql.widens:
        said.append(f"First add to {_plain(table.name)}: {', '.join(table.more)} ({sql.double}).")
    return written_for(now, sql, about, said, f"{table.created()}{insert}{table.counted()};\n")


#: What to do about a unit with a problem.
CORRECT = ". Correct such units, or leave them out; the same statement without write lists them"


def _unless_refused(column: str) -> Item:
    return f"CASE WHEN problem IS NULL THEN {column} END", column


def summed_up(now: Situation, table: AssignmentsTable, outcomes: str) -> str:
    """Return the statement that computes a wave's sums, with its fingerprint in every row."""
    require_summable(now)
    made, sql = StoredStages(now, table), table.sql
    items, after = summing(now, made, table, outcomes)
    items.append((sql.text(BLANK), "statement"))
    said = ["What the wave teaches, by action: hand the result back with record-sums."]
    body = made.stages.statement(items, after=after)
    about = {"what": "sums", "assignments": table.name, "outcomes": outcomes}
    blank = written_for(now, sql, about, said, body)
    return blank.replace(BLANK, fingerprint(blank))


def scaling(now: Situation, table: AssignmentsTable) -> str:
    """Return the statement that learns about columns from the first wave."""
    if now.spec.rows != "elsewhere" or not is_unscaled(now):
        raise CampaignStateError(
            f"campaign {now.name} has nothing to learn about columns in wave {now.wave}.",
            code="nothing-to-sum",
        )
    stages, items = scaling_body(now, table)
    items.append((table.sql.text(BLANK), "statement"))
    said = ["What the first wave says about columns: hand the result back with record-sums."]
    body = stages.statement(items, after=joined(now))
    about = {"what": "scaling", "assignments": table.name}
    blank = written_for(now, table.sql, about, said, body)
    return blank.replace(BLANK, fingerprint(blank))


def fingerprint(text: str) -> str:
    """Return the fingerprint of a statement whose own fingerprint is left blank."""
    return sha256(text.encode()).hexdigest()


def marked(text: str) -> str:
    """Return the fingerprint in a statement: the hash of the text without it."""
    found = mark_in(text)
    assert fingerprint(text.replace(found, BLANK)) == found
    return found


def mark_in(text: str) -> str:
    """Return what stands for the fingerprint in a statement."""
    return text.rpartition(" AS statement\n")[0][-65:-1]


def require_summable(now: Situation) -> None:
    """Refuse a campaign whose waves cannot be summed outside the store."""
    spec = now.spec
    if spec.rows == "elsewhere" and is_unscaled(now):
        raise CampaignStateError(
            f"campaign {now.name}: the scaling of columns "
            f"({', '.join(part.name for part in learning(now).values())}) is not learned yet. "
            "Write the statement",
            Remedy("sql", what="scaling", assignments=...),
            ", run it where the rows are, and record its result",
            Remedy("record-sums", sums=..., statement=...),
            ".",
            code="scaling-missing",
        )
    reasons = {
        'sums depend on the order of rows (declare sums = "exact")': spec.sums != "exact",
        "the scaling of columns is not yet learned from the first wave "
        f"({', '.join(spec.features.learning)})": now.learned is None
        and bool(spec.features.learning),
        "absent outcomes count only after a wait (after)": spec.reward.after is not None,
        "a metric has a format": any(one.format is not None for one in spec.reward.terms),
        "rows are combined or must be in time (rows, within)": any(
            one.rows is not None or one.within is not None for one in spec.reward.terms
        ),
    }
    if found := [reason for reason, there in reasons.items() if there]:
        raise CampaignStateError(
            f"wave {now.wave} of campaign {now.name} cannot be summed up by SQL: "
            f"{'; '.join(found)}. Use record and close.",
            code="not-in-sql",
        )


def require_tables(*tables: str | None) -> None:
    """Refuse table names that clash with the names of a statement's stages."""
    for table in tables:
        if table is not None and table.lower() in STAGES:
            raise InvalidArgumentError(
                "table",
                f"named differently from the stages of the statement ({', '.join(STAGES)})",
                repr(table), "Name its schema too, as schema.table.",
            )  # fmt: skip


def header(text: str) -> dict[str, Any]:
    """Return the header of a statement; empty if seqbatch did not write the statement."""
    first = text.partition("\n")[0]
    try:
        found = json.loads(first.removeprefix("-- "))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


#: The line about dialects whose statements are only parsed by the tests.
UNTESTED = "Not run: statements of this dialect were parsed, but not run in the database."


def written_for(
    now: Situation, sql: SqlDialect, about: dict[str, Any], said: list[str], body: str
) -> str:
    """Return a statement with its header, which names the campaign, wave and event."""
    own = {"campaign": now.name, "wave": now.wave, "event": now.sequence, "hash": now.hash,
           "dialect": sql.name}  # fmt: skip
    # JSON escapes line breaks, so a name cannot end the comment.
    lines = [json.dumps(own | about), *said, *([] if sql.tested else [UNTESTED])]
    return "\n".join(f"-- {line}" for line in lines) + f"\n{body}"


def _plain(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


# ----------------------------------------------------------------------
# Waves summed outside the store: learning from them, and verifying the sums.


#: The note of a verification about such waves.
UNPROVEN = (
    "the rows of wave {} are kept elsewhere: its estimate follows from the recorded sums, which "
    "were recorded as the result of the campaign's statement. To check them against the rows, "
    "run the statement again where the rows are"
)


def learned_elsewhere(now: Situation, state: Any, rows: Sequence[Row]) -> Any:
    """Return the state after a wave, computed from the rows of its result."""
    return ended(now.made_policy(), state, learned_sums(rows, now, now, state))


def relearned_elsewhere(now: Situation, events: Sequence[Event]) -> Any:
    """Return the state after learning the closed waves again from their sums."""
    policy = now.made_policy()
    state = policy.begin(now.problem())
    for wave in closed_waves(events):
        state = ended(policy, state, learned_sums(wave.sums, now, wave.now, state))
    return state


def wrong_statement(now: Situation, text: str) -> str:
    """Return why a statement is not the one for the open wave's sums; "" if it is."""
    about = header(text)
    if about.get("what") not in ("sums", "scaling") or about.get("dialect") not in DIALECTS:
        return "is not a statement for sums that seqbatch wrote"
    if problem := of_another(now, about):
        return problem
    require_expressible(now)
    table = AssignmentsTable(now, dialect_of(about["dialect"]), str(about.get("assignments")))
    if about["what"] == "scaling":
        own = scaling(now, table)
    else:
        own = summed_up(now, table, str(about.get("outcomes")))
    return "" if own == text else "was changed: it differs from the campaign's statement"


def of_another(now: Situation, about: dict[str, Any]) -> str:
    """Return which other campaign or wave a statement's header names; "" if it is the open wave."""
    name, event = about.get("campaign"), about.get("event")
    if (name, event) != (now.name, now.sequence):
        return (
            f"was made for wave {about.get('wave')} of campaign {name!r} after event {event}, not "
            f"for wave {now.wave} of {now.name!r} after event {now.sequence}"
        )
    if about.get("hash") != now.hash:
        return (
            f"was made for another campaign called {name!r}: the hash of its event {event} begins "
            f"with {str(about.get('hash'))[:12]}, here with {now.hash[:12]}"
        )
    return ""


def wrong_evidence(now: Situation, said: dict[str, Any]) -> str:
    """Return what is wrong with a closing's statement and sums; "" if nothing is."""
    if problem := wrong_statement(now, said["statement"]):
        return f"the statement {problem}"
    kept = [row["statement"] == said["fingerprint"] for row in said["sums"]]
    return "" if all(kept) else "sums are not the result of the statement"
