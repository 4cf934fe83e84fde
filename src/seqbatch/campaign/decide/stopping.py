"""Apply the stopping rule when a wave is closed, and keep the sums for the next look."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from math import inf, isfinite
from typing import Any

import numpy as np

from seqbatch.campaign.decide.campaign_waves import CampaignWaves, ModelColumns
from seqbatch.campaign.decide.logged_waves import (
    Logged,
    PlannedWave,
    information,
    logged,
    planned,
    planned_waves,
    shares_of,
    units_planned,
)
from seqbatch.campaign.record.codec import DAMAGED, unpack_kept
from seqbatch.campaign.record.current_situation import FUTILITY, HARM, STOPS, SUCCESS, Situation
from seqbatch.campaign.record.store import Event, Reader, StateRecord
from seqbatch.campaign.spec.spec import rule_name
from seqbatch.core import Statistics
from seqbatch.core.arrays import AnyArray, Floats
from seqbatch.core.threads import one_thread
from seqbatch.display import number, percent
from seqbatch.errors import StoreError
from seqbatch.inference import (
    FewEvents,
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
from seqbatch.inference.evidence import Evidence
from seqbatch.inference.intervals import Estimated, quantile
from seqbatch.inference.looks import repeated
from seqbatch.inference.return_model import ReturnModel
from seqbatch.inference.score_sums import JointMoments, Moments, ResidualSums, ScoreSums
from seqbatch.inference.stopping_boundaries import CLASSICAL

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
        last, tallies = self.summaries[-1], [one.overall for one in self.summaries]
        evidence, residuals = last.evidence, [one.residuals for one in self.summaries]
        statistics, gone = evidence.statistics, evidence.gone
        return {
            "places": self.columns.places,
            "mean": self.columns.mean,
            "spread": self.columns.spread,
            "gram": statistics.gram,
            "moment": statistics.moment,
            "squares": statistics.squares,
            "cubes": evidence.cubes,
            "count": statistics.count,
            "zeros": evidence.zeros,
            "ones": evidence.ones,
            "logs": evidence.logs,
            "gone_gram": gone.gram,
            "gone_count": gone.count,
            "extremes": np.array([evidence.lowest, evidence.highest, last.usual]),
            "curvature": last.returned.curvature,
            "target": last.returned.target,
            "units": np.array([(tally.units, tally.outcomes) for tally in tallies]),
            "residuals": np.array([one.counts for one in residuals]),
            "residual_powers": np.array([(one.squares, one.fourths) for one in residuals]),
            "scores": np.array([_powers(tally.moments) for tally in tallies]),
            "parts": np.array([_powers(tally.parts) for tally in tallies]),
            "design": np.array([tally.design for tally in tallies]),
            "costs": np.array([tally.costs for tally in tallies]),
        }

    @classmethod
    def of(cls, arrays: Mapping[str, AnyArray], now: Situation, charges: Floats) -> "KeptSums":
        """Return the sums from stored arrays; raise StoreError if they are damaged."""
        _require_shapes(arrays, now)
        zero = Statistics.zero(*arrays["moment"].shape)
        lowest, highest, usual = arrays["extremes"].tolist()
        evidence = Evidence(
            Statistics(arrays["gram"], arrays["moment"], arrays["squares"], arrays["count"]),
            replace(zero, gram=arrays["gone_gram"], count=arrays["gone_count"]),
            arrays["cubes"],
            arrays["zeros"],
            arrays["ones"],
            arrays["logs"],
            lowest,
            highest,
        )
        returned = ReturnModel.of_sums(evidence, arrays["curvature"], arrays["target"])
        made = []
        for wave, (units, outcomes) in enumerate(arrays["units"].tolist()):
            tally = ScoreSums(
                outcomes,
                Moments(units, *arrays["scores"][wave]),
                Moments(units, *arrays["parts"][wave]),
                arrays["design"][wave],
                arrays["costs"][wave],
            )
            residuals = ResidualSums(arrays["residuals"][wave], *arrays["residual_powers"][wave])
            made.append(_summary(tally, evidence, residuals, returned, usual, charges))
        parts = (arrays[name] for name in ("places", "mean", "spread"))
        return cls(ModelColumns.of(now.encoder(), *parts), tuple(made))


def _powers(moments: Moments) -> Floats:
    return np.array([moments.mean, moments.second, moments.third, moments.fourth])


def looked_at(actions: int) -> tuple[Contrast, ...]:
    """Return the contrasts that looks test: every action's lift over the control."""
    return tuple(Lift(place) for place in range(1, actions))


