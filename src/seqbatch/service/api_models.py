"""Models of request bodies and answers, and their OpenAPI schema."""

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from seqbatch.campaign.decide.repeated_rows import EqualRows
from seqbatch.service.bodies import FILES, JSON, needs_body
from seqbatch.service.idempotency import KEY, LONGEST_KEY

# ----------------------------------------------------------------------
# Models of request bodies and answers


Reason = Annotated[str, Field(max_length=2_000, examples=["the offer is too expensive"])]
Row = dict[str, Any]
DedupeRule = Annotated[
    str | None,
    Field(
        max_length=300, examples=["last"],
        description="Which row of a repeated unit counts: first, last, or newest-by and a column.",
    ),
]  # fmt: skip
#: A campaign's name in a URL, with the same rules as in a spec.
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", examples=["spring"])]

_SPEC = {
    "name": "spring",
    "seed": 7,
    "actions": ["none", "mail"],
    "grid": {"sizes": [4, 4]},
    "metrics": {"visit": {"kind": "yes/no"}},
    "objective": {"maximise": "visit"},
    "features": {"numeric": {"age": "raw"}},
}


class Body(BaseModel):
    """A JSON body. Unknown fields are refused, and values are not converted to other types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class PlanBody(Body):
    """The experiment to plan; the planner's documentation describes each field."""

    units: int = Field(ge=1, le=100_000_000, examples=[20_000])
    actions: int = Field(ge=2, le=50, examples=[3])
    features: int | None = Field(default=None, ge=0, le=100, examples=[4])
    dim: int | None = Field(default=None, ge=1, le=100)
    batches: int | None = Field(default=None, ge=1, le=20, examples=[3])
    contexts: Literal["stochastic", "adversarial"] = "stochastic"
    effect: list[float] | None = Field(default=None, min_length=1, max_length=5)
    effect_spread: float | None = Field(default=None, ge=1)
    noise: list[float] | None = Field(default=None, min_length=1, max_length=5)
    base_rate: float | Annotated[str, Field(max_length=20)] | None = Field(
        default=None, examples=["4%"]
    )
    kappa: float | None = None
    grid: Literal["tuned", "paper"] = "tuned"
    max_batches: int | None = Field(default=None, ge=1, le=20, examples=[3])
    min_batch: int | None = Field(default=None, ge=1)
    max_batch: int | None = Field(default=None, ge=1)
    first_batch: int | None = Field(default=None, ge=1)
    waves: list[int] | None = Field(default=None, min_length=1, max_length=30)
    randomised: float = Field(default=0.0, ge=0, le=1)
    floor: float = Field(default=0.0, ge=0, le=1)
    missing: float = Field(default=0.0, ge=0, lt=1)
    delay: int = Field(default=0, ge=0, le=30)
    after: int = Field(default=0, ge=0, le=1_000_000_000)
    purpose: Literal["earn", "choose"] = "earn"
    eligible: list[float] | None = Field(default=None, min_length=2, max_length=50)
    capacity: list[float | None] | None = Field(default=None, min_length=2, max_length=50)
    batch_cost: float | None = None
    within: float = Field(default=0.05, ge=0, le=1)
    detect: float | None = Field(default=None, gt=0)
    power: float = Field(default=0.8, gt=0, lt=1)
    quick: bool = False
    compare: bool = True
    seed: int = Field(default=0, ge=0, lt=2**32)


Told = float | Annotated[str, Field(max_length=30)] | None
Words = Annotated[str, Field(max_length=100)]


class CampaignPlanBody(Body):
    """The campaign to plan in customers, percent and money; see the planner's documentation."""

    customers: int = Field(ge=1, le=100_000_000, examples=[50_000])
    actions: (
        Annotated[int, Field(ge=2, le=50)]
        | Annotated[list[Words], Field(min_length=2, max_length=50)]
        | None
    ) = Field(default=None, examples=[3])
    base_rate: Told = Field(default=None, examples=["4%"])
    smallest_lift: Told = Field(default=None, examples=["0.5pp"])
    value: Told = Field(default=None, examples=["12EUR"])
    costs: dict[Words, Told] | Told = Field(default=None, examples=[{"mail": 0.01}])
    mean: Told = None
    spread: Told = None
    zeros: Told = None
    history: list[float] | None = Field(default=None, min_length=2, max_length=100_000)
    waves: (
        Annotated[int, Field(ge=1, le=20)]
        | Annotated[list[int], Field(min_length=1, max_length=20)]
        | None
    ) = Field(default=None, examples=[3])
    randomised: float = Field(default=0.1, ge=0, le=1)
    power: Told = Field(default=None, examples=["80%"])
    missing: float = Field(default=0.0, ge=0, lt=1)
    delay: int = Field(default=0, ge=0, le=19)
    after: int = Field(default=0, ge=0, le=10**9)
    purpose: Literal["earn", "choose"] = "earn"
    seed: int = Field(default=0, ge=0, lt=2**32)


