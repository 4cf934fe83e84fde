"""Record sums that a database computed over rows it keeps: to close a wave, or for findings."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from seqbatch.campaign.decide.action_counts import Counts
from seqbatch.campaign.decide.replanning import proposed, with_sums
from seqbatch.campaign.decide.stopping import LookTaken
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Change, Event, Store
from seqbatch.campaign.steps.close import Closed, Lesson, closed_with, require_reason
from seqbatch.campaign.warehouse.findings_statement import (
    findings_sums,
    wrong_findings,
)
from seqbatch.campaign.warehouse.scaling import read_scaling
from seqbatch.campaign.warehouse.statement import header, learned_elsewhere, marked, wrong_statement
from seqbatch.campaign.warehouse.sums import Row, read_rows, wave_counts
from seqbatch.errors import CampaignStateError, InvalidArgumentError, Remedy

#: The most bytes of a statement; the widest model needs a few million.
LONGEST = 1 << 26
#: What closes an incomplete wave.
SUMS_BY_FORCE = Remedy("record-sums", sums=..., force=True, reason=...)


@dataclass(frozen=True)
class SumsRecorded:
    """Sums that were recorded.

    Parameters
    ----------
    kind, waves
        What was summed up (scaling, wave, evidence, returns or scores), and over which waves.
    complete
        Whether findings have all sums that they need; if not, there is another statement to run.
    closed
        The closed wave, if the sums closed it; None for sums for findings.
    stopping
        The look of the declared stopping rule, if these sums were the last ones that it needed.
    event, hash
        The number and hash of the event.
    """

    kind: str
    waves: tuple[int, ...]
    complete: bool
    closed: Closed | None
    stopping: LookTaken | None
    event: int
    hash: str

    @classmethod
    def of(cls, event: Event) -> "SumsRecorded":
        """Return the answer from the event of sums for findings."""
        look = event.payload.get("stopping")
        return cls(
            kind=event.payload["pass"],
            waves=tuple(sorted({row["wave"] for row in event.payload["groups"]})) or (1,),
            complete=event.payload["complete"],
            closed=None,
            stopping=None if look is None else LookTaken.of(look),
            event=event.sequence,
            hash=event.hash,
        )

    @classmethod
    def of_wave(cls, closed: Closed) -> "SumsRecorded":
        """Return the answer from a closed wave."""
        return cls("wave", (closed.wave,), False, closed, None, closed.event, closed.hash)


def record_sums(
    store: Store,
    name: str,
    logbook: Logbook,
    sums: Source,
    *,
    statement: str | Path,
    force: bool,
    why: str,
) -> SumsRecorded:
    """Record the result of an SQL statement, in one transaction.

    The statement says whether its sums close the open wave, or are for findings.
    """
    require_reason(force, why)
    text = _read(Path(statement))
    with sums, store.change(name) as change:
        now = current(change)
        _require_elsewhere(now)
        if (last := _last_close(change, now)) and last.payload["elsewhere"]["statement"] == text:
            # If the first answer was lost, a repeated call returns it again and closes nothing.
            return SumsRecorded.of_wave(Closed.of(last, now))
        if header(text).get("what") == "scaling":
            return _for_scaling(change, now, logbook, sums, text, why=why)
        if header(text).get("what") == "findings":
            return _for_findings(change, now, logbook, sums, text, why=why)
        now.require_open()
        evidence = SumEvidence.of(change, now, sums, text)
        at = logbook.now()
        return SumsRecorded.of_wave(
            closed_with(change, logbook, now, evidence, force=force, skip=False, at=at, why=why)
        )


def _last_close(change: Change, now: Situation) -> Event | None:
    return change.event(now.closes[-1]) if now.closes else None


def _for_scaling(
    change: Change, now: Situation, logbook: Logbook, sums: Source, text: str, *, why: str
) -> SumsRecorded:
    """Record what the first wave says about columns; the same again changes nothing."""
    last = change.events()[-1]
    if last.kind == "sums" and last.payload["statement"] == text:
        return SumsRecorded.of(last)
    now.require_open()
    _require_own(now, text)
    learned = read_scaling(sums, now, marked(text))
    payload = {
        "pass": "scaling",
        "complete": False,
        "statement": text,
        "fingerprint": marked(text),
        "groups": [],
        "learned": learned.plain(),
    }
    event = logbook.write(change, now, kind="sums", why=why, counts={"waves": 1}, payload=payload)
    return SumsRecorded.of(event)


def _require_own(now: Situation, text: str) -> None:
    """Refuse a statement that was not made for the open wave."""
    if problem := wrong_statement(now, text):
        raise InvalidArgumentError(
            "statement",
            f"the statement that you ran for wave {now.wave} of campaign {now.name}",
            f"a file that {problem}",
            "Look for the right file, store and campaign; or write this wave's statement "
            "again, run it, and record its result.",
            remedies=[Remedy("sql", what="sums", assignments=..., outcomes=...)],
        )


def _for_findings(
    change: Change, now: Situation, logbook: Logbook, sums: Source, text: str, *, why: str
) -> SumsRecorded:
    """Record sums for findings; the same ones again change nothing."""
    events = change.events()
    last = events[-1]
    if last.kind == "sums" and last.payload["statement"] == text:
        return SumsRecorded.of(last)
    if problem := wrong_findings(now, events, text):
        raise InvalidArgumentError(
            "statement",
            f"the statement that you ran for findings of campaign {now.name}",
            f"a file that {problem}",
            "Look for the right file, store and campaign; or write the statement again, run it, "
            "and record its result.",
            remedies=[Remedy("sql", what="findings", assignments=..., outcomes=...)],
        )
    payload = findings_sums(now, events, sums, text)
    waves = len({row["wave"] for row in payload["groups"]})
    event = logbook.write(
        change, now, kind="sums", why=why, counts={"waves": waves}, payload=payload
    )
    return SumsRecorded.of(event)


def _read(path: Path) -> str:
    rule = "the file of the statement that was run"
    try:
        if path.is_file() and path.stat().st_size <= LONGEST:
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        advice = f"Save it as UTF-8: byte {error.start:,} is not."
        raise InvalidArgumentError("statement", f"{rule}, in UTF-8", path, advice) from None
    except OSError as error:
        raise InvalidArgumentError("statement", rule, path, f"{error.strerror}.") from None
    raise InvalidArgumentError("statement", rule, path)


def _require_elsewhere(now: Situation) -> None:
    if now.spec.rows != "elsewhere":
        raise CampaignStateError(
            f"campaign {now.name} keeps its rows here: record its outcomes, and close its wave. "
            'Sums are for campaigns that declare rows = "elsewhere".',
            code="rows-here",
        )


@dataclass(frozen=True)
class SumEvidence:
    """The result of an SQL statement of sums.

    Parameters
    ----------
    now, state
        The campaign's state, and the policy's state when the wave opened.
    statement, rows
        The executed statement, and the rows of its result.
    """

    now: Situation
    state: Any
    statement: str
    rows: list[Row]

    @classmethod
    def of(cls, change: Change, now: Situation, sums: Source, statement: str) -> "SumEvidence":
        """Read the result of a statement; refuse statements not made for the open wave."""
        record = change.last_state()
        assert record is not None
        state = unpack_state(record.content, now)
        _require_own(now, statement)
        return cls(now, state, statement, read_rows(sums, now, state, marked(statement)))

    @cached_property
    def counts(self) -> Counts:
        """The wave's units and outcomes by action."""
        return wave_counts(self.rows, self.now)

    @property
    def units(self) -> int:
        """Units of the wave."""
        return int(self.counts.assigned.sum())

    @property
    def outcomes(self) -> int:
        """Those of them with an outcome, absent ones included."""
        return int(self.counts.known.sum())

    @property
    def by_force(self) -> Remedy:
        """What closes the wave as it is."""
        return SUMS_BY_FORCE

    @property
    def more_outcomes(self) -> str:
        """Record more: no unit is waited for."""
        return "Record more."

    def size_problem(self, size: int) -> tuple[str, str]:
        """Return the error code and message for sums over more or fewer units than planned."""
        said = f"has {size:,} planned units, but the sums cover {self.units:,}."
        return "not-as-planned", said

    def refuse_doubtful(self) -> None:
        """Refuse a wave without any outcome, all of whose units would count as absent."""
        if self.now.absent is not None and not self.counts.observed.any():
            raise CampaignStateError(
                f"wave {self.now.wave} of campaign {self.now.name} has no recorded outcome; each "
                f"of its {self.units:,} units would count as {self.now.absent:g}. Use the table "
                "with its outcomes. Or close it anyway",
                SUMS_BY_FORCE,
                code="no-outcomes",
            )

    def lesson(self) -> Lesson:
        """Learn from the sums, and store them with the statement."""
        state = learned_elsewhere(self.now, self.state, self.rows)
        observed = int(self.counts.observed.sum())
        counted = with_sums(self.now, units=self.units, observed=observed)
        made = Lesson(
            learner=self.now,
            state=state,
            counts=self.counts,
            proposal=proposed(counted, state),
        )
        rewards = self.now.spec.reward.sign * self.counts.rewards
        beside = {
            **made.by_action(randomised=self.counts.randomised, rewards=rewards),
            "elsewhere": {
                "statement": self.statement,
                "fingerprint": marked(self.statement),
                "sums": self.rows,
            },
        }
        return replace(made, beside=beside)
