"""Apply the stopping rule when a wave is closed, and keep the sums for the next look."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from math import inf, isfinite
from typing import Any

import numpy as np

from seqbatch.campaign.decide.logged_waves import (
    ENOUGH_EVENTS,
    FewEvents,
    Logged,
    ModelColumns,
    PlannedWave,
    few_events,
    information,
    logged,
    planned,
    planned_waves,
    shares_of,
)
from seqbatch.campaign.record.codec import DAMAGED, unpack_kept
from seqbatch.campaign.record.current_situation import FUTILITY, HARM, STOPS, SUCCESS, Situation
from seqbatch.campaign.record.store import Event, Reader, StateRecord
from seqbatch.core import Statistics
from seqbatch.core.arrays import AnyArray, Floats
from seqbatch.display import number
from seqbatch.errors import StoreError
from seqbatch.inference import (
    Interval,
    Lift,
    WaveSummary,
    boundaries,
    error_of_looks,
    futility_boundaries,
    pool,
    summarise,
)
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.doubly_robust_scores import Evidence, ReturnedByAction
from seqbatch.inference.intervals import quantile
from seqbatch.inference.logged_units import Moments, ScoreSums
from seqbatch.inference.looks import repeated, standardised

# ----------------------------------------------------------------------
# Sums over all waves so far, kept for the next look.
#
# With these sums, closing a wave reads only that wave. They are stored with the policy's state and
# are valid while the earlier waves do not change. All waves are read again if outcomes came late
# or were corrected, if an amendment made the campaign learn again, or if units share clusters
# (whose sums have no fixed size).


@dataclass(frozen=True, eq=False)
class KeptSums:
    """Sums of the waves so far.

    Parameters
    ----------
    columns
        The model's columns, standardised with the first wave.
    summaries
        One summary for each wave. After loading, every summary holds the last wave's cumulative
        evidence, to which the next wave is added. Feature moments are not stored: looks do not
        use them.
    """

    columns: ModelColumns
    summaries: tuple[WaveSummary, ...]

    @property
    def arrays(self) -> dict[str, AnyArray]:
        """The sums in the form in which they are stored."""
        evidence, tallies = self.summaries[-1].evidence, [one.overall for one in self.summaries]
        statistics, moments = evidence.statistics, [one.moments for one in tallies]
        return {
            "places": self.columns.places,
            "mean": self.columns.mean,
            "spread": self.columns.spread,
            "gram": statistics.gram,
            "moment": statistics.moment,
            "squares": statistics.squares,
            "count": statistics.count,
            "assigned": evidence.assigned,
            "extremes": np.array([evidence.lowest, evidence.highest]),
            "counts": np.array(
                [
                    (tally.units, tally.outcomes, one.residuals)
                    for tally, one in zip(tallies, self.summaries, strict=True)
                ],
                dtype=np.int64,
            ),
            "squared_residuals": np.array([one.squared_residuals for one in self.summaries]),
            "scores": np.array([(m.mean, m.second, m.third, m.fourth) for m in moments]),
            "costs": np.array([tally.costs for tally in tallies]),
        }

    @classmethod
    def of(cls, arrays: Mapping[str, AnyArray], now: Situation) -> "KeptSums":
        """Return the sums from stored arrays; raise StoreError if they are damaged."""
        _require_shapes(arrays, now)
        evidence = Evidence(
            Statistics(arrays["gram"], arrays["moment"], arrays["squares"], arrays["count"]),
            arrays["assigned"],
            *arrays["extremes"].tolist(),
        )
        made = [
            _summary(evidence, arrays["counts"][wave].tolist(), arrays["scores"][wave],
                     arrays["costs"][wave], float(arrays["squared_residuals"][wave]))
            for wave in range(len(arrays["counts"]))
        ]  # fmt: skip
        parts = (arrays[name] for name in ("places", "mean", "spread"))
        return cls(ModelColumns.of(now.encoder(), *parts), tuple(made))


def looked_at(actions: int) -> tuple[Contrast, ...]:
    """Return the contrasts that looks test: every action's lift over the control."""
    return tuple(Lift(place) for place in range(1, actions))


