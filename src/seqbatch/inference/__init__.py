"""What may be said after adaptive waves: estimates with intervals that hold.

Pure functions over arrays, which need no campaign. Waves of :class:`Rows` are summed up once, by
:func:`summarise`; what is asked afterwards, by :func:`pool`, :func:`run_value`, :func:`look` and
the others, costs next to nothing. :func:`evaluate` judges any policy on any logged table.
"""

from seqbatch.inference.anytime import anytime
from seqbatch.inference.as_run import RunValue, gain_over_best, run_value
from seqbatch.inference.batched_least_squares import batched_least_squares
from seqbatch.inference.boundaries import boundaries, spent
from seqbatch.inference.coefficients import Coefficients, lift_coefficients
from seqbatch.inference.contrasts import AsRun, Gain, GainOverRandom, Lift, Mean
from seqbatch.inference.drift import Drift, drift
from seqbatch.inference.dunnett import dunnett_critical, simultaneous_lifts
from seqbatch.inference.evaluate import Evaluation, evaluate
from seqbatch.inference.exchange import (
    open_bandit_feedback,
    vowpal_wabbit_lines,
    write_parquet,
)
from seqbatch.inference.found_splits import FoundSplits, strongest_splits
from seqbatch.inference.futility import futility_boundaries
from seqbatch.inference.holm import group_sequential_holm, holm
from seqbatch.inference.inflation import error_of_looks
from seqbatch.inference.intervals import Interval
from seqbatch.inference.looks import Look, Looks, look
from seqbatch.inference.naive import naive_lift
from seqbatch.inference.next_rule import NextRule, judge_next_rule
from seqbatch.inference.partitions import Declared, Eligible, Split
from seqbatch.inference.planned_precision import detectable_lift, planned_error, planned_path
from seqbatch.inference.pooling import Pooled, pool, pool_by_size
from seqbatch.inference.rows import Rows
from seqbatch.inference.segments import Segments, within_segments
from seqbatch.inference.shares import PlanOfShares, plan_of_shares, share_when_assigned
from seqbatch.inference.stopping_chances import chances_to_stop
from seqbatch.inference.summary import WaveSummary, summarise
from seqbatch.inference.wave_estimate import WaveEstimate, estimate_wave

__all__ = [
    "AsRun",
    "Coefficients",
    "Declared",
    "Drift",
    "Eligible",
    "Evaluation",
    "FoundSplits",
    "Gain",
    "GainOverRandom",
    "Interval",
    "Lift",
    "Look",
    "Looks",
    "Mean",
    "NextRule",
    "PlanOfShares",
    "Pooled",
    "Rows",
    "RunValue",
    "Segments",
    "Split",
    "WaveEstimate",
    "WaveSummary",
    "anytime",
    "batched_least_squares",
    "boundaries",
    "chances_to_stop",
    "detectable_lift",
    "drift",
    "dunnett_critical",
    "error_of_looks",
    "estimate_wave",
    "evaluate",
    "futility_boundaries",
    "gain_over_best",
    "group_sequential_holm",
    "holm",
    "judge_next_rule",
    "lift_coefficients",
    "look",
    "naive_lift",
    "open_bandit_feedback",
    "plan_of_shares",
    "planned_error",
    "planned_path",
    "pool",
    "pool_by_size",
    "run_value",
    "share_when_assigned",
    "simultaneous_lifts",
    "spent",
    "strongest_splits",
    "summarise",
    "vowpal_wabbit_lines",
    "within_segments",
    "write_parquet",
]
