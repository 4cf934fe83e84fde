"""What there is to say of an estimate: columns that say nothing, models with too little data."""

from typing import Any

from seqbatch.campaign.record.situation import Situation


def notes(now: Situation, state: Any) -> list[str]:
    """Say which columns say nothing, and which models have too little data."""
    numbers = {} if now.learned is None else now.learned.numbers
    said = [
        f"column {name} was constant in the first wave; it has no part in the model"
        for name, number in numbers.items()
        if number.sd == 0
    ]
    determined, encoder = now.made_policy().determined(state), now.encoder()
    if determined is None or (determined == encoder.dim).all():
        return said
    why = "too few outcomes, levels that nobody had, or columns that went together so far"
    if (directions := encoder.directions()) is None:
        why += "; or, which is harmless, an intercept beside all levels of a category"
    most = encoder.dim if directions is None else directions[1]
    names = [now.actions[number].name for number in now.active]
    if now.spec.model == "shared":
        names = ["all actions"]
    for rank in sorted(set(determined.tolist())):
        if rank < most:
            models = [name for name, own in zip(names, determined, strict=True) if own == rank]
            said.append(
                f"the outcomes so far cannot tell all features apart for {', '.join(models)} "
                f"({rank} of {most} directions of the model are determined): what they leave open "
                f"counts as no difference until more outcomes come. The reason: {why}"
            )
    return said


def aliasing(now: Situation) -> list[str]:
    """Say that columns repeat one another by their making, which harms nothing."""
    used, most = now.encoder().directions() or (0, 0)
    if used == most:
        return []
    return [
        f"harmless: the model has {used} columns, and {most} of them would do. Some say the same "
        "as others together, as all levels of a category do beside the intercept. Estimated "
        "outcomes and decisions do not depend on it"
    ]
