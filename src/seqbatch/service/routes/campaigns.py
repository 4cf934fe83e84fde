"""Routes of campaigns: validate, rehearse, create, list, show, and steps that change one."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from seqbatch.campaign import Campaign, Closed, Erased, Rehearsal, Validated, validate
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.rehearsal_file import RehearsalFile
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.spec.toml import check_spec, parse_spec
from seqbatch.campaign.steps.create import prepare, with_rehearsal
from seqbatch.campaign.steps.earlier import Sources
from seqbatch.campaign.views.status import listed, step_from
from seqbatch.errors import InvalidSpecError
from seqbatch.service.access import Caller, caller, require_sight
from seqbatch.service.api_models import (
    AmendBody,
    Body,
    CampaignAnswer,
    CampaignsAnswer,
    CloseBody,
    CreateBody,
    EraseBody,
    EventAnswer,
    Name,
    ReasonBody,
    RehearseBody,
    RehearsingAnswer,
    ScreenBody,
    SignBody,
    ValidateAnswer,
    ValidateBody,
    reads,
)
from seqbatch.service.bodies import own_folder, read_json, table_of
from seqbatch.service.idempotency import as_json, call_of, changed, sent, stepped
from seqbatch.service.long_calls import Progress, bounded, planned
from seqbatch.service.problems import problem_of, responses
from seqbatch.service.rehearsals import RehearsalQuestion, Rehearsals
from seqbatch.service.routes.units import recorded
from seqbatch.simulation import Progress as Rehearsing
from seqbatch.storage import open_store
from seqbatch.storage.answers import IdempotentCall, StoredAnswer
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.tokens import Token
from seqbatch.storage.transaction import SharedTransaction

router = APIRouter(prefix="/v1/campaigns", tags=["campaigns"], dependencies=[Depends(caller)])


def in_short(now: Situation) -> dict[str, Any]:
    """Return a summary of a campaign."""
    return {
        "name": now.name,
        "condition": now.condition,
        "wave": now.last_opened,
        "sizes": now.sizes,
        "actions": [action.name for action in now.actions],
        "policy": now.policy,
        "units": now.assigned,
        "left": now.left,
        "events": now.sequence,
        "masked": now.masked,
        "withheld": now.withheld,
        "next": step_from(now),
    }


def declared(spec: dict[str, Any] | str) -> Spec:
    """Parse a spec; a text is read as TOML, never as a file name."""
    return parse_spec(spec, name="spec") if isinstance(spec, str) else check_spec(spec)


@router.get(
    "",
    summary="List the campaigns that the token may see.",
    responses={200: {"model": CampaignsAnswer}, **responses()},
)
async def list_campaigns(request: Request, token: Caller) -> Response:
    """The campaigns are listed in the order of their creation; some may be damaged."""
    store: SQLStore = request.app.state.store

    def every() -> list[dict[str, Any]]:
        found = listed(store, [name for name in store.names() if token.sees(name)])
        return [
            {"name": each.name, "condition": "damaged", "detail": each.told(store)}
            if each.now is None
            else in_short(each.now)
            for each in found
        ]

    return sent(as_json({"campaigns": await run_in_threadpool(every)}))


@router.post(
    "/validate",
    summary="Check a spec, units and outcomes; store nothing.",
    openapi_extra=reads(ValidateBody, changes=False),
    responses={200: {"model": ValidateAnswer}, **responses(413, 415, 422, 429)},
)
async def validate_spec(request: Request, token: Caller) -> Response:
    """`problems` lists everything that create, assign and record would refuse."""
    body, _ = await read_json(request, ValidateBody)
    store: SQLStore = request.app.state.store

    def tried() -> dict[str, Any]:
        units = None if body.units is None else table_of(body.units, what="units")
        outcomes = None if body.outcomes is None else table_of(body.outcomes, what="outcomes")
        try:
            spec = declared(body.spec)
        except InvalidSpecError as error:
            return _tried(Validated(problems=(error,)), store.label)
        with own_folder() as folder:
            scratch = open_store(folder / "scratch.db")
            try:
                existing = store if token.sees(spec.name) else None
                found = validate(
                    spec, units, outcomes, scratch=scratch, existing=existing,
                    sources=sources_of(store, token),
                )  # fmt: skip
                return _tried(found, store.label)
            finally:
                scratch.close()

    return sent(as_json(await bounded(request, tried)))


def _tried(found: Validated, label: str) -> dict[str, Any]:
    now = None if found.prepared is None else found.prepared.now
    return {
        "sound": found.sound,
        "name": now and now.name,
        "sizes": now and now.sizes,
        "policy": now and now.policy,
        "exists": bool(found.exists),
        "units": found.units,
        "left_over": found.left_over,
        "warnings": found.warnings,
        "outcomes": None if found.recorded is None else recorded(found.recorded),
        "problems": [problem_of(problem, label).detail for problem in found.problems],
        "unchecked": found.unchecked,
    }


@router.post(
    "/rehearse",
    summary="Rehearse a spec on simulated outcomes; store nothing.",
    openapi_extra=reads(RehearseBody, changes=False),
    responses={
        200: {"model": dict[str, Any]}, 202: {"model": RehearsingAnswer},
        **responses(413, 415, 422, 429),
    },
)  # fmt: skip
async def rehearse_spec(request: Request, token: Caller) -> Response:
    """Answers after a few seconds; while it says how many parts are done, repeat the same call."""
    body, hashed = await read_json(request, RehearseBody)
    rehearsals: Rehearsals = request.app.state.rehearsals

    def run(progress: Progress) -> Rehearsal | Rehearsing:
        units = None
        if body.units is not None:
            units = Source(table_of(body.units, what="units"), name="units"), hashed
        asked = RehearsalQuestion(
            token.name, declared(body.spec), body.truths, body.campaigns, body.seed, units,
            sources_of(request.app.state.store, token),
        )  # fmt: skip
        return rehearsals.go_on(asked, progress)

    made = await planned(request, run)
    if isinstance(made, Rehearsal):
        return sent(as_json(made.plain()))
    return sent(as_json({"done": made.done, "total": made.total}, status=202))


@router.post(
    "",
    status_code=201,
    summary="Create a campaign from its spec.",
    openapi_extra=reads(CreateBody),
    responses={201: {"model": CampaignAnswer}, **responses(404, 409, 413, 415, 422, 429)},
)
async def create(request: Request, token: Caller) -> Response:
    """Create masked campaigns at the command line, which writes the key to a file."""
    body, hashed = await read_json(request, CreateBody)
    store, call = request.app.state.store, call_of(request, token, hashed)

    def made() -> StoredAnswer:
        given = body.rehearsal
        rehearsal = None if given is None else RehearsalFile.of(given, "other values")
        return created(store, token, call, declared(body.spec), rehearsal)

    return sent(await bounded(request, made))


def sources_of(store: SQLStore, token: Token) -> Sources:
    """Return where a caller's spec may take its history from: campaigns that the token may see."""
    return Sources(lambda: store, files=False, sees=token.sees)


