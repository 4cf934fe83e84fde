"""What a verification asks of states: that the stored rows, learned again, give them again."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from seqbatch.campaign.deciding.absence import absentees
from seqbatch.campaign.deciding.learning import closed, relearned
from seqbatch.campaign.deciding.news import News
from seqbatch.campaign.record.codec import agreement, unpack, unpack_state
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Event, Reader, StateRecord
from seqbatch.campaign.tables.encoder import learn
from seqbatch.campaign.views.outcome_checks import StoredAbsences
from seqbatch.campaign.views.proposal_checks import wrong_adoption, wrong_proposal
from seqbatch.campaign.views.stopping_checks import wrong_look
from seqbatch.campaign.views.verified import Findings, Past
from seqbatch.campaign.warehouse.evidence import learned_elsewhere, wrong_evidence


class StateChecks:
    """Learns again what every event taught.

    Parameters
    ----------
    reader, past
        The records, and where the campaign stood.
    absent
        The absent units that recorded outcomes tell of.
    findings
        Where differences go.
    """

    def __init__(
        self, reader: Reader, past: Past, absent: StoredAbsences, findings: Findings
    ) -> None:
        self._reader, self._past, self._absent = reader, past, absent
        self._findings = findings
        #: Estimates that were computed again.
        self.recomputed = 0

    def estimate(self, event: Event) -> None:
        """Compute a state again from the rows, and compare it with the stored one."""
        stored = self._reader.last_state(before_event=event.sequence + 1)
        if stored is None or stored.event != event.sequence:
            self._findings.add(event.sequence, "state", "is missing")
            return
        # Before first, then after: what is asked for in order is not folded twice.
        state = self._closed(event, stored) if event.kind == "close" else None
        before = self._past.after(event.sequence - 1) if event.kind == "amend" else None
        if before and (problem := wrong_adoption(before, self._past.events, event)):
            self._findings.add(event.sequence, "adopted proposal", problem)
        now = self._past.after(event.sequence)
        if event.kind == "create":
            state = now.made_policy().begin(now.problem())
        elif event.kind == "amend":
            known = Ledger.of(self._reader.outcome_chunks(until_event=event.sequence)).known()
            state = relearned(now, self._reader, known, waves=now.wave - 1)
        kept = unpack_state(stored.content, now)
        self.recomputed += 1
        if self._findings.beyond_rounding(agreement(state, kept)):
            self._findings.add(event.sequence, f"state after wave {stored.wave}",
                       "learning the stored rows again gives other numbers")  # fmt: skip

    def _closed(self, event: Event, stored: StateRecord) -> Any:
        now = self._past.after(event.sequence - 1)
        if (said := event.payload.get("elsewhere")) is not None:
            return self._closed_elsewhere(event, now, said)
        if now.wave == 1:
            chunks = [extent.chunk for extent in self._reader.extents(wave=1)]
            learned = learn(
                now.encoder(),
                lambda: (
                    unpack(c.given) for c in self._reader.unit_chunks(given=True, chunks=chunks)
                ),
                units=now.units[0],
            ).plain()
            said = event.payload["learned"]
            if learned != said:
                self._findings.add(
                    event.sequence, "learned", f"the rows give {learned}, not {said}"
                )
        before = self._reader.last_state(before_event=event.sequence)
        assert before is not None
        after = self._past.after(event.sequence)
        learner = replace(now, learned=after.learned, skipped=after.skipped)
        events = self._past.events[: event.sequence - 1]
        if problem := wrong_look(self._reader, learner, events, event, (before, stored)):
            self._findings.add(event.sequence, "stopping", problem)
        news = News.since(self._reader, now, before.event)
        skip, at = now.wave in after.skipped, datetime.fromisoformat(event.at)
        gone = absentees(self._reader, now, news.fresh, at=at, skip=skip)
        if problem := self._absent.problem(event.sequence, gone):
            self._findings.add(event.sequence, "absent units", problem)
        if gone.waiting != after.waiting:
            problem = f"the times of events give {gone.waiting}, not {after.waiting}"
            self._findings.add(event.sequence, "waiting assignments", problem)
        news = news.counting(gone.ledger(parts=0))
        state = closed(learner, unpack_state(before.content, now), self._reader, news)
        if problem := wrong_proposal(learner, state, event):
            self._findings.add(event.sequence, "proposal", problem)
        return state

    def _closed_elsewhere(self, event: Event, now: Situation, said: dict[str, Any]) -> Any:
        """Learn again from the sums on record, and make the statement again that they are of."""
        before = self._reader.last_state(before_event=event.sequence)
        assert before is not None
        state = unpack_state(before.content, now)
        if problem := wrong_evidence(now, state, said):
            self._findings.add(event.sequence, "sums", problem)
        return learned_elsewhere(now, state, said["sums"])
