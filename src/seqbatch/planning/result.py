"""The Plan class: a recommended grid and policy with their costs, as text, chart or data."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seqbatch.chart import Chart
from seqbatch.core import arguments
from seqbatch.document import (
    Document,
    Picture,
    Section,
    Table,
    as_notebook,
    plain_text,
    write,
)
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.output_files import require_target
from seqbatch.planning.detection import Detection, detection, informative
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.result_picture import draw, panels
from seqbatch.planning.result_rows import Candidate, Row, Sensitivity
from seqbatch.planning.result_text import reason, settings, short, tables, words
from seqbatch.planning.tradeoff import Trade, trade
from seqbatch.planning.unit_sample import Sample
from seqbatch.policies.base import BasePolicy

if TYPE_CHECKING:
    import polars as pl

    from seqbatch.planning.request import Request


# ----------------------------------------------------------------------
# A plan as plain values, for JSON.


def as_dict(plan: "Plan") -> dict[str, Any]:
    """Return everything except the trade, which takes longer to compute."""
    policy = {part.name: getattr(plan.policy, part.name) for part in fields(plan.policy)}
    history = policy.pop("history", None)
    answer = {
        "units": plan.units,
        "seen": plan.seen,
        "actions": plan.model.actions,
        "layout": plan.model.layout,
        "dim": plan.model.dim,
        "effects": list(plan.request.law.guesses),
        "effect_spread": plan.request.law.spread,
        "effect_stated": plan.request.law.stated,
        "scenarios": [
            {"effect": effect, "noise": noise, "weight": weight}
            for (effect, noise), weight in zip(
                plan.model.scenarios, plan.model.weights, strict=True
            )
        ],
        "base_rate": plan.request.base_rate,
        "kappa": plan.model.kappa,
        "contexts": plan.contexts,
        "batches": plan.batches,
        "asked": plan.request.batches is not None,
        "reason": plan.reason,
        "rule_met": plan.met,
        "randomised": plan.model.conduct.randomised,
        "floor": plan.model.conduct.floor,
        "missing": plan.model.conduct.missing,
        "delay": plan.model.conduct.delay,
        "after": plan.model.conduct.after,
        "purpose": plan.model.conduct.purpose,
        "eligible": list(plan.model.conduct.eligible) or None,
        "capacity": list(plan.model.conduct.capacity) or None,
        "within": plan.within,
        "batch_cost": plan.batch_cost,
        "seed": plan.seed,
        "ends": list(plan.grid.ends),
        "sizes": list(plan.grid.sizes),
        "policy": {"name": type(plan.policy).__name__, **policy},
        "history": None if history is None else history.about(),
        "table": [asdict(row) for row in (*plan.rows, plan.online)],
        "candidates": [
            {k: v for k, v in vars(one).items() if k != "policy"} for one in plan.candidates
        ],
        "sensitivity": [asdict(one) for one in plan.sensitivity],
        "detect": plan.request.detect,
        "power": plan.request.power,
        "detection": None if plan.detection is None else asdict(plan.detection),
        "sample": None if plan.sample is None else plan.sample.evidence(),
    }
    return {key: _plain(value) for key, value in answer.items()}


def _plain(value: Any) -> Any:
    """Return a value in a form that JSON allows, without NaN and tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value


# ----------------------------------------------------------------------
# The plan.


