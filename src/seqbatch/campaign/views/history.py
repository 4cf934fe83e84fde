"""A campaign's history: its events as a table and in words, and their public fields."""

from dataclasses import replace
from typing import Any

from seqbatch.campaign.record.store import Event
from seqbatch.display import cell
from seqbatch.document import Table

#: Fields of a payload that reveal no action before its unit is assigned. All other fields are
#: secret: the SQL statements of a wave contain the key of its draws, and a draw its highest lot.
PUBLIC = frozenset((
    "absent", "absent_earlier", "absent_value", "add", "adopted", "against", "allocation",
    "assigned", "changes", "chunks", "codes", "control", "correct", "corrected",
    "delivery", "equal_rows", "expected", "explored", "file", "floor", "forced", "held", "inflated",
    "key", "late", "learned", "left_out", "limits", "logged", "metrics", "missingness", "notes",
    "observed", "outside", "policy", "proposal", "randomised", "reading", "reasons", "replaced",
    "retire", "rewards", "sizes", "skipped", "software", "spec", "stopping", "unit", "unknown",
    "waiting", "wave", "windows",
))  # fmt: skip
#: Fields of a spec that are public in the same sense.
PUBLIC_SPEC = frozenset((
    "actions", "biased_coin", "budget", "capacity", "cluster", "columns", "control", "currency",
    "draw", "draws", "eligible", "fallback", "features", "floor", "grid", "history", "masked",
    "metrics", "model", "name", "objective", "on_unseen_category", "policy", "randomised",
    "report", "required_outcomes", "rows", "start", "stopping", "strata", "sums", "unit",
))  # fmt: skip


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
    if event.kind == "unmask":
        changed = [f"{code} is {name}" for code, name in event.payload["codes"].items()]
    if event.kind == "continue":
        changed = [f"after wave {event.payload['wave']}"]
    return "; ".join([*([_counts(event.counts)] if event.counts else []), *changed])


def _listed(value: Any) -> str:
    if value is None:
        return "none"
    return ", ".join(map(cell, value)) if isinstance(value, list) else cell(value)


def _time(at: str) -> str:
    return at[:19].replace("T", " ")


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} ({_counts(value)})" if isinstance(value, dict) else f"{name} {cell(value)}"
        for name, value in counts.items()
    )
