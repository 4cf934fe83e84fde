"""What all parts of a spec are made of."""

from collections import Counter
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from seqbatch.campaign.design.limits import LARGEST_NUMBER

Name = Annotated[str, Field(min_length=1, max_length=200)]


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is meant here; true and false are none")
    return value


#: True is a number to Python, but where a number is meant it is a mistake.
Whole = Annotated[int, BeforeValidator(_no_boolean)]
Number = Annotated[
    float, BeforeValidator(_no_boolean), Field(gt=-LARGEST_NUMBER, lt=LARGEST_NUMBER)
]
Share = Annotated[Number, Field(ge=0, le=1)]


class Part(BaseModel):
    """What all parts of a spec share: unknown keys are refused, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def distinct(values: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Return values that must be told apart, refusing those that stand there twice."""
    repeated = sorted(value for value, count in Counter(values).items() if count > 1)
    if repeated:
        raise ValueError(f"{what} must be told apart; repeated: {', '.join(repeated[:20])}")
    return values
