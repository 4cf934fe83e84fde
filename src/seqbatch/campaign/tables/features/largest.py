"""How large the numbers of the model can be, by what is declared and frozen of each feature."""

from seqbatch.campaign.design.limits import LARGEST_NUMBER
from seqbatch.campaign.tables.encoder import Encoder
from seqbatch.campaign.tables.features.base import Feature
from seqbatch.campaign.tables.features.date import DateFeature
from seqbatch.campaign.tables.features.numeric import NumericFeature, ScaledNumber

#: The largest number of a column, and whether its numbers are whole.
Size = tuple[float, bool]
INDICATOR: Size = (1.0, True)


def largest(encoder: Encoder) -> list[Size]:
    """Return the largest size of each column of the model, and whether it holds whole numbers."""
    parts = {name: _of(part) for name, part in encoder.parts.items()}
    own = [INDICATOR] if encoder.features.intercept else []
    own += [size for sizes in parts.values() for size in sizes]
    for one, two in encoder.features.interactions:
        own += [(a * b, w and v) for a, w in parts[one] for b, v in parts[two]]
    traits = [
        max(abs(action[name]) for action in encoder.actions)
        for name in (encoder.actions[0] if encoder.actions else ())
    ]
    return own + [(trait * size, False) for trait in traits for size, _ in own]


def _of(part: Feature) -> list[Size]:
    """Return the sizes of the columns that one feature becomes."""
    if isinstance(part, NumericFeature):
        return _scaled(part.number)
    if isinstance(part, DateFeature):
        blocks = [
            _scaled(part.days) if each == "days" else [INDICATOR] * len(part.names_of(each))
            for each in part.rules.parts
        ]
        return [size for block in blocks for size in block]
    return [INDICATOR] * len(part.names)


def _scaled(number: ScaledNumber) -> list[Size]:
    """Return the size of a scaled number, and of the column that says that it is missing."""
    frozen, more = number.frozen, [INDICATOR] * (len(number.names) - 1)
    if frozen is None or frozen.sd <= 0:
        return [(0.0, False), *more]
    low = -LARGEST_NUMBER if frozen.low is None else frozen.low
    high = LARGEST_NUMBER if frozen.high is None else frozen.high
    sizes = [abs((end - frozen.mean) / frozen.sd) for end in (low, high, frozen.fill)]
    return [(max(sizes), False), *more]
