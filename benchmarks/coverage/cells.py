"""The cells of the coverage study: the settings in which campaigns are simulated.

They were chosen before anything was measured in them, and apart from the settings on which the
intervals were developed: other rates, sizes, slopes and changes.
"""

from dataclasses import dataclass, replace

from seqbatch.inference import PlanOfShares, plan_of_shares

#: Kinds of outcomes whose effects are relative: a lift of 0.3 is 30% more.
RELATIVE = ("yes/no", "counts", "amounts", "amounts without zeros")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What outcomes are like.

    Parameters
    ----------
    kind
        ``"normal"``, ``"heavy tails"`` (Student's t with 3 degrees of freedom), ``"yes/no"``,
        ``"counts"``, ``"amounts"`` (mostly zeros) or ``"amounts without zeros"``.
    rate
        The mean under control: of yes/no outcomes, of counts, of units with an amount.
    spread
        The standard deviation of the logarithm of amounts; the shape of the gamma mixture of
        counts, 0 for Poisson counts.
    cap
        The largest amount, in multiples of the mean amount; 0 for none.
    by_action
        Standard deviations of normal noise by action, or sizes of amounts by action, which sell
        as much less often.
    """

    kind: str = "normal"
    rate: float = 1.0
    spread: float = 0.0
    cap: float = 0.0
    by_action: tuple[float, ...] = ()

    @property
    def relative(self) -> bool:
        """Whether effects are relative to the rate."""
        return self.kind in RELATIVE

    def describe(self) -> str:
        """Return the outcome in words."""
        text = self.kind
        if self.kind == "yes/no":
            text += f" {self.rate:.1%}".replace(".0%", "%")
        if self.kind == "counts":
            text += f" of mean {self.rate:g}{', overdispersed' if self.spread else ''}"
        if self.kind == "amounts":
            text += f" with {1 - self.rate:.0%} zeros"
        if self.kind.startswith("amounts"):
            text += f", spread {self.spread:g}"
            text += f", cap {self.cap:g}" if self.cap else ""
        if self.by_action:
            what = "sd" if self.kind == "normal" else "sizes"
            text += f", {what} {' / '.join(f'{one:g}' for one in self.by_action)}"
        return text


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting in which coverage is measured.

    Parameters
    ----------
    policy
        ``"greedy"``, ``"UCB"`` or ``"Thompson"``.
    features
        Whether the policy and the models know the features.
    outcome
        What outcomes are like.
    lifts
        The lift of each action but control, in all waves or wave by wave; relative for outcomes
        that are not normal.
    slope
        How much lifts depend on features.
    base
        How outcomes depend on features: ``"linear"``, ``"convex"`` or ``"wavy"``.
    level
        What each wave adds to all outcomes; a factor where effects are relative.
    moving
        The mean of the first feature in each wave.
    missing
        Whose outcomes do not come back.
    units, sizes
        All units together, and how they are divided among waves.
    randomised, floor
        h and f.
    costs
        The cost of each action.
    clusters
        The size of clusters that share noise, 0 for none.
    beyond
        Why no claim is made for this cell, empty if one is.
    """

    policy: str = "greedy"
    features: bool = True
    outcome: Outcome = Outcome()
    lifts: tuple[tuple[float, ...], ...] = ((0.0,), (0.0,))
    slope: float = 0.0
    base: str = "linear"
    level: tuple[float, ...] = ()
    moving: tuple[float, ...] = ()
    missing: str = "none"
    units: int = 2_400
    sizes: tuple[float, ...] = (0.25, 0.35, 0.4)
    randomised: float = 0.1
    floor: float = 0.02
    costs: tuple[float, ...] = ()
    clusters: int = 0
    beyond: str = ""

    @property
    def actions(self) -> int:
        """K."""
        return len(self.lifts) + 1

    @property
    def waves(self) -> int:
        """M."""
        return len(self.sizes)

    @property
    def counts(self) -> list[int]:
        """How many units each wave has."""
        return [round(share * self.units) for share in self.sizes]

    @property
    def lifts_constant(self) -> bool:
        """Whether each lift is the same in every wave."""
        relative = self.outcome.relative and not self.no_lift
        moved = (self.moving and (self.slope or relative)) or (self.level and relative)
        return not moved and all(len(set(one)) == 1 for one in self.lifts)

    @property
    def level_constant(self) -> bool:
        """Whether the mean of control is the same in every wave."""
        return not (self.level or self.moving)

    @property
    def constant(self) -> bool:
        """Whether nothing changes between waves."""
        return self.lifts_constant and self.level_constant

    @property
    def no_lift(self) -> bool:
        """Whether no action differs from control, before costs."""
        return not self.slope and all(set(one) == {0.0} for one in self.lifts)

    @property
    def plan(self) -> PlanOfShares:
        """The plan of shares that such a campaign would fix."""
        return plan_of_shares(
            self.counts,
            actions=self.actions,
            randomised=self.randomised,
            floor=self.floor,
            policy="thompson" if self.policy == "Thompson" else "greedy",
        )

    def describe(self) -> str:
        """Return the cell in words."""
        parts = [self.outcome.describe(), self._effects(), self._changes()]
        parts.append(self.policy if self.features else f"{self.policy} without features")
        parts.append(f"K {self.actions}, {self.units:,} units in {_waves(self.sizes)}")
        if (self.randomised, self.floor) != (0.1, 0.02):
            parts.append(f"h {self.randomised:g}, f {self.floor:g}")
        parts.append("" if self.missing == "none" else f"missing {self.missing}")
        parts.append(f"costs {_listed(self.costs)}" if self.costs else "")
        parts.append(f"clusters of {self.clusters}" if self.clusters else "")
        return "; ".join(part for part in parts if part)

    def _effects(self) -> str:
        if self.no_lift:
            text = "no lift"
        elif all(len(set(one)) == 1 for one in self.lifts):
            text = f"lifts {_listed([one[0] for one in self.lifts])}"
        else:
            turning = [_listed(one) for one in self.lifts if len(set(one)) > 1]
            text = f"lift by wave {' and '.join(turning)}"
        text += f", by feature {self.slope:g}" if self.slope else ""
        return text if self.base == "linear" else f"{text}, {self.base}"

    def _changes(self) -> str:
        level = f"level {_listed(self.level)}" if self.level else ""
        moving = f"a feature moves {_listed(self.moving)}" if self.moving else ""
        return ", ".join(part for part in (level, moving) if part)


def _listed(numbers: tuple[float, ...] | list[float]) -> str:
    return ", ".join(f"{one:g}" for one in numbers)


def _waves(sizes: tuple[float, ...]) -> str:
    shares = "/".join(f"{100 * one:.0f}" for one in sizes)
    return f"waves of {shares}%"


# ----------------------------------------------------------------------
# The full study.


THREE, THIRDS, LATE = (0.25, 0.35, 0.4), (0.34, 0.33, 0.33), (0.08, 0.2, 0.72)
TWO, HALVES = (0.35, 0.65), (0.5, 0.5)
FIVE, FIFTHS = (0.08, 0.12, 0.18, 0.25, 0.37), (0.2,) * 5
#: The extent of the noise of rare outcomes asks for more units.
SMALL, MIDDLE, LARGE, HUGE = 600, 4_500, 9_000, 30_000

NORMAL = Cell()


def yes(rate: float) -> Outcome:
    """Return yes/no outcomes."""
    return Outcome(kind="yes/no", rate=rate)


def amounts(rate: float, spread: float, cap: float = 0.0) -> Outcome:
    """Return amounts that most units do not have."""
    return Outcome(kind="amounts", rate=rate, spread=spread, cap=cap)


WIDE = "amounts of spread 1.6 or more need a cap"
SKEWED = "amounts without zeros as skewed as these"
HARD_MISSING = "outcomes missing in opposite directions while the model is wrong"
BENT_MISSING = "outcomes missing by feature while the model is wrong"
UNEQUAL = "noise ten times larger under one action"
#: These concern some quantities alone: see the study.
FEW_SKEWED = "skewed amounts without zeros of a few hundred units"
BENT = "a model that is wrong about a feature that moves"
TURNED = "a lift that changes its sign: folds choose another rule than all units"


def cells() -> list[Cell]:
    """Return all settings."""
    return [*_normal(), *_yes_no(), *_amounts(), *_changing(), *_missing(), *_designs()]


def _normal() -> list[Cell]:
    unequal = Outcome(by_action=(0.4, 1.0, 2.0))
    tenfold = Outcome(by_action=(0.3, 3.0))
    return [
        NORMAL,
        replace(NORMAL, policy="Thompson"),
        replace(NORMAL, policy="UCB"),
        replace(NORMAL, features=False),
        replace(NORMAL, lifts=((0.15,), (0.35,))),
        replace(NORMAL, lifts=((0.32,), (0.32,))),
        replace(NORMAL, lifts=((0.15,), (0.35,)), policy="Thompson", sizes=LATE),
        replace(NORMAL, slope=0.45),
        replace(NORMAL, slope=0.45, policy="Thompson"),
        replace(NORMAL, slope=0.45, policy="UCB", sizes=FIVE, units=MIDDLE),
        replace(NORMAL, slope=0.4, base="wavy"),
        replace(NORMAL, slope=0.4, base="wavy", sizes=TWO, units=SMALL),
        replace(NORMAL, base="convex", lifts=((0.25,),)),
        replace(NORMAL, outcome=Outcome(kind="heavy tails"), slope=0.3),
        replace(NORMAL, outcome=Outcome(kind="heavy tails"), lifts=((0.3,),), units=SMALL),
        replace(NORMAL, outcome=unequal, lifts=((0.0,), (0.2,))),
        replace(NORMAL, outcome=tenfold, lifts=((0.0,),), beyond=UNEQUAL),
        replace(NORMAL, outcome=Outcome(kind="counts", rate=2.5), lifts=((0.1,), (0.0,))),
        replace(NORMAL, outcome=Outcome(kind="counts", rate=0.15, spread=0.7), lifts=((0.4,),),
                units=MIDDLE),
    ]  # fmt: skip


def _yes_no() -> list[Cell]:
    some = [
        Cell(outcome=yes(rate), lifts=lifts, units=units, policy=policy)
        for rate, units in ((0.013, 12_000), (0.03, MIDDLE), (0.07, 2_400), (0.22, 2_400))
        for lifts, policy in (
            (((0.0,), (0.0,)), "greedy"),
            (((0.0,), (0.4,)), "Thompson"),
        )
    ]
    return [
        *some,
        Cell(outcome=yes(0.013), units=3_000),
        Cell(outcome=yes(0.013), units=HUGE, lifts=((0.3,),), sizes=LATE),
        Cell(outcome=yes(0.03), units=1_200, lifts=((0.5,),), sizes=TWO),
        Cell(outcome=yes(0.03), units=LARGE, lifts=((0.0,),) * 4, sizes=FIVE),
        Cell(outcome=yes(0.07), units=MIDDLE, slope=0.5),
        Cell(outcome=yes(0.07), units=MIDDLE, features=False, lifts=((0.3,),)),
        Cell(outcome=yes(0.07), units=MIDDLE, randomised=0.2, floor=0.0),
        Cell(outcome=yes(0.07), units=MIDDLE, randomised=0.0),
        Cell(outcome=yes(0.22), units=SMALL, lifts=((0.3,),)),
        Cell(outcome=yes(0.6), lifts=((0.1,), (0.25,))),
        Cell(outcome=yes(0.6), units=SMALL, sizes=HALVES),
        Cell(outcome=yes(0.94), units=MIDDLE),
        Cell(outcome=yes(0.94), units=MIDDLE, lifts=((0.3,),), policy="Thompson"),
        Cell(outcome=yes(0.94), units=1_200),
    ]


def _amounts() -> list[Cell]:
    positive = Outcome(kind="amounts without zeros", spread=0.8)
    skewed = Outcome(kind="amounts without zeros", spread=1.6)
    sizes = Outcome(kind="amounts", rate=0.08, spread=1.2, by_action=(1.0, 2.0))
    none = ((0.0,), (0.0,))
    return [
        Cell(outcome=amounts(0.1, 0.8), lifts=none, units=MIDDLE),
        Cell(outcome=amounts(0.1, 0.8), lifts=((0.0,), (0.4,)), units=MIDDLE, policy="Thompson"),
        Cell(outcome=amounts(0.1, 1.2), lifts=((0.4,),), units=MIDDLE),
        Cell(outcome=amounts(0.06, 1.2), lifts=none, units=LARGE, policy="Thompson"),
        Cell(outcome=amounts(0.03, 1.2), lifts=none, units=12_000),
        Cell(outcome=amounts(0.03, 1.2), lifts=none, units=2_400),
        Cell(outcome=amounts(0.06, 1.2, cap=4.0), lifts=((0.4,),), units=LARGE),
        Cell(outcome=amounts(0.06, 1.6), lifts=none, units=LARGE, beyond=WIDE),
        Cell(outcome=amounts(0.06, 1.6, cap=4.0), lifts=none, units=LARGE),
        Cell(outcome=amounts(0.1, 2.0), lifts=((0.3,),), units=LARGE, beyond=WIDE),
        Cell(outcome=amounts(0.1, 2.0, cap=3.0), lifts=((0.3,),), units=LARGE),
        Cell(outcome=amounts(0.4, 1.2), lifts=((0.2,), (0.0,)), slope=0.3),
        Cell(outcome=sizes, lifts=((0.0,),), units=LARGE, beyond="sizes that differ by action"),
        Cell(outcome=positive, lifts=((0.0,), (0.2,))),
        Cell(outcome=positive, lifts=((0.0,),), units=SMALL, beyond=FEW_SKEWED),
        Cell(outcome=skewed, lifts=((0.0,), (0.2,)), units=MIDDLE, beyond=SKEWED),
    ]


def _changing() -> list[Cell]:
    none = ((0.0,), (0.0,))
    fading, turning, growing = (0.55, 0.3, 0.0), (0.5, 0.35, -0.25), (0.0, 0.25, 0.45)
    return [
        replace(NORMAL, level=(0.0, 0.4, 0.9)),
        replace(NORMAL, level=(0.0, 0.15, 0.3), policy="Thompson"),
        replace(NORMAL, level=(0.0, 1.2, -0.6), lifts=((0.0,), (0.3,))),
        replace(NORMAL, level=(0.0, 0.4, 0.9), randomised=0.0),
        replace(NORMAL, level=(0.0, 0.4, 0.9), units=SMALL, lifts=((0.4,),)),
        replace(NORMAL, level=(0.0, 0.2, 0.4, 0.6, 0.8), sizes=FIFTHS, units=MIDDLE),
        Cell(outcome=yes(0.04), level=(1.0, 1.6, 2.3), units=MIDDLE, lifts=none),
        Cell(outcome=yes(0.04), level=(1.0, 0.7, 0.5), units=LARGE, lifts=((0.3,),)),
        Cell(outcome=amounts(0.08, 1.2), level=(1.0, 1.5, 2.0), units=LARGE, lifts=none),
        replace(NORMAL, lifts=((0.0,), fading)),
        replace(NORMAL, lifts=(fading,), sizes=THIRDS),
        replace(NORMAL, lifts=((0.0,), fading), policy="Thompson", sizes=LATE),
        replace(NORMAL, lifts=((0.0,), turning)),
        replace(NORMAL, lifts=((0.5, 0.5, 0.5, 0.5, -0.2),), sizes=FIFTHS, units=1_200),
        replace(NORMAL, lifts=((0.7, 0.0, -0.3),), policy="Thompson", beyond=TURNED),
        replace(NORMAL, lifts=((0.0,), growing)),
        replace(NORMAL, lifts=(growing,), units=SMALL, sizes=THIRDS),
        replace(NORMAL, lifts=(fading, fading)),
        replace(NORMAL, lifts=((0.45, 0.35, 0.0),) * 3, sizes=THIRDS, units=MIDDLE),
        Cell(outcome=yes(0.06), lifts=((0.8, 0.4, 0.0),), units=LARGE),
        replace(NORMAL, moving=(0.0, 0.4, 0.9), slope=0.35),
        replace(NORMAL, moving=(0.0, -0.5, 0.5), slope=0.35, base="convex", beyond=BENT),
        Cell(outcome=yes(0.07), moving=(0.0, 0.4, 0.9), slope=0.3, units=MIDDLE),
    ]


def _missing() -> list[Cell]:
    some, many = "20% at random", "40% at random"
    feature, opposite = "by feature", "in opposite directions by action"
    return [
        replace(NORMAL, missing=some),
        replace(NORMAL, missing=many, lifts=((0.0,), (0.3,)), policy="Thompson"),
        replace(NORMAL, missing=many, units=SMALL, lifts=((0.3,),)),
        replace(NORMAL, missing=feature, slope=0.35),
        replace(NORMAL, missing=feature, base="convex", lifts=((0.25,),), beyond=BENT_MISSING),
        replace(NORMAL, missing=opposite, slope=0.35),
        replace(NORMAL, missing=opposite, base="convex", lifts=((0.0,),), beyond=HARD_MISSING),
        replace(NORMAL, missing=opposite, level=(0.0, 0.4, 0.9), lifts=((0.0,), (0.3,))),
        Cell(outcome=yes(0.07), missing=some, units=MIDDLE),
        Cell(outcome=yes(0.07), missing=feature, units=MIDDLE, lifts=((0.4,),)),
        Cell(outcome=yes(0.22), missing=opposite, units=MIDDLE, lifts=((0.2,),)),
        Cell(outcome=yes(0.94), missing=many, units=MIDDLE, lifts=((0.3,),)),
        Cell(outcome=amounts(0.1, 1.2), missing=some, units=LARGE, lifts=((0.0,), (0.3,))),
    ]


def _designs() -> list[Cell]:
    return [
        replace(NORMAL, units=SMALL),
        replace(NORMAL, units=SMALL, policy="Thompson", lifts=((0.4,),)),
        replace(NORMAL, units=HUGE, slope=0.3, sizes=LATE),
        replace(NORMAL, lifts=((0.0,),) * 4, units=MIDDLE),
        replace(NORMAL, lifts=((0.0,), (0.1,), (0.2,), (0.3,)), units=MIDDLE, policy="Thompson"),
        replace(NORMAL, sizes=FIVE, units=MIDDLE),
        replace(NORMAL, sizes=TWO, lifts=((0.3,),)),
        replace(NORMAL, randomised=0.0),
        replace(NORMAL, randomised=0.0, lifts=((0.0,), (0.4,)), sizes=LATE, units=MIDDLE),
        replace(NORMAL, randomised=0.0, policy="Thompson"),
        replace(NORMAL, randomised=0.25, floor=0.0, lifts=((0.3,),)),
        replace(NORMAL, clusters=5, slope=0.3),
        replace(NORMAL, clusters=12, lifts=((0.3,),), units=MIDDLE),
        Cell(outcome=yes(0.08), clusters=6, units=LARGE),
        replace(NORMAL, costs=(0.0, 0.25, 0.1), lifts=((0.25,), (0.1,))),
        Cell(outcome=yes(0.05), costs=(0.0, 0.01), lifts=((0.2,),), units=LARGE),
        Cell(outcome=amounts(0.08, 0.8), costs=(0.0, 0.02, 0.0), lifts=((0.5,), (0.0,)),
             units=LARGE),
    ]  # fmt: skip
