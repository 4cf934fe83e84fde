"""What may be said after adaptive waves: estimates with intervals that hold.

Pure functions over arrays. The rows of the waves are summed up once (:func:`summarise`); what is
asked afterwards costs nothing (:func:`pool`).
"""

from seqbatch.inference.contrasts import AsRun, Gain, GainOverRandom, Lift, Mean
from seqbatch.inference.intervals import Interval
from seqbatch.inference.pooling import Pooled, pool, pool_by_size
from seqbatch.inference.rows import Rows
from seqbatch.inference.shares import PlanOfShares, plan_of_shares, share_when_assigned
from seqbatch.inference.summary import WaveSummary, summarise
from seqbatch.inference.wave_estimate import WaveEstimate, estimate_wave

__all__ = [
    "AsRun",
    "Gain",
    "GainOverRandom",
    "Interval",
    "Lift",
    "Mean",
    "PlanOfShares",
    "Pooled",
    "Rows",
    "WaveEstimate",
    "WaveSummary",
    "estimate_wave",
    "plan_of_shares",
    "pool",
    "pool_by_size",
    "share_when_assigned",
    "summarise",
]
