"""The trade: what is lost, and what can be detected, as more units are randomised."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqbatch.atomic import atomically
from seqbatch.display import Table, shown
from seqbatch.planning.detection import planned_lift
from seqbatch.planning.model import Model
from seqbatch.planning.trials import Trials
from seqbatch.policies.base import LinearPolicy
from seqbatch.targets import require_target

if TYPE_CHECKING:
    import altair as alt

#: The randomised shares that are tried beside the plan's own.
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
#: A share that differs from the plan's own by less than this part of it is left out.
NEAR = 0.3
#: What a trade can be written to.
PICTURES = (".png", ".svg", ".html")


@dataclass(frozen=True, kw_only=True)
class TradePoint:
    """What a randomised share costs, and what it shows.

    Parameters
    ----------
    randomised
        The share.
    regret, error
        Expected regret under pure exploitation, and its Monte Carlo standard error.
    lift
        The lift over control that is found with the trade's power.
    """

    randomised: float
    regret: float
    error: float
    lift: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Trade:
    """Regret against the detectable lift, on one grid and in the same trials.

    Parameters
    ----------
    points
        From no randomised units to all.
    randomised
        The plan's own share, which is one of them.
    power
        With which the lifts are found, two-sided at 5%.
    grid
        The sizes of the batches.
    asked
        The lift that the plan was to detect, if any.
    """

    points: tuple[TradePoint, ...]
    randomised: float
    power: float
    grid: tuple[int, ...]
    asked: float | None = None

    @property
    def chosen(self) -> TradePoint:
        """The plan's own point."""
        return next(one for one in self.points if one.randomised == self.randomised)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {"power": self.power, "points": [asdict(one) for one in self.points]}

    def tables(self) -> list[Table]:
        """Return the points as people see them."""
        from seqbatch.planning.trade_words import table

        return [table(self)]

    def chart(self) -> "alt.TopLevelMixin":
        """Return the picture."""
        from seqbatch.planning.trade_picture import draw

        return draw(self)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the picture as .png or .svg, or with its table as a page, .html.

        Parameters
        ----------
        path
            The file.
        force
            Overwrite a file that is there.
        """
        from seqbatch.pictures import save
        from seqbatch.planning.trade_picture import page

        target = require_target(path, name="path", force=force, endings=PICTURES)
        if target.suffix.lower() == ".html":
            with atomically(target) as partial:
                partial.write_text(page(self), encoding="utf-8")
            return target
        return save(self.chart(), target)

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables(), draw=self.chart)

    def __str__(self) -> str:
        from seqbatch.planning.trade_words import describe

        return describe(self)


def trade(
    trials: Trials,
    model: Model,
    sizes: Sequence[int],
    policy: LinearPolicy,
    *,
    power: float = 0.8,
    asked: float | None = None,
) -> Trade:
    """Return what each randomised share costs and shows, on batches of these sizes."""
    own = model.conduct.randomised
    points = []
    for share in _shares(own):
        conduct = replace(model.conduct, randomised=share)
        regret, error = replace(trials, conduct=conduct).rates(sizes).total(sizes)
        lift = planned_lift(replace(model, conduct=conduct), sizes, policy, power=power)
        points.append(TradePoint(randomised=share, regret=regret, error=error, lift=lift))
    return Trade(points=tuple(points), randomised=own, power=power, grid=tuple(sizes), asked=asked)


def _shares(own: float) -> list[float]:
    """Return the shares to try, without those between the ends that the own one stands for."""
    others = {one for one in SHARES if one in (0.0, 1.0) or abs(one - own) > NEAR * own}
    return sorted({*others, own})