def created(
    store: SQLStore,
    token: Token,
    call: IdempotentCall | None,
    spec: Spec,
    rehearsal: RehearsalFile | None = None,
) -> StoredAnswer:
    """Create a campaign, signed by the token; a repeated call gets the same answer."""
    require_sight(token, spec.name)
    if spec.masked or spec.interim == "committee":
        setting = "masked" if spec.masked else "interim"
        what = "a masked campaign" if spec.masked else "a campaign with withheld results"
        raise InvalidSpecError.at(
            (setting,),
            f"{setting}: {what} must be created with `seqbatch campaign create --key "
            "FILE`: that writes its key to a file, so the key never passes through the service.",
        )
    prepared = prepare(spec, defaults=store.defaults, sources=sources_of(store, token))
    if rehearsal is not None:
        prepared = with_rehearsal(prepared, rehearsal)

    def kept(base: SharedTransaction) -> StoredAnswer:
        campaign = Campaign.create(prepared, store=base, who=token.name)
        warnings = [doubt.text() for doubt in prepared.doubts]
        return as_json({**in_short(campaign.situation()), "warnings": warnings}, status=201)

    return changed(store, call, kept)


@router.get(
    "/{name}",
    summary="Show a summary of a campaign, and the next step.",
    responses={200: {"model": CampaignAnswer}, **responses(404)},
)
async def show(request: Request, name: Name) -> Response:
    """The status shows its waves and actions."""
    campaign = Campaign(request.app.state.store, name)
    return sent(as_json(in_short(await run_in_threadpool(campaign.situation))))


