"""The sums of a campaign by action and by wave, for a later campaign to start from."""

from dataclasses import replace

import numpy as np

from seqbatch.campaign.decide.learning import wave_statistics
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.earlier_campaign import Document, document_of
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.store import Reader
from seqbatch.core.history import joint_noise
from seqbatch.core.joint_regression import JointSums
from seqbatch.errors import CampaignStateError


def earlier_sums(reader: Reader, now: Situation) -> Document:
    """Return the document of a campaign's closed waves.

    Every unit's probabilities were logged before its outcome was known. Units without an outcome,
    and waves that were skipped, are left out.

    Raises
    ------
    CampaignStateError
        If a later campaign could not use it; the message gives the reason.
    """
    _require_usable(now)
    everyone = replace(now, retired=frozenset())
    known = Ledger.of(reader.outcome_chunks(until_event=now.sequence)).known()
    waves = {
        wave: wave_statistics(everyone, reader, known, wave)
        for wave in range(1, now.wave)
        if wave not in now.skipped
    }
    if not any(wave.count.any() for wave in waves.values()):
        raise CampaignStateError(
            f"campaign {now.name} has no outcomes in its closed waves, so it has no sums.",
            code="no-outcomes",
        )
    intercept = now.spec.features.intercept
    # The level of the first wave is part of the constant.
    levels = range(1, len(waves)) if intercept else ()
    sums = JointSums.of(list(waves.values()), constant=0, levels=levels)
    return document_of(
        now.spec,
        now.actions,
        now.learned,
        columns=now.encoder().names,
        event=now.sequence,
        newest=now.hash,
        waves=waves,
        noise=float(np.sqrt(joint_noise([sums]))),
    )


def _require_usable(now: Situation) -> None:
    now.require_rows("Sums for a later campaign are not available here.")
    if now.masked:
        raise CampaignStateError(
            f"campaign {now.name} is masked: its actions have codes for names, so no later "
            "campaign can match them. Unmask it first.",
            code="masked",
        )
    if now.spec.model == "shared":
        raise CampaignStateError(
            f'campaign {now.name} has model = "shared", but sums for a later campaign are by '
            "action.",
            code="shared-model",
        )
    if now.condition == "open":
        raise CampaignStateError(
            f"campaign {now.name} is open: close all of its waves, or abort it, before a later "
            "campaign starts from its sums.",
            code="open",
        )
