"""A campaign as a form: what is typed, the choices that it makes, and what is wrong where."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from seqbatch.campaign.design.choices import ACTIONS, Choices
from seqbatch.campaign.design.drafting import FEATURES, Draft
from seqbatch.campaign.design.proposing import Became
from seqbatch.errors import InvalidArgumentError, InvalidSpecError, SeqbatchError
from seqbatch.service.pages.forms import UNCLEAR, Form, in_percent

#: Rows for actions that are empty, below those that are filled in.
SPARE = 2
#: Columns whose kind can be chosen in the form; further ones become what is proposed.
MOST_COLUMNS = 200
#: What is asked in percent.
SHARES = ("randomised", "floor", "required")
#: What a column without a name is called in a draft; it cannot be chosen.
NAMELESS = "(no name)"
#: The fields of the form, by the settings of a spec that they make.
FIELDS = {
    "name": "name", "unit": "unit", "actions": "actions", "control": "actions", "reward": "reward",
    "metrics": "reward", "grid": "waves", "waves": "waves", "units": "waves", "sizes": "waves",
    "randomised": "randomised", "floor": "floor", "required_outcomes": "required",
    "required": "required",
    "features": "features",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SpecForm:
    """What is typed into the form, as it was typed.

    Parameters
    ----------
    unit
        The columns that tell units apart; () as proposed.
    kinds
        What becomes of columns, those that are not as proposed.
    actions
        Names and costs.
    control
        The place of the control among them.
    kind, low, high
        Of the outcome: "yes" for yes or no, "number"; and its range.
    how
        Where the waves' sizes come from: "equal", "sizes" or "plan".
    """

    name: str = ""
    unit: tuple[str, ...] = ()
    kinds: Mapping[str, Became] = field(default_factory=dict)
    actions: Sequence[tuple[str, str]] = tuple((name, "") for name in ACTIONS)
    control: int = 0
    reward: str = ""
    kind: str = "yes"
    low: str = ""
    high: str = ""
    direction: str = "max"
    how: str = "equal"
    waves: str = "3"
    sizes: str = ""
    units: str = ""
    randomised: str = "10"
    floor: str = "1"
    required: str = "90"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The rows for actions, with some to spare."""
        return [*self.actions, *[("", "")] * SPARE]

    def choices(self) -> Choices:
        """Return what the form says; text that should be a number is refused under its field."""
        named = [(name, cost) for name, cost in self.actions if name]
        control = self.actions[self.control][0] if self.control < len(self.actions) else ""
        if not control:
            raise InvalidArgumentError("control", "one of the actions", "a row without a name")
        return Choices(
            name=self.name,
            actions=[name for name, _ in named],
            control=control,
            costs={
                name: _number(f"actions: the cost of {name!r}", cost)
                for name, cost in named
                if cost
            },
            reward=self.reward,
            range=self._range(),
            direction=self.direction,
            randomised=_number("randomised", self.randomised) / 100,
            floor=_number("floor", self.floor) / 100,
            required_outcomes=_number("required", self.required) / 100,
            waves=_whole("waves", self.waves) if self.how != "sizes" and self.waves else None,
            sizes=_sizes(self.sizes) if self.how == "sizes" else None,
            units_in_all=_whole("units", self.units) if self.units else None,
            plan=self.how == "plan",
            unit=self.unit or None,
            kinds=self.kinds,
        )

    def _range(self) -> tuple[float, float] | None:
        if self.kind == "yes":
            return (0, 1)
        if not self.low and not self.high:
            return None
        low = _number("reward: the least outcome (from)", self.low)
        return low, _number("reward: the largest outcome (to)", self.high)


def typed(form: Form) -> SpecForm:
    """Return what a form holds."""
    every = zip(form.every("action"), form.every("cost"), strict=False)
    kinds = [_pair(text) for text in form.every("kind-of")]
    control = form.text("control", "0")
    return SpecForm(
        name=form.text("name"),
        unit=_names(form.text("unit")),
        kinds={column: kind for column, kind in kinds if kind in get_args(Became)},
        actions=[(name.strip(), cost.strip()) for name, cost in every if (name + cost).strip()],
        control=int(control) if control.isdigit() and len(control) < 4 else 0,
        reward=form.text("reward"),
        kind="number" if form.text("kind") == "number" else "yes",
        low=form.text("low"),
        high=form.text("high"),
        direction="min" if form.text("direction") == "min" else "max",
        how=how if (how := form.text("how")) in ("sizes", "plan") else "equal",
        **{name: form.text(name) for name in _PLAIN},
    )


