"""Operating characteristics: how often campaigns are right, and how well they estimate."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite, nan, sqrt
from typing import Any

import numpy as np

from seqbatch.campaign.record.current_situation import HARM, SUCCESS
from seqbatch.campaign.rehearsal.population import NOTHING, World
from seqbatch.campaign.rehearsal.rehearsed_campaign import RehearsedCampaign
from seqbatch.campaign.spec.metrics import Guardrail
from seqbatch.core.arrays import Floats
from seqbatch.inference import Guarded, Interval

# ----------------------------------------------------------------------
# The facts about one campaign, beside what was true.


#: The level of tests that findings leave to the reader.
ALPHA = 0.05
#: What tests of drift are about.
CHANGES = {"lift": "a lift", "level": "the level", "feature": "a feature"}


def facts(campaign: RehearsedCampaign) -> dict[str, Any]:
    """Return what one campaign did and found, and whether it was right, as plain values."""
    about = _Facts(campaign)
    return {
        "verdict": about.verdict,
        "action": about.recommended,
        "right": about.right,
        "stop": about.stop,
        "early": bool(campaign.now.stop) and not campaign.now.finished,
        "waves": len(campaign.waves),
        "units": campaign.now.assigned,
        "given": about.given,
        **about.earned(),
        "tests": dict(about.tests()),
        "estimates": dict(about.estimates()),
        "guardrails": dict(about.guardrails()),
        "spent": about.spent,
        "forced": [wave.forced for wave in campaign.waves if wave.forced],
    }


class _Facts:
    """The facts about a campaign."""

    def __init__(self, campaign: RehearsedCampaign) -> None:
        self.campaign, self.found, self.now = campaign, campaign.found, campaign.now
        self.world: World = campaign.world
        self.names = [action.name for action in self.now.actions]
        self.control = self.names.index(self.found.control)
        sizes = np.array([len(wave.rows) for wave in campaign.waves], dtype=np.float64)
        self.sizes = sizes / sizes.sum()
        self.sign = self.now.spec.reward.sign

    # What was true, over the waves that were run.

    def _over_waves(self, by_wave: Sequence[Floats]) -> Floats:
        made: Floats = self.sizes @ np.array(by_wave)
        return made

    @property
    def _waves(self) -> range:
        return range(1, len(self.campaign.waves) + 1)

    @property
    def means(self) -> Floats:
        return self._over_waves([self.world.means(wave) for wave in self._waves])

    @property
    def lifts(self) -> Floats:
        return self._over_waves([self.world.lifts(wave) for wave in self._waves])

    # The verdict.

    @property
    def verdict(self) -> str:
        made = self.found.recommendation
        return "" if made is None else str(made.code)

    @property
    def recommended(self) -> str | None:
        made = self.found.recommendation
        return made.action if made is not None and made.gives else None

    @property
    def right(self) -> bool | None:
        """Whether the right action was recommended; None if none was, and one was better."""
        # Nobody may get an action without a mean.
        lifts = np.nan_to_num(self.sign * self.lifts, nan=-np.inf)
        allowed = [a for a in range(len(lifts)) if a != self.control and self._kept(a)]
        best = max((lifts[a] for a in allowed), default=0.0)
        if self.recommended is None:
            return True if best <= NOTHING else None
        place = self.names.index(self.recommended)
        return bool(best > NOTHING and place in allowed and lifts[place] >= best - NOTHING)

    @property
    def stop(self) -> list[Any] | None:
        """The wave after which the rule stopped the campaign, and its verdict."""
        return [len(self.campaign.waves), self.now.stop] if self.now.stop else None

    # Units, earnings and limits.

    @property
    def given(self) -> list[list[int]]:
        """How many units got each action, by wave."""
        count = len(self.names)
        return [
            np.bincount(wave.decided.actions, minlength=count).tolist()
            for wave in self.campaign.waves
        ]

    @property
    def spent(self) -> list[float]:
        """What the actions cost, by wave."""
        costs = np.array([action.cost for action in self.now.actions])
        return [float(costs @ np.array(one)) for one in self.given]

    def earned(self) -> dict[str, float]:
        """Return the true mean outcomes of the units as run and under simpler policies."""
        run = equal = each = total = 0.0
        single = np.zeros(len(self.names))
        for number, wave in enumerate(self.campaign.waves, start=1):
            own = self.world.rewards(number, wave.rows)
            may = self.world.may(wave.rows)
            run += float(own[np.arange(len(own)), wave.decided.actions].sum())
            equal += float(np.nanmean(np.where(may, own, nan), axis=1).sum())
            better = np.where(may, self.sign * own, -np.inf)
            each += self.sign * float(better.max(axis=1).sum())
            # A unit that may not get the action gets the mean of those that it may get.
            single += np.where(may, own, np.nanmean(np.where(may, own, nan), axis=1)[:, None]).sum(
                0
            )
            total += len(own)
        best = self.sign * (self.sign * single).max()
        return {
            "earned": run / total, "equal": equal / total, "best": best / total,
            "each": each / total,
        }  # fmt: skip

    # Tests, each with whether its hypothesis was true.

    def tests(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield tests by name: whether it rejects, and whether its hypothesis is true."""
        found, lifts = self.found, self.lifts
        nothing = np.abs(lifts) < NOTHING
        rejected = []
        for lift in found.lifts:
            place = self.names.index(lift.action)
            if np.isnan(lifts[place]):
                continue
            around, null = lift.around, bool(nothing[place])
            # With too few events there is no interval, and so no test.
            if lift.interval.known:
                rejects = _excludes(lift.interval)
                yield f"lift of {lift.action}, by itself", [rejects, null]
            if null and around.known:
                rejected.append(_excludes(around))
            better = _excludes(around) and self.sign * around.estimate > 0
            yield f"better: {lift.action}", [bool(better), bool(nothing[place])]
        others = np.delete(nothing, self.control)
        if rejected:
            yield "any lift, all together", [any(rejected), True]
        if found.stopping.looks:
            wrong = [
                each.stops and each.verdict in (SUCCESS, HARM) for each in found.stopping.looks
            ]
            yield "the stopping rule", [any(wrong), bool(others.all())]
        yield from self._gains()
        yield from self._of_metrics()
        yield from self._in_segments()
        yield from self._changes()
        yield from self._quality()

    def _gains(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield tests of gains: where no unit has a lift, nothing gains."""
        run, rule, nil = self.found.run, self.found.rule, self.world.nothing_at_all
        if run is not None:
            gains = [run.over_random, *run.over_actions.values()]
            # Where all shares are equal, the gain over a random assignment is 0: nothing is tested.
            tested = [one for one in gains if one.known and one.high > one.low]
            if known := [_excludes(one) for one in tested]:
                yield "gains of the run, each by itself", [known, nil]
        if rule is not None and rule.gain.known:
            yield "gain of the rule to run next", [_excludes(rule.gain), nil]

    def _of_metrics(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield tests of other metrics than the objective's."""
        for metric in self.found.metrics:
            lifts = self._over_waves(
                [self.world.metric_means(metric.name, wave, self.control) for wave in self._waves]
            )
            null = [
                _excludes(lift.interval) for lift in metric.lifts
                if lift.interval.known and abs(lifts[self.names.index(lift.action)]) < NOTHING
            ]  # fmt: skip
            if metric.shown and null:
                yield f"lifts of {metric.name}, each by itself", [null, True]

    def _in_segments(self) -> Iterator[tuple[str, list[Any]]]:
        found = self.found
        if found.segments:
            null = [
                one for one in found.segments
                if isfinite(one.adjusted_p)
                and self.world.nothing_in(one.by, one.segment, self.names.index(one.action))
            ]  # fmt: skip
            if null:
                yield (
                    "any declared segment, by Holm",
                    [any(_small(s.adjusted_p) for s in null), True],
                )
        # With too few events on a side there is no p-value, and so no test.
        if known := [p for one in found.splits if isfinite(p := one.adjusted_p)]:
            yield "any split, by Holm", [any(map(_small, known)), self.world.same_for_all]

    def _changes(self) -> Iterator[tuple[str, list[Any]]]:
        waves = len(self.campaign.waves)
        same = [
            _small(one.same_p)
            for one in self.found.lifts
            if len(one.waves) > 1 and one.interval.known
        ]
        if same:
            yield (
                "the same lift in every wave, each by itself",
                [same, self.world.same_lifts(waves)],
            )
        null = {
            "lift": self.world.same_lifts(waves), "level": self.world.steady(waves),
            "feature": True,
        }  # fmt: skip
        kinds = defaultdict(list)
        for one in self.found.drift:
            kinds[one.kind].append(_small(one.p))
        for kind, rejects in kinds.items():
            yield f"any change of {CHANGES[kind]}, by Holm", [any(rejects), null[kind]]

    def _quality(self) -> Iterator[tuple[str, list[Any]]]:
        waves = self.found.quality.waves
        shares = [_small(one.allocation_p) for one in waves if one.allocation_p is not None]
        missing = [_small(one.missing_p) for one in waves if one.missing_p is not None]
        truth = self.world.truth
        alike = not np.ptp(truth.missing) and not np.ptp(truth.late)
        if shares:
            yield "the actions' shares, in each wave", [shares, True]
        if missing:
            yield "missing outcomes, in each wave", [missing, alike]

    # Estimates, each with its truth.

    def estimates(self) -> Iterator[tuple[str, list[float | None]]]:
        """Yield estimates by name: estimate, low, high, truth."""
        means, lifts, found = self.means, self.lifts, self.found
        for one in found.means:
            yield f"mean of {one.action}", _with(one.interval, means[self.names.index(one.action)])
        for one in found.lifts:
            truth = lifts[self.names.index(one.action)]
            yield f"lift of {one.action}", _with(one.interval, truth)
            if one.together is not None:
                yield f"lift of {one.action}, together", _with(one.together, truth)
            if one.adjusted is not None:
                yield f"lift of {one.action}, adjusted for looks", _with(one.adjusted, truth)
            if one.same is not None and self.world.same_lifts(len(self.campaign.waves)):
                yield f"lift of {one.action}, if the same in every wave", _with(one.same, truth)
        if (best := found.selected) is not None:
            truth = lifts[self.names.index(best.action)]
            yield "lift of the best of several", _with(best.expected, truth)
        if found.run is not None:
            run, gain = self._as_run()
            gained = found.run.over_actions[found.control]
            yield "mean as run", _with(found.run.value, run)
            if gained.known:
                yield f"gain of the run over {found.control}", _with(gained, gain)

    def _as_run(self) -> tuple[float, float]:
        """Return the mean of the units as run, by probabilities, and its gain over the control."""
        run = gain = 0.0
        for number, wave in enumerate(self.campaign.waves, start=1):
            own = self.world.rewards(number, wave.rows)
            run += float((wave.decided.probabilities * own).sum())
            # Unit by unit: where nothing differs, exactly 0.
            over = own - own[:, [self.control]]
            gain += float((wave.decided.probabilities * over).sum())
        return run / self.now.assigned, gain / self.now.assigned

    # Guardrails.

    def guardrails(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield guardrails by metric and action: the verdict, and whether it is truly kept."""
        for metric in self.found.metrics:
            for one in metric.guardrail:
                place = self.names.index(one.action)
                yield (
                    f"{metric.name}: {one.action}",
                    [str(one.code), self._keeps(metric.name, place)],
                )

    def _kept(self, action: int) -> bool:
        return all(
            self._keeps(name, action)
            for name, metric in self.now.spec.metrics.items()
            if metric.guardrail is not None
        )

    def _keeps(self, metric: str, action: int) -> bool:
        rail = self.now.spec.metrics[metric].guardrail
        assert isinstance(rail, Guardrail)
        control = self.control if rail.relative else None
        means = self._over_waves(
            [self.world.metric_means(metric, wave, control) for wave in self._waves]
        )
        away = means[action] - rail.bound
        return bool(away <= NOTHING if rail.upper else away >= -NOTHING)


def _excludes(interval: Interval) -> bool:
    return bool(interval.known and (interval.low > 0 or interval.high < 0))


def _small(p: float) -> bool:
    return bool(p < ALPHA)


def _with(interval: Interval, truth: float) -> list[float | None]:
    if not interval.known:
        return [None, None, None, float(truth)]
    ends = [each if isfinite(each) else None for each in (interval.low, interval.high)]
    return [float(interval.estimate), *ends, float(truth)]


# ----------------------------------------------------------------------
# Many campaigns: shares and means, with the errors of the simulation.


#: What units earn: as run, and under simpler policies.
EARNED = ("earned", "equal", "best", "each")


def characteristics(
    found: Sequence[Mapping[str, Any]], limits: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the operating characteristics over campaigns under one truth, as plain values.

    Parameters
    ----------
    found
        The facts about each campaign.
    limits
        The names of the actions, and what capacities and the budget allow.
    """
    n = len(found)
    return {
        "campaigns": n,
        "verdicts": {
            "right action": share(sum(_gave(one) and one["right"] is True for one in found), n),
            "wrong action": share(sum(_gave(one) and one["right"] is False for one in found), n),
            "no action": share(sum(not _gave(one) for one in found), n),
        },
        "codes": {
            code: share(count, n)
            for code, count in Counter(one["verdict"] or "none" for one in found).most_common()
        },
        "recommended": {
            name: share(sum(one["action"] == name for one in found), n)
            for name in limits["actions"]
        },
        "tests": _tests(found),
        "power": _power(found),
        "units": _mean([one["units"] for one in found]),
        "waves": _mean([one["waves"] for one in found]),
        "stops": _stops(found),
        "allocation": _allocation(found, limits["actions"]),
        **{name: _mean([one[name] for one in found]) for name in EARNED},
        "estimates": _estimates(found),
        "guardrails": _guardrails(found),
        "limits": _limits(found, limits),
        "forced": {
            code: share(count, n)
            for code, count in Counter(c for one in found for c in set(one["forced"])).most_common()
        },
    }  # fmt: skip


def _gave(one: Mapping[str, Any]) -> bool:
    return one["action"] is not None


def known(value: Any) -> float | None:
    """Return a number, or None for NaN, which JSON does not have."""
    return float(value) if isfinite(value) else None


def share(count: int, of: int) -> dict[str, float]:
    """Return a share with its standard error, which is above 0 even if all or none were counted.

    It is that of two more of each kind (Agresti and Coull).

    >>> share(0, 400)["error"] > 0.003
    True
    """
    near, more = (count + 2) / (of + 4), of + 4
    return {"share": count / of, "error": sqrt(near * (1 - near) / more), "of": of}


def _mean(values: Iterable[float]) -> dict[str, float]:
    own = np.array(list(values), dtype=np.float64)
    error = float(own.std(ddof=1) / sqrt(len(own))) if len(own) > 1 else 0.0
    return {"mean": float(own.mean()), "error": error, "sd": float(own.std())}


def _tests(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how often each test rejects a true hypothesis."""
    kept: dict[str, list[float]] = defaultdict(list)
    sizes: dict[str, int] = defaultdict(int)
    for one in found:
        for name, (rejects, null) in one["tests"].items():
            if null and not name.startswith("better: "):
                own = rejects if isinstance(rejects, list) else [rejects]
                kept[name].append(float(np.mean(own)))
                sizes[name] += len(own)
    made = {}
    for name, shares in kept.items():
        # Tests of one campaign may depend on one another: the error is that of campaigns.
        rate = _mean(shares)
        error = rate["error"] or share(round(sum(shares)), len(shares))["error"]
        made[name] = {"share": rate["mean"], "error": error, "of": sizes[name]}
    return made


def _power(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how often each action is found to be better, if it differs from the control."""
    kept: dict[str, list[bool]] = defaultdict(list)
    for one in found:
        for name, (rejects, null) in one["tests"].items():
            if name.startswith("better: ") and not null:
                kept[name.removeprefix("better: ")].append(rejects)
    return {name: share(sum(own), len(own)) for name, own in kept.items()}


def _stops(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return how often the rule stops after each wave, by verdict."""
    most = max(one["waves"] for one in found)
    counts = Counter((one["stop"][0], one["stop"][1]) for one in found if one["stop"])
    verdicts = sorted({verdict for _, verdict in counts})
    return [
        {"wave": wave, "verdict": verdict, **share(counts[wave, verdict], len(found))}
        for wave in range(1, most + 1)
        for verdict in verdicts
        if counts[wave, verdict]
    ]


def _allocation(found: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    shares = np.array([np.sum(one["given"], axis=0) / np.sum(one["given"]) for one in found])
    return {name: _mean(shares[:, place]) for place, name in enumerate(names)}


def _estimates(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return bias and coverage of each estimate, overall and after an early stop."""
    kept: dict[str, list[tuple[list[float], bool]]] = defaultdict(list)
    missing: Counter[str] = Counter()
    for one in found:
        for name, own in one["estimates"].items():
            if own[0] is None:
                missing[name] += 1
            else:
                kept[name].append((own, one["early"]))
    made = {}
    for name in dict.fromkeys([*kept, *missing]):
        rows = kept.get(name, [])
        away = np.array([own[0] - own[3] for own, _ in rows])
        covered = sum(
            (own[1] is None or own[1] <= own[3]) and (own[2] is None or own[3] <= own[2])
            for own, _ in rows
        )
        stopped = np.array([own[0] - own[3] for own, early in rows if early])
        made[name] = {
            "truth": known(np.mean([own[3] for own, _ in rows])) if rows else None,
            "bias": _mean(away) if rows else None,
            "bias when stopped": _mean(stopped) if len(stopped) else None,
            "coverage": share(covered, len(rows)) if rows else None,
            "known": share(len(rows), len(rows) + missing[name]),
        }
    return made


def _guardrails(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    kept: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for one in found:
        for name, (code, truly) in one["guardrails"].items():
            kept[name].append((code, truly))
    return {
        name: {
            "truly kept": own[0][1],
            **{str(code): share(sum(c == code for c, _ in own), len(own)) for code in Guarded},
            "wrong": share(
                sum(c == (Guarded.BROKEN if truly else Guarded.KEPT) for c, truly in own), len(own)
            ),
        }
        for name, own in kept.items()
    }


def _limits(found: Sequence[Mapping[str, Any]], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was used of each capacity and of the budget."""
    made = {}
    for name, (what, most) in limits["limits"].items():
        place, each = limits["actions"].index(what) if what else None, name.endswith("each wave")
        used = []
        for one in found:
            by_wave = one["spent"] if place is None else [given[place] for given in one["given"]]
            used.append(max(by_wave) if each else sum(by_wave))
        made[name] = {
            "limit": most, "used": _mean(used), "most": float(max(used)),
            "reached": share(sum(value >= most - 1e-9 * max(most, 1) for value in used), len(used)),
        }  # fmt: skip
    return made
