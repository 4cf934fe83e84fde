"""Status: waves, actions, outcomes, limits used, and the next step."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from seqbatch.campaign.decide.counts import Counts, MetricRow
from seqbatch.campaign.decide.learning import notes
from seqbatch.campaign.decide.limits import spent
from seqbatch.campaign.record.codec import fingerprint, unpack_state
from seqbatch.campaign.record.events import canonical, current, digest
from seqbatch.campaign.record.situation import Situation, events_until, situation
from seqbatch.campaign.record.store import Event, Reader, Store
from seqbatch.campaign.record.walk import known_outcomes, walk
from seqbatch.display import Table, cell, shown
from seqbatch.planning.replanning import Proposal

# ----------------------------------------------------------------------
# A wave, and an action in a wave, as status shows them.


@dataclass(frozen=True)
class WaveStatus:
    """One wave: its size as planned, its units and outcomes, and whether it is closed.

    `observed` counts the recorded outcomes, and `absent` the units that have none and count as what
    was declared for them.
    """

    wave: int
    size: int | None
    assigned: int
    observed: int
    closed: bool
    absent: int = 0


@dataclass(frozen=True)
class ActionRow:
    """One action in one wave: units, how many of them randomised, outcomes, and two means.

    `outcomes` are those recorded, and `absent` units have none and count as what was declared. The
    means are of both, with what the action costs. `mean` is the plain one. `weighted` is the
    inverse-probability-weighted one, what the outcome would be if all units of the wave got this
    action. It takes outcomes to be missing at random. It is None where no
    outcome was seen, and where `least`, the smallest probability of the action for any unit of the
    wave, is 0: nothing tells what the action would do for a unit that could not get it.
    `difference` is the weighted mean less the control's. No interval is drawn around either: those
    that hold after adaptive waves are in a campaign's findings. `least` is None while a campaign is
    masked.
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
# Waves whose rows are kept elsewhere, as status shows them: by what their closings say.


def waves_elsewhere(now: Situation, events: Sequence[Event]) -> tuple[WaveStatus, ...]:
    """Return every wave, closed or not."""
    closes = {event.payload["wave"]: event.payload for event in _closes(now, events)}
    made = []
    for number, planned in enumerate(now.sizes, start=1):
        size = None if now.spec.grid.calendar else planned
        said = closes.get(number, {"assigned": {}, "observed": {}, "absent": {}})
        units, seen, absent = (
            sum(said[what].values()) for what in ("assigned", "observed", "absent")
        )
        made.append(WaveStatus(number, size, units, seen, number in closes, absent))
    return tuple(made)


def actions_elsewhere(now: Situation, events: Sequence[Event]) -> tuple[ActionRow, ...]:
    """Return every action in every closed wave; what takes rows to know is left out."""
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
# How much of capacities and budget is used, and what one more would be worth, in words.


@dataclass(frozen=True)
class LimitRow:
    """One limit: of an action, or of the budget.

    Parameters
    ----------
    of
        The action, or "budget".
    within
        "this wave" or "campaign".
    used, at_most, at_least
        Units given so far, or what they cost; the most, None for no limit; and the fewest.
    """

    of: str
    within: str
    used: float
    at_most: float | None
    at_least: float = 0


def limit_rows(now: Situation) -> tuple[LimitRow, ...]:
    """Return every limit of a campaign with what is used of it.

    Those of a wave are left out once all waves are closed: there is none to keep to them.
    """
    rows = []
    given = {now.actions[number].name for number in now.active}
    for name, capacity in now.spec.capacity.items():
        # Nobody gets what was retired: there is no quota of it to reach.
        if name in given and (capacity.each_wave is not None or capacity.at_least):
            used = now.in_wave.get(name, 0)
            rows.append(LimitRow(name, "this wave", used, capacity.each_wave, capacity.at_least))
        if capacity.total is not None:
            rows.append(LimitRow(name, "campaign", now.in_all.get(name, 0), capacity.total))
    if (budget := now.spec.budget) is not None:
        if budget.each_wave is not None:
            cost = spent(now, now.in_wave)
            rows.append(LimitRow("budget", "this wave", cost, budget.each_wave))
        if budget.total is not None:
            rows.append(LimitRow("budget", "campaign", spent(now, now.in_all), budget.total))
    return tuple(row for row in rows if row.within == "campaign" or not now.finished)


