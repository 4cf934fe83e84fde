"""Models of request bodies and answers, and their OpenAPI schema."""

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from seqbatch.service.bodies import FILES, JSON, needs_body
from seqbatch.service.idempotency import KEY, LONGEST_KEY

# ----------------------------------------------------------------------
# Models of request bodies and answers


Reason = Annotated[str, Field(max_length=2_000, examples=["the offer is too dear"])]
Row = dict[str, Any]
#: A campaign's name in a URL, with the same rules as in a spec.
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", examples=["spring"])]

_SPEC = {
    "name": "spring",
    "seed": 7,
    "actions": ["none", "mail"],
    "grid": {"sizes": [4, 4]},
    "reward": {"column": "visit", "range": [0, 1]},
    "features": {"numeric": {"age": "raw"}},
}


class Body(BaseModel):
    """A body of JSON: nothing besides what is named, and nothing taken for something else."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class PlanBody(Body):
    """What an experiment is to be like; see the planner's documentation for each number."""

    units: int = Field(ge=1, le=100_000_000, examples=[20_000])
    actions: int = Field(ge=2, le=50, examples=[3])
    features: int | None = Field(default=None, ge=0, le=100, examples=[4])
    dim: int | None = Field(default=None, ge=1, le=100)
    batches: int | None = Field(default=None, ge=1, le=20, examples=[3])
    contexts: Literal["stochastic", "adversarial"] = "stochastic"
    effect: list[float] | None = Field(default=None, min_length=1, max_length=5)
    effect_spread: float | None = Field(default=None, ge=1)
    noise: list[float] = Field(default=[1.0], min_length=1, max_length=5)
    kappa: float | None = None
    grid: Literal["tuned", "paper"] = "tuned"
    max_batches: int | None = Field(default=None, ge=1, le=20, examples=[3])
    min_batch: int = Field(default=1, ge=1)
    max_batch: int | None = Field(default=None, ge=1)
    first_batch: int | None = Field(default=None, ge=1)
    waves: list[int] | None = Field(default=None, min_length=1, max_length=30)
    randomised: float = Field(default=0.0, ge=0, le=1)
    floor: float = Field(default=0.0, ge=0, le=1)
    missing: float = Field(default=0.0, ge=0, lt=1)
    delay: int = Field(default=0, ge=0, le=30)
    eligible: list[float] | None = Field(default=None, min_length=2, max_length=50)
    capacity: list[float | None] | None = Field(default=None, min_length=2, max_length=50)
    batch_cost: float | None = None
    within: float = Field(default=0.05, ge=0, le=1)
    detect: float | None = Field(default=None, gt=0)
    power: float = Field(default=0.8, gt=0, lt=1)
    quick: bool = False
    compare: bool = True
    seed: int = Field(default=0, ge=0, lt=2**32)


class SpecBody(Body):
    """A campaign's spec: the text of a TOML file, or the same as plain values."""

    spec: dict[str, Any] | Annotated[str, Field(max_length=100_000)] = Field(examples=[_SPEC])


class ValidateBody(SpecBody):
    """A spec, and units and outcomes to try it with."""

    units: list[Row] | None = Field(default=None, min_length=1, max_length=10_000)
    outcomes: list[Row] | None = Field(default=None, min_length=1, max_length=10_000)


class AssignmentsBody(Body):
    """Units with their features: one, or many at once."""

    units: list[Row] = Field(min_length=1, max_length=10_000, examples=[[{"unit": "a", "age": 31}]])
    partial: bool = False
    draw: bool = False


class OutcomesBody(Body):
    """Outcomes of units: one, or many at once."""

    outcomes: list[Row] = Field(
        min_length=1, max_length=10_000, examples=[[{"unit": "a", "visit": 1}]]
    )
    correct: bool = False
    reason: Reason = ""
    dry_run: bool = False


class CloseBody(Body):
    """Which wave to close, and how."""

    wave: int | None = Field(default=None, ge=1, lt=2**31, examples=[1])
    force: bool = False
    skip: bool = False
    reason: Reason = ""


class AmendBody(Body):
    """What is to change between two waves, and why."""

    reason: Reason
    sizes: list[int] | None = Field(default=None, max_length=10_000)
    units: int | None = None
    add: list[str | dict[str, Any]] | None = Field(default=None, max_length=1_000)
    retire: list[str] | None = Field(default=None, max_length=1_000, examples=[["mail"]])
    floor: float | None = None
    absent: float | None = None
    after: str | None = Field(default=None, max_length=100)
    reward_format: str | None = Field(default=None, max_length=100)
    metric_formats: dict[str, str] | None = None
    force: bool = False


class ReasonBody(Body):
    """Why."""

    reason: Reason


