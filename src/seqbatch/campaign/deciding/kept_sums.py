"""What a look keeps for the next one: sums over all waves so far.

With them a close goes through its own wave and no other, whatever came before. They are kept beside
the policy's state, and hold as long as nothing of the earlier waves changes: where outcomes came
late or were corrected, where an amendment had the campaign learned again, and where units share
clusters, whose sums are of any size, all waves are gone through as if for the first time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from seqbatch.campaign.deciding.logged import Columns, Logged, logged
from seqbatch.campaign.record.codec import DAMAGED, unpack_kept
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Reader, StateRecord
from seqbatch.core import Statistics
from seqbatch.core.arrays import AnyArray, Floats
from seqbatch.errors import StoreError
from seqbatch.inference import Lift, WaveSummary
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.model import Evidence
from seqbatch.inference.moments import Moments
from seqbatch.inference.returned import ReturnedByAction
from seqbatch.inference.tally import Tally


@dataclass(frozen=True, eq=False)
class KeptSums:
    """Sums of the waves so far.

    Parameters
    ----------
    columns
        How the first wave standardises the model's columns.
    summaries
        The waves. Once they were kept, the evidence of all is that of the last, to which the next
        wave is added, and the moments of features are gone: looks do not ask for them.
    """

    columns: Columns
    summaries: tuple[WaveSummary, ...]

    @property
    def arrays(self) -> dict[str, AnyArray]:
        """The sums as they are kept."""
        evidence, tallies = self.summaries[-1].evidence, [one.overall for one in self.summaries]
        statistics, moments = evidence.statistics, [one.moments for one in tallies]
        return {
            "places": self.columns.places,
            "mean": self.columns.mean,
            "spread": self.columns.spread,
            "gram": statistics.gram,
            "moment": statistics.moment,
            "squares": statistics.squares,
            "count": statistics.count,
            "assigned": evidence.assigned,
            "extremes": np.array([evidence.lowest, evidence.highest]),
            "counts": np.array(
                [
                    (tally.units, tally.outcomes, one.residuals)
                    for tally, one in zip(tallies, self.summaries, strict=True)
                ],
                dtype=np.int64,
            ),
            "squared_residuals": np.array([one.squared_residuals for one in self.summaries]),
            "scores": np.array([(m.mean, m.second, m.third, m.fourth) for m in moments]),
            "costs": np.array([tally.costs for tally in tallies]),
        }

    @classmethod
    def of(cls, arrays: Mapping[str, AnyArray], now: Situation) -> "KeptSums":
        """Return the sums that were kept; damaged ones raise StoreError."""
        _require_shapes(arrays, now)
        evidence = Evidence(
            Statistics(arrays["gram"], arrays["moment"], arrays["squares"], arrays["count"]),
            arrays["assigned"],
            *arrays["extremes"].tolist(),
        )
        made = [
            _summary(evidence, arrays["counts"][wave].tolist(), arrays["scores"][wave],
                     arrays["costs"][wave], float(arrays["squared_residuals"][wave]))
            for wave in range(len(arrays["counts"]))
        ]  # fmt: skip
        parts = (arrays[name] for name in ("places", "mean", "spread"))
        return cls(Columns.of(now.encoder(), *parts), tuple(made))


def looked_at(actions: int) -> tuple[Contrast, ...]:
    """Return what looks ask of a campaign with so many actions: every lift over the control."""
    return tuple(Lift(place) for place in range(1, actions))


def _summary(
    evidence: Evidence, counts: list[int], scores: Floats, costs: Floats, squares: float
) -> WaveSummary:
    units, outcomes, residuals = counts
    return WaveSummary(
        contrasts=looked_at(len(evidence.assigned)),
        overall=Tally(outcomes, Moments(units, *scores), costs),
        segments={},
        evidence=evidence,
        squared_residuals=squares,
        residuals=residuals,
        returned=ReturnedByAction.fitted(evidence),
        features=Moments.of(np.empty((0, evidence.statistics.dim))),
    )


def _require_shapes(arrays: Mapping[str, AnyArray], now: Situation) -> None:
    """Refuse sums of other types or shapes: compiled code takes them at their word."""
    floats, whole = np.dtype(np.float64), np.dtype(np.int64)
    waves = len([wave for wave in range(1, now.wave) if wave not in now.skipped])
    K, columns = len(now.actions), len(arrays.get("places", ()))
    P = columns + 1
    expected = {
        "places": (whole, (columns,)),
        "mean": (floats, (columns,)),
        "spread": (floats, (columns,)),
        "gram": (floats, (K, P, P)),
        "moment": (floats, (K, P)),
        "squares": (floats, (K,)),
        "count": (whole, (K,)),
        "assigned": (whole, (K,)),
        "extremes": (floats, (2,)),
        "counts": (whole, (waves, 3)),
        "squared_residuals": (floats, (waves,)),
        "scores": (floats, (waves, 4, K - 1)),
        "costs": (floats, (waves, K - 1)),
    }
    found = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    own = len(now.encoder().names)
    inside = found == expected and all(0 <= place < own for place in arrays["places"].tolist())
    if not inside:
        raise StoreError(f"the stored sums of a look are not those of the campaign. {DAMAGED}")


def kept_and_new(
    reader: Reader, now: Situation, record: StateRecord
) -> tuple[KeptSums | None, Logged]:
    """Return what the last look kept, with the wave being closed; or None, with all waves.

    Parameters
    ----------
    reader
        Where the rows are.
    now
        Where the campaign stands as a wave is being closed.
    record
        The newest state before that.
    """
    arrays = unpack_kept(record.content)
    if arrays is not None:
        data = logged(reader, now, closing=True, after_event=record.event)
        earlier = sum(now.units[: now.wave - 1])
        changed, _ = data.known.counts(0, earlier)
        if not changed and not data.clustered:
            kept = KeptSums.of(arrays, now)
            data.columns = kept.columns
            return kept, data
    return None, logged(reader, now, closing=True)