class SpecBody(Body):
    """A campaign's spec: the text of a TOML file, or the same content as an object."""

    spec: dict[str, Any] | Annotated[str, Field(max_length=100_000)] = Field(examples=[_SPEC])


class CreateBody(SpecBody):
    """A spec, with the JSON of its rehearsal, whose hash the first event keeps."""

    rehearsal: dict[str, Any] | None = None


class ValidateBody(SpecBody):
    """A spec, with units and outcomes to check against it."""

    units: list[Row] | None = Field(default=None, min_length=1, max_length=10_000)
    outcomes: list[Row] | None = Field(default=None, min_length=1, max_length=10_000)


class RehearseBody(SpecBody):
    """A spec to rehearse, with units to draw from and what may be true."""

    units: list[Row] | None = Field(default=None, min_length=1, max_length=10_000)
    truths: list[dict[str, Any]] = Field(
        default=[], max_length=10, examples=[[{"none": 0.04, "mail": 0.05}]]
    )
    campaigns: int = Field(default=1_000, ge=1, le=10_000)
    seed: int = Field(default=0, ge=0, lt=2**53)


class AssignmentsBody(Body):
    """Units with their features, one or many."""

    units: list[Row] = Field(min_length=1, max_length=10_000, examples=[[{"unit": "a", "age": 31}]])
    partial: bool = False
    draw: bool = False
    dedupe: DedupeRule = None


class OutcomesBody(Body):
    """Outcomes of units, one or many."""

    outcomes: list[Row] = Field(
        min_length=1, max_length=10_000, examples=[[{"unit": "a", "visit": 1}]]
    )
    correct: bool = False
    reason: Reason = ""
    equal_rows: EqualRows | None = Field(
        default=None, description="What equal rows without an id mean; null refuses them."
    )
    match_ids: bool = Field(
        default=False, description="Match ids that lost zeros or gained spaces to their units."
    )
    dry_run: bool = False
    dedupe: DedupeRule = None


class CloseBody(Body):
    """The wave to close, and how to close it."""

    wave: int | None = Field(default=None, ge=1, lt=2**31, examples=[1])
    force: bool = False
    skip: bool = False
    reason: Reason = ""


class AmendBody(Body):
    """What to change between two waves, and why."""

    reason: Reason
    sizes: list[int] | None = Field(default=None, max_length=10_000)
    units: int | None = None
    add: list[str | dict[str, Any]] | None = Field(default=None, max_length=1_000)
    retire: list[str] | None = Field(default=None, max_length=1_000, examples=[["mail"]])
    floor: float | None = None
    metrics: dict[str, dict[str, Any]] | None = Field(
        default=None, max_length=1_000, examples=[{"revenue": {"format": "1.234,56"}}]
    )
    force: bool = False


class ReasonBody(Body):
    """The reason for a change."""

    reason: Reason


class ScreenBody(Body):
    """How many units were assessed, and excluded by which rule, before they were assigned."""

    assessed: int = Field(ge=1, examples=[120])
    excluded: dict[str, int] = Field(default={}, examples=[{"younger than 18": 12}])
    reason: Reason = ""


class EraseBody(Body):
    """The ids of units to erase, one or many."""

    units: list[Row] = Field(min_length=1, max_length=10_000, examples=[[{"unit": "a"}]])
    reason: Reason = Field(examples=["request 12"])


class SignBody(Body):
    """What a signature means; its name is that of the token."""

    meaning: str = Field(max_length=500, examples=["approved by the statistician"])
    reason: Reason = ""


class RehearsingAnswer(BaseModel):
    """How many parts of a rehearsal are done; the same call goes on."""

    done: int
    total: int


class CampaignAnswer(BaseModel):
    """A summary of a campaign."""

    name: str = Field(examples=["spring"])
    condition: str = Field(
        examples=["open"], description="open, finished, stopped (by its rule) or aborted."
    )
    wave: int = Field(examples=[1])
    sizes: list[int] = Field(examples=[[4, 4]])
    actions: list[str] = Field(examples=[["none", "mail"]])
    policy: dict[str, Any]
    units: int = Field(examples=[0])
    left: int | None = Field(examples=[4])
    events: int = Field(examples=[1])
    masked: bool
    withheld: bool = Field(description="Whether only the committee may see results so far.")
    warnings: list[str] = Field(
        default=[], description="What may go wrong with its policy; only when it is created."
    )
    next: str = Field(examples=["assign"])