class CampaignAnswer(BaseModel):
    """A campaign in short."""

    name: str = Field(examples=["spring"])
    condition: str = Field(examples=["open"])
    wave: int = Field(examples=[1])
    sizes: list[int] = Field(examples=[[4, 4]])
    actions: list[str] = Field(examples=[["none", "mail"]])
    policy: dict[str, Any]
    units: int = Field(examples=[0])
    left: int | None = Field(examples=[4])
    events: int = Field(examples=[1])
    masked: bool
    next: str = Field(examples=["assign"])


class DamagedCampaign(BaseModel):
    """A campaign in the list whose records cannot be read."""

    name: str = Field(examples=["spring"])
    condition: Literal["damaged"]
    detail: str = Field(examples=["event 3 is damaged and cannot be read."])


class CampaignsAnswer(BaseModel):
    """The campaigns that a token is for."""

    campaigns: list[CampaignAnswer | DamagedCampaign]


class AssignmentsAnswer(BaseModel):
    """The actions of units.

    `event` is the event that the new ones among them were assigned in; null where none was new.
    """

    wave: int = Field(examples=[1])
    left: int | None = Field(examples=[3])
    event: int | None = Field(examples=[2])
    warnings: list[str] = []
    assignments: list[Row] = Field(
        examples=[[{"unit": "a", "action": "mail", "wave": 1, "probability": 0.5}]]
    )


class Held(BaseModel):
    """A row of outcomes that was held; `unit` is the id, whatever the spec calls its column."""

    line: int
    unit: str
    verdict: str
    reason: str


class HeldReason(BaseModel):
    """Why rows were held, and how many."""

    verdict: str
    reason: str
    rows: int


class OutcomesAnswer(BaseModel):
    """What became of the rows: accepted, duplicate, conflict and quarantined sum to them."""

    rows: int = Field(examples=[1])
    accepted: int = Field(examples=[1])
    duplicate: int = Field(examples=[0])
    conflict: int = Field(examples=[0])
    quarantined: int = Field(examples=[0])
    late: int
    corrected: int
    repeats: int
    held: list[Held]
    reasons: list[HeldReason]
    event: int | None = Field(examples=[3])
    read_as: str
    advice: list[str]
    formats: dict[str, list[str]] = Field(examples=[{}])


class ValidateAnswer(BaseModel):
    """What create, assign and record would say."""

    sound: bool
    name: str | None = None
    sizes: list[int] | None = None
    policy: dict[str, Any] | None = None
    exists: bool
    units: int | None = None
    left_over: int
    warnings: list[str]
    outcomes: OutcomesAnswer | None = None
    problems: list[str]
    unchecked: list[str]


class EventAnswer(BaseModel):
    """Something that was done to a campaign."""

    sequence: int
    kind: str
    at: str
    who: str
    why: str
    counts: dict[str, Any]
    payload: dict[str, Any]
    rows_hash: str
    previous: str
    hash: str


class EventsAnswer(BaseModel):
    """Everything that was done, in order, in pages."""

    events: list[EventAnswer]
    total: int


# ----------------------------------------------------------------------
# OpenAPI schema of bodies that routes read themselves


_FILE = {"schema": {"type": "string", "format": "binary"}}


def reads(model: type[BaseModel], *, files: bool = False, changes: bool = True) -> dict[str, Any]:
    """Return the OpenAPI schema of a route's body and of its idempotency key.

    Parameters
    ----------
    model
        The model of a JSON body.
    files
        Whether the body may also be a file.
    changes
        Whether the call makes changes, and therefore may carry an idempotency key.
    """
    schema = model.model_json_schema()
    content: dict[str, Any] = {JSON: {"schema": schema}}
    example = {
        name: part["examples"][0]
        for name, part in schema["properties"].items()
        if "examples" in part and name in schema.get("required", [])
    }
    if example:
        content[JSON]["example"] = example
    if files:
        content |= dict.fromkeys(FILES, _FILE)
    body = {"required": needs_body(model), "content": content}
    described: dict[str, Any] = {"requestBody": body}
    if changes:
        described["parameters"] = [
            {
                "name": KEY,
                "in": "header",
                "required": False,
                "description": "Names the call: the same call under the same key is made once, and "
                "gets the same answer again for seven days.",
                "schema": {
                    "type": "string", "minLength": 1, "maxLength": LONGEST_KEY,
                    "pattern": "^[!-~]+$",
                },
            }
        ]  # fmt: skip
    return described


def sends(*media_types: str) -> dict[str, Any]:
    """Return the OpenAPI schema of an answer that is a file."""
    content = {
        kind: {"schema": {"type": "object"}} if kind == JSON else _FILE for kind in media_types
    }
    return {"description": "The file.", "content": content}
