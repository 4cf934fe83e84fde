"""Where a campaign stands, in words and tables: the same on a terminal, a page and in a notebook.

The means are raw. The weighted means undo the unequal probabilities with which units got their
actions, by the logged probabilities, and take outcomes to be missing at random. Intervals, and
comparisons of one action with another, are a matter of findings.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seqbatch.campaign.deciding.metrics import MetricRow
from seqbatch.campaign.deciding.proposal_words import proposal_text
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.views.limits import limits_table
from seqbatch.campaign.views.policy_words import plainly
from seqbatch.display import Table, alike, cell, counted, number
from seqbatch.policies.registry import text

if TYPE_CHECKING:
    from seqbatch.campaign.views.status import Status
    from seqbatch.campaign.views.waves import Wave

#: What the column `randomised` does not count.
FIRST_WAVE = (
    "Randomised units are those of the share that the spec keeps for chance alone; in the first "
    "wave all others get their action at random, too."
)


def short(status: "Status") -> str:
    """Return the status in one line.

    >>> from seqbatch.campaign.views.status import Status
    >>> status = Status(name="spring", condition="finished", wave=3, left=None,
    ...     policy={"kind": "RBGL"}, control=None, waves=(), actions=(), conflicts=0,
    ...     quarantined=0, notes=(), events=9, hash="", state="")
    >>> short(status)
    'spring: finished; 0 units, 0 outcomes; 9 events'
    """
    units = sum(wave.assigned for wave in status.waves)
    outcomes = sum(wave.observed for wave in status.waves)
    room = "" if status.left is None else f", room for {counted(status.left, 'more unit')}"
    where = f"wave {status.wave} of {len(status.waves)}{room}"
    return (
        f"{status.name}: {where if status.condition == 'open' else status.condition}; "
        f"{counted(units, 'unit')}, {counted(outcomes, 'outcome')}; "
        f"{counted(status.events, 'event')}"
    )


def heading(status: "Status") -> str:
    """Return what stands above the tables."""
    where = f"wave {status.wave}" if status.condition == "open" else status.condition
    return (
        f"Campaign {status.name}: {where}; {counted(status.events, 'event')}. Policy "
        f"{text(status.policy)}: {plainly(status.policy)}."
    )


def tables(status: "Status") -> list[Table]:
    """Return the waves, what was assigned in them, and what was observed."""
    absent = status.absent_value is not None or any(wave.absent for wave in status.waves)
    named = {row.action: row.action for row in status.actions}
    if status.control in named:
        named[status.control] += " (control)"
    waves = Table(
        "Waves",
        ("wave", "size", "assigned", "outcomes", *(["absent"] if absent else []), "state"),
        [
            (
                wave.wave,
                "open-ended" if wave.size is None else wave.size,
                wave.assigned,
                wave.observed,
                *([wave.absent] if absent else []),
                _state(status, wave),
            )
            for wave in status.waves
        ],
        words=("state",),
    )
    assigned = Table(
        "Assigned",
        ("wave", "action", "units", "randomised", "outcomes", *(["absent"] if absent else [])),
        [
            (
                row.wave,
                named[row.action],
                row.units,
                row.randomised,
                row.outcomes,
                *([row.absent] if absent else []),
            )
            for row in status.actions
        ],
        words=("action",),
        keys=2,
    )
    metrics = [metrics_table(status.metrics)] if status.metrics else []
    limits = [limits_table(status.limits)] if status.limits else []
    return [waves, assigned, *limits, _observed(status, named), *metrics]


def metrics_table(metrics: Sequence[MetricRow]) -> Table:
    """Return metrics by action, with what became of their guardrails."""
    columns = ("metric", "action", "outcomes", "missing", "mean", "wanted", "verdict")
    rows = [
        (
            row.metric if row.unit is None else f"{row.metric} ({row.unit})",
            row.action,
            row.count,
            row.missing,
            row.mean,
            _wanted(row),
            {None: "", True: "passed", False: "VIOLATED"}[row.passed],
        )
        for row in metrics
    ]
    # Units that count as absent have a reward, and no metrics.
    title, words = "Metrics (of recorded outcomes)", ("metric", "action", "wanted", "verdict")
    return Table(title, columns, rows, words=words, keys=2)


def _wanted(row: MetricRow) -> str:
    """Say what a metric should be: within its guardrail, or more, or less."""
    if row.guardrail is None:
        return "more" if row.direction == "max" else "less"
    return f"at {'least' if row.direction == 'max' else 'most'} {cell(row.guardrail)}"


def violations(metrics: Sequence[MetricRow]) -> list[str]:
    """Say which guardrails were violated, one line each."""
    return [
        f"Guardrail VIOLATED: {row.metric} of {row.action} has the mean "
        f"{measured(_mean(row), row.unit)} over {counted(row.count, 'recorded outcome')}; "
        f"{_wanted(row)} is wanted."
        for row in metrics
        if row.passed is False
    ]


def _mean(row: MetricRow) -> str:
    """Return a mean with few digits, but enough to tell it from its guardrail."""
    mean, bound = row.mean or 0.0, row.guardrail or 0.0
    few = number(mean, 3)
    return few if few != number(bound, 3) else cell(mean)


def wave_list(waves: Sequence[int]) -> str:
    """Return waves as they are listed.

    >>> wave_list([2]), wave_list([1, 2, 3])
    ('wave 2', 'waves 1, 2 and 3')
    """
    *first, last = map(str, waves)
    return f"waves {', '.join(first)} and {last}" if first else f"wave {last}"


def measured(text: str, unit: str | None) -> str:
    """Return a number with its unit of measure.

    >>> measured("12.5", "EUR"), measured("12.5", None)
    ('12.5 EUR', '12.5')
    """
    return text if unit is None else f"{text} {unit}"


def absences(recorded: int, absent: int, value: float | None, unit: str | None) -> str:
    """Say how many outcomes were recorded, and how many counted by declaration.

    >>> absences(120, 180, 0.0, "EUR")
    '120 recorded, 180 counted as 0 EUR because absent'
    """
    counts = "as declared" if value is None else f"as {measured(cell(value), unit)}"
    return f"{recorded:,} recorded, {absent:,} counted {counts} because absent"


def _state(status: "Status", wave: "Wave") -> str:
    if wave.closed:
        return "closed"
    if status.condition != "open":
        return status.condition
    return "open" if wave.wave == status.wave else "to come"


def _observed(status: "Status", named: dict[str, str]) -> Table:
    columns = ["wave", "action", "mean", "weighted mean"]
    title = "Observed" if status.unit is None else f"Observed ({status.reward} in {status.unit})"
    rows: list[list[Any]] = [
        [row.wave, named[row.action], mean, weighted]
        for row, mean, weighted in zip(
            status.actions,
            alike([row.mean for row in status.actions]),
            alike([row.weighted for row in status.actions]),
            strict=True,
        )
    ]
    if status.control:
        columns.append("minus control")
        differences = alike([row.difference for row in status.actions])
        for difference, shown in zip(differences, rows, strict=True):
            shown.append(difference)
    return Table(title, tuple(columns), rows, words=("action",), keys=2)


def remarks(status: "Status") -> list[str]:
    """Return what stands below the tables: rows that are held, notes, and the state's hash."""
    said = [*violations(status.metrics), *(f"Note: {note}." for note in status.notes)]
    if status.proposal is not None:
        said.append(proposal_text(status.proposal, status.unit))
    if absent := sum(wave.absent for wave in status.waves):
        recorded = sum(wave.observed for wave in status.waves)
        told = absences(recorded, absent, status.absent_value, status.unit)
        said.insert(0, f"Outcomes: {told}.")
    if status.conflicts or status.quarantined:
        said.insert(
            0,
            "Held rows so far (resubmitted rows count again): "
            f"{counted(status.conflicts, 'conflict')}, {status.quarantined:,} quarantined.",
        )
    said[:0] = status.worth
    if status.clipped:
        said.insert(0, f"{clipped_text(status.clipped)} so far.")
    if status.policy.get("first") == "uniform" and status.actions:
        said.append(FIRST_WAVE)
    return [
        *said,
        f"Hash of all units, decisions, outcomes and estimates: {status.state}",
    ]


def clipped_text(clipped: dict[str, int]) -> str:
    """Return how many values of each column were moved to a bound, without a full stop.

    >>> clipped_text({"age": 1, "spend": 1200})
    'Clipped to the bounds of the first wave or the declared range: age 1, spend 1,200'
    """
    counts = ", ".join(f"{name} {count:,}" for name, count in clipped.items())
    return f"Clipped to the bounds of the first wave or the declared range: {counts}"


def events_table(name: str, events: list[Event]) -> Table:
    """Return everything that was done, in short."""
    return Table(
        f"Events of {name}",
        ("event", "kind", "when (UTC)", "who", "why", "what"),
        [(e.sequence, e.kind, _time(e.at), e.who, e.why, what_was_done(e)) for e in events],
        words=("kind", "when (UTC)", "who", "why", "what"),
    )


def what_was_done(event: Event) -> str:
    """Return an event's counts, and what was changed, from what to what."""
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
