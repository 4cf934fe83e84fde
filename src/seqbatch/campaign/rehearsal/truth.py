"""The truth of a rehearsal: what outcomes are like under each action, and which ones arrive."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.spec.metrics import AMOUNT, COUNT, YES_NO, Metric
from seqbatch.campaign.spec.toml import key
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.errors import InvalidSpecError

# ----------------------------------------------------------------------
# What outcomes are like.


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How amounts vary around their mean.

    Parameters
    ----------
    sd
        The standard deviation: a normal distribution, or within the metric's range a beta
        distribution.
    buyers, log_sd
        The share of units with an amount above 0, and the standard deviation of the logarithms of
        their amounts, which are log-normal.
    """

    sd: float | None = None
    buyers: float | None = None
    log_sd: float = 1.0

    def draw(self, random: Generator, means: Floats, metric: Metric) -> Floats:
        """Draw an amount for each mean."""
        n = len(means)
        if self.buyers is not None:
            sizes = random.lognormal(-(self.log_sd**2) / 2, self.log_sd, n)
            return np.where(random.random(n) < self.buyers, sizes * means / self.buyers, 0.0)
        assert self.sd is not None
        if metric.range is None:
            return means + self.sd * random.standard_normal(n)
        (low, high), wide = metric.range, metric.range[1] - metric.range[0]
        share = (means - low) / wide
        size = share * (1 - share) / (self.sd / wide) ** 2 - 1
        return np.clip(low + wide * random.beta(share * size, (1 - share) * size), low, high)

    def counted(self, means: Floats, metric: Metric) -> Floats:
        """Return the means after amounts above the metric's cap count as the cap."""
        if metric.cap is None:
            return means
        # By quantiles: the same for every shape.
        random = np.random.default_rng(0)
        made = np.empty_like(means)
        for mean in np.unique(means):
            drawn = self.draw(random, np.full(200_000, mean), metric)
            made[means == mean] = np.minimum(drawn, metric.cap).mean()
        return made


@dataclass(frozen=True)
class SegmentMeans:
    """The means of some actions among the units with given values of columns.

    Parameters
    ----------
    where
        The value of each column.
    means
        The means by wave, by metric and the number of the action.
    """

    where: Mapping[str, str]
    means: Mapping[str, Mapping[int, tuple[float, ...]]]


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A world in which a campaign is rehearsed.

    Parameters
    ----------
    name
        Its name.
    means
        The mean of each metric by wave and action, shape (waves, actions). The last row holds for
        all later waves.
    spreads
        How amounts vary, by metric.
    segments
        Where means differ; of several that hold, the last one counts.
    missing, late
        The share of outcomes that never arrive, and the share of the others that arrive only after
        their wave was closed, by action.
    null
        Whether no action differs from the control.
    """

    name: str
    means: Mapping[str, Floats]
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    segments: tuple[SegmentMeans, ...] = ()
    missing: Floats
    late: Floats
    null: bool = False

    def rates(self, metric: str, wave: int, within: Bools) -> Floats:
        """Return the mean of a metric for some units under every action, shape (n, actions).

        Parameters
        ----------
        metric, wave
            The metric, and the number of the wave.
        within
            Which units belong to which of the segments, shape (n, segments).
        """
        own = self.means[metric]
        made = np.tile(own[min(wave, len(own)) - 1], (len(within), 1))
        for place, segment in enumerate(self.segments):
            for action, means in segment.means.get(metric, {}).items():
                made[within[:, place], action] = means[min(wave, len(means)) - 1]
        return made

    def draw(self, random: Generator, means: Floats, metric: Metric) -> Floats:
        """Draw the outcomes of units with these means."""
        if metric.kind == YES_NO:
            return (random.random(len(means)) < means).astype(np.float64)
        if metric.kind != AMOUNT:
            drawn = random.poisson(means).astype(np.float64)
            return drawn if metric.range is None else np.clip(drawn, *metric.range)
        return self.spreads[metric.name].draw(random, means, metric)

    def arrivals(self, random: Generator, actions: Integers) -> tuple[Bools, Bools]:
        """Return whose outcomes arrive in time, and whose arrive late."""
        first, second = random.random((2, len(actions)))
        there = first >= self.missing[actions]
        late = second < self.late[actions]
        return there & ~late, there & late

    @property
    def constant(self) -> bool:
        """Whether means are the same in all waves."""
        tables = [own.shape[0] == 1 or not np.ptp(own, axis=0).any() for own in self.means.values()]
        return all(tables) and all(
            len(set(means)) == 1
            for one in self.segments
            for own in one.means.values()
            for means in own.values()
        )

    def null_of(self, control: int, name: str) -> "Truth":
        """Return the same world with the control's means for every action."""
        means = {
            metric: np.repeat(own[:, [control]], own.shape[1], axis=1)
            for metric, own in self.means.items()
        }
        segments = []
        for one in self.segments:
            kept = {m: own[control] for m, own in one.means.items() if control in own}
            # Where the control has its usual mean, so has every other action.
            alike = {
                m: dict.fromkeys(range(means[m].shape[1]), kept[m]) for m in kept
            }  # fmt: skip
            segments.append(replace(one, means=alike))
        return replace(self, name=name, means=means, segments=tuple(segments), null=True)

    def plain(self) -> dict[str, Any]:
        """Return the truth as plain values."""
        return {
            "name": self.name,
            "means": {metric: own.tolist() for metric, own in self.means.items()},
            "spreads": {metric: vars(own) for metric, own in self.spreads.items()},
            "segments": [
                {"where": dict(one.where),
                 "means": {m: {str(a): list(v) for a, v in own.items()}
                           for m, own in one.means.items()}}
                for one in self.segments
            ],
            "missing": self.missing.tolist(),
            "late": self.late.tolist(),
        }  # fmt: skip


