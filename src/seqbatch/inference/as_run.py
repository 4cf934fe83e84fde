"""What the campaign brought as it was run, and what it gained over simpler ways."""

from collections.abc import Sequence
from dataclasses import dataclass

from seqbatch.display import Table, shown
from seqbatch.inference.contrasts import AsRun, Gain, GainOverRandom
from seqbatch.inference.intervals import Interval, interval_table, quantile, unknown
from seqbatch.inference.pooling import pool_by_size
from seqbatch.inference.summary import WaveSummary


@dataclass(frozen=True, kw_only=True)
class RunValue:
    """The value of the rule as run.

    Parameters
    ----------
    value
        The mean outcome as run.
    over_actions
        The gain over giving one action to all, for each action.
    over_random
        The gain over assigning every unit uniformly at random.
    over_best
        The gain over the best single action, whichever that is.
    """

    value: Interval
    over_actions: tuple[Interval, ...]
    over_random: Interval
    over_best: Interval

    def tables(self) -> list[Table]:
        """Return value and gains as one table."""
        rows = [self.value, self.over_random, *self.over_actions, self.over_best]
        return [interval_table("The campaign as run", rows)]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        return "\n".join(map(str, (self.value, self.over_random, self.over_best)))


def run_value(summaries: Sequence[WaveSummary], *, level: float = 0.95) -> RunValue:
    """Return what the campaign brought as run, and its gains.

    Parameters
    ----------
    summaries
        The waves, as :func:`summarise` returns them.
    level
        The coverage.
    """
    actions = range(len(summaries[0].evidence.assigned))
    gains = tuple(pool_by_size(summaries, Gain(action), level=level) for action in actions)
    return RunValue(
        value=pool_by_size(summaries, AsRun(), level=level),
        over_actions=gains,
        over_random=pool_by_size(summaries, GainOverRandom(), level=level),
        over_best=gain_over_best(gains, level=level),
    )


def gain_over_best(gains: Sequence[Interval], *, level: float = 0.95) -> Interval:
    """Return [min_a L_a at alpha/2, min_a U_a at alpha/(2K)]: which action is best is not known.

    The lower bound needs no correction: the gain over the best action is at least min_a L_a
    whenever that action's own bound holds. The upper bound picks the lowest of K, and pays for it.

    Parameters
    ----------
    gains
        The gain over each action.
    level
        The coverage.
    """
    about = "gain of the run over the best single action"
    if not all(gain.known for gain in gains):
        note = "Some action could not be given to some units."
        return unknown(about, level=level, note=note)
    tail = (1 - level) / 2
    least = min(gains, key=lambda gain: gain.estimate)
    return Interval(
        about=about,
        estimate=least.estimate,
        error=least.error,
        df=least.df,
        level=level,
        low=min(one.estimate - quantile(tail, one.df) * one.error for one in gains),
        high=min(one.estimate + quantile(tail / len(gains), one.df) * one.error for one in gains),
        note="The estimate is the lowest of several and leans downward; the interval does not.",
    )
