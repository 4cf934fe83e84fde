"""Statistical inference after adaptive waves: estimates with valid confidence intervals.

Pure functions over arrays; they need no campaign. :func:`summarise` makes one pass over waves of
:class:`Rows`. Everything afterwards, such as :func:`pool`, :func:`run_value` and :func:`look`, uses
the summaries and is cheap. :func:`evaluate` estimates the value of any policy from any logged
table.
"""

from seqbatch.inference.adjusted_estimate import EarlierLook, adjusted_estimate
from seqbatch.inference.coefficients import Coefficients, lift_coefficients
from seqbatch.inference.conditional_power import conditional_power
from seqbatch.inference.contrasts import AsRun, Gain, GainOverRandom, Lift, Mean
from seqbatch.inference.decision_tree import DecisionTree, TreeFeature, bins_of, distil
from seqbatch.inference.drift import Drift, drift
from seqbatch.inference.estimates import (
    Pooled,
    WaveEstimate,
    anytime,
    estimate_wave,
    naive_lift,
    pool,
    pool_by_size,
)
from seqbatch.inference.evaluate import Evaluation, evaluate
from seqbatch.inference.guardrails import Bound, Guarded, JudgedBound, judge_bounds
from seqbatch.inference.intervals import FewEvents, Interval
from seqbatch.inference.log_export import open_bandit_feedback, vowpal_wabbit_lines, write_parquet
from seqbatch.inference.logged_units import Rows
from seqbatch.inference.looks import Look, Looks, look
from seqbatch.inference.multiplicity import (
    control_loadings,
    dunnett_critical,
    holm,
    simultaneous_lifts,
)
from seqbatch.inference.plan_of_shares import (
    PlanOfShares,
    plan_of_shares,
    share_when_assigned,
)
from seqbatch.inference.planned_precision import detectable_lift, planned_error, planned_path
from seqbatch.inference.rare_events import (
    PlannedDesign,
    planned_units,
    planned_units_of_next_rule,
)
from seqbatch.inference.recommendation import Latest, Verdict, latest_lift, verdict
from seqbatch.inference.rule_value import (
    NextRule,
    RunValue,
    gain_over_best,
    judge_next_rule,
    run_value,
)
from seqbatch.inference.segments import FoundSplits, Segments, strongest_splits, within_segments
from seqbatch.inference.selected_action import SelectedAction, selected_action
from seqbatch.inference.stopping_boundaries import (
    boundaries,
    chances_to_stop,
    detectable_drift,
    error_of_looks,
    futility_boundaries,
    spent,
)
from seqbatch.inference.summary import (
    AmongEligible,
    Declared,
    Eligible,
    Split,
    WaveSummary,
    summarise,
)
from seqbatch.inference.tree_value import TreeValue, judge_tree

__all__ = [
    "AmongEligible",
    "AsRun",
    "Bound",
    "Coefficients",
    "DecisionTree",
    "Declared",
    "Drift",
    "EarlierLook",
    "Eligible",
    "Evaluation",
    "FewEvents",
    "FoundSplits",
    "Gain",
    "GainOverRandom",
    "Guarded",
    "Interval",
    "JudgedBound",
    "Latest",
    "Lift",
    "Look",
    "Looks",
    "Mean",
    "NextRule",
    "PlanOfShares",
    "PlannedDesign",
    "Pooled",
    "Rows",
    "RunValue",
    "Segments",
    "SelectedAction",
    "Split",
    "TreeFeature",
    "TreeValue",
    "Verdict",
    "WaveEstimate",
    "WaveSummary",
    "adjusted_estimate",
    "anytime",
    "bins_of",
    "boundaries",
    "chances_to_stop",
    "conditional_power",
    "control_loadings",
    "detectable_drift",
    "detectable_lift",
    "distil",
    "drift",
    "dunnett_critical",
    "error_of_looks",
    "estimate_wave",
    "evaluate",
    "futility_boundaries",
    "gain_over_best",
    "holm",
    "judge_bounds",
    "judge_next_rule",
    "judge_tree",
    "latest_lift",
    "lift_coefficients",
    "look",
    "naive_lift",
    "open_bandit_feedback",
    "plan_of_shares",
    "planned_error",
    "planned_path",
    "planned_units",
    "planned_units_of_next_rule",
    "pool",
    "pool_by_size",
    "run_value",
    "selected_action",
    "share_when_assigned",
    "simultaneous_lifts",
    "spent",
    "strongest_splits",
    "summarise",
    "verdict",
    "vowpal_wabbit_lines",
    "within_segments",
    "write_parquet",
]


def __dir__() -> list[str]:
    return __all__
