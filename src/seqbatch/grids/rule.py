"""A rule that makes a grid for any horizon: its kind, and how many batches."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from seqbatch.core import arguments
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import paper
from seqbatch.grids.grid import Grid, explicit

KINDS = ("uniform", "online", "minimax", "sparse", "geometric", "explicit")
COUNTS: dict[str, Callable[..., int]] = {
    "adversarial": paper.adversarial_batches,
    "stochastic": paper.stochastic_batches,
    "problem-dependent": paper.problem_dependent_batches,
}
#: Kinds that tell how many batches there are, and how.
COUNTED = {"online": "It has a batch for each unit.", "explicit": "It has a batch for each share."}


@dataclass(frozen=True, kw_only=True)
class GridRule:
    """How to make a grid for a horizon: its kind, and how many batches.

    Parameters
    ----------
    kind
        ``"uniform"``, ``"online"``, ``"minimax"``, ``"sparse"``, ``"geometric"`` or ``"explicit"``.
    batches
        A number, 2 by default, or a rule: ``"adversarial"``, ``"stochastic"``,
        ``"problem-dependent"``. None for online and explicit grids, which have as many batches as
        units and shares.
    divide
        Divide the number of batches by this, rounding down.
    scale
        For the minimax grid; see :func:`~seqbatch.grids.minimax`.
    shares
        For the explicit grid: the share of all units that each batch ends at, the last one 1.

    Examples
    --------
    >>> GridRule(kind="minimax", batches="stochastic", scale=0.4).grid(100_000, 10)
    Grid(units=100000, batches=2, ends=[4000, 100000])
    """

    kind: str
    batches: int | str | None = None
    divide: int = 1
    scale: float | None = None
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        arguments.choice("kind", self.kind, KINDS)
        self._settle_shares()
        self._settle_count()
        if self.scale is not None and self.kind != "minimax":
            rule = 'given only with kind "minimax"'
            raise InvalidArgumentError("scale", rule, f"{self.scale!r} with {self.kind!r}")

    def _settle_shares(self) -> None:
        """Check the shares, which an explicit grid has and no other."""
        if not isinstance(self.shares, Iterable) or isinstance(self.shares, str):
            raise InvalidArgumentError("shares", "numbers, as in [0.1, 0.4, 1]", repr(self.shares))
        shares = tuple(
            arguments.number("shares", share, above=0, at_most=1) for share in self.shares
        )
        if self.kind == "explicit":
            if shares[-1:] != (1,) or list(shares) != sorted(set(shares)):
                rule = "the share of all units that each batch ends at, increasing, the last one 1"
                advice = "As in [0.1, 0.4, 1]."
                raise InvalidArgumentError("shares", rule, list(shares) or "none", advice)
        elif shares:
            rule = 'given only with kind "explicit"'
            raise InvalidArgumentError("shares", rule, f"{list(shares)} with {self.kind!r}")
        object.__setattr__(self, "shares", shares)

    def _settle_count(self) -> None:
        """Check the number of batches, which is 2 where none is given and none is refused."""
        arguments.integer("divide", self.divide)
        if self.kind in COUNTED:
            divide = None if self.divide == 1 else self.divide
            for name, given in (("batches", self.batches), ("divide", divide)):
                if given is not None:
                    rule = f'left out with kind "{self.kind}"'
                    raise InvalidArgumentError(name, rule, repr(given), COUNTED[self.kind])
        elif self.batches is None:
            object.__setattr__(self, "batches", 2)
        elif isinstance(self.batches, str):
            if self.batches not in COUNTS:
                rule = f"a whole number, or one of {', '.join(map(repr, COUNTS))}"
                raise InvalidArgumentError("batches", rule, repr(self.batches))
        else:
            arguments.integer("batches", self.batches)

    def grid(self, units: int, dim: int) -> Grid:
        """Return the grid for `units` units and the paper's dimension d."""
        if self.kind == "online":
            return paper.online(units=units)
        if self.kind == "explicit":
            return explicit(round(share * units) for share in self.shares)
        assert self.batches is not None
        rule = COUNTS.get(str(self.batches))
        count = rule(units=units, dim=dim) if rule else int(self.batches)
        batches = max(1, count // self.divide)
        if self.kind == "uniform":
            return paper.uniform(units=units, batches=batches)
        if self.kind == "sparse":
            return paper.sparse(units=units, sparsity=dim, batches=batches)
        if self.kind == "geometric":
            return paper.geometric(units=units, dim=dim, batches=batches)
        return paper.minimax(units=units, dim=dim, batches=batches, scale=self.scale)