def limits_table(rows: tuple[LimitRow, ...]) -> Table:
    """Return the limits as they are shown."""
    shown = [
        (row.of, row.within, cell(row.used), "" if row.at_most is None else cell(row.at_most),
         cell(row.at_least) if row.at_least else "")
        for row in rows
    ]  # fmt: skip
    columns = ("limit of", "within", "used", "at most", "at least")
    return Table("Limits", columns, shown, words=("limit of", "within"), keys=2)


def worth(now: Situation, limits: dict[str, Any] | None) -> list[str]:
    """Say what one more of everything that was short would have been worth, one line each.

    Parameters
    ----------
    now
        Where the campaign stands.
    limits
        What the event of an assignment says of its limits; None where there were none.
    """
    if limits is None:
        return []
    if limits["prices_in"] == "log":
        return _drawn(limits)
    unit = f" {now.spec.reward.unit}" if now.spec.reward.unit else ""
    how = ", by the policy's optimistic scores" if now.made_policy().optimistic else ""
    said = []
    for name, price in limits["prices"].items():
        if price > 0:
            said.append(f"{name} is short: one more would be worth {price:.3g}{unit}{how}.")
        elif price < 0:
            said.append(
                f"{name} must be given at least so often: one fewer would be worth "
                f"{-price:.3g}{unit}{how}."
            )
    if limits["budget_price"]:
        said.append(
            f"The budget is short: one more in it would be worth {limits['budget_price']:.3g}"
            f"{unit}{how}."
        )
    return said


def _drawn(limits: dict[str, Any]) -> list[str]:
    """Say which limits changed the chances of actions that were drawn, not chosen by worth."""
    said = []
    for name, price in limits["prices"].items():
        if price > 0:
            said.append(f"{name}: given less often than by the policy, to keep to its limit.")
        elif price < 0:
            said.append(f"{name}: given more often than by the policy, to reach its least number.")
    if limits["budget_price"]:
        said.append("The budget is short: costly actions are given less often than by the policy.")
    return said


# ----------------------------------------------------------------------
# What is to be done next with a campaign.


Step = Literal["assign", "record", "close", "report", "sql", "status"]


def next_step(store: Store, name: str) -> Step:
    """Return which call comes next: assign, record, close, or report where no wave is open.

    Where the rows are kept elsewhere: sql, or status.
    """
    with store.read(name) as reader:
        return step_from(current(reader))


def step_from(now: Situation) -> Step:
    """Return which call comes next in a situation."""
    if now.spec.rows == "elsewhere":
        return "sql" if now.condition == "open" else "status"
    if now.condition != "open" or now.stop:
        return "report"
    units = now.units[now.wave - 1]
    # Calendar waves have no size: once there are units, their outcomes are awaited.
    if now.left or not units:
        return "assign"
    return "close" if now.observed >= now.spec.outcomes_needed(units) else "record"


def or_close(now: Situation) -> str:
    """Say that the wave can be closed although more outcomes are awaited; "" where it cannot.

    It can where absent units count as a number: nobody else knows whether more are to come.
    """
    if now.absent is None or not now.observed or step_from(now) != "record":
        return ""
    when = f", at the earliest {now.wait} after its assignment" if now.wait else ""
    return (
        f"Once no more outcomes are to come, close wave {now.wave}: a unit without one then counts "
        f"as {now.absent:g}{when}."
    )


# ----------------------------------------------------------------------
# A campaign at a glance: waves, actions, outcomes, and what the estimate rests on.


#: What is said where a weighted mean would claim what the wave cannot show.
UNKNOWN = (
    "where some units of a wave could not get an action, nothing tells what it would do for all of "
    "them; its weighted mean is left out"
)