def _summary(
    evidence: Evidence, counts: list[int], scores: Floats, costs: Floats, squares: float
) -> WaveSummary:
    units, outcomes, residuals = counts
    return WaveSummary(
        contrasts=looked_at(len(evidence.assigned)),
        overall=ScoreSums(outcomes, Moments(units, *scores), costs),
        segments={},
        evidence=evidence,
        squared_residuals=squares,
        residuals=residuals,
        returned=ReturnedByAction.fitted(evidence),
        features=Moments.of(np.empty((0, evidence.statistics.dim))),
    )


def _require_shapes(arrays: Mapping[str, AnyArray], now: Situation) -> None:
    """Refuse sums of other types or shapes, which compiled code would not check."""
    floats, whole = np.dtype(np.float64), np.dtype(np.int64)
    waves = len([wave for wave in range(1, now.wave) if wave not in now.skipped])
    K, columns = len(now.actions), len(arrays.get("places", ()))
    P = columns + 1
    expected = {
        "places": (whole, (columns,)),
        "mean": (floats, (columns,)),
        "spread": (floats, (columns,)),
        "gram": (floats, (K, P, P)),
        "moment": (floats, (K, P)),
        "squares": (floats, (K,)),
        "count": (whole, (K,)),
        "assigned": (whole, (K,)),
        "extremes": (floats, (2,)),
        "counts": (whole, (waves, 3)),
        "squared_residuals": (floats, (waves,)),
        "scores": (floats, (waves, 4, K - 1)),
        "costs": (floats, (waves, K - 1)),
    }
    found = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    own = len(now.encoder().names)
    inside = found == expected and all(0 <= place < own for place in arrays["places"].tolist())
    if not inside:
        raise StoreError(
            f"the stored sums of a look do not match the campaign. {DAMAGED}", code="damaged"
        )


def kept_and_new(
    reader: Reader, now: Situation, record: StateRecord
) -> tuple[KeptSums | None, Logged]:
    """Return the last look's sums and the wave being closed; or None and all waves.

    Parameters
    ----------
    reader
        The reader for the rows.
    now
        The campaign's state while the wave is being closed.
    record
        The newest policy state before the close.
    """
    arrays = unpack_kept(record.content)
    if arrays is not None:
        data = logged(reader, now, closing=True, after_event=record.event)
        earlier = sum(now.units[: now.wave - 1])
        changed, _ = data.known.counts(0, earlier)
        if not changed and not data.clustered:
            kept = KeptSums.of(arrays, now)
            data.columns = kept.columns
            return kept, data
    return None, logged(reader, now, closing=True)


# ----------------------------------------------------------------------
# Whether to stop: apply the rule declared at creation when a wave is closed.
#
# Every action is compared with the control by a group-sequential Holm procedure: each of the h
# actions not yet shown to be better is tested at alpha / h, and an action shown to be better
# passes its alpha on to the others. Higher statistics are better, whatever the reward's direction.


ON, END = "go on", "planned end, nothing shown"
TOO_FEW = "too few events to judge: {} at break-even, and a look needs {}"
#: The power that futility boundaries preserve at the effect the campaign is designed for.
POWER = 0.9
#: The least share of the planned information that a look adds; a smaller wave waits for the next.
LEAST_GAIN = 1e-4


