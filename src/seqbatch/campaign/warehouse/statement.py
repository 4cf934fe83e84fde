"""The open wave as one SQL statement, and learning from the sums that it returns."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Literal, get_args

from seqbatch.campaign.decide.learning import GroupSums, ended
from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.events import current
from seqbatch.campaign.record.store import Store
from seqbatch.campaign.warehouse.decisions import DecisionStages, named, rule_of
from seqbatch.campaign.warehouse.dialects import DIALECTS, SqlDialect, dialect_of
from seqbatch.campaign.warehouse.features import Item
from seqbatch.campaign.warehouse.sums import Row, summing, wave_sums
from seqbatch.errors import CampaignStateError, InvalidArgumentError
from seqbatch.policies.rule import Rule

# ----------------------------------------------------------------------
# The open wave's rule as one SQL statement: decisions, or the wave's sums.


What = Literal["assign", "sums"]
#: The names of a statement's stages.
STAGES = (
    "given", "known", "drawn", "crossed", "rooted", "scored", "ranked", "picked", "weighed",
    "shared", "decided", "told", "told_once", "judged", "rounded",
    "counted", "cells", "marked",
)  # fmt: skip
#: The placeholder for a statement's fingerprint while the fingerprint is computed.
BLANK = "0" * 64


def statement(
    store: Store, name: str, *, what: str, dialect: str, units: str, outcomes: str | None
) -> str:
    """Return the open wave's rule as an SQL statement.

    Parameters
    ----------
    store, name
        The campaign.
    what
        ``"assign"``: every unit's action, probabilities and score. ``"sums"``: the sums, by action,
        from which closing the wave learns.
    dialect
        The SQL dialect; see :data:`seqbatch.campaign.warehouse.dialects.DIALECTS`.
    units, outcomes
        The tables, as table or schema.table; outcomes only for sums.
    """
    if what not in get_args(What):
        raise InvalidArgumentError("what", f"one of {', '.join(get_args(What))}", repr(what))
    if (what == "sums") != (outcomes is not None):
        raise InvalidArgumentError(
            "outcomes", "the table of outcomes for sums, and left out for assign", repr(outcomes)
        )
    _require_tables(units, outcomes)
    with store.read(name) as reader:
        now, record = current(reader), reader.last_state()
    assert record is not None
    now.require_no_stop()
    state = unpack_state(record.content, now)
    rule, sql = rule_of(now, state), dialect_of(dialect)
    if outcomes is None:
        return assigning(now, rule, sql, units)
    return summed_up(now, rule, sql, units, outcomes)


def assigning(now: Situation, rule: Rule, sql: SqlDialect, units: str) -> str:
    """Return the statement that decides for the units of a table."""
    made = DecisionStages(now, rule, sql, units, keep=False)
    K = len(now.active)
    names = [now.actions[number].name for number in now.active]
    spelled = " ".join(f"WHEN {a} THEN {sql.text(name)}" for a, name in enumerate(names))
    scores, chances = (
        " ".join(f"WHEN {action} THEN {prefix}{action}" for action in range(K)) for prefix in "sp"
    )
    ids = [(alias, sql.name_of(name)) for alias, name in zip(made.ids, now.spec.unit, strict=True)]
    items = [
        *ids,
        (f"CASE chosen {spelled} END", "action"),
        (str(now.wave), "wave"),
        (f"CASE chosen {scores} END", "score"),
        (f"CASE chosen {chances} END", "probability"),
        *(_unless_refused(each) for each in ("randomised", *(f"p{a}" for a in range(K)), "part")),
        *named("problem"),
    ]
    said = [
        "Each unit's action. " + ", ".join(f"p{a}: {_plain(n)}" for a, n in enumerate(names)),
        "A unit with a problem gets no action. Every unit must be in the table once.",
    ]
    return _headed(now, sql, said, made.stages.statement(items), units=units, outcomes=None)


def _unless_refused(column: str) -> Item:
    return f"CASE WHEN problem IS NULL THEN {column} END", column


def summed_up(now: Situation, rule: Rule, sql: SqlDialect, units: str, outcomes: str) -> str:
    """Return the statement that computes a wave's sums, with its fingerprint in every row."""
    require_summable(now)
    made = DecisionStages(now, rule, sql, units, keep=True)
    items, after = summing(now, made, sql, units, outcomes)
    items.append((sql.text(BLANK), "statement"))
    said = [
        "What the wave teaches, by action: hand the result back with record-sums.",
        "The table of units must hold the units of this wave alone, each once.",
    ]
    body = made.stages.statement(items, after=after)
    blank = _headed(now, sql, said, body, units=units, outcomes=outcomes)
    return blank.replace(BLANK, fingerprint(blank))


def fingerprint(text: str) -> str:
    """Return the fingerprint of a statement whose own fingerprint is left blank."""
    return sha256(text.encode()).hexdigest()


def marked(text: str) -> str:
    """Return the fingerprint in a statement: the hash of the text without it."""
    found = text.rpartition(" AS statement\n")[0][-65:-1]
    assert fingerprint(text.replace(found, BLANK)) == found
    return found


def require_summable(now: Situation) -> None:
    """Refuse a campaign whose waves cannot be summed outside the store."""
    spec = now.spec
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


def _require_tables(*tables: str | None) -> None:
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


def _headed(
    now: Situation, sql: SqlDialect, said: list[str], body: str, *, units: str, outcomes: str | None
) -> str:
    about = {
        "campaign": now.name, "wave": now.wave, "event": now.sequence, "hash": now.hash,
        "what": "assign" if outcomes is None else "sums", "dialect": sql.name,
        "units": units, "outcomes": outcomes,
    }  # fmt: skip
    # JSON escapes line breaks, so a name cannot end the comment.
    lines = [json.dumps(about), *said]
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
    gathered = GroupSums(now, state)
    gathered.groups = wave_sums(rows, now, state).groups
    return ended(now.made_policy(), state, gathered)


def wrong_statement(now: Situation, state: Any, text: str) -> str:
    """Return why a statement is not the one for the open wave's sums; "" if it is."""
    about = header(text)
    if about.get("what") != "sums" or about.get("dialect") not in DIALECTS:
        return "is not a statement for sums that seqbatch wrote"
    if problem := _of_another(now, about):
        return problem
    sql = dialect_of(about["dialect"])
    own = summed_up(now, rule_of(now, state), sql, str(about["units"]), str(about["outcomes"]))
    return "" if own == text else "was changed: it differs from the campaign's statement"


def _of_another(now: Situation, about: dict[str, Any]) -> str:
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


def wrong_evidence(now: Situation, state: Any, said: dict[str, Any]) -> str:
    """Return what is wrong with a closing's statement and sums; "" if nothing is."""
    if problem := wrong_statement(now, state, said["statement"]):
        return f"the statement {problem}"
    kept = [row["statement"] == said["fingerprint"] for row in said["sums"]]
    return "" if all(kept) else "sums are not the result of the statement"