# ----------------------------------------------------------------------
# A declared truth.


#: The settings of a truth; all other names at the top are actions.
SETTINGS = ("name", "metrics", "segments", "missing", "late", "spread")
#: The control's mean in an example, by kind.
USUAL = {YES_NO: 0.04, COUNT: 2.0, AMOUNT: 4.0}


def read_truth(
    given: str | Path | Mapping[str, Any], now: Situation, levels: Mapping[str, Sequence[str]]
) -> Truth:
    """Return a declared truth; refuse it with all of its problems.

    Parameters
    ----------
    given
        A TOML file, or its plain values.
    now
        The campaign as it would be created.
    levels
        The values of each column that can have segments.
    """
    if isinstance(given, Mapping):
        return _Declared(given, "truth", now, levels).truth("declared")
    path = Path(given)
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidSpecError(f"{path}: cannot be opened: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSpecError(f"{path} must be valid TOML: {error}.", code="not-toml") from None
    return _Declared(plain, str(path), now, levels).truth(path.stem)


class _Declared:
    """A declared truth that is being checked."""

    def __init__(
        self,
        plain: Mapping[str, Any],
        label: str,
        now: Situation,
        levels: Mapping[str, Sequence[str]],
    ) -> None:
        self.plain, self.label, self.now, self.levels = plain, label, now, levels
        self.names = [action.name for action in now.actions]
        self.metrics, self.waves = now.spec.metrics, len(now.sizes)
        control = now.spec.control
        self.control = 0 if control is None else self.names.index(control)
        self.problems: list[str] = []

    def truth(self, name: str) -> Truth:
        """Return the truth, or refuse it with all problems."""
        spreads = self._spreads()
        means = {metric: self._means(metric) for metric in self.metrics}
        self._unknown()
        segments = tuple(self._segments())
        shares = {what: self._shares(what) for what in ("missing", "late")}
        for metric in self.metrics.values():
            if metric.kind == AMOUNT:
                self._check_spread(metric, means[metric.name], segments, spreads)
        if self.problems:
            count = len(self.problems)
            lines = "\n".join(f"  {one}" for one in self.problems)
            raise InvalidSpecError(
                f"{self.label}: {count} problem{'s' if count > 1 else ''}; nothing was "
                f"rehearsed.\n{lines}",
                code="invalid-truth",
            )
        return Truth(
            name=str(self.plain.get("name", name)), means=means, spreads=spreads,
            segments=segments, missing=shares["missing"], late=shares["late"],
        )  # fmt: skip

    def _say(self, problem: str) -> None:
        self.problems.append(problem)

    def _unknown(self) -> None:
        """Refuse names that are neither actions nor settings."""
        for name in self.plain:
            if name not in (*SETTINGS, *self.names):
                self._say(
                    f"{name}: must be an action ({', '.join(self.names)}) or one of "
                    f"{', '.join(SETTINGS)}"
                )
        metrics = self.plain.get("metrics", {})
        for name in metrics if isinstance(metrics, Mapping) else ():
            if name not in self.metrics:
                self._say(f"metrics.{name}: must be a metric ({', '.join(self.metrics)})")

    def _table(self, name: str) -> Mapping[str, Any]:
        found = self.plain.get(name, {})
        if isinstance(found, Mapping):
            return found
        self._say(f"{name}: must be a table, such as [{name}]; received {found!r}")
        return {}

    @property
    def _terms(self) -> list[str]:
        """The metrics that the objective consists of."""
        return [term.name for term in self.now.spec.reward.terms]

    @property
    def _main(self) -> str | None:
        """The objective's only metric, whose means are at the top."""
        return self._terms[0] if len(self._terms) == 1 else None

    def _means(self, metric: str) -> Floats:
        """Return the means of a metric by wave and action."""
        own = self._table("metrics").get(metric, {})
        if not isinstance(own, Mapping):
            self._say(f"metrics.{metric}: must be a table of actions; received {own!r}")
            own = {}
        places = {name: (f"metrics.{metric}.{name}", value) for name, value in own.items()}
        if metric == self._main:
            top = {n: v for n, v in self.plain.items() if n in self.names and n not in SETTINGS}
            places |= {name: (name, value) for name, value in top.items()}
            if self.names[self.control] not in places:
                self._say(
                    f"{self.names[self.control]}: the control's mean of {metric} is needed, such "
                    f"as {key(self.names[self.control])} = {USUAL[self.metrics[metric].kind]:g}"
                )
        elif metric in self._terms and self.names[self.control] not in places:
            self._say(
                f"metrics.{metric}.{self.names[self.control]}: the control's mean is needed: the "
                "objective consists of this metric"
            )
        found = self._by_action(metric, places)
        usual = found.get(self.control, (0.0,))
        made = [found.get(action, usual) for action in range(len(self.names))]
        length = max(map(len, made))
        return np.array([own * length if len(own) == 1 else own for own in made]).T

    def _by_action(
        self, metric: str, places: Mapping[str, tuple[str, Any]]
    ) -> dict[int, tuple[float, ...]]:
        """Return the means of the named actions, by the number of the action."""
        made = {}
        for name, (place, value) in places.items():
            if name not in self.names:
                self._say(f"{place}: must be an action ({', '.join(self.names)})")
            elif (means := self._waves(place, value, self.metrics[metric])) is not None:
                made[self.names.index(name)] = means
        return made

    def _waves(self, place: str, value: Any, metric: Metric) -> tuple[float, ...] | None:
        """Return a mean for each wave, or one for all."""
        values = value if isinstance(value, list | tuple) else [value]
        if len(values) not in (1, self.waves):
            self._say(
                f"{place}: must be a number, or a list of {self.waves}, one for each wave; "
                f"received {len(values)}"
            )
            return None
        for one in values:
            if isinstance(one, bool) or not isinstance(one, int | float) or not isfinite(one):
                self._say(f"{place}: must be a number; received {one!r}")
                return None
            if problem := outside(float(one), metric):
                self._say(f"{place}: {problem}")
                return None
        return tuple(map(float, values))

    def _segments(self) -> Iterator[SegmentMeans]:
        found = self.plain.get("segments", [])
        if not isinstance(found, list | tuple) or not all(isinstance(s, Mapping) for s in found):
            self._say("segments: must be a list of tables, such as [[segments]]")
            return
        for place, one in enumerate(found, start=1):
            label = f"segments {place}"
            where = one.get("where")
            if not isinstance(where, Mapping) or not where:
                self._say(f'{label}: where is needed, such as where = {{region = "north"}}')
                continue
            self._check_where(label, where)
            own = {n: v for n, v in one.items() if n not in ("where", "metrics")}
            tables = dict(one.get("metrics", {}))
            if own:
                if self._main is None:
                    self._say(f"{label}: the objective has several metrics; use metrics.NAME")
                    continue
                tables[self._main] = {**tables.get(self._main, {}), **own}
            means = {}
            for metric, values in tables.items():
                if metric not in self.metrics:
                    self._say(f"{label}: {metric} must be a metric ({', '.join(self.metrics)})")
                    continue
                places = {name: (f"{label}: {name}", value) for name, value in values.items()}
                means[metric] = self._by_action(metric, places)
            yield SegmentMeans({name: _text(value) for name, value in where.items()}, means)

    def _check_where(self, label: str, where: Mapping[str, Any]) -> None:
        for column, value in where.items():
            known = self.levels.get(column)
            if known is None:
                have = ", ".join(self.levels) or "there are none"
                self._say(
                    f"{label}: {column} must be a column of categories or of yes and no ({have})"
                )
            elif _text(value) not in known:
                shown = ", ".join(known[:8]) + (" ..." if len(known) > 8 else "")
                self._say(f"{label}: no unit has {column} = {value!r}; units have {shown}")

    def _shares(self, what: str) -> Floats:
        """Return a share for each action."""
        found = self.plain.get(what, 0.0)
        own = found if isinstance(found, Mapping) else dict.fromkeys(self.names, found)
        made = np.zeros(len(self.names))
        for name, value in own.items():
            place = f"{what}.{name}" if isinstance(found, Mapping) else what
            if name not in self.names:
                self._say(f"{place}: must be an action ({', '.join(self.names)})")
            elif (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not (0 <= value < 1)
            ):
                self._say(f"{place}: must be a share, from 0 to below 1; received {value!r}")
                if not isinstance(found, Mapping):
                    break
            else:
                made[self.names.index(name)] = value
        return made

    def _spreads(self) -> dict[str, Spread]:
        """Return how amounts vary."""
        found, made = self._table("spread"), {}
        amounts = [name for name, metric in self.metrics.items() if metric.kind == AMOUNT]
        if found and not any(isinstance(one, Mapping) for one in found.values()):
            # The only amount needs no name.
            found = {self._main if self._main in amounts else next(iter(amounts), ""): found}
        for name, own in found.items():
            if name not in amounts:
                known = ", ".join(amounts) or "there are none"
                self._say(f"spread.{name}: must be a metric of amounts ({known})")
                continue
            if not isinstance(own, Mapping) or not (
                set(own) == {"sd"} or ({"buyers"} <= set(own) <= {"buyers", "log_sd"})
            ):
                self._say(f"spread.{name}: must be {{sd = 20}} or {{buyers = 0.05, log_sd = 1}}")
                continue
            bad = [
                part for part, value in own.items()
                if isinstance(value, bool) or not isinstance(value, int | float)
                or not 0 < value < (1 + 1e-12 if part == "buyers" else np.inf)
            ]  # fmt: skip
            for part in bad:
                rule = "a share above 0, at most 1" if part == "buyers" else "a number above 0"
                self._say(f"spread.{name}.{part}: must be {rule}; received {own[part]!r}")
            if not bad:
                made[name] = Spread(**{part: float(value) for part, value in own.items()})
        return made

    def _check_spread(
        self,
        metric: Metric,
        means: Floats,
        segments: Sequence[SegmentMeans],
        spreads: Mapping[str, Spread],
    ) -> None:
        """Refuse amounts without a spread, and means that the spread does not allow."""
        spread = spreads.get(metric.name)
        if spread is None:
            if not any(place.startswith("spread") for place in self.problems):
                self._say(
                    f"spread: say how the amounts of {metric.name} vary: {{sd = 20}}, or {{buyers "
                    "= 0.05, log_sd = 1}"
                )
            return
        own = [v for one in segments for v in one.means.get(metric.name, {}).values()]
        every = np.concatenate([means.ravel(), *(np.array(values) for values in own)])
        if spread.buyers is not None and (every < 0).any():
            self._say(f"{metric.name}: with buyers, means must be 0 or more")
        if spread.sd is not None and metric.range is not None:
            low, high = metric.range
            if (spread.sd**2 >= (every - low) * (high - every)).any():
                self._say(
                    f"spread.{metric.name}.sd: {spread.sd:g} is too large for means within the "
                    f"range from {low:g} to {high:g}"
                )


def outside(value: float, metric: Metric) -> str:
    """Return what is wrong with a mean."""
    if (limits := metric.limits) is not None and not limits[0] <= value <= limits[1]:
        low, high = limits
        more = " (0.04 is 4%)" if metric.kind == YES_NO and value > 1 else ""
        return f"must be from {low:g} to {high:g}; received {value:g}{more}"
    if metric.kind not in (YES_NO, AMOUNT) and value < 0:
        return f"must be 0 or more; received {value:g}"
    return ""


def _text(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
