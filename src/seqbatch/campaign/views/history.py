"""A campaign's history: its events as a table and in words, and their public fields."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from seqbatch.campaign.record.store import Event
from seqbatch.campaign.views.signatures import KNOWN_BY
from seqbatch.display import cell, counted, enumerated
from seqbatch.document import Table

#: Fields of a payload that reveal no action before its unit is assigned. All other fields are
#: secret: the SQL statements of a wave contain the key of its draws, and a draw its highest lot.
PUBLIC = frozenset((
    "absent", "absent_earlier", "absent_value", "add", "adopted", "against", "allocation",
    "assigned", "changes", "chunks", "codes", "control", "correct", "corrected",
    "delivery", "equal_rows", "error", "expected", "explored", "file", "floor", "forced", "held",
    "inflated",
    "key", "known_by", "late", "learned", "left_out", "limits", "logged", "matched", "meaning",
    "metrics", "missingness", "notes", "number",
    "observed", "outside", "policy", "proposal", "randomised", "reading", "reasons", "replaced",
    "retire", "rewards", "seal", "sizes", "skipped", "software", "spec", "stopping",
    "unknown", "verdict", "waiting", "wave", "windows", "looks",
))  # fmt: skip
#: Public fields that show interim results, or from which they could be computed.
RESULTS = frozenset((
    "absent", "allocation", "assigned", "expected", "explored", "inflated", "limits", "looks",
    "metrics", "missingness", "notes", "observed", "proposal", "randomised", "rewards", "stopping",
))  # fmt: skip
#: Counts of an event that reveal no result: they are sums over all actions.
PLAIN_COUNTS = frozenset((
    "absent", "accepted", "actions", "assessed", "assigned", "clipped", "conflict", "corrected",
    "duplicate", "excluded",
    "late", "left_over", "outcomes", "outside", "quarantined", "repeated", "rows", "units", "waves",
))  # fmt: skip
#: Fields of a spec that are public in the same sense.
PUBLIC_SPEC = frozenset((
    "actions", "biased_coin", "budget", "capacity", "cluster", "columns", "control", "currency",
    "draw", "draws", "eligible", "fallback", "features", "floor", "grid", "history", "interim",
    "masked", "metrics", "model", "name", "objective", "on_unseen_category", "owner", "policy",
    "question", "randomised", "report", "required_outcomes", "rows", "start", "stopping",
    "strata", "sums", "unit",
))  # fmt: skip


#: Kinds of events that change how a campaign runs, or who knows what.
CHANGES = ("amend", "abort", "stop", "continue", "erase", "unmask", "look", "unblind")


def unblinded_text(events: Sequence[Event]) -> str:
    """Say how many units were unblinded in an emergency, and by which events; "" if none was."""
    found = [event for event in events if event.kind == "unblind"]
    if not found:
        return ""
    numbers = enumerated([str(event.sequence) for event in found])
    units = len({event.payload["number"] for event in found})
    events_said = "events" if len(found) > 1 else "event"
    return f"Unblinded in an emergency: {counted(units, 'unit')} ({events_said} {numbers})."


def public(event: Event) -> Event:
    """Return an event with the public fields of its payload."""
    payload = {name: value for name, value in event.payload.items() if name in PUBLIC}
    if isinstance(spec := payload.get("spec"), dict):
        payload["spec"] = {name: value for name, value in spec.items() if name in PUBLIC_SPEC}
    return replace(event, payload=payload)


def events_table(name: str, events: list[Event]) -> Table:
    """Return all events, one row each."""
    return Table(
        f"Events of {name}",
        ("event", "kind", "when (UTC)", "who", "why", "what"),
        [(e.sequence, e.kind, _time(e.at), e.who, e.why, what_was_done(e)) for e in events],
        words=("kind", "when (UTC)", "who", "why", "what"),
    )


def what_was_done(event: Event) -> str:
    """Return an event's counts, and each change with its old and new value."""
    changed = [
        f"{change['what']} from {_listed(change['from'])} to {_listed(change['to'])}"
        for change in event.payload.get("changes", ())
    ]
    if "error" in event.payload:
        from seqbatch.campaign.decide.amended_error import amended_error_text

        changed.append(amended_error_text(event.payload["error"]))
    if event.kind == "unmask":
        changed = [f"{code} is {name}" for code, name in event.payload["codes"].items()]
    if event.kind in ("continue", "look", "stop"):
        changed = [f"after wave {event.payload['wave']}"]
    if event.kind in ("look", "stop"):
        changed.append(event.payload["verdict"])
    if event.kind == "sign":
        changed = [f'"{event.payload["meaning"]}"', KNOWN_BY[event.payload["known_by"]]]
    if event.kind == "unblind":
        changed = [f"unit number {event.payload['number']}"]
    return "; ".join([*([_counts(event.counts)] if event.counts else []), *changed])


def _listed(value: Any) -> str:
    if value is None:
        return "none"
    return ", ".join(map(cell, value)) if isinstance(value, list) else cell(value)


def _time(at: str) -> str:
    return at[:19].replace("T", " ")


def _counts(counts: dict[str, Any]) -> str:
    """Return the counts of an event that are not 0.

    >>> _counts({"assigned": 1_200, "left_over": 0, "actions": {"none": 300, "mail": 900}})
    '1,200 assigned, actions (none 300, mail 900)'
    """
    said = []
    for name, value in counts.items():
        words = name.replace("_", " ")
        if isinstance(value, dict):
            inside = ", ".join(f"{each} {cell(count)}" for each, count in value.items())
            said.append(f"{words} ({inside})" if inside else "")
        elif value != 0:
            said.append(f"{cell(value)} {words}")
    return ", ".join(filter(None, said)) or "nothing new"
