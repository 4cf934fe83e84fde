"""The base of all parts of a spec: numbers, names, waits, and settings that contradict."""

import re
from collections import Counter
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from seqbatch.campaign.spec.input_limits import LARGEST_NUMBER
from seqbatch.errors import Place

#: The maximum length of a name, in characters.
LONGEST_NAME = 200
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
#: A title: line breaks and repeated spaces count as one space.
Title = Annotated[
    str,
    BeforeValidator(lambda v: " ".join(v.split()) if isinstance(v, str) else v),
    Field(min_length=1, max_length=LONGEST_NAME),
]


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


#: Python treats True as a number, but in place of a number it is a mistake.
Whole = Annotated[int, BeforeValidator(_no_boolean)]
Number = Annotated[
    float, BeforeValidator(_no_boolean), Field(gt=-LARGEST_NUMBER, lt=LARGEST_NUMBER)
]
Share = Annotated[Number, Field(ge=0, le=1)]


class SpecPart(BaseModel):
    """The base of all parts of a spec: unknown keys are refused, and values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SettingError(ValueError):
    """Settings of a spec that break a rule only in combination.

    Parameters
    ----------
    said
        The rule, and how it is broken.
    settings
        The settings within the checked part, most relevant first; those of another table by
        their full path.
    """

    def __init__(self, said: str, *settings: str | Place) -> None:
        super().__init__(said)
        self.places: tuple[Place, ...] = tuple(
            (each,) if isinstance(each, str) else each for each in settings
        )


def distinct(values: tuple[str, ...], what: str, *settings: str | Place) -> tuple[str, ...]:
    """Return values that must be distinct; refuse duplicates.

    Parameters
    ----------
    values, what
        The values, and their name in messages.
    settings
        The settings that hold them, if the checked part has several.
    """
    repeated = sorted(value for value, count in Counter(values).items() if count > 1)
    if repeated:
        said = f"{what} must all be different; repeated: {', '.join(repeated[:20])}"
        raise SettingError(said, *settings)
    return values


#: Units of time for a wait, in seconds.
SPANS = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
#: Longer waits are mistakes, and adding them to a time could overflow.
LONGEST_WAIT = timedelta(days=3_650)


def waiting(text: str, setting: str = "after") -> timedelta:
    """Parse a wait; `setting` is its name in messages.

    >>> waiting("14 days")
    datetime.timedelta(days=14)
    """
    found = re.fullmatch(r"(\d{1,6}) (minute|hour|day|week)s?", text.strip())
    wait = timedelta(seconds=int(found[1]) * SPANS[found[2]]) if found else LONGEST_WAIT * 2
    if wait > LONGEST_WAIT:
        raise SettingError(
            f'{setting} must be a time such as "36 hours", "14 days" or "2 weeks", at most '
            f"{LONGEST_WAIT.days:,} days; received {text!r}",
            setting,
        )
    return wait