@dataclass(frozen=True)
class ActionLook:
    """One action against the control, at one look.

    Parameters
    ----------
    action
        Its name.
    information
        The information fraction so far.
    statistic
        The pooled lift divided by its error, on a standard normal scale; higher is better.
    boundary, futility
        The boundary for success (mirrored for harm), None if no statistic could reach it; and the
        boundary for futility, None if it was not declared.
    low, high
        The repeated interval of the lift, with the reward's sign; None if unbounded.
    shown
        The wave after which it was shown to be better than the control; None if not yet.
    few
        The events at break-even if they are too few to judge the action; None if there are
        enough. With too few events there is no boundary, and no alpha is spent.
    """

    action: str
    information: float
    statistic: float
    boundary: float | None
    futility: float | None
    low: float | None
    high: float | None
    shown: int | None
    few: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return the look as plain values; `few` is included only if there are too few events."""
        return {name: value for name, value in asdict(self).items() if name != "few" or value}


@dataclass(frozen=True)
class LookTaken:
    """A look after a wave: the rule, the two-sided alpha, the verdict, and every action.

    Parameters
    ----------
    wave, rule, alpha, verdict, actions
        As said above; `actions` are those that were judged.
    merged
        The actions about which the wave added next to no information. They are not judged and
        spend no alpha at this look; the wave's outcomes count at the next look.
    """

    wave: int
    rule: str
    alpha: float
    verdict: str
    actions: tuple[ActionLook, ...]
    merged: tuple[str, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether the rule says to stop."""
        return self.verdict in STOPS

    def judged(self, action: str) -> bool:
        """Whether there was enough to judge an action. If so, alpha was spent on it."""
        few = any(one.few for one in self.actions if one.action == action)
        return not few and action not in self.merged

    def plain(self) -> dict[str, Any]:
        """Return the look as plain values; `merged` is included only if it names an action."""
        made = {**asdict(self), "actions": [action.plain() for action in self.actions]}
        del made["merged"]
        return {**made, "merged": list(self.merged)} if self.merged else made

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "LookTaken":
        """Return a look from plain values."""
        actions = tuple(ActionLook(**action) for action in plain["actions"])
        merged = tuple(plain.get("merged", ()))
        return cls(**{**plain, "actions": actions, "merged": merged})


def looks_taken(events: Sequence[Event]) -> tuple[LookTaken, ...]:
    """Return the looks taken so far, one for each closed wave that had one."""
    closes = [event.payload for event in events if event.kind == "close"]
    return tuple(LookTaken.of(found) for one in closes if (found := one.get("stopping")))


def look(
    reader: Reader, now: Situation, events: Sequence[Event], record: StateRecord
) -> tuple[LookTaken | None, KeptSums | None]:
    """Take a look as a wave is being closed; return the look, and the sums for the next one.

    There is no look if no rule was declared, while the campaign is masked (only the key identifies
    the control), if the wave is skipped, and while all outcomes are equal.

    Parameters
    ----------
    reader
        The reader for the rows, including those that closing adds.
    now
        The campaign's state before the close, including what was learned from the wave.
    events, record
        All events before the close, and the newest policy state.
    """
    if now.spec.stopping.rule == "none" or now.masked:
        return None, None
    kept, data = kept_and_new(reader, now, record)
    if now.wave not in data.waves:
        return None, kept
    earlier = kept.summaries if kept is not None else ()
    contrasts = looked_at(len(data.order))
    new = data.each_wave[len(earlier) :]
    summaries = summarise(new, contrasts=contrasts, partitions=data.partitions(), earlier=earlier)
    whole = not (data.clustered or data.restricted)
    sums = KeptSums(data.columns, summaries) if whole else None
    # While all outcomes are equal there is no look, and no alpha is spent.
    taken = None if summaries[-1].evidence.all_equal else _seen(data, summaries, events)
    return taken, sums


def _seen(data: Logged, summaries: Sequence[WaveSummary], events: Sequence[Event]) -> LookTaken:
    fixed = planned_waves(events)
    waves = [fixed[wave - 1] for wave in data.waves]
    compared = [_compared(data, summaries, waves, place) for place in range(1, len(data.order))]
    return judge(data.now, compared, looks_taken(events))


@dataclass(frozen=True)
class Compared:
    """The comparison of one action with the control after a wave: the input of a stopping rule.

    Parameters
    ----------
    action
        Its name.
    pooled
        Its lift over all waves.
    information
        The information fraction after each included wave, by wave number.
    few
        The action with too few events to judge the comparison; None if there are enough.
    """

    action: str
    pooled: Interval
    information: Mapping[int, float]
    few: FewEvents | None


