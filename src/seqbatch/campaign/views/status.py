"""Status: waves, actions, outcomes, limits used, and the next step; in tables and a picture."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from seqbatch.campaign.decide.action_counts import Counts
from seqbatch.campaign.decide.capacity_and_budget import LimitRow, limit_rows, limits_table, worth
from seqbatch.campaign.decide.wave_doubts import mostly_missing, unrecorded
from seqbatch.campaign.record.codec import fingerprint, unpack_state
from seqbatch.campaign.record.current_situation import (
    Situation,
    condition_text,
    events_until,
    situation,
)
from seqbatch.campaign.record.events import canonical, current, digest
from seqbatch.campaign.record.held_rows import held_so_far_text, outside_text
from seqbatch.campaign.record.store import Event, Reader, Store
from seqbatch.campaign.record.stored_units import known_outcomes, walk
from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.views.status_picture import PICTURED, picture
from seqbatch.display import alike, counted, enumerated, sentence
from seqbatch.document import Document, Part, Picture, Section, Table, as_notebook
from seqbatch.errors import DAMAGED, EVENTS_MISSING, Doubt, StoreError, UnknownCampaignError
from seqbatch.planning.proposal import Proposal
from seqbatch.policies.registry import plainly, text

# ----------------------------------------------------------------------
# One wave, and one action in a wave.


@dataclass(frozen=True)
class WaveStatus:
    """One wave: its planned size, its units and outcomes, and whether it is closed.

    `observed` counts the recorded outcomes. `absent` counts the units without an outcome that count
    as the declared value.
    """

    wave: int
    size: int | None
    assigned: int
    observed: int
    closed: bool
    absent: int = 0


@dataclass(frozen=True)
class ActionRow:
    """One action in one wave: units, how many were randomised, outcomes, and two means.

    `outcomes` counts the recorded outcomes. `absent` counts the units without one that count as the
    declared value. Both means cover both groups and include the action's cost. `mean` is the plain
    mean. `weighted` is the inverse-probability-weighted mean: the expected outcome if all units of
    the wave got this action, assuming that outcomes are missing at random. It is None if no outcome
    was seen. It is also None if `least`, the smallest probability of the action for any unit of the
    wave, is 0: the data cannot show the action's effect on units that could not get it.
    `difference` is the weighted mean minus the control's. There are no intervals here: those that
    are valid after adaptive waves are in the findings. `least` is None while a campaign is masked.
    """

    wave: int
    action: str
    units: int
    randomised: int
    outcomes: int
    mean: float | None
    weighted: float | None
    least: float | None
    difference: float | None = None
    absent: int = 0


# ----------------------------------------------------------------------
# Waves whose rows are kept elsewhere, as their closing events describe them.


def waves_elsewhere(now: Situation, events: Sequence[Event]) -> tuple[WaveStatus, ...]:
    """Return every wave, open or closed."""
    closes = {event.payload["wave"]: event.payload for event in _closes(now, events)}
    made = []
    for place, planned in enumerate(now.sizes, start=1):
        size = None if now.spec.grid.calendar else planned
        said = closes.get(place, {"assigned": {}, "observed": {}, "absent": {}})
        units, seen, absent = (
            sum(said[what].values()) for what in ("assigned", "observed", "absent")
        )
        made.append(WaveStatus(place, size, units, seen, place in closes, absent))
    return tuple(made)


def actions_elsewhere(now: Situation, events: Sequence[Event]) -> tuple[ActionRow, ...]:
    """Return every action in every closed wave, without the values that need unit rows."""
    sign = now.spec.reward.sign
    return tuple(
        ActionRow(
            wave=said["wave"],
            action=name,
            units=units,
            randomised=said["randomised"][name],
            outcomes=said["observed"][name],
            mean=sign * said["rewards"][name] / known
            if (known := said["observed"][name] + said["absent"][name])
            else None,
            weighted=None,
            least=None,
            absent=said["absent"][name],
        )
        for said in (event.payload for event in _closes(now, events))
        for name, units in said["assigned"].items()
    )


def _closes(now: Situation, events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.kind == "close" and event.sequence <= now.sequence]


# ----------------------------------------------------------------------
# The next step.


Step = Literal["assign", "record", "close", "look", "report", "sql", "status", "stop"]


def next_step(store: Store, name: str) -> Step:
    """Return the next call: assign, record, close or look; report if no wave is open.

    If results are withheld until the rule's stop is confirmed, it is stop. If the rows are kept
    elsewhere, it is sql until all waves are closed and summed up.
    """
    with store.read(name) as reader:
        return step_from(current(reader))


def step_from(now: Situation) -> Step:
    """Return the next call in a situation."""
    if now.spec.rows == "elsewhere":
        return "report" if now.condition != "open" and now.summed else "sql"
    if now.condition == "stopped" and now.withheld:
        return "stop"
    if now.condition != "open":
        return "report"
    if now.look_due:
        return "look"
    units = now.units[now.wave - 1]
    # Calendar waves have no size: once there are units, the next step is their outcomes.
    if now.left or not units:
        return "assign"
    needed = now.spec.outcomes_needed(now.in_open_wave)
    return "close" if now.observed >= needed else "record"


def or_close(now: Situation) -> str:
    """Say that the wave can be closed although outcomes are missing; "" if it cannot.

    It can if absent units count as a number: only the user knows whether more outcomes will come.
    """
    if now.absent is None or not now.observed or step_from(now) != "record":
        return ""
    after = now.spec.reward.after
    when = f", but not earlier than {after} after its assignment" if after else ""
    return (
        f"Once you expect no more outcomes, close wave {now.wave}: a unit without one then counts "
        f"as {Measure.of_objective(now.spec).counted_as(now.absent)}{when}."
    )


# ----------------------------------------------------------------------
# The status of a campaign.


#: The note shown if a wave's data cannot support a weighted mean.
UNKNOWN = (
    "if some units of a wave could not get an action, its effect on all of them is unknown; its "
    "weighted mean is left out"
)
#: The note shown if units of a wave will count as absent and do not yet.
WAITING = (
    "the means of a wave are left out while some of its units have no outcome and do not count as "
    "absent yet: those with an outcome are not like the others"
)


#: The remark on a status without results.
WITHHELD = "Results are withheld until the campaign has ended: only the committee sees them."
#: The remarks while the next wave waits for a look: of the key holder, or from sums.
LOOK_FROM_SUMS = (
    "A look is due after wave {wave}: the next wave opens once the sums for findings are recorded."
)
LOOK_DUE = (
    "A look is due after wave {wave} (the committee): the next wave opens once the holder of the "
    "key has taken it."
)


@dataclass(frozen=True)
class Status:
    """A campaign's status: waves, actions, outcomes, limits and notes.

    Parameters
    ----------
    question, owner
        What the campaign is to answer, and who answers for it; None if not declared.
    name, condition, wave
        The campaign's name; open, finished, stopped (by its rule) or aborted; and the number of the
        open wave, or of the last wave if all are closed.
    left
        How many more units the open wave takes; None if the calendar decides.
    policy
        The policy's name and parameters.
    control
        The action that the others are compared with; None if none was declared.
    waves, actions
        The waves, and every action in every wave.
    conflicts, quarantined
        Numbers of outcome rows that are held.
    unknown
        Number of quarantined rows whose unit is not in the campaign.
    logged, outside
        Number of rows that outcomes were combined from; and of those that do not count for a metric
        because of their date, by its window's length.
    measure, absent_value
        The objective: what outcomes are; and the value of an absent unit, None if not declared.
    metrics
        How many values of each metric are recorded, by metric and action. They are counts:
        findings have the means and the guardrails.
    clipped
        How many values of each column have been clipped to a bound.
    limits, worth
        The used part of capacities and the budget; and the value of one more of each scarce item.
    proposal
        The sizes that the last closing proposed, while they can still be adopted.
    notes
        Notes about the estimate.
    doubts
        Metrics without any value in a closed wave, by which all of its units count as absent.
    withheld
        Whether results are left out: they are withheld until the campaign has ended.
    look_due
        Whether the next wave waits for the look of the key holder, or for that from sums.
    elsewhere
        Whether the rows are kept elsewhere.
    events, hash, state
        The number of events; the newest event's hash; and a hash of units, decisions, outcomes and
        estimates only. If units are drawn one by one, that last hash does not depend on how units
        were split into files.
    """

    name: str
    condition: str
    wave: int
    left: int | None
    policy: dict[str, Any]
    control: str | None
    waves: tuple[WaveStatus, ...]
    actions: tuple[ActionRow, ...]
    conflicts: int
    quarantined: int
    notes: tuple[str, ...]
    events: int
    hash: str
    state: str
    measure: Measure
    absent_value: float | None = None
    metrics: dict[str, dict[str, int]] = field(default_factory=dict)
    clipped: dict[str, int] = field(default_factory=dict)
    limits: tuple[LimitRow, ...] = ()
    worth: tuple[str, ...] = ()
    proposal: Proposal | None = None
    unknown: int = 0
    logged: int = 0
    outside: dict[str, int] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    withheld: bool = False
    look_due: bool = False
    elsewhere: bool = False
    question: str | None = None
    owner: str | None = None

    def document(self) -> Document:
        """Return the status as a document: tables, a picture, and notes."""
        drawn = [Picture(lambda: picture(self), PICTURED)] if self.actions else []
        asked = [self.question] if self.question else []
        parts: list[Part] = [*asked, heading(self), *drawn, *self.tables(), *remarks(self)]
        title = f"Status of campaign {self.name}"
        return Document(title, Section("status", "Status", parts), data=asdict(self))

    def tables(self) -> list[Table]:
        """Return the waves, the assigned units and the observed outcomes."""
        return tables(self)

    def __repr__(self) -> str:
        return f"<Status of {short(self)}>"

    def _repr_html_(self) -> str:
        return as_notebook(self.document())


def now(store: Store, name: str) -> Situation:
    """Return a campaign's situation, computed from its events."""
    with store.read(name) as reader:
        return current(reader)