class DamagedCampaign(BaseModel):
    """A campaign in the list whose records cannot be read."""

    name: str = Field(examples=["spring"])
    condition: Literal["damaged"]
    detail: str = Field(examples=["event 3 is damaged and cannot be read."])


class CampaignsAnswer(BaseModel):
    """The campaigns that a token may see."""

    campaigns: list[CampaignAnswer | DamagedCampaign]


class AssignmentsAnswer(BaseModel):
    """The actions of units.

    `event` is the event that assigned the new units; null if no unit was new. `repeated` says for
    each unit whether it had its action before this call.
    """

    wave: int = Field(examples=[1])
    left: int | None = Field(examples=[3])
    event: int | None = Field(examples=[2])
    warnings: list[str] = []
    assignments: list[Row] = Field(
        examples=[
            [{"unit": "a", "action": "mail", "wave": 1, "probability": 0.5, "repeated": False}]
        ]
    )


class Held(BaseModel):
    """A held row of outcomes; `unit` is the id, whatever the spec calls its column."""

    line: int
    unit: str
    verdict: str
    reason: str


class HeldReason(BaseModel):
    """A reason why rows were held, and how many."""

    verdict: str
    reason: str
    rows: int


class OutcomesAnswer(BaseModel):
    """What happened to the rows: the counts from accepted to outside add up to `rows`."""

    rows: int = Field(examples=[1])
    accepted: int = Field(examples=[1])
    duplicate: int = Field(examples=[0])
    conflict: int = Field(examples=[0])
    quarantined: int = Field(examples=[0])
    outside: int = Field(examples=[0])
    windows: dict[str, tuple[int, int]] = Field(examples=[{}])
    unknown: int
    matched: int
    units: int = Field(examples=[1])
    late: int
    corrected: int
    repeats: int
    repeated: int
    erased: int
    metrics: list[str] = Field(examples=[["visit"]])
    held: list[Held]
    reasons: list[HeldReason]
    event: int | None = Field(examples=[3])
    remarks: list[str]
    read_as: str
    advice: list[str]
    formats: dict[str, list[str]] = Field(examples=[{}])


class ValidateAnswer(BaseModel):
    """What create, assign and record would answer."""

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


class IntervalAnswer(BaseModel):
    """An estimate with its interval; numbers are null if there are none, and `note` says why."""

    about: str
    estimate: float | None
    error: float | None
    df: float | None
    level: float
    low: float | None
    high: float | None
    statistic: float | None
    valid: bool
    note: str
    few: dict[str, Any] | None


class ActionAnswer(BaseModel):
    """An action's mean, or its lift over the control."""

    model_config = ConfigDict(extra="allow")

    action: str
    interval: IntervalAnswer


class GuardedAnswer(BaseModel):
    """The verdict of a guardrail under one action; `adjusted_p` is Holm's over all of them."""

    action: str
    code: Literal["kept", "broken", "not-clear", "too-few-events"]
    interval: IntervalAnswer
    adjusted_p: float


class GuardrailVerdicts(BaseModel):
    """A guardrail's bound, on the mean or on the lift over the control, and its verdicts."""

    bound: float
    side: Literal["at most", "at least"]
    relative: bool
    actions: list[GuardedAnswer]


class MetricFinding(BaseModel):
    """A metric: its mean under each action, its lifts over the control, and its guardrail."""

    model_config = ConfigDict(extra="allow")

    name: str
    kind: Literal["yes/no", "count", "amount"]
    unit: str | None
    recorded: int
    absent: int
    absent_value: float | None
    means: list[ActionAnswer]
    lifts: list[ActionAnswer]
    guardrail: GuardrailVerdicts | None


class DecisionAnswer(BaseModel):
    """One recommendation: its code, its words, what it is worth, and what it rests on."""

    model_config = ConfigDict(extra="allow")

    code: str
    action: str | None
    title: str
    about: str
    lead: str
    worth: list[str]
    further: int | None
    answers: list[dict[str, str]]
    facts: list[dict[str, str]]


class FindingsAnswer(BaseModel):
    """What was learned; further fields have the run's value, segments, drift and data quality."""

    model_config = ConfigDict(extra="allow")

    decision: DecisionAnswer
    recommendation: dict[str, Any] | None
    means: list[ActionAnswer]
    lifts: list[ActionAnswer]
    metrics: list[MetricFinding]


class EventAnswer(BaseModel):
    """An event of a campaign."""

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
    """A page of events, in order."""

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
                "description": "Identifies the call. For seven days, a repeated call with the same "
                "key gets the first answer again and changes nothing.",
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
