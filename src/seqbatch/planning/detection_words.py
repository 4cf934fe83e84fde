"""What a plan will detect, in plain words."""

from seqbatch.display import Table, counted, number
from seqbatch.planning.assumed import percent
from seqbatch.planning.detection import Detection


def describe_detection(found: Detection, *, asked: float | None, power: float) -> str:
    """Return what will be detected, for a person.

    Parameters
    ----------
    found
        What it is.
    asked, power
        The lift that was to be detected, if any, and with which power.
    """
    text = (
        f"What will be detected: every lift over control has the standard error "
        f"{number(found.error, 3)}, so that a lift of {number(found.lift_80, 3)} is found with 80% "
        f"power and one of {number(found.lift_90, 3)} with 90% (two-sided at 5%, each lift by "
        "itself, one look at the end)."
    )
    if asked is not None:
        text += (
            f" The randomised share is the least that finds {number(asked, 3)} with "
            f"{percent(power)} power."
        )
    what = ", as large as the effect assumed below" if asked is None else ""
    return text + _counting(found) + _stopping(found, what)


def _counting(found: Detection) -> str:
    """Say which batches tell nothing, and why."""
    if found.counting == found.batches:
        return ""
    which = "batch alone counts" if found.counting == 1 else "batches alone count"
    first = "first" if found.counting == 1 else f"first {found.counting}"
    return (
        f" The {first} {which}: later ones leave nothing to chance, and show no lift without "
        "randomised units or a floor."
    )


def _stopping(found: Detection, what: str) -> str:
    """Say how likely it is to stop early, where there is a look before the last.

    `what` says where the lift that is looked for comes from.
    """
    if len(found.looks) < 2:
        return ""
    chances = " or ".join(
        f"{chance:.0%} ({name})"
        for chance, name in zip(found.early, ("O'Brien-Fleming", "Pocock"), strict=True)
    )
    looks = counted(len(found.looks) - 1, "look")
    return (
        f" Where an action's lift is {number(found.effect, 3)}{what}, {looks} before the last "
        f"batch would find it with probability {chances}."
    )


def detection_table(found: Detection) -> Table:
    """Return the looks as people see them."""
    return Table(
        "A lift over control, batch by batch: its standard error, and the chance that a look has "
        f"found a lift of {number(found.effect, 3)} by then",
        ("batch", "units", "information", "error", "O'Brien-Fleming", "Pocock"),
        [
            (
                one.batch,
                one.units,
                f"{one.information:.1%}",
                number(one.error, 3),
                f"{one.obrien_fleming:.1%}",
                f"{one.pocock:.1%}",
            )
            for one in found.looks
        ],
    )
