"""What a plan says: tables, words, a picture."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seqbatch.atomic import atomically
from seqbatch.core import arguments
from seqbatch.display import Table, shown
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.planning.detection import Detection, detection
from seqbatch.planning.model import Model
from seqbatch.planning.rows import Candidate, Row, Sensitivity
from seqbatch.planning.sample import Sample
from seqbatch.planning.trade import Trade, trade
from seqbatch.policies.base import LinearPolicy
from seqbatch.targets import require_target

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from seqbatch.planning.request import Request

#: What a plan can be written to: pictures, or a page.
PICTURES = (".png", ".svg", ".html")


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """When batches should end, which policy to use, and what that costs; print it or save it.

    Parameters
    ----------
    request
        What was asked for and assumed.
    contexts
        ``"stochastic"`` or ``"adversarial"``.
    grid, policy
        What to use.
    reason
        Why this number of batches, in words.
    met
        Whether it earns as much of fully online's gain as `within` asks for; None where that was
        not asked.
    rows, online
        What other numbers of batches would cost, and fully online.
    candidates
        The policies that were compared on the grid.
    wrong_guesses
        Computes `sensitivity`, which takes as long as the rest of the plan.
    """

    request: "Request" = field(repr=False)
    contexts: Literal["stochastic", "adversarial"]
    grid: Grid
    policy: LinearPolicy
    reason: str
    met: bool | None
    rows: tuple[Row, ...]
    online: Row
    candidates: tuple[Candidate, ...]
    wrong_guesses: Callable[[], tuple[Sensitivity, ...]] = field(repr=False)

    @property
    def model(self) -> Model:
        """What was assumed of the world."""
        return self.request.model

    @property
    def sample(self) -> Sample | None:
        """The sample of units that the features came from."""
        return self.request.sample

    @property
    def seen(self) -> int:
        """Units already assigned, in an experiment under way; the grid counts from there."""
        return self.request.limits.seen

    @property
    def batch_cost(self) -> float | None:
        """What each batch costs."""
        return self.request.batch_cost

    @property
    def within(self) -> float:
        """How far below fully online is close enough."""
        return self.request.within

    @property
    def seed(self) -> int:
        """The seed of all that was simulated."""
        return self.request.seed

    @property
    def units(self) -> int:
        """How many units the grid holds."""
        return self.grid.units

    @property
    def batches(self) -> int:
        """The number of batches."""
        return self.grid.batches

    @property
    def row(self) -> Row:
        """The table's row of that number of batches."""
        return next(row for row in self.rows if row.batches == self.batches)

    @cached_property
    def sensitivity(self) -> tuple[Sensitivity, ...]:
        """What a wrong guess of the effect costs; computed when first asked for."""
        return self.wrong_guesses()

    @cached_property
    def detection(self) -> Detection | None:
        """What will be known of lifts over control; None where that cannot be said.

        Arbitrary contexts have no lift of their own, of an experiment under way the plan does not
        know how its first batches were assigned, and where units may not get every action the
        formulas do not hold.
        """
        if self.contexts == "adversarial" or self.seen or self.model.conduct.restricted:
            return None
        return detection(self.model, self.grid.sizes, self.policy, lift=self.request.detect)

    @cached_property
    def trade(self) -> Trade:
        """Regret against the detectable lift, on this grid, for randomised shares from 0 to 1."""
        if self.detection is None:
            raise InvalidArgumentError(
                "trade",
                "asked of a plan for stochastic contexts that has not begun and restricts nothing",
                _kind(self),
            )
        request = self.request
        return trade(
            request.judging,
            self.model,
            self.grid.sizes,
            self.policy,
            power=request.power,
            asked=request.detect,
        )

    def near_online(self, share: float) -> int | None:
        """Return the smallest M whose regret is at most `share` above fully online's, if any.

        0.1 is 10% more. In an adversarial plan it is the guarantees that are compared.
        """
        limit = 1 + arguments.number("share", share, at_least=0)
        return next((row.batches for row in self.rows if row.of_online <= limit), None)

    def table(self) -> "pl.DataFrame":
        """Return the rows, fully online last, as a table."""
        import polars as pl

        return pl.DataFrame(
            [asdict(row) for row in (*self.rows, self.online)],
            schema_overrides={"batches": pl.Int64, "sizes": pl.List(pl.Int64)},
        ).fill_nan(None)

    def tables(self) -> list[Table]:
        """Return the rows, and what a wrong guess of the effect costs, as people see them."""
        from seqbatch.planning.words import tables

        return tables(self)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        from seqbatch.planning.plain import as_dict

        return as_dict(self)

    def chart(self) -> "alt.TopLevelMixin":
        """Return the picture: regret against the number of batches, and the grid in time."""
        from seqbatch.planning.picture import draw

        return draw(self)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the picture as .png or .svg, or all of the plan as a page, .html.

        Parameters
        ----------
        path
            The file.
        force
            Overwrite a file that is there.
        """
        from seqbatch.pictures import save
        from seqbatch.planning.page import page

        target = require_target(path, name="path", force=force, endings=PICTURES)
        if target.suffix.lower() == ".html":
            with atomically(target) as partial:
                partial.write_text(page(self), encoding="utf-8")
            return target
        return save(self.chart(), target)

    def __repr__(self) -> str:
        from seqbatch.planning.words import short

        return f"<Plan: {short(self)}>"

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables(), draw=self.chart)

    def __str__(self) -> str:
        from seqbatch.planning.words import describe

        return describe(self)


def _kind(plan: Plan) -> str:
    """Say which kind of plan has no trade."""
    if plan.seen:
        return f"one with {plan.seen:,} seen"
    if plan.contexts == "adversarial":
        return "one for arbitrary contexts"
    return "one with eligible or capacity"