#: The file types to which a plan can be written: pictures, or a page.
PICTURES = (".png", ".svg", ".html")


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """When batches should end, which policy to use, and the cost; print it or save it.

    Parameters
    ----------
    request
        What was requested and assumed.
    contexts
        ``"stochastic"`` or ``"adversarial"``.
    grid, policy
        The recommended grid and policy.
    met
        Whether the plan earns as much of fully online's gain as `within` requires; None if that was
        not requested.
    rows, online
        The costs of other numbers of batches, and of fully online.
    candidates
        The policies that were compared on the grid.
    wrong_guesses
        Computes `sensitivity`, which takes as long as the rest of the plan.
    """

    request: "Request" = field(repr=False)
    contexts: Literal["stochastic", "adversarial"]
    grid: Grid
    policy: BasePolicy
    met: bool | None
    rows: tuple[Row, ...]
    online: Row
    candidates: tuple[Candidate, ...]
    wrong_guesses: Callable[[], tuple[Sensitivity, ...]] = field(repr=False)

    @property
    def reason(self) -> str:
        """Why this number of batches, in words."""
        return reason(self)

    @property
    def model(self) -> Model:
        """The assumptions about units and rewards."""
        return self.request.model

    @property
    def choosing(self) -> bool:
        """Whether only the action that is chosen for all units at the end counts."""
        return self.model.conduct.purpose == "choose"

    @property
    def looks_beyond(self) -> bool:
        """Whether units after the experiment count, so that regret is not the experiment's own."""
        return self.model.conduct.looks_beyond

    @property
    def sample(self) -> Sample | None:
        """The sample of units that the features came from."""
        return self.request.sample

    @property
    def seen(self) -> int:
        """Units already assigned, if the experiment is under way; the grid starts after them."""
        return self.request.limits.seen

    @property
    def batch_cost(self) -> float | None:
        """The cost of each batch."""
        return self.request.batch_cost

    @property
    def within(self) -> float:
        """How far below fully online is close enough."""
        return self.request.within

    @property
    def seed(self) -> int:
        """The seed of all simulations."""
        return self.request.seed

    @property
    def units(self) -> int:
        """The number of units in the grid."""
        return self.grid.units

    @property
    def batches(self) -> int:
        """The number of batches."""
        return self.grid.batches

    @property
    def row(self) -> Row:
        """The row of the table for the plan's number of batches."""
        return next(row for row in self.rows if row.batches == self.batches)

    @cached_property
    def sensitivity(self) -> tuple[Sensitivity, ...]:
        """The cost of a wrong guess of the effect; computed on first use."""
        return self.wrong_guesses()

    @cached_property
    def detection(self) -> Detection | None:
        """The detectable lifts over control; None if they cannot be computed.

        That is so for adversarial contexts, which have no fixed lift; for an experiment under way,
        because the plan does not know how its first batches were assigned; if a history decides all
        of the first batch; and if units may not get every action, because the formulas do not hold
        then.
        """
        if self.contexts == "adversarial" or self.seen or self.model.conduct.restricted:
            return None
        if not informative(self.model, self.batches):
            return None
        return detection(self.model, self.grid.sizes, self.policy, lift=self.request.detect)

    @cached_property
    def trade(self) -> Trade:
        """Regret against the detectable lift, on this grid, for randomised shares from 0 to 1."""
        if self.detection is None:
            raise InvalidArgumentError(
                "trade",
                "used with a plan for stochastic contexts that has not begun and restricts nothing",
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

        0.1 means 10% more. In an adversarial plan, the guarantees are compared.
        """
        limit = 1 + arguments.number("share", share, at_least=0)
        return next((row.batches for row in self.rows if row.of_online <= limit), None)

    def table(self) -> "pl.DataFrame":
        """Return the rows as a table, with fully online last."""
        import polars as pl

        return pl.DataFrame(
            [asdict(row) for row in (*self.rows, self.online)],
            schema_overrides={"batches": pl.Int64, "sizes": pl.List(pl.Int64)},
        ).fill_nan(None)

    def document(self) -> Document:
        """Return the plan as a document: text, picture, tables and settings."""
        drawn = Picture(lambda: panels(self), "Regret against the number of batches")
        return Document(
            f"Plan for {self.units:,} units",
            Section("plan", "The plan", [*words(self), drawn, *self.tables()]),
            [Section("settings", "Settings", settings(self))],
            data=self.as_dict(),
        )

    def tables(self) -> list[Table]:
        """Return the costs of other numbers of batches, and of wrong guesses of the effect."""
        return tables(self)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return as_dict(self)

    def chart(self) -> Chart:
        """Return the picture: regret against the number of batches, and the grid in time."""
        return draw(self)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the picture as .png or .svg, or the whole plan as an .html page.

        Parameters
        ----------
        path
            The file.
        force
            Overwrite an existing file.
        """
        target = require_target(path, name="path", force=force, endings=PICTURES)
        if target.suffix.lower() == ".html":
            return write(self.document(), target, file_format="html")
        return self.chart().save(target)

    def __repr__(self) -> str:
        return f"<Plan: {short(self)}>"

    def _repr_html_(self) -> str:
        return as_notebook(self.document())

    def __str__(self) -> str:
        return plain_text(words(self))


def _kind(plan: Plan) -> str:
    """Say which kind of plan has no trade."""
    if plan.seen:
        return f"one with {plan.seen:,} seen"
    if plan.contexts == "adversarial":
        return "one for arbitrary contexts"
    return "one with eligible or capacity"