@dataclass(frozen=True)
class ListedCampaign:
    """A campaign in a list: its situation, or how it is damaged."""

    name: str
    now: Situation | None
    damage: str = ""

    def told(self, store: Store) -> str:
        """Return the damage for users of the service, without the name of the store."""
        return self.damage.replace(store.label, "the store")


def listed(store: Store, names: Sequence[str]) -> list[ListedCampaign]:
    """Return these campaigns in order; a damaged one does not hide the others."""
    found = []
    for name in names:
        try:
            found.append(ListedCampaign(name, now(store, name)))
        except UnknownCampaignError:  # deleted since its name was read
            continue
        except StoreError as error:
            if error.code not in (DAMAGED, EVENTS_MISSING):
                raise
            found.append(ListedCampaign(name, None, str(error)))
        except Exception as error:  # whatever damaged records can raise
            reason = f"cannot be read ({type(error).__name__}: {error})"[:300]
            damage = f"campaign {name} {reason}. Verify it to see what is damaged."
            found.append(ListedCampaign(name, None, damage))
    return found


def events(store: Store, name: str) -> list[Event]:
    """Return all events of a campaign, in order."""
    with store.read(name) as reader:
        return reader.events()


def status(store: Store, name: str, *, at_event: int | None = None) -> Status:
    """Return a campaign's status, now or right after event number `at_event`."""
    with store.read(name) as reader:
        if at_event is None:
            return _status(reader, current(reader))
        return _status(reader, situation(events_until(reader.events(), at_event)))


