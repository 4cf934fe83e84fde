"""A campaign at a glance: waves, actions, outcomes, and what the estimate rests on."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from seqbatch.campaign.deciding.judging import metric_cells
from seqbatch.campaign.deciding.learning_notes import notes
from seqbatch.campaign.deciding.metrics import MetricRow, MetricSums
from seqbatch.campaign.record.codec import fingerprint, unpack, unpack_state
from seqbatch.campaign.record.events import canonical, current, digest
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.situation import Situation, events_until, situation
from seqbatch.campaign.record.store import Event, Reader, Store
from seqbatch.campaign.tables.assignments import Decided
from seqbatch.campaign.views.elsewhere import actions_elsewhere, waves_elsewhere
from seqbatch.campaign.views.limits import LimitRow, limit_rows, worth
from seqbatch.campaign.views.waves import ActionRow, Wave
from seqbatch.display import Table, shown
from seqbatch.planning.replanning import Proposal

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
    waves: tuple[Wave, ...]
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
        from seqbatch.campaign.views.words import tables

        return tables(self)

    def __repr__(self) -> str:
        from seqbatch.campaign.views.words import short

        return f"<Status of {short(self)}>"

    def _repr_html_(self) -> str:
        from seqbatch.campaign.views.status_picture import picture
        from seqbatch.campaign.views.words import heading, remarks

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
    known = Ledger.of(reader.outcome_chunks(until_event=now.sequence), parts=parts).known()
    sums: dict[int, _Sums] = {}
    metrics = MetricSums(now.spec.metrics, len(now.actions))
    made = []
    for chunk in reader.unit_chunks(given=True):
        if chunk.event > now.sequence:
            continue
        decided = Decided.of(unpack(chunk.decided))
        here = known.within(chunk.first, chunk.first + chunk.count)
        wave = sums.setdefault(chunk.wave, _Sums(len(now.actions)))
        rows, recorded = here.numbers - chunk.first, ~here.absent
        values = now.rewards(here.values, decided.actions[rows])
        wave.add(decided, rows, values, here.absent)
        cells = metric_cells(now.spec, here.parts[recorded])
        metrics.add(decided.actions[rows[recorded]], cells)
        made.append(digest(*map(fingerprint, (chunk.given, chunk.decided))))
    record = reader.last_state(before_event=now.sequence + 1)
    assert record is not None
    actions = tuple(
        row
        for number in sorted(sums)
        for row in compared(sums[number].rows(now, number), now.spec.control)
    )
    waves = tuple(_wave(now, number, sums.get(number)) for number in _numbers(now))
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
        metrics=metrics.rows([action.name for action in now.actions]),
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


class _Sums:
    """Sums over a wave's units, by action."""

    def __init__(self, actions: int) -> None:
        self._units = np.zeros(actions, dtype=np.int64)
        self._randomised = np.zeros(actions, dtype=np.int64)
        self._outcomes = np.zeros(actions, dtype=np.int64)
        self._absent = np.zeros(actions, dtype=np.int64)
        self._total = np.zeros(actions)
        self._weights = np.zeros(actions)
        self._weighted = np.zeros(actions)
        self._least = np.ones(actions)

    @property
    def units(self) -> int:
        return int(self._units.sum())

    @property
    def outcomes(self) -> int:
        return int((self._outcomes - self._absent).sum())

    @property
    def absent(self) -> int:
        return int(self._absent.sum())

    def add(self, decided: Decided, rows: Any, values: Any, absent: Any) -> None:
        size = len(self._units)
        self._units += np.bincount(decided.actions, minlength=size)
        self._randomised += np.bincount(decided.actions[decided.randomised], minlength=size)
        # Actions that were added later had no chance here.
        least = decided.probabilities.min(axis=0, initial=1.0)
        self._least = np.minimum(self._least, np.pad(least, (0, size - len(least))))
        actions = decided.actions[rows]
        weights = 1 / decided.probabilities[rows, actions]
        self._outcomes += np.bincount(actions, minlength=size)
        self._absent += np.bincount(actions[absent], minlength=size)
        self._total += np.bincount(actions, weights=values, minlength=size)
        self._weights += np.bincount(actions, weights=weights, minlength=size)
        self._weighted += np.bincount(actions, weights=weights * values, minlength=size)

    def rows(self, now: Situation, wave: int) -> list[ActionRow]:
        """Return the wave's actions; the weighted means are self-normalised (Hajek)."""
        seen = self._outcomes > 0
        known = seen & (self._least > 0)
        safe = np.where(seen, self._weights, 1.0)
        weighted = self._weighted / safe
        return [
            ActionRow(
                wave=wave,
                action=action.name,
                units=int(self._units[place]),
                randomised=int(self._randomised[place]),
                outcomes=int(self._outcomes[place] - self._absent[place]),
                mean=float(self._total[place] / self._outcomes[place]) if seen[place] else None,
                weighted=float(weighted[place]) if known[place] else None,
                least=None if now.masked else float(self._least[place]),
                absent=int(self._absent[place]),
            )
            for place, action in enumerate(now.actions)
        ]


def _numbers(now: Situation) -> range:
    return range(1, max(len(now.sizes), now.wave - 1) + 1)


def _wave(now: Situation, number: int, sums: _Sums | None) -> Wave:
    return Wave(
        wave=number,
        size=None if now.spec.grid.calendar else now.sizes[number - 1],
        assigned=0 if sums is None else sums.units,
        observed=0 if sums is None else sums.outcomes,
        closed=number < now.wave,
        absent=0 if sums is None else sums.absent,
    )