def _summary(
    tally: ScoreSums,
    evidence: Evidence,
    residuals: ResidualSums,
    returned: ReturnModel,
    usual: float,
    charges: Floats,
) -> WaveSummary:
    actions, columns = evidence.statistics.moment.shape
    return WaveSummary(
        contrasts=looked_at(actions),
        overall=tally,
        segments={},
        evidence=evidence,
        residuals=residuals,
        returned=returned,
        scarce=np.zeros(actions, dtype=np.int64),
        features=Moments.of(np.empty((0, columns))),
        joint=JointMoments.of(np.empty((0, actions))),
        usual=usual,
        charges=charges,
    )


def _shapes(now: Situation, columns: int) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Return the type and shape that each stored array must have."""
    floats, whole = np.dtype(np.float64), np.dtype(np.int64)
    waves = len([wave for wave in range(1, now.wave) if wave not in now.skipped])
    K, P = len(now.actions), columns + 1
    C = K - 1
    return {
        "places": (whole, (columns,)),
        "mean": (floats, (columns,)),
        "spread": (floats, (columns,)),
        "gram": (floats, (K, P, P)),
        "moment": (floats, (K, P)),
        "squares": (floats, (K,)),
        "cubes": (floats, (K,)),
        "count": (whole, (K,)),
        "zeros": (whole, (K,)),
        "ones": (whole, (K,)),
        "logs": (floats, (3,)),
        "gone_gram": (floats, (K, P, P)),
        "gone_count": (whole, (K,)),
        "extremes": (floats, (3,)),
        "curvature": (floats, (K, P, P)),
        "target": (floats, (K, P)),
        "units": (whole, (waves, 2)),
        "residuals": (whole, (waves, K)),
        "residual_powers": (floats, (waves, 2, K)),
        "scores": (floats, (waves, 4, C)),
        "parts": (floats, (waves, 4, 2 * C)),
        "design": (floats, (waves, C, 2, 3, K)),
        "costs": (floats, (waves, C)),
    }


def _require_shapes(arrays: Mapping[str, AnyArray], now: Situation) -> None:
    """Refuse sums of other types or shapes, which compiled code would not check."""
    found = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    own = len(now.encoder().names)
    expected = _shapes(now, len(arrays["places"]))
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
    # Sums of an earlier version, with other names, are not used: all waves are read again.
    if arrays is not None and arrays.keys() == _shapes(now, 0).keys():
        data = logged(reader, now, closing=True, after_event=record.event)
        earlier = sum(now.units[: now.wave - 1])
        changed, _ = data.known.counts(0, earlier)
        if not changed and not data.clustered:
            kept = KeptSums.of(arrays, now, np.array(data.charges))
            data.columns = kept.columns
            return kept, data
    return None, logged(reader, now, closing=True)


# ----------------------------------------------------------------------
# Whether to stop: apply the rule declared at creation when a wave is closed.
#
# Every action is compared with the control by a group-sequential Holm procedure: each of the h
# actions not yet shown to be better is tested at alpha / h, and an action shown to be better
# passes its alpha on to the others. Higher statistics are better, whatever the reward's direction.
# The statistic is of one lift in all waves; costs of actions are a difference to be exceeded.


ON, END = "go on", "planned end, nothing shown"
TOO_FEW = "too few events to judge"
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
        The statistic of its lift, on a standard normal scale; higher is better. None if there are
        too few events.
    boundary, futility
        The boundary for success (mirrored for harm), None if no statistic could reach it; and the
        boundary for futility, None if it was not declared.
    low, high
        The repeated interval of the lift, with the reward's sign; None if unbounded.
    shown
        The wave after which it was shown to be better than the control; None if not yet.
    few
        The events if they are too few to judge the action; None if there are enough. With too few
        events there is no statistic and no boundary, and no alpha is spent.
    ahead
        For a classical boundary, the information at the looks that were then still planned.
    """

    action: str
    information: float
    statistic: float | None
    boundary: float | None
    futility: float | None
    low: float | None
    high: float | None
    shown: int | None
    few: FewEvents | None = None
    ahead: tuple[float, ...] | None = None

    def plain(self) -> dict[str, Any]:
        """Return the look as plain values; `few` and `ahead` are included only where they apply."""
        made = asdict(self)
        if self.few is None:
            del made["few"]
        if self.ahead is None:
            del made["ahead"]
        else:
            made["ahead"] = list(self.ahead)
        return made

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "ActionLook":
        """Return one action's look from plain values."""
        few, ahead = plain.get("few"), plain.get("ahead")
        made = {
            "few": None if few is None else FewEvents(**few),
            "ahead": None if ahead is None else tuple(ahead),
        }
        return cls(**{**plain, **made})


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

    def of_action(self, action: str) -> ActionLook | None:
        """Return an action's part of the look; None if it has none."""
        return next((one for one in self.actions if one.action == action), None)

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
        actions = tuple(map(ActionLook.of, plain["actions"]))
        merged = tuple(plain.get("merged", ()))
        return cls(**{**plain, "actions": actions, "merged": merged})


