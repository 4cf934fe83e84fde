"""Close a wave whose rows are kept elsewhere, by what they sum up to."""

import math
from pathlib import Path
from typing import Any

from seqbatch.campaign.deciding.balance import missingness
from seqbatch.campaign.deciding.learning_notes import aliasing, notes
from seqbatch.campaign.deciding.stopping_words import inflated
from seqbatch.campaign.record.codec import pack_state, unpack_state
from seqbatch.campaign.record.events import Logbook, current, sealed
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Change, StateRecord, Store
from seqbatch.campaign.steps.closing import Closed
from seqbatch.campaign.tables.reading import source
from seqbatch.campaign.warehouse.evidence import learned_elsewhere, wrong_statement
from seqbatch.campaign.warehouse.result import WaveSums, read_rows, wave_sums
from seqbatch.campaign.warehouse.statement import marked
from seqbatch.errors import CampaignStateError, InvalidArgumentError

#: Bytes of a statement: those of the widest model have a few million.
LONGEST = 1 << 26


def record_sums(
    store: Store,
    name: str,
    logbook: Logbook,
    sums: Any,
    *,
    statement: str | Path,
    force: bool,
    why: str,
) -> Closed:
    """Take the result of a statement of sums as the open wave's evidence, and close the wave."""
    if force and not why.strip():
        raise InvalidArgumentError("reason", "given when a wave is closed by force", repr(why))
    text = _read(Path(statement))
    with source(sums) as opened, store.change(name) as change:
        now, record = current(change), change.last_state()
        assert record is not None
        _require_elsewhere(now)
        state = unpack_state(record.content, now)
        if problem := wrong_statement(now, state, text):
            raise InvalidArgumentError(
                "statement",
                f"the one of wave {now.wave} of campaign {now.name} that was run",
                f"a file that {problem}",
                "Look for the right file, store and campaign; or write this wave's statement anew "
                f"(seqbatch campaign sql {now.name} --what sums ...), run it, and hand over its "
                "result.",
            )
        mark = marked(text)
        rows = read_rows(opened, now, mark)
        found = wave_sums(rows, now, state)
        if not force:
            _refuse_early(now, found)
        told = {**_told(now, found), "forced": force, "skipped": False}
        told["elsewhere"] = {"statement": text, "fingerprint": mark, "sums": rows}
        return _close(change, logbook, now, learned_elsewhere(now, state, rows), told, why=why)


def _read(path: Path) -> str:
    if not path.is_file() or path.stat().st_size > LONGEST:
        raise InvalidArgumentError("statement", "the file of the statement that was run", path)
    return path.read_text(encoding="utf-8")


def _require_elsewhere(now: Situation) -> None:
    if now.spec.rows != "elsewhere":
        raise CampaignStateError(
            f"campaign {now.name} keeps its rows here: record its outcomes, and close its wave. "
            'Sums are for campaigns that declare rows = "elsewhere".'
        )
    now.require_open()


def _refuse_early(now: Situation, found: WaveSums) -> None:
    """Refuse a wave that is not complete."""
    units, outcomes = int(found.assigned.sum()), int(found.seen.counts.sum())
    by_force = ("record-sums", now.name, "SUMS", "--force", "--reason", "YOUR REASON")
    size = None if now.spec.grid.calendar else now.sizes[now.wave - 1]
    if size is not None and units != size:
        raise CampaignStateError(
            f"wave {now.wave} of campaign {now.name} has {size:,} units by its plan; the sums are "
            f"of {units:,}. Or close it as it is: force=True, with a reason=...",
            commands=[by_force],
        )
    if outcomes < math.ceil(now.spec.required_outcomes * units - 1e-9):
        raise CampaignStateError(
            f"wave {now.wave} of campaign {now.name} has outcomes of {outcomes:,} of its {units:,} "
            f"units ({outcomes / units:.1%}); at least {now.spec.required_outcomes:.1%} are "
            "needed. Or close it as it is: force=True, with a reason=...",
            commands=[by_force],
        )


def _told(now: Situation, found: WaveSums) -> dict[str, Any]:
    """Return what the event tells of the wave, as that of any other does."""
    names = [action.name for action in now.actions]
    by_action = {
        "assigned": found.assigned,
        "observed": found.seen.counts - found.absent,
        "absent": found.absent,
        "expected": (found.seen + found.missing).expected,
        "randomised": found.randomised,
        "rewards": found.rewards,
    }
    return {
        "wave": now.wave,
        **{
            what: dict(zip(names, values.tolist(), strict=True))
            for what, values in by_action.items()
        },
        "missingness": missingness(found.seen, found.missing).plain(),
        "allocation": (found.seen + found.missing).test().plain(),
        "absent_earlier": 0, "replaced": 0, "corrected": 0, "late": 0,
        "absent_value": now.absent, "unit": now.spec.reward.unit, "waiting": [], "metrics": [],
        "stopping": None, "learned": None, "inflated": inflated(now, waves=now.wave),
    }  # fmt: skip


def _close(
    change: Change, logbook: Logbook, now: Situation, state: Any, told: dict[str, Any], *, why: str
) -> Closed:
    content = pack_state(state)
    saved = StateRecord(event=now.sequence + 1, wave=now.wave, content=content, hash="")
    saved = sealed(change.name, saved)
    change.add_state(saved)
    event = logbook.write(
        change,
        now,
        kind="close",
        why=why,
        counts={
            "units": sum(told["assigned"].values()),
            "outcomes": sum(told["observed"].values()),
            "absent": sum(told["absent"].values()),
        },
        payload={
            **told,
            "notes": [*notes(now, state), *(aliasing(now) if now.wave == 1 else [])],
        },
        rows=[saved.hash],
    )
    return Closed.of(event)