def _status(reader: Reader, now: Situation) -> Status:
    parts = len(now.spec.parts)
    known = known_outcomes(reader, now)
    counts, every, made = dict[int, Counts](), Counts.zero(now), []
    for piece in walk(reader, known, until=now.sequence, given=True):
        part = Counts.of(now, piece, tested=False)
        counts[piece.wave] = counts.get(piece.wave, Counts.zero(now)) + part
        every += part
        made.append(digest(*map(fingerprint, (piece.chunk.given, piece.chunk.decided))))
    record = reader.last_state(before_event=now.sequence + 1)
    assert record is not None
    actions = tuple(
        row
        for number in sorted(counts)
        for row in compared(_action_rows(now, number, counts[number]), now.spec.control)
    )
    waves = tuple(_wave(now, number, counts.get(number)) for number in _numbers(now))
    if now.spec.rows == "elsewhere":
        events = reader.events()
        waves, actions = waves_elsewhere(now, events), actions_elsewhere(now, events)
    said = _learned(now, record.content) if now.closes else []
    if any(row.outcomes + row.absent and row.least == 0 for row in actions):
        said.append(UNKNOWN)
    if any(_waiting(now, one) for one in counts.values()):
        said.append(WAITING)
    return Status(
        name=now.name,
        condition=now.condition,
        wave=now.last_opened,
        left=now.left,
        policy=now.policy,
        control=now.spec.control,
        waves=waves,
        actions=actions,
        conflicts=now.conflicts,
        quarantined=now.quarantined,
        notes=tuple(said),
        clipped=now.clipped,
        events=now.sequence,
        hash=now.hash,
        state=digest(
            canonical([now.name, now.wave, now.condition]).encode(),
            *(part.encode() for part in made),
            known.numbers.tobytes(),
            known.values.tobytes(),
            *([known.versions.astype(np.int8).tobytes()] if known.absent.any() else []),
            *([known.parts.tobytes()] if parts else []),
            record.content,
        ),
        question=now.spec.question,
        owner=now.spec.owner,
        measure=Measure.of_objective(now.spec),
        absent_value=now.absent,
        metrics=every.recorded(now),
        limits=limit_rows(now),
        worth=tuple(worth(now, now.prices or None)),
        proposal=None if now.proposal is None else Proposal.of(now.proposal),
        unknown=now.unknown,
        logged=now.logged,
        outside=now.outside,
        look_due=now.look_due,
        elsewhere=now.spec.rows == "elsewhere",
        doubts=tuple(
            doubt
            for wave, one in sorted(counts.items())
            if wave < now.wave and wave not in now.skipped
            for doubt in _lacking(now, wave, one)
        ),
    )


