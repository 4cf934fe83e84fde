"""Amend how the numbers of outcome files are spelled, also within a wave."""

from collections.abc import Mapping
from typing import Any

from seqbatch.campaign.design.number_format import NumberFormat
from seqbatch.campaign.design.spec import Spec
from seqbatch.errors import InvalidArgumentError


def respelled(spec: Spec, *, reward: str | None, metrics: Mapping[str, str]) -> dict[str, Any]:
    """Return what an event keeps of new formats: each from what to what; nothing without any.

    Values are kept as they were read: a format holds for the files that are recorded later.
    """
    made: dict[str, Any] = {}
    if reward is not None:
        made["reward_format"] = _change("reward_format", spec.reward.format, reward)
    known = {metric.column: metric.format for metric in spec.metrics}
    for column, example in metrics.items():
        if column not in known:
            rule = f"for one of the metrics {', '.join(known)}" if known else "left out: no metrics"
            raise InvalidArgumentError("metric_formats", rule, repr(column))
        change = _change("metric_formats", known[column], example)
        made.setdefault("metric_formats", {})[column] = change
    return made


def _change(name: str, before: str | None, example: str) -> dict[str, str | None]:
    try:
        NumberFormat.of(example)
    except ValueError as error:
        raise InvalidArgumentError(name, "as in a spec", repr(example), f"{error}.") from None
    if example == before:
        raise InvalidArgumentError(name, "another than now", repr(example))
    return {"from": before, "to": example}
