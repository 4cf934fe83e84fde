"""What exact sums, and rows that are kept elsewhere, ask of the rest of a spec."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqbatch.campaign.design.spec import Spec


def check_exact(spec: "Spec") -> None:
    """Refuse exact sums of numbers without bounds."""
    if spec.sums != "exact":
        return
    if spec.reward.range is None:
        raise ValueError(
            'sums = "exact" rounds rewards by how large they can be: declare reward.range = '
            "[low, high]"
        )
    rules = {**spec.features.numeric, **spec.features.date}
    open_ended = [
        name for name, rule in rules.items() if rule.range is None and rule.quantiles is None
    ]
    if open_ended:
        raise ValueError(
            f'sums = "exact" rounds numbers by how large they can be: declare range = [low, high] '
            f"of {', '.join(open_ended)}, or clip them at quantiles of the first wave, as in clip "
            "= [0.001, 0.999]"
        )


def check_elsewhere(spec: "Spec") -> None:
    """Refuse what a campaign whose rows are kept elsewhere could never look at."""
    if spec.rows != "elsewhere":
        return
    dates = [name for name in spec.features.learning if name in spec.features.date]
    learning = ", ".join(name for name in spec.features.learning if name not in dates)
    reasons = {
        'draws = "md5" is needed, which databases can make': spec.draws != "md5",
        'sums = "exact" is needed': spec.sums != "exact",
        f"nothing can be learned of columns ({learning}); declare for numbers scale = {{mean = "
        '..., sd = ...} (or "raw"), range = [low, high], and for missing ones a number with '
        "indicator = 1": bool(learning),
        f"the scaling of days is learned ({', '.join(dates)}); declare other parts alone, as in "
        'parts = ["weekday", "month"], or give the units a number of days': bool(dates),
        "metrics are not recorded": bool(spec.metrics),
        "no rule of stopping can look at the rows": spec.stopping.rule != "none",
        "clusters are not known": spec.cluster is not None,
        "segments are not known": bool(spec.report.segments),
        "outcomes have no ids": spec.outcome is not None,
        "outcomes wait for nothing (reward.after)": spec.reward.after is not None,
    }
    if found := [reason for reason, there in reasons.items() if there]:
        raise ValueError(f'rows = "elsewhere": {"; ".join(found)}')
