"""The truths that need no declaration: no action differs, and the plan's effect."""

from collections.abc import Sequence
from textwrap import indent
from typing import Any

import numpy as np

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.rehearsal.example_truth import example, level_with
from seqbatch.campaign.rehearsal.truth import Spread, Truth, outside
from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.spec.metrics import AMOUNT, YES_NO, Metric
from seqbatch.errors import InvalidSpecError
from seqbatch.planning.outcome_scale import share_of

NULL = "no action differs"


def truths_of(now: Situation, declared: Sequence[Truth]) -> tuple[Truth, ...]:
    """Return the null, the plan's effect if there is a plan with one, and the declared truths.

    The null has the control's means and all else of the first declared truth, or of the plan.
    """
    plan = truth_of_plan(now)
    if not declared and plan is None:
        raise InvalidSpecError(
            "spec: nothing says what outcomes are like. Declare a truth in a TOML file, such as\n"
            f"{indent(example(now), '  ')}\nor a plan in [grid.plan] with effect, and base_rate or "
            "noise.",
            code="no-truth",
            field="truth",
        )
    basis = declared[0] if declared else plan
    assert basis is not None
    found = [basis.null_of(_control(now), NULL)]
    found += [plan] if plan is not None and not plan.null else []
    return (*found, *declared)


def truth_of_plan(now: Situation) -> Truth | None:
    """Return the truth of the spec's plan; None without a plan that says how outcomes vary."""
    plan, reward = now.spec.grid.plan or {}, now.spec.reward
    if len(reward.terms) > 1:
        return None
    [metric], K, control = reward.terms, len(now.actions), _control(now)
    # A base rate is that of the metric, whatever a yes is worth; so is the effect beside it.
    unit = 1.0 if "base_rate" in plan else reward.scale
    base, sd = _level(plan, metric, unit)
    if base is None:
        return None
    effect = _middle(plan.get("effect")) or 0.0
    # The plan's effect is the gain of the best action over a random one.
    lift = reward.sign * effect * K / (K - 1) / unit
    other = next(action for action in range(K) if action != control)
    means = {name: np.zeros((1, K)) for name in now.spec.metrics}
    means[metric.name] = np.full((1, K), base)
    means[metric.name][0, other] += lift
    spreads = {one.name: Spread(sd=sd or 1.0) for one in now.spec.metrics.values()
               if one.kind == AMOUNT}  # fmt: skip
    brings = Measure.of_metric(now.spec, metric).amount(lift, 0.0)
    made = Truth(
        name=f"the plan's effect: {now.actions[other].name} brings {brings}",
        means=means, spreads=spreads, missing=np.full(K, float(plan.get("missing", 0.0))),
        late=np.zeros(K), null=not lift,
    )  # fmt: skip
    return made if not outside(base + lift, metric) else made.null_of(control, NULL)


def _control(now: Situation) -> int:
    names = [action.name for action in now.actions]
    return 0 if now.spec.control is None else names.index(now.spec.control)


def _level(plan: dict[str, Any], metric: Metric, unit: float) -> tuple[float | None, float | None]:
    """Return the control's mean and the noise of a plan, in the metric's unit."""
    if "base_rate" in plan:
        rate = share_of("base_rate", plan["base_rate"])
        return (rate, None) if metric.kind == YES_NO else (None, None)
    noise = _middle(plan.get("noise"))
    if noise is None:
        return None, None
    return level_with(metric, noise / unit), noise / unit


def _middle(value: Any) -> float | None:
    """Return a number, or the middle one of several guesses."""
    values = sorted(value) if isinstance(value, list | tuple) else [value]
    found = values[len(values) // 2] if values else None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found)
