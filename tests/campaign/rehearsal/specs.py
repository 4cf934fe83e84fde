"""Specs and truths to rehearse, and a file of units."""

import numpy as np
import polars as pl

MAIL = {
    "name": "mail", "unit": "customer", "actions": ["none", "mail", "call"], "control": "none",
    "randomised": 0.2, "grid": {"sizes": [60, 70, 60]},
    "metrics": {
        "visit": {"kind": "yes/no", "absent": 0, "after": "3 days"},
        "left": {"kind": "yes/no", "guardrail": {"at_most_control_plus": 0.05}},
    },
    "objective": {"maximise": "visit"},
    "features": {"numeric": {"age": "learn"}, "categorical": {"region": ["north", "south"]}},
    "report": {"segments": ["region"]},
    "required_outcomes": 0.5,
}  # fmt: skip
MAIL_TRUTH = {
    "none": 0.3, "mail": [0.5, 0.4, 0.4], "segments": [{"where": {"region": "north"}, "call": 0.6}],
    "metrics": {"left": {"none": 0.1, "call": 0.2}}, "missing": {"mail": 0.2}, "late": 0.15,
}  # fmt: skip
TRIAL = {
    "name": "trial", "unit": "customer", "actions": ["old", "new"], "control": "old",
    "policy": {"kind": "UniformRandom"}, "grid": {"sizes": [50, 50, 50], "adaptive": True},
    "metrics": {"pain": {"kind": "amount", "range": [0, 10], "rows": "last", "row_id": "visit"}},
    "objective": {"minimise": "pain"}, "stopping": {"rule": "obrien-fleming", "futility": True},
    "features": {"numeric": {"age": "learn"}}, "strata": ["region"],
}  # fmt: skip
TRIAL_TRUTH = {"old": 5.0, "new": 4.6, "spread": {"sd": 2.0}, "late": 0.05}
LIMITED = {
    **MAIL,
    "actions": ["none", {"name": "mail", "cost": 0.5}, {"name": "call", "cost": 4.0}],
    "capacity": {"call": 15}, "budget": {"each_wave": 60.0}, "currency": "EUR",
    "eligible": {"call": "phone"},
}  # fmt: skip

PLAIN = {
    "name": "plain", "unit": "customer", "actions": ["none", "mail"], "grid": {"sizes": [50, 60]},
    "metrics": {"visit": {"kind": "yes/no"}}, "objective": {"maximise": "visit"},
}  # fmt: skip
BLOCKS = {
    **MAIL, "name": "blocks", "policy": {"kind": "UniformRandom"}, "draw": "blocks",
    "strata": ["region"], "stopping": {"rule": "pocock", "futility": True},
}  # fmt: skip
#: The holder of the key takes the looks.
MASKED = {
    **MAIL, "name": "masked", "masked": True, "interim": "committee",
    "stopping": {"rule": "obrien-fleming", "looks": "key holder"},
}  # fmt: skip


LOGGED = {
    "name": "orders", "actions": ["none", "mail", "vip"], "control": "none", "currency": "EUR",
    "grid": {"calendar": True, "waves": 2, "units": 120}, "start": "2029-01-01",
    "metrics": {
        "orders": {
            "kind": "count", "rows": "count", "row_id": "order", "column": "order", "absent": 0,
            "date": "at", "within": "7 days",
        },
        "revenue": {"kind": "amount", "rows": "sum", "absent": 0, "cap": 100.0, "unit": "EUR"},
    },
    "objective": {"maximise": "revenue"}, "eligible": {"vip": "age > 90"}, "randomised": 0.2,
    "features": {
        "numeric": {"age": {"scale": "learn", "range": [0, 90]}}, "boolean": {"new": "refuse"},
        "date": {"since": "iso"}, "categorical": {"shop": {"hash": 4}},
    },
}  # fmt: skip
LOGGED_TRUTH = {
    "none": 20, "mail": 30, "spread": {"buyers": 0.5}, "late": 0.1,
    "metrics": {"orders": {"none": 1, "mail": 2}},
}  # fmt: skip


def listed(units):
    """Return a file of units."""
    random = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "customer": [f"c{number}" for number in range(units)],
            "age": random.integers(18, 80, units),
            "region": random.choice(["north", "south"], units),
            "phone": random.choice(["yes", "no"], units),
        }
    )
