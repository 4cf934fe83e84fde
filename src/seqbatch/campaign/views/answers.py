"""The questions about actions and the run, answered in the reward's own sign."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from seqbatch.campaign.deciding.few_events import FewEvents, few_events, few_events_of_one
from seqbatch.campaign.deciding.logged import Logged
from seqbatch.campaign.deciding.pooling_plan import PlannedWave, shares_of
from seqbatch.campaign.views.findings import Answer, RunAnswer, WaveAnswer
from seqbatch.display import counted
from seqbatch.inference import (
    AsRun,
    Gain,
    GainOverRandom,
    Interval,
    Lift,
    Mean,
    Pooled,
    WaveSummary,
    estimate_wave,
    gain_over_best,
    naive_lift,
    pool,
    pool_by_size,
    simultaneous_lifts,
)
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.intervals import unknown

NOT_ALL = "In some wave it could not be given to everybody, or no outcome came back."


@dataclass(frozen=True, eq=False)
class Asking:
    """A campaign's waves, summed up, and what may be asked of them.

    Parameters
    ----------
    data
        The units.
    summaries, waves
        The waves that count, and what was fixed of each in advance.
    level
        The coverage of intervals.
    """

    data: Logged
    summaries: tuple[WaveSummary, ...]
    waves: Sequence[PlannedWave]
    level: float

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The actions, the control first."""
        return tuple(self.data.now.actions[number].name for number in self.data.order)

    @property
    def sign(self) -> float:
        """What turns estimates, of which more is better, into the reward's own."""
        return self.data.now.spec.reward.sign

    def shares(self, contrast: Contrast) -> tuple[float, ...]:
        """Return each wave's share of the variance, fixed in advance."""
        return shares_of(contrast, self.summaries, self.waves, self.data.segment(contrast))

    def own(self, interval: Interval, about: str) -> Interval:
        """Return an interval in the reward's own sign, with names in place of numbers."""
        ends = sorted((self.sign * interval.low, self.sign * interval.high))
        return Interval(
            about=about,
            estimate=self.sign * interval.estimate,
            error=interval.error,
            df=interval.df,
            level=interval.level,
            low=ends[0],
            high=ends[1],
            valid=interval.valid,
            note=interval.note,
        )

    def means(self) -> tuple[Answer, ...]:
        """Return the mean of every action, if everybody got it."""
        evidence, now = self.summaries[-1].evidence, self.data.now
        found = []
        for place, name in enumerate(self.names):
            answer = self._answer(place, Mean(place), f"mean of {name}")
            few = few_events_of_one(evidence, now.actions, self.data.order, place)
            found.append(replace(answer, few=_said(few, answer)))
        return tuple(found)

    def lifts(self) -> tuple[Answer, ...]:
        """Return the lift of every other action over the control."""
        evidence, now = self.summaries[-1].evidence, self.data.now
        found = []
        for place, together in enumerate(self._together(), start=1):
            about = self.lift_name(place)
            naive = naive_lift(evidence, place, level=self.level)
            few = few_events(evidence, now.actions, self.data.order, place)
            answer = self._answer(place, Lift(place), about)
            found.append(
                replace(
                    answer,
                    together=self.own(together, about),
                    naive=self.own(naive, f"naive {about}"),
                    few=_said(few, answer),
                )
            )
        return tuple(found)

    def lift_name(self, place: int) -> str:
        """Return what the lift of an action is called."""
        return f"lift of {self.names[place]} over {self.names[0]}"

    def _together(self) -> Sequence[Interval]:
        """Return lifts whose intervals cover together: by Dunnett, or Bonferroni."""
        others = range(1, len(self.names))
        if all(wave.share is not None for wave in self.waves) and not self.data.restricted:
            return simultaneous_lifts(self.summaries, self.shares(Lift(1)), level=self.level)
        level = 1 - (1 - self.level) / len(others)
        wide = [self._pooled(Lift(a), level=level) for a in others]
        return [replace(one, level=self.level) for one in wide]

    def _pooled(self, contrast: Contrast, *, level: float) -> Interval:
        shares, segment = self.shares(contrast), self.data.segment(contrast)
        return pool(self.summaries, contrast, shares, level=level, segment=segment)

    def _among(self, contrast: Contrast) -> float:
        """Return the share of units that a question is about: those that could get its actions."""
        if (segment := self.data.segment(contrast)) is None:
            return 1.0
        asked = sum(
            one.segments[segment].units for one in self.summaries if segment in one.segments
        )
        return asked / sum(one.overall.units for one in self.summaries)

    def _answer(self, place: int, contrast: Contrast, about: str) -> Answer:
        shares = self.shares(contrast)
        pooled = self._pooled(contrast, level=self.level)
        segment = self.data.segment(contrast)
        found = [estimate_wave(one, contrast, segment) for one in self.summaries]
        used = [(w, e) for w, e in zip(self.data.waves, found, strict=True) if e is not None]
        weights: dict[int, float] = {}
        if isinstance(pooled, Pooled):
            # Waves of no share have no weight, and are not among those that were pooled.
            shown = [w for w, s, e in zip(self.data.waves, shares, found, strict=True) if e and s]
            weights = dict(zip(shown, pooled.weights, strict=True))
        return Answer(
            action=self.names[place],
            interval=self.own(pooled, about),
            waves=tuple(
                WaveAnswer(
                    wave=wave,
                    units=one.units,
                    interval=self.own(one.interval(self.level), f"{about} in wave {wave}"),
                    effective=one.effective,
                    weight=weights.get(wave, 0.0),
                )
                for wave, one in used
            ),
            among=self._among(contrast),
            same_p=pooled.same_p if isinstance(pooled, Pooled) else 1.0,
            by_size=self.sign * pooled.by_size if isinstance(pooled, Pooled) else float("nan"),
        )

    def run(self) -> RunAnswer:
        """Return what the run brought, and its gains over simpler ways."""
        gains = [self._gain(Gain(place), self.summaries) for place in range(len(self.names))]
        last = self.waves[-1].active
        same = [
            summary
            for summary, wave in zip(self.summaries, self.waves, strict=True)
            if wave.active == last
        ]
        among = tuple(sorted(self.data.order.index(number) for number in last))
        singles = [self._gain(Gain(place), same) for place in among]
        best = self._over(gain_over_best(singles, level=self.level), same)
        random = self._over(self._gain(GainOverRandom(among), same), same)
        value = pool_by_size(self.summaries, AsRun(), level=self.level)
        return RunAnswer(
            value=self.own(value, "mean outcome as run"),
            over_random=self.own(random, "gain of the run over random assignment"),
            over_actions={
                name: self.own(gain, f"gain of the run over {name} for everybody")
                for name, gain in zip(self.names, gains, strict=True)
            },
            over_best=self.own(best, "gain of the run over the best single action"),
        )

    def _over(self, gain: Interval, same: Sequence[WaveSummary]) -> Interval:
        """Return a gain that says over which waves it is, where it is not over all of them."""
        if len(same) == len(self.summaries):
            return gain
        waves = counted(len(same), "wave")
        note = f"Over the {waves} in which the same actions were given as in the last."
        return replace(gain, note=f"{gain.note} {note}".strip())

    def _gain(self, contrast: Contrast, summaries: Sequence[WaveSummary]) -> Interval:
        """Return a gain of the whole run; of some of its waves it would be another run's."""
        made = pool_by_size(summaries, contrast, level=self.level)
        if isinstance(made, Pooled) and len(made.waves) == len(summaries):
            return made
        return unknown(contrast.name, level=self.level, note=NOT_ALL)


def _said(few: FewEvents | None, answer: Answer) -> str | None:
    """Return what there are too few events of, where there is an interval to warn of."""
    return None if few is None or not answer.interval.known else str(few)