def _lacking(now: Situation, wave: int, counts: Counts) -> tuple[Doubt, ...]:
    """Return doubts about metrics that no unit of a wave has, or few."""
    recorded = {name: sum(own.values()) for name, own in counts.recorded(now).items()}
    units = int(counts.assigned.sum())
    return (*unrecorded(now, wave, units, recorded), *mostly_missing(now, wave, units, recorded))


def compared(rows: list[ActionRow], control: str | None) -> list[ActionRow]:
    """Return a wave's actions with their differences from the control, if both means are known."""
    base = next((row for row in rows if row.action == control), None)
    if base is None or base.weighted is None:
        return rows
    return [row if row is base else _against(row, base.weighted) for row in rows]


def _against(row: ActionRow, weighted: float) -> ActionRow:
    return row if row.weighted is None else replace(row, difference=row.weighted - weighted)


def _waiting(now: Situation, counts: Counts) -> bool:
    """Whether units of a wave will count as absent and do not yet: the others are buyers alone."""
    return now.absent is not None and bool(counts.known.sum() < counts.assigned.sum())


def _action_rows(now: Situation, wave: int, counts: Counts) -> list[ActionRow]:
    """Return a wave's actions; the weighted means are self-normalised (Hajek)."""
    seen = (counts.known > 0) & (not _waiting(now, counts))
    shown = seen & (counts.least > 0)
    weighted = counts.weighted / np.where(seen, counts.weights, 1.0)
    return [
        ActionRow(
            wave=wave,
            action=action.name,
            units=int(counts.assigned[place]),
            randomised=int(counts.randomised[place]),
            outcomes=int(counts.observed[place]),
            mean=float(counts.rewards[place] / counts.known[place]) if seen[place] else None,
            weighted=float(weighted[place]) if shown[place] else None,
            least=None if now.masked else float(counts.least[place]),
            absent=int(counts.absent[place]),
        )
        for place, action in enumerate(now.actions)
    ]


