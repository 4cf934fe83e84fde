"""A plan as plain values, for JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqbatch.planning.result import Plan


def as_dict(plan: "Plan") -> dict[str, Any]:
    """Return everything but the trade, which takes longer."""
    policy = {part.name: getattr(plan.policy, part.name) for part in fields(plan.policy)}
    answer = {
        "units": plan.units,
        "seen": plan.seen,
        "actions": plan.model.actions,
        "layout": plan.model.layout,
        "dim": plan.model.dim,
        "effects": list(plan.request.law.guesses),
        "effect_spread": plan.request.law.spread,
        "effect_stated": plan.request.law.stated,
        "scenarios": [
            {"effect": effect, "noise": noise, "weight": weight}
            for (effect, noise), weight in zip(
                plan.model.scenarios, plan.model.weights, strict=True
            )
        ],
        "kappa": plan.model.kappa,
        "contexts": plan.contexts,
        "batches": plan.batches,
        "asked": plan.request.batches is not None,
        "reason": plan.reason,
        "rule_met": plan.met,
        "randomised": plan.model.conduct.randomised,
        "floor": plan.model.conduct.floor,
        "missing": plan.model.conduct.missing,
        "delay": plan.model.conduct.delay,
        "eligible": list(plan.model.conduct.eligible) or None,
        "capacity": list(plan.model.conduct.capacity) or None,
        "within": plan.within,
        "batch_cost": plan.batch_cost,
        "seed": plan.seed,
        "ends": list(plan.grid.ends),
        "sizes": list(plan.grid.sizes),
        "policy": {"name": type(plan.policy).__name__, **policy},
        "table": [asdict(row) for row in (*plan.rows, plan.online)],
        "candidates": [
            {k: v for k, v in vars(one).items() if k != "policy"} for one in plan.candidates
        ],
        "sensitivity": [asdict(one) for one in plan.sensitivity],
        "detect": plan.request.detect,
        "power": plan.request.power,
        "detection": None if plan.detection is None else asdict(plan.detection),
        "sample": None if plan.sample is None else plan.sample.evidence(),
    }
    return {key: _plain(value) for key, value in answer.items()}


def _plain(value: Any) -> Any:
    """Return the value without what JSON does not know: NaN and tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value
