"""Capacities and the budget: how many units may get an action, and what all actions may cost."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from seqbatch.campaign.spec.base import Name, Number, SettingError, SpecPart, Whole
from seqbatch.campaign.spec.input_limits import MOST_UNITS

Count = Annotated[Whole, Field(ge=0, le=MOST_UNITS)]


class Capacity(SpecPart):
    """The most units that may get an action, per wave and in total, and the fewest per wave."""

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
                raise SettingError(
                    f"at_least = {self.at_least:,} is more than {name} = {most:,}", "at_least"
                )
        return self


class Budget(SpecPart):
    """The limit on the sum of the actions' declared costs, per wave and in total.

    `unit` is its currency, if you want to repeat it; costs have the campaign's currency.
    """

    each_wave: Number | None = Field(default=None, ge=0)
    total: Number | None = Field(default=None, ge=0)
    unit: Name | None = None

    @model_validator(mode="after")
    def _meaningful(self) -> "Budget":
        if self.each_wave is None and self.total is None:
            raise ValueError("each_wave or total is needed")
        return self


def _short(value: Any) -> Any:
    return {"each_wave": value} if isinstance(value, int) and not isinstance(value, bool) else value


#: `call = 500` is the short form of `call = {each_wave = 500}`.
AnyCapacity = Annotated[Capacity, BeforeValidator(_short)]