def _numbers(now: Situation) -> range:
    return range(1, max(len(now.sizes), now.wave - 1) + 1)


def _wave(now: Situation, number: int, counts: Counts | None) -> WaveStatus:
    counts = Counts.zero(now) if counts is None else counts
    return WaveStatus(
        wave=number,
        size=None if now.spec.grid.calendar else now.sizes[number - 1],
        assigned=int(counts.assigned.sum()),
        observed=int(counts.observed.sum()),
        closed=number < now.wave,
        absent=int(counts.absent.sum()),
    )


# ----------------------------------------------------------------------
# The status in words and tables.
#
# The means are raw. The weighted means divide by the logged probabilities and assume that outcomes
# are missing at random. Intervals and comparisons between actions are in the findings.


#: The explanation of what the column `randomised` leaves out.
FIRST_WAVE = (
    "Randomised units are those of the share that the spec assigns at random; in the first wave, "
    "all other units also get a random action."
)


def short(status: Status) -> str:
    """Return the status in one line.

    >>> status = Status(name="spring", condition="finished", wave=3, left=None,
    ...     policy={"kind": "RBGL"}, control=None, waves=(), actions=(), conflicts=0,
    ...     quarantined=0, notes=(), events=9, hash="", state="",
    ...     measure=Measure(name="visit", kind="yes/no", direction="max", of="customer"))
    >>> short(status)
    'spring: finished; 0 units, 0 outcomes; 9 events'
    """
    units = sum(wave.assigned for wave in status.waves)
    outcomes = sum(wave.observed for wave in status.waves)
    room = "" if status.left is None else f", room for {counted(status.left, 'more unit')}"
    where = f"wave {status.wave} of {len(status.waves)}{room}"
    ended = condition_text(status.condition)
    return (
        f"{status.name}: {where if status.condition == 'open' else ended}; "
        f"{counted(units, 'unit')}, {counted(outcomes, 'outcome')}; "
        f"{counted(status.events, 'event')}"
    )


def heading(status: Status) -> str:
    """Return the first line: the wave, the events and the policy."""
    ended = condition_text(status.condition)
    where = f"wave {status.wave}" if status.condition == "open" else ended
    named = status.name if status.owner is None else f"{status.name} ({status.owner})"
    return (
        f"Campaign {named}: {where}; {counted(status.events, 'event')}. Policy "
        f"{text(status.policy)}: {plainly(status.policy)}."
    )


def tables(status: Status) -> list[Table]:
    """Return the waves, the assigned units and the observed outcomes."""
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
    if status.withheld:
        return [waves]
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
    metrics = [recorded_table(status.metrics)] if len(status.metrics) > 1 else []
    limits = [limits_table(status.limits)] if status.limits else []
    return [waves, assigned, *limits, _observed(status, named), *metrics]


def recorded_table(metrics: dict[str, dict[str, int]]) -> Table:
    """Return how many values of each metric were recorded, by action; they are counts alone."""
    rows = [
        (metric, action, count) for metric, counts in metrics.items()
        for action, count in counts.items()
    ]  # fmt: skip
    columns = ("metric", "action", "recorded values")
    return Table("Recorded values of each metric", columns, rows, words=columns[:2], keys=2)


def wave_list(waves: Sequence[int]) -> str:
    """Return a list of waves in words.

    >>> wave_list([2]), wave_list([1, 2, 3])
    ('wave 2', 'waves 1, 2 and 3')
    """
    return f"{'waves' if len(waves) > 1 else 'wave'} {enumerated([str(one) for one in waves])}"


def absences(recorded: int, absent: int, value: float | None, measure: Measure) -> str:
    """Say how many outcomes were recorded, and how many absent units were counted.

    >>> bought = Measure(name="purchase", kind="yes/no", direction="max", of="customer")
    >>> absences(120, 180, 0.0, bought)
    '120 recorded, 180 absent and counted as 0 purchases'
    """
    counts = "as declared" if value is None else f"as {measure.counted_as(value)}"
    return f"{recorded:,} recorded, {absent:,} absent and counted {counts}"


