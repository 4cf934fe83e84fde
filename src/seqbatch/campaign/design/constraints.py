"""How many units may or must get an action, and what all of it may cost."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from seqbatch.campaign.design.limits import MOST_UNITS
from seqbatch.campaign.design.parts import Number, Part, Whole

Count = Annotated[Whole, Field(ge=0, le=MOST_UNITS)]


class Capacity(Part):
    """How often an action may be given: in each wave, in all; and how often it must be in each."""

    each_wave: Count | None = None
    total: Count | None = None
    at_least: Count = 0

    @model_validator(mode="after")
    def _meaningful(self) -> "Capacity":
        if self.each_wave is None and self.total is None and not self.at_least:
            raise ValueError("at least one of each_wave, total and at_least is needed")
        for name in ("each_wave", "total"):
            most = getattr(self, name)
            if most is not None and self.at_least > most:
                raise ValueError(f"at_least = {self.at_least:,} is more than {name} = {most:,}")
        return self


class Budget(Part):
    """What the actions' declared costs may sum to: in each wave, in all."""

    each_wave: Number | None = Field(default=None, ge=0)
    total: Number | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _meaningful(self) -> "Budget":
        if self.each_wave is None and self.total is None:
            raise ValueError("each_wave or total is needed")
        return self


def _short(value: Any) -> Any:
    return {"each_wave": value} if isinstance(value, int) and not isinstance(value, bool) else value


#: `call = 500` is the short form of `call = {each_wave = 500}`.
AnyCapacity = Annotated[Capacity, BeforeValidator(_short)]
