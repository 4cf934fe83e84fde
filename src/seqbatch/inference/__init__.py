"""Statistical inference after adaptive waves: estimates with valid confidence intervals.

Pure functions over arrays; they need no campaign. :func:`summarise` makes one pass over waves of
:class:`Rows`. Everything afterwards, such as :func:`pool`, :func:`run_value` and :func:`look`, uses
the summaries and is cheap. :func:`evaluate` estimates the value of any policy from any logged
table.
"""

from seqbatch.inference.coefficients import Coefficients, lift_coefficients
from seqbatch.inference.contrasts import AsRun, Gain, GainOverRandom, Lift, Mean
from seqbatch.inference.drift import Drift, drift
from seqbatch.inference.estimates import (
    PlanOfShares,
    Pooled,
    WaveEstimate,
    anytime,
    estimate_wave,
    naive_lift,
    plan_of_shares,
    pool,
    pool_by_size,
    share_when_assigned,
)
from seqbatch.inference.evaluate import Evaluation, evaluate
from seqbatch.inference.intervals import Interval
from seqbatch.inference.log_export import open_bandit_feedback, vowpal_wabbit_lines, write_parquet
from seqbatch.inference.logged_units import Rows
from seqbatch.inference.looks import Look, Looks, look
from seqbatch.inference.multiplicity import dunnett_critical, holm, simultaneous_lifts
from seqbatch.inference.planned_precision import detectable_lift, planned_error, planned_path
from seqbatch.inference.rule_value import (
    NextRule,
    RunValue,
    gain_over_best,
    judge_next_rule,
    run_value,
)
from seqbatch.inference.segments import FoundSplits, Segments, strongest_splits, within_segments
from seqbatch.inference.stopping_boundaries import (
    boundaries,
    chances_to_stop,
    error_of_looks,
    futility_boundaries,
    spent,
)
from seqbatch.inference.summary import Declared, Eligible, Split, WaveSummary, summarise

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