def _state(status: Status, wave: WaveStatus) -> str:
    if wave.closed:
        return "closed"
    if status.condition != "open":
        return condition_text(status.condition)
    return "open" if wave.wave == status.wave else "to come"


def _observed(status: Status, named: dict[str, str]) -> Table:
    columns = ["wave", "action", "mean", "weighted mean"]
    title = f"Observed: {status.measure.head}"
    rows: list[list[Any]] = [
        [row.wave, named[row.action], mean, weighted]
        for row, mean, weighted in zip(
            status.actions,
            _shown(status, [row.mean for row in status.actions]),
            _shown(status, [row.weighted for row in status.actions]),
            strict=True,
        )
    ]
    if status.control:
        columns.append("minus control")
        differences = _shown(status, [row.difference for row in status.actions])
        for difference, shown in zip(differences, rows, strict=True):
            shown.append(difference)
    return Table(title, tuple(columns), rows, words=("action",), keys=2)


def _shown(status: Status, values: Sequence[float | None]) -> list[str]:
    """Return a column of means on the scale of their measure."""
    scale = status.measure.scale
    return alike([None if value is None else scale * value for value in values])


def remarks(status: Status) -> list[str]:
    """Return the remarks below the tables: held rows, notes, and the state's hash."""
    said = [sentence(doubt.text()) for doubt in status.doubts]
    if status.look_due:
        due = LOOK_FROM_SUMS if status.elsewhere else LOOK_DUE
        said.insert(0, due.format(wave=status.wave - 1))
    if status.withheld:
        said.insert(0, WITHHELD)
    said += [f"Note: {note}." for note in status.notes]
    if status.proposal is not None:
        from seqbatch.campaign.decide.replanning import proposal_text

        said.append(proposal_text(status.proposal, status.measure))
    if absent := sum(wave.absent for wave in status.waves):
        recorded = sum(wave.observed for wave in status.waves)
        told = absences(recorded, absent, status.absent_value, status.measure)
        said.insert(0, f"Outcomes: {told}.")
    said[:0] = rows_so_far(status)
    said[:0] = status.worth
    if status.clipped:
        said.insert(0, f"{clipped_text(status.clipped)} so far.")
    if status.policy.get("first") == "uniform" and status.actions:
        said.append(FIRST_WAVE)
    return [
        *said,
        f"Hash of all units, decisions, outcomes and estimates: {status.state}",
    ]


def _learned(now: Situation, state: bytes) -> list[str]:
    """Describe what the model cannot tell, by the estimates after the last closed wave."""
    # Imported here: an open campaign's first status needs no model.
    from seqbatch.campaign.decide.learning import notes

    return notes(now, unpack_state(state, now))


def rows_so_far(status: Status) -> list[str]:
    """Say how many rows of outcome files are held or do not count, and what that means."""
    held = status.conflicts + status.quarantined
    said = [outside_text(within, count) for within, count in status.outside.items()]
    if status.logged:
        said.insert(0, f"Outcomes are combined from {counted(status.logged, 'row')}.")
    if not held:
        return [*said, held_so_far_text(0)]
    kinds = f"{counted(status.conflicts, 'conflict')}, {status.quarantined:,} quarantined"
    more = f"By verdict: {kinds}; a row that was sent twice counts twice."
    return [*said, f"{held_so_far_text(held, status.unknown)} {more}"]


def clipped_text(clipped: dict[str, int]) -> str:
    """Return how many values of each column were clipped to a bound, without a full stop.

    >>> clipped_text({"age": 1, "spend": 1200})
    'Clipped to the bounds of the first wave or the declared range: age 1, spend 1,200'
    """
    counts = ", ".join(f"{name} {count:,}" for name, count in clipped.items())
    return f"Clipped to the bounds of the first wave or the declared range: {counts}"