def _compared(
    data: Logged, summaries: Sequence[WaveSummary], waves: Sequence[PlannedWave], place: int
) -> Compared:
    contrast, now = Lift(place), data.now
    segment = data.segment(contrast)
    shares = shares_of(contrast, summaries, waves, segment)
    return Compared(
        action=now.actions[data.order[place]].name,
        pooled=pool(summaries, contrast, shares, segment=segment),
        information=dict(zip(data.waves, information(shares), strict=True)),
        few=few_events(summaries[-1].evidence, now.actions, data.order, place),
    )


def judge(now: Situation, compared: Sequence[Compared], before: Sequence[LookTaken]) -> LookTaken:
    """Apply the declared rule to the open wave and return the look.

    Parameters
    ----------
    now
        The campaign's state before the wave is closed.
    compared
        Every action except the control.
    before
        The looks taken at earlier waves.
    """
    asked = [
        _Asked.of(now.wave, one, before)
        for one in compared
        if one.pooled.known and one.pooled.error
    ]
    merged = tuple(one.action for one in asked if one.gain < LEAST_GAIN)
    return _judged(now, [one for one in asked if one.action not in merged], before, merged)


@dataclass(frozen=True)
class _Asked:
    """One action's part of a look: its statistic, and the information at the looks so far."""

    action: str
    few: FewEvents | None
    pooled: Interval
    times: tuple[float, ...]

    @classmethod
    def of(cls, wave: int, compared: Compared, before: Sequence[LookTaken]) -> "_Asked":
        name, at = compared.action, compared.information
        judged = [one.wave for one in before if one.judged(name)]
        looked = sorted({at[earlier] for earlier in judged if earlier in at} - {0.0})
        return cls(name, compared.few, compared.pooled, (*looked, at[wave]))

    @property
    def gain(self) -> float:
        """The information since the last look; 0 for an unplanned wave."""
        return self.times[-1] - (self.times[-2] if len(self.times) > 1 else 0.0)

    @property
    def statistic(self) -> float:
        return standardised(self.pooled)


def _to_come(now: Situation, spent: float) -> tuple[float, ...]:
    """Return the information at future looks; the rest is divided by the sizes still planned."""
    plan = planned(now)
    parts = [n / D for n, D in zip(plan.sizes, plan.costs, strict=True)][now.wave :]
    times = [spent + (1 - spent) * part / sum(parts) for part in accumulate(parts)]
    return tuple(times[place] for place in places_of_looks(times, after=spent))


def places_of_looks(times: Sequence[float], *, after: float = 0.0) -> list[int]:
    """Return which waves get a look: those that add enough information since the last look.

    Parameters
    ----------
    times
        The information fraction after each wave.
    after
        The information fraction at the look before these waves.
    """
    places = []
    for place, time in enumerate(times):
        if time - after >= LEAST_GAIN:
            places.append(place)
            after = time
    return places


def _judged(
    now: Situation, asked: Sequence[_Asked], before: Sequence[LookTaken], merged: tuple[str, ...]
) -> LookTaken:
    rule, wave = now.spec.stopping, now.wave
    shown = {a.action: a.shown for look in before for a in look.actions if a.shown is not None}
    others = len(now.actions) - 1
    tested: dict[str, int] = {}
    judged = [one for one in asked if one.few is None]
    while still := [one for one in judged if one.action not in shown]:
        strongest = max(still, key=lambda one: one.statistic)
        if strongest.statistic < _bound(now, strongest, others - len(shown)):
            break
        tested[strongest.action] = others - len(shown)
        shown[strongest.action] = wave
    open_ones = max(others - len(shown), 1)
    rows = tuple(_row(now, one, tested.get(one.action, open_ones), shown) for one in asked)
    verdict = _verdict(now, rows, success=bool(shown), whole=not merged)
    return LookTaken(wave, rule.rule, rule.alpha, verdict, rows, merged)


def _bound(now: Situation, one: _Asked, share: int) -> float:
    """Return the success boundary; infinite if there are too few events to judge."""
    if one.few is not None:
        return inf
    rule = now.spec.stopping
    return boundaries(one.times, rule=rule.rule, alpha=rule.alpha / 2 / share)[-1]


