"""A wave, and an action in a wave, as status shows them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wave:
    """One wave: its size as planned, its units and outcomes, and whether it is closed.

    `observed` counts the recorded outcomes, and `absent` the units that have none and count as what
    was declared for them.
    """

    wave: int
    size: int | None
    assigned: int
    observed: int
    closed: bool
    absent: int = 0


@dataclass(frozen=True)
class ActionRow:
    """One action in one wave: units, how many of them randomised, outcomes, and two means.

    `outcomes` are those recorded, and `absent` units have none and count as what was declared. The
    means are of both, with what the action costs. `mean` is the plain one. `weighted` is the
    inverse-probability-weighted one, what the outcome would be if all units of the wave got this
    action. It takes outcomes to be missing at random. It is None where no
    outcome was seen, and where `least`, the smallest probability of the action for any unit of the
    wave, is 0: nothing tells what the action would do for a unit that could not get it.
    `difference` is the weighted mean less the control's. No interval is drawn around either: those
    that hold after adaptive waves are in a campaign's findings. `least` is None while a campaign is
    masked.
    """

    wave: int
    action: str
    units: int
    randomised: int
    outcomes: int
    mean: float | None
    weighted: float | None
    least: float | None
    difference: float | None = None
    absent: int = 0