_PLAIN = ("waves", "sizes", "units", "randomised", "floor", "required")


def planned(form: Form) -> SpecForm:
    """Return the form at first: with the numbers of a plan, where an address brings them."""
    made = SpecForm()
    if sizes := form.text("sizes")[:1_000]:
        made = replace(made, how="sizes", sizes=sizes.replace(",", ", "))
    if share := form.text("randomised")[:20]:
        made = replace(made, randomised=share.removesuffix(".0"))
    if (count := form.text("actions")).isdigit() and 2 <= int(count[:3]) <= 50:
        names = ["nothing", *(f"offer {chr(65 + place % 26)}" for place in range(int(count) - 1))]
        made = replace(made, actions=[(name, "") for name in dict.fromkeys(names)])
    return made


def kinds_of(draft: Draft, form: SpecForm) -> list[dict[str, Any]]:
    """Return what the form shows of each column: what is proposed, and what else may be chosen."""
    shown = []
    for each in draft.columns[:MOST_COLUMNS]:
        if each.became == "unit" or each.column == NAMELESS:
            continue
        usual = "left out" if each.became == "question" else each.became
        options = [
            (json.dumps([each.column, None if kind == usual else kind]), kind)
            for kind in (*FEATURES, "left out")
        ]
        chosen = form.kinds.get(each.column, usual)
        shown.append({"proposal": each, "options": options, "chosen": chosen, "usual": usual})
    return shown


def units_of(draft: Draft, form: SpecForm) -> list[tuple[str, str, bool]]:
    """Return the columns that may tell units apart: a value, words, and whether it is chosen."""
    chosen = form.unit or draft.unit
    named = [each.column for each in draft.columns if each.column != NAMELESS]
    options: list[tuple[str, ...]] = [(name,) for name in named]
    if len(chosen) > 1 or len(draft.unit) > 1:
        options.insert(0, chosen if len(chosen) > 1 else draft.unit)
    return [
        (json.dumps(names), " and ".join(names), tuple(names) == tuple(chosen)) for names in options
    ]


def problems_of(error: SeqbatchError) -> dict[str, str]:
    """Return what is wrong, by the field that it is about; "" where it is about none."""
    if isinstance(error, InvalidArgumentError):
        return {_field(error.name): str(error)}
    if isinstance(error, InvalidSpecError) and error.places:
        return dict(_at_field(place, said) for place, said in error.places)
    lines = str(error).split("\n")
    told = next((line for line in lines if _field(line)), lines[0])
    return {_field(told): "\n".join(lines)}


def _at_field(place: str, said: str) -> tuple[str, str]:
    field, told = _field(place or said), f"{place} {said}".strip()
    return field, in_percent(told) if field in SHARES else told


def _field(text: str) -> str:
    """Return the field that a text begins with; "the unit column" is one, too."""
    words = re.findall(r"[A-Za-z_]+", text.removeprefix("the ").strip())
    return FIELDS.get(words[0], "") if words else ""


def _names(text: str) -> tuple[str, ...]:
    found = _read(text)
    strings = isinstance(found, list) and all(isinstance(name, str) for name in found)
    return tuple(found) if strings else ()


def _pair(text: str) -> tuple[str, Any]:
    found = _read(text)
    good = isinstance(found, list) and len(found) == 2 and isinstance(found[0], str)
    return (found[0], found[1]) if good and isinstance(found[1], str) else ("", None)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgumentError(name, "a plain number such as 0.5", repr(text[:40])) from None


def _whole(name: str, text: str) -> int:
    try:
        return int(text.replace(",", "").replace(" ", "")[:20])
    except ValueError:
        raise InvalidArgumentError(name, "a whole number", repr(text[:40])) from None


def _sizes(text: str) -> list[int]:
    if unclear := UNCLEAR.search(text):
        rule = "numbers such as 1500, without commas in them and with a space between two"
        raise InvalidArgumentError("sizes", rule, repr(unclear[0][:40]))
    parts: Iterable[str] = re.split(r"[;,\s]+", text.strip(" ,;"))
    return [_whole("sizes", part) for part in parts]
