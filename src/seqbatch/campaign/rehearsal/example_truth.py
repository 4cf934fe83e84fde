"""An example of a truth that fits a spec, as a TOML file with comments."""

from collections.abc import Iterator
from math import sqrt
from pathlib import Path

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.rehearsal.truth import SETTINGS, USUAL, outside
from seqbatch.campaign.spec.features import Hashed
from seqbatch.campaign.spec.metrics import AMOUNT, YES_NO, Metric
from seqbatch.campaign.spec.toml import comment, key, quoted, setting, value
from seqbatch.output_files import atomically, require_target
from seqbatch.planning.outcome_scale import OutcomeScale

HEAD = (
    "What outcomes are like under each action, for `campaign rehearse`. {said} An action that you "
    "leave out has the control's mean; a list has a mean for each wave."
)


def truth_beside(spec: Path) -> Path:
    """Return the file of a spec's truth.

    >>> truth_beside(Path("trial.toml")).name
    'trial.truth.toml'
    """
    return spec.with_suffix(".truth.toml")


def write_example(
    path: str | Path, now: Situation, assumed: OutcomeScale | None = None, *, force: bool = False
) -> Path:
    """Write a truth to a .toml file; overwrite an existing file only by force.

    Parameters
    ----------
    path
        The file.
    now
        The campaign as it would be created.
    assumed
        What a plan assumed; without it the numbers are examples.
    force
        Overwrite an existing file.
    """
    target = require_target(path, force=force, endings=(".toml",))
    with atomically(target) as partial:
        partial.write_text("".join(_commented(now, assumed)), encoding="utf-8")
    return target


def _commented(now: Situation, assumed: OutcomeScale | None) -> Iterator[str]:
    """Yield the lines of an example, and further settings as comments."""
    said = "Change the numbers." if assumed is None else f"As planned: {assumed.text()}."
    yield comment(HEAD.format(said=said))
    yield setting("name", quoted("an example" if assumed is None else "as planned"))
    yield f"\n{example(now, assumed)}\n"
    reward, names = now.spec.reward, [action.name for action in now.actions]
    # Settings of the whole truth stand above its tables; [missing] is a table, too.
    for name, why in (("missing", "never arrive"), ("late", "arrive after their wave was closed")):
        yield f"\n# [{name}]  # the share of outcomes that {why}\n"
        yield setting(names[-1], "0.1", active=False)
    for metric in now.spec.metrics.values():
        if metric not in reward.terms:
            yield f"\n# [metrics.{key(metric.name)}]\n"
            yield setting(names[-1], f"{_means(metric, 1.0, None)[0]:g}", active=False)
    levels = {n: one.levels for n, one in now.spec.features.categorical.items()
              if not isinstance(one, Hashed)}  # fmt: skip
    if levels and len(reward.terms) == 1 and names[-1] not in SETTINGS:
        column, [level, *_] = next(iter(levels.items()))
        yield "\n# [[segments]]  # where means differ\n"
        yield setting("where", value({column: level}), active=False)
        [metric] = reward.terms
        yield setting(names[-1], f"{_means(metric, reward.sign, assumed)[1]:g}", active=False)


def example(now: Situation, assumed: OutcomeScale | None = None) -> str:
    """Return a truth for these actions, as TOML."""
    reward, names = now.spec.reward, [action.name for action in now.actions]
    control = names[0] if now.spec.control is None else now.spec.control
    lifted = [name for name in names if name != control]
    spreads = {metric.name: {"sd": _spread(metric, assumed)}
               for metric in now.spec.metrics.values() if metric.kind == AMOUNT}  # fmt: skip
    lines = []
    if spreads:
        [only, *more] = spreads.values()
        lines.append(f"spread = {value(spreads if more else only)}")
    for metric in reward.terms:
        if len(reward.terms) > 1 or set(names) & set(SETTINGS):
            lines.append(f"[metrics.{key(metric.name)}]")
        usual, better = _means(metric, reward.sign, assumed)
        # A plan is about one action that is better.
        best = lifted if assumed is None else lifted[:1]
        lines += [f"{key(name)} = {better if name in best else usual:.6g}" for name in names]
    return "\n".join(lines)


def _means(metric: Metric, sign: float, assumed: OutcomeScale | None) -> tuple[float, float]:
    """Return the control's mean, and that of a better action."""
    if assumed is not None:
        base = assumed.base_rate or level_with(metric, assumed.noise)
        lift = assumed.noise / 5 if assumed.lift is None else assumed.lift
        if base is not None and not outside(base + sign * lift, metric):
            return base, base + sign * lift
    if metric.range is not None:
        low, high = metric.range
        return low + 0.4 * (high - low), low + (0.4 + sign * 0.1) * (high - low)
    base = USUAL[metric.kind]
    return base, base * 1.25**sign


def _spread(metric: Metric, assumed: OutcomeScale | None) -> float:
    """Return a standard deviation that the metric's range allows."""
    if assumed is not None and level_with(metric, assumed.noise) is not None:
        return assumed.noise
    return 20.0 if metric.range is None else 0.2 * (metric.range[1] - metric.range[0])


def level_with(metric: Metric, noise: float) -> float | None:
    """Return a mean at which outcomes have a plan's noise; None if there is none.

    >>> round(level_with(Metric(name="visit", kind="yes/no"), 0.19595918), 6)
    0.04
    """
    if metric.kind == YES_NO:
        return (1 - sqrt(1 - 4 * noise**2)) / 2 if 0 < noise <= 0.5 else None
    if metric.kind != AMOUNT:
        return noise**2
    if metric.range is None:
        return 0.0
    middle = sum(metric.range) / 2
    return middle if noise < (metric.range[1] - metric.range[0]) / 2 else None