@dataclass(frozen=True)
class Status:
    """Where a campaign stands.

    Parameters
    ----------
    name, condition, wave
        Its name; open, finished or aborted; and the number of the open wave, of the last one where
        all are closed.
    left
        How many units the open wave still takes; None where the calendar decides.
    policy
        The policy's name and parameters.
    control
        The action that the others are compared with, None where none was declared.
    waves, actions
        The waves, and every action in every wave.
    conflicts, quarantined
        Rows of outcome files that are held.
    reward, unit, absent_value
        What the reward is called, its unit of measure, and what an absent unit counts as; None
        where not declared.
    metrics
        Metrics by action over all waves, with their guardrails.
    clipped
        How many values of each column were moved to a bound so far.
    limits, worth
        What is used of capacities and the budget; and what one more of what is short is worth.
    proposal
        The sizes that closing the last wave proposed, while they can still be adopted.
    notes
        What there is to know about the estimate.
    events, hash, state
        How many events there are, the newest one's hash, and a hash of units, decisions, outcomes
        and estimates alone; where units are drawn one by one, it stays the same whatever files they
        came in.
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
    reward: str = "outcome"
    unit: str | None = None
    absent_value: float | None = None
    metrics: tuple[MetricRow, ...] = ()
    clipped: dict[str, int] = field(default_factory=dict)
    limits: tuple[LimitRow, ...] = ()
    worth: tuple[str, ...] = ()
    proposal: Proposal | None = None

    def tables(self) -> list[Table]:
        """Return the waves, what was assigned in them and what was observed, as shown."""
        from seqbatch.campaign.views.status_text import tables

        return tables(self)

    def __repr__(self) -> str:
        from seqbatch.campaign.views.status_text import short

        return f"<Status of {short(self)}>"

    def _repr_html_(self) -> str:
        from seqbatch.campaign.views.status_text import heading, picture, remarks

        draw = (lambda: picture(self)) if self.actions else None
        return shown(heading(self), self.tables(), draw=draw, remarks=remarks(self))


def now(store: Store, name: str) -> Situation:
    """Return what the events of a campaign say."""
    with store.read(name) as reader:
        return current(reader)


def events(store: Store, name: str) -> list[Event]:
    """Return everything that was done to a campaign, in order."""
    with store.read(name) as reader:
        return reader.events()


def status(store: Store, name: str, *, at_event: int | None = None) -> Status:
    """Return where a campaign stands, or stood right after event number `at_event`."""
    with store.read(name) as reader:
        if at_event is None:
            return _status(reader, current(reader))
        return _status(reader, situation(events_until(reader.events(), at_event)))


def _status(reader: Reader, now: Situation) -> Status:
    parts, reward = len(now.spec.parts), now.spec.reward
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
    said = notes(now, unpack_state(record.content, now)) if now.closes else []
    if any(row.outcomes + row.absent and row.least == 0 for row in actions):
        said.append(UNKNOWN)
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
        reward=reward.label,
        unit=reward.unit,
        absent_value=now.absent,
        metrics=every.metrics.rows([action.name for action in now.actions]),
        limits=limit_rows(now),
        worth=tuple(worth(now, now.prices or None)),
        proposal=None if now.proposal is None else Proposal.of(now.proposal),
    )


def compared(rows: list[ActionRow], control: str | None) -> list[ActionRow]:
    """Return a wave's actions with their differences from the control, where both are known."""
    base = next((row for row in rows if row.action == control), None)
    if base is None or base.weighted is None:
        return rows
    return [row if row is base else _against(row, base.weighted) for row in rows]


def _against(row: ActionRow, weighted: float) -> ActionRow:
    return row if row.weighted is None else replace(row, difference=row.weighted - weighted)


def _action_rows(now: Situation, wave: int, counts: Counts) -> list[ActionRow]:
    """Return a wave's actions; the weighted means are self-normalised (Hajek)."""
    seen = counts.known > 0
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