@router.post(
    "/{name}/close",
    summary="Close the open wave: check it, update the estimate, open the next wave.",
    openapi_extra=reads(CloseBody),
    responses={200: {"model": Closed}, **responses(404, 409, 413, 415, 422)},
)
async def close(request: Request, name: Name, token: Caller) -> Response:
    """Pass the number of the wave: if it is closed already, you get the same answer again."""
    return await _change(request, name, token, CloseBody, Campaign.close)


@router.post(
    "/{name}/amend",
    summary="Amend a campaign between two waves; units keep their actions.",
    openapi_extra=reads(AmendBody),
    responses={200: {"model": EventAnswer}, **responses(404, 409, 413, 415, 422)},
)
async def amend(request: Request, name: Name, token: Caller) -> Response:
    """You can change sizes, actions, the floor, and how metrics are read."""
    return await _change(request, name, token, AmendBody, Campaign.amend)


@router.post(
    "/{name}/continue",
    summary="Continue a campaign despite its stopping rule.",
    openapi_extra=reads(ReasonBody),
    responses={200: {"model": EventAnswer}, **responses(404, 409, 413, 415, 422)},
)
async def go_on(request: Request, name: Name, token: Caller) -> Response:
    """The reason is recorded."""
    return await _change(request, name, token, ReasonBody, Campaign.go_on)


@router.post(
    "/{name}/screen",
    summary="Record how many units were assessed and excluded before they were assigned.",
    openapi_extra=reads(ScreenBody),
    responses={200: {"model": EventAnswer}, **responses(404, 409, 413, 415, 422)},
)
async def screen(request: Request, name: Name, token: Caller) -> Response:
    """Several screenings add up; the report shows them in the flow of units."""
    return await _change(request, name, token, ScreenBody, Campaign.screen)


@router.post(
    "/{name}/sign",
    summary="Sign everything that is recorded so far, with the name of the token.",
    openapi_extra=reads(SignBody),
    responses={200: {"model": EventAnswer}, **responses(404, 409, 413, 415, 422)},
)
async def sign(request: Request, name: Name, token: Caller) -> Response:
    """The event says that the name is that of a token."""
    return await _change(request, name, token, SignBody, Campaign.sign)


@router.post(
    "/{name}/erase",
    summary="Erase units from every record; decisions about others stay.",
    openapi_extra=reads(EraseBody, changes=False),
    responses={200: {"model": Erased}, **responses(404, 409, 413, 415, 422)},
)
async def erase(request: Request, name: Name, token: Caller) -> Response:
    """A repeated call changes nothing. All answers kept for repeated calls and uploads go, too."""
    body, _ = await read_json(request, EraseBody)
    state = request.app.state

    def erased() -> Erased:
        campaign = Campaign(state.store, name, who=token.name, by_token=True)
        made = campaign.erase(table_of(body.units, what="units"), reason=body.reason)
        state.uploads.clear()
        return made

    return sent(as_json(await run_in_threadpool(erased)))


@router.post(
    "/{name}/stop",
    summary="Confirm that a campaign stops as its rule says; afterwards it cannot continue.",
    openapi_extra=reads(ReasonBody),
    responses={200: {"model": EventAnswer}, **responses(404, 409, 413, 415, 422)},
)
async def stop(request: Request, name: Name, token: Caller) -> Response:
    """The reason is recorded."""
    return await _change(request, name, token, ReasonBody, Campaign.stop)


@router.post(
    "/{name}/abort",
    summary="End a campaign early; you can still record outcomes.",
    openapi_extra=reads(ReasonBody),
    responses={200: {"model": EventAnswer}, **responses(404, 409, 413, 415, 422)},
)
async def abort(request: Request, name: Name, token: Caller) -> Response:
    """The reason is recorded."""
    return await _change(request, name, token, ReasonBody, Campaign.abort)


async def _change(
    request: Request, name: Name, token: Token, model: type[Body], method: Callable[..., Any]
) -> Response:
    """Run a step of a campaign with the fields of the body."""
    body, hashed = await read_json(request, model)
    call, store = call_of(request, token, hashed), request.app.state.store

    def step(campaign: Campaign) -> Any:
        return method(campaign, **body.model_dump())

    return sent(await run_in_threadpool(stepped, store, name, token, call, step))