def looks_taken(events: Sequence[Event]) -> tuple[LookTaken, ...]:
    """Return the looks taken so far, one for each closed wave that had one.

    Those of a campaign whose rows are elsewhere follow from its sums. Those that the key holder
    took while the campaign was masked are known once it is unmasked.
    """
    made = []
    for event in events:
        if event.kind in ("close", "sums") and (found := event.payload.get("stopping")):
            made.append(found)
        elif event.kind == "unmask":
            made += event.payload.get("looks", ())
    return tuple(map(LookTaken.of, made))


def look(
    reader: Reader,
    now: Situation,
    events: Sequence[Event],
    record: StateRecord,
    *,
    before: Sequence[LookTaken] | None = None,
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
    before
        The earlier looks; if None, those of the events.
    """
    if now.spec.stopping.rule == "none" or now.masked:
        return None, None
    kept, data = kept_and_new(reader, now, record)
    if now.wave not in data.waves:
        return None, kept
    earlier = kept.summaries if kept is not None else ()
    contrasts = looked_at(len(data.order))
    new = data.each_wave[len(earlier) :]
    with one_thread():
        summaries = summarise(
            new,
            contrasts=contrasts,
            partitions=data.partitions(),
            charges=data.charges,
            earlier=earlier,
        )
    whole = not (data.clustered or data.restricted)
    sums = KeptSums(data.columns, summaries) if whole else None
    earlier_looks = looks_taken(events) if before is None else before
    return look_from(data, now, summaries, events, earlier_looks), sums


def look_from(
    data: CampaignWaves,
    now: Situation,
    summaries: Sequence[WaveSummary],
    events: Sequence[Event],
    before: Sequence[LookTaken],
) -> LookTaken | None:
    """Return the look from the summaries of all waves; None while all outcomes are equal.

    Parameters
    ----------
    data
        The waves.
    now
        The campaign's state while the last one is being closed.
    summaries
        The summaries of the waves.
    events
        The events before the close.
    before
        The earlier looks.
    """
    # While all outcomes are equal there is no look, and no alpha is spent.
    if summaries[-1].evidence.all_equal:
        return None
    fixed = planned_waves(events)
    waves = [fixed[wave - 1] for wave in data.waves]
    compared = [_compared(data, summaries, waves, place) for place in range(1, len(data.order))]
    return judge(now, compared, before)


@dataclass(frozen=True)
class Compared:
    """The comparison of one action with the control after a wave: the input of a stopping rule.

    Parameters
    ----------
    action
        Its name.
    pooled
        Its lift over all waves, if it was the same in every wave; unknown if events are too few.
    information
        The information fraction after each included wave, by wave number.
    """

    action: str
    pooled: Interval
    information: Mapping[int, float]


def _compared(
    data: CampaignWaves, summaries: Sequence[WaveSummary], waves: Sequence[PlannedWave], place: int
) -> Compared:
    contrast = Lift(place)
    segment = data.segment(contrast)
    shares = shares_of(contrast, summaries, waves, segment)
    units = units_planned(contrast, summaries, waves, segment)
    return Compared(
        action=data.now.actions[data.order[place]].name,
        pooled=pool(summaries, contrast, shares, segment=segment, planned=units),
        information=dict(zip(data.waves, information(shares), strict=True)),
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
        _Asked.of(now, one, before)
        for one in compared
        if one.pooled.few or (one.pooled.known and one.pooled.error)
    ]
    merged = tuple(one.action for one in asked if one.gain < LEAST_GAIN)
    return _judged(now, [one for one in asked if one.action not in merged], before, merged)


@dataclass(frozen=True)
class _Asked:
    """One action's part of a look: its statistic, and the information at the looks so far.

    `ahead` is, for each of these looks, the information at those that were then still planned;
    empty for spending functions, which do not depend on it.
    """

    action: str
    pooled: Interval
    times: tuple[float, ...]
    ahead: tuple[tuple[float, ...], ...]
    sign: float

    @classmethod
    def of(cls, now: Situation, compared: Compared, before: Sequence[LookTaken]) -> "_Asked":
        name, at = compared.action, compared.information
        judged = [one for one in before if one.judged(name) and at.get(one.wave)]
        looked = tuple(sorted({at[one.wave] for one in judged}))
        ahead: tuple[tuple[float, ...], ...] = ()
        if now.spec.stopping.rule in CLASSICAL:
            # An action that an earlier look did not test has not used any of its error.
            parts = {at[one.wave]: one.of_action(name) for one in judged}
            tested = {time: part.ahead for time, part in parts.items() if part and part.ahead}
            looked = tuple(sorted(tested))
            ahead = (*(tested[time] for time in looked), _to_come(now, at[now.wave], now.wave))
        return cls(name, compared.pooled, (*looked, at[now.wave]), ahead, now.spec.reward.sign)

    @property
    def gain(self) -> float:
        """The information since the last look; 0 for an unplanned wave."""
        return self.times[-1] - (self.times[-2] if len(self.times) > 1 else 0.0)

    @property
    def few(self) -> FewEvents | None:
        return self.pooled.few

    @property
    def statistic(self) -> float:
        return self.sign * self.pooled.statistic


def _to_come(now: Situation, spent: float, closed: int) -> tuple[float, ...]:
    """Return the information at looks after closed waves; the rest is divided as planned."""
    plan = planned(now)
    parts = [n / D for n, D in zip(plan.sizes, plan.costs, strict=True)][closed:]
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
    rule, ahead = now.spec.stopping, one.ahead or None
    return boundaries(one.times, rule=rule.rule, alpha=rule.alpha / 2 / share, ahead=ahead)[-1]


def _row(now: Situation, one: _Asked, share: int, shown: dict[str, int]) -> ActionLook:
    rule, bound = now.spec.stopping, _bound(now, one, share)
    futility = None
    if rule.futility and one.few is None:
        times, alpha = (*one.times, *_to_come(now, one.times[-1], now.wave)), rule.alpha / 2 / share
        bounds = futility_boundaries(times, rule=rule.rule, alpha=alpha, power=POWER)
        futility = _finite(bounds[len(one.times) - 1])
    low = high = None
    if isinstance(one.pooled, Estimated):
        around, scale = repeated(one.pooled, bound, level=1 - rule.alpha), now.spec.reward.scale
        low, high = _finite(scale * around.low), _finite(scale * around.high)
    return ActionLook(
        action=one.action,
        information=one.times[-1],
        statistic=None if one.few else one.statistic,
        boundary=_finite(bound),
        futility=futility,
        low=low,
        high=high,
        shown=shown.get(one.action),
        few=one.few,
        ahead=one.ahead[-1] if one.ahead else None,
    )


def boundaries_to_come(
    now: Situation, looks: Sequence[LookTaken], action: str
) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Return the information at an action's looks to come, their boundaries, and its error.

    Parameters
    ----------
    now
        The campaign between two waves, or with an open one.
    looks
        The looks so far; the last one judged the action.
    action
        Its name.
    """
    rule = now.spec.stopping
    rows = [row for look in looks if look.judged(action) and (row := look.of_action(action))]
    times = tuple(row.information for row in rows)
    ahead = _to_come(now, times[-1], now.wave - 1)
    shown = {one.action for look in looks for one in look.actions if one.shown is not None}
    alpha = rule.alpha / 2 / max(len(now.actions) - 1 - len(shown), 1)
    rest = [ahead[place:] for place in range(1, len(ahead) + 1)]
    before = [row.ahead or () for row in rows]
    plans = [*before, *rest] if rule.rule in CLASSICAL else None
    made = boundaries((*times, *ahead), rule=rule.rule, alpha=alpha, ahead=plans)
    return ahead, made[len(times) :], alpha


def _verdict(now: Situation, rows: Sequence[ActionLook], *, success: bool, whole: bool) -> str:
    """Return the verdict; harm and futility are about all actions, and need the whole look."""
    if success:
        return SUCCESS
    if any(row.few is not None for row in rows):
        return TOO_FEW
    if rows and whole and all(_at_most(row, row.boundary, -1.0) for row in rows):
        return HARM
    if now.wave >= len(now.sizes):
        return END
    if rows and whole and all(_at_most(row, row.futility) for row in rows):
        return FUTILITY
    return ON


def _at_most(row: ActionLook, bound: float | None, side: float = 1.0) -> bool:
    """Whether an action's statistic is at or below a bound that exists."""
    return bound is not None and row.statistic is not None and row.statistic <= side * bound


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


# ----------------------------------------------------------------------
# The error left for the intervals by wave size, which a look may show.
#
# The boundaries belong to the statistic of one lift in all waves. Weighted by size, waves have
# other information fractions, so looks share the error by a union bound, which holds for any.


#: The share of the error that all looks before the last planned one have together.
EARLY = 0.2


def look_tail(waves: Sequence[PlannedWave], tail: float) -> float:
    """Return the error on each side of an interval by size after the last of these waves.

    Parameters
    ----------
    waves
        The plan of each wave so far.
    tail
        The error on each side of all looks together.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> planned = [SimpleNamespace(waves=3)] * 3
    >>> [round(look_tail(planned[:seen], 0.025), 4) for seen in (1, 2, 3)]
    [0.0025, 0.0025, 0.02]
    """
    left, own = EARLY * tail, 0.0
    for place, wave in enumerate(waves, start=1):
        ahead = wave.waves - place
        own = left / ahead if ahead > 0 else (1 - EARLY) * tail
        left -= own if ahead > 0 else 0.0
    return own


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


def stopping_said(now: Situation) -> list[str]:
    """Return the declared rule in one sentence; nothing without a rule."""
    rule = now.spec.stopping
    if rule.rule == "none":
        return []
    futile = f"; also for futility, by bounds for a power of {percent(POWER)}"
    return [
        f"Rule for early stopping: {rule_name(rule.rule)}, with a total error of "
        f"{percent(rule.alpha)}{futile if rule.futility else ''}."
    ]


def unlooked(now: Situation) -> list[str]:
    """Explain why the declared rule is not applied while the campaign is masked."""
    declared = now.spec.stopping
    if declared.rule == "none" or not now.masked:
        return []
    if declared.looks:
        return [
            f"the declared rule ({rule_name(declared.rule)}) compares actions with the control, "
            "which only the key names: the holder of the key takes the look after each wave, and "
            "records the verdict alone"
        ]
    return [
        f"no look: the declared rule ({rule_name(declared.rule)}) compares actions with the "
        "control, which only the key identifies. It is applied when you close a wave after "
        "unmasking the campaign; no alpha is spent until then"
    ]


def look_text(look: LookTaken) -> str:
    """Describe a look: the statistics, the boundaries and the verdict."""
    places = "; ".join(map(_place_text, look.actions))
    return (
        f"The declared rule ({rule_name(look.rule)}, alpha {look.alpha:g}) after wave {look.wave}: "
        f"{look.verdict}. Statistics: {places or 'none'}.{_merged_text(look)}"
    )


def _place_text(one: ActionLook) -> str:
    """Describe one action at a look."""
    if one.statistic is None:
        few = f", {str(one.few).lower()}" if one.few else ""
        return f"{one.action} not judged{few}".rstrip(".")
    bound = "none yet" if one.boundary is None else number(one.boundary, 3)
    futility = "" if one.futility is None else f", futility {number(one.futility, 3)}"
    return f"{one.action} {number(one.statistic, 3)} (boundary {bound}{futility})"


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