def _row(now: Situation, one: _Asked, share: int, shown: dict[str, int]) -> ActionLook:
    rule, bound = now.spec.stopping, _bound(now, one, share)
    futility = None
    if rule.futility and one.few is None:
        times, alpha = (*one.times, *_to_come(now, one.times[-1])), rule.alpha / 2 / share
        bounds = futility_boundaries(times, rule=rule.rule, alpha=alpha, power=POWER)
        futility = _finite(bounds[len(one.times) - 1])
    around = repeated(one.pooled, bound, level=1 - rule.alpha)
    ends = sorted(now.spec.reward.sign * end for end in (around.low, around.high))
    return ActionLook(
        action=one.action,
        information=one.times[-1],
        statistic=one.statistic,
        boundary=_finite(bound),
        futility=futility,
        low=_finite(ends[0]),
        high=_finite(ends[1]),
        shown=shown.get(one.action),
        few=None if one.few is None else str(one.few),
    )


def _verdict(now: Situation, rows: Sequence[ActionLook], *, success: bool, whole: bool) -> str:
    """Return the verdict; harm and futility are about all actions, and need the whole look."""
    if success:
        return SUCCESS
    below = (row.boundary is not None and row.statistic <= -row.boundary for row in rows)
    if rows and whole and all(below):
        return HARM
    if few := dict.fromkeys(row.few for row in rows if row.few is not None):
        return TOO_FEW.format(", ".join(few), ENOUGH_EVENTS)
    if now.wave >= len(now.sizes):
        return END
    futile = (row.futility is not None and row.statistic < row.futility for row in rows)
    if rows and whole and all(futile):
        return FUTILITY
    return ON


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


# ----------------------------------------------------------------------
# Text for a look, and for the error of repeated looks without a rule.


#: The most looks to count. Each needs an integral, and further looks add little to the result.
MOST_LOOKS = 12


def inflated(now: Situation, *, waves: int) -> float | None:
    """Return the true error of testing at alpha after each of the given number of waves.

    None if a rule was declared, or if there is only one look. With more than 12 waves only the
    first 12 are counted, and the true error is larger.
    """
    rule = now.spec.stopping
    if rule.rule != "none" or waves < 2:
        return None
    times = sorted(set(information(planned(now).shares)[:waves]))[:MOST_LOOKS]
    return error_of_looks(times, bound=quantile(rule.alpha / 2, float("inf")))


def unlooked(now: Situation) -> list[str]:
    """Explain why the declared rule is not applied while the campaign is masked."""
    if now.spec.stopping.rule == "none" or not now.masked:
        return []
    return [
        f"no look: the declared rule ({now.spec.stopping.rule}) compares actions with the "
        "control, which only the key identifies. It is applied when you close a wave after "
        "unmasking the campaign; no alpha is spent until then"
    ]


def look_text(look: LookTaken) -> str:
    """Describe a look: the statistics, the boundaries and the verdict."""
    places = "; ".join(
        f"{one.action} {number(one.statistic, 3)} "
        f"(boundary {'none yet' if one.boundary is None else number(one.boundary, 3)}"
        + ("" if one.futility is None else f", futility {number(one.futility, 3)}")
        + ")"
        for one in look.actions
    )
    return (
        f"The declared rule ({look.rule}, alpha {look.alpha:g}) after wave {look.wave}: "
        f"{look.verdict}. Statistics: {places or 'none'}.{_merged_text(look)}"
    )


def _merged_text(look: LookTaken) -> str:
    """Say which actions were not judged because the wave adds next to no information."""
    if not look.merged:
        return ""
    other = "previous" if look.verdict == END else "next"
    return (
        f" Wave {look.wave} adds less than {LEAST_GAIN:.2%} of the planned information about "
        f"{', '.join(look.merged)}, so it is merged with the {other} look."
    )


def inflation_text(error: float) -> str:
    """Describe the error of testing after every wave without a stopping rule."""
    return (
        "No stopping rule was declared: stopping after the first wave with a significant test "
        f"would be wrong in at least {error:.1%} of campaigns without any difference."
    )
