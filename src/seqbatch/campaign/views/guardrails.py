"""What was measured besides the outcome, by action: in one pass, and only where declared."""

from seqbatch.campaign.deciding.judging import metric_cells
from seqbatch.campaign.deciding.metrics import MetricRow, MetricSums
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Reader
from seqbatch.campaign.tables.assignments import Decided


def metric_rows(reader: Reader, now: Situation) -> tuple[MetricRow, ...]:
    """Return every metric's mean by action, and whether it keeps within its guardrail."""
    if not now.spec.metrics:
        return ()
    chunks = reader.outcome_chunks(until_event=now.sequence)
    known = Ledger.of(chunks, parts=len(now.spec.parts)).known()
    sums = MetricSums(now.spec.metrics, len(now.actions))
    for chunk in reader.unit_chunks(given=False):
        if chunk.event <= now.sequence:
            here = known.within(chunk.first, chunk.first + chunk.count)
            recorded = ~here.absent
            actions = Decided.of(unpack(chunk.decided)).actions
            sums.add(actions[(here.numbers - chunk.first)[recorded]],
                     metric_cells(now.spec, here.parts[recorded]))  # fmt: skip
    return sums.rows([action.name for action in now.actions])
