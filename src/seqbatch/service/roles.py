"""Roles and their permissions, and the permission that each route and page requires."""

from seqbatch.campaign.views.interim import Sight
from seqbatch.service.problems import ProblemError
from seqbatch.storage.tokens import ROLES, Token

_VIEWER = ("view", "plan", "results")
_OPERATOR = (
    *_VIEWER, "operate", "validate", "assign", "record", "close", "export", "seed", "sign",
)  # fmt: skip
#: The permissions of each role. `results` shows results unless a campaign withholds them, `interim`
#: also then; `seed` shows the seed unless a campaign is masked or withholds results, `every seed`
#: also then: with it, actions can be foreseen.
GRANTS: dict[str, tuple[str, ...]] = {
    "viewer": _VIEWER,
    "enrol": ("view", "plan", "operate", "assign"),
    "operator": _OPERATOR,
    "committee": (*_VIEWER, "interim", "operate", "sign"),
    "admin": (*_OPERATOR, "create", "amend", "continue", "abort", "erase", "every seed", "tokens"),
}
#: What each role is for.
ABOUT: dict[str, str] = {
    "viewer": "sees campaigns and results",
    "enrol": "assigns units",
    "operator": "runs waves: assigns, records, closes",
    "committee": "sees results that are withheld",
    "admin": "creates and changes campaigns and tokens",
}

_V1, _PAGE = "/v1/campaigns/{name}", "/campaigns/{name}"
#: The permission that each API route requires; None for open routes.
API: dict[tuple[str, str], str | None] = {
    ("GET", "/health"): None,
    ("GET", "/ready"): None,
    ("GET", "/metrics"): "view",
    ("GET", "/v1/openapi.json"): "view",
    ("POST", "/v1/plan"): "plan",
    ("POST", "/v1/plan/campaign"): "plan",
    ("GET", "/v1/campaigns"): "view",
    ("GET", _V1): "view",
    ("GET", f"{_V1}/status"): "view",
    ("GET", f"{_V1}/findings"): "results",
    ("GET", f"{_V1}/rule"): "results",
    ("GET", f"{_V1}/report"): "results",
    ("GET", f"{_V1}/protocol"): "view",
    ("GET", f"{_V1}/package"): "export",
    ("GET", f"{_V1}/events"): "view",
    ("GET", f"{_V1}/export"): "export",
    ("POST", "/v1/campaigns/validate"): "validate",
    ("POST", "/v1/campaigns/rehearse"): "validate",
    ("POST", f"{_V1}/assignments"): "assign",
    ("POST", f"{_V1}/outcomes"): "record",
    ("POST", f"{_V1}/close"): "close",
    ("POST", "/v1/campaigns"): "create",
    ("POST", f"{_V1}/amend"): "amend",
    ("POST", f"{_V1}/continue"): "continue",
    ("POST", f"{_V1}/screen"): "assign",
    ("POST", f"{_V1}/sign"): "sign",
    ("POST", f"{_V1}/erase"): "erase",
    ("POST", f"{_V1}/stop"): "abort",
    ("POST", f"{_V1}/abort"): "abort",
}
#: The permission that each dashboard page requires.
PAGES: dict[tuple[str, str], str | None] = {
    ("GET", "/static/{file}"): None,
    ("GET", "/sign-in"): None,
    ("POST", "/sign-in"): None,
    ("POST", "/sign-out"): "view",
    ("GET", "/"): "view",
    ("GET", _PAGE): "view",
    ("GET", "/plan"): "plan",
    ("GET", "/plan/research"): "plan",
    ("GET", "/tokens"): "tokens",
    ("POST", "/tokens"): "tokens",
    ("POST", "/tokens/revoke"): "tokens",
    ("GET", "/api"): "view",
    ("GET", "/new"): "create",
    ("POST", "/new"): "create",
    ("GET", "/new/{fingerprint}"): "create",
    ("POST", "/new/{fingerprint}"): "create",
    ("POST", "/new/{fingerprint}/review"): "create",
    ("POST", "/new/{fingerprint}/rehearsal"): "create",
    ("POST", "/new/{fingerprint}/create"): "create",
    ("GET", "/new/{fingerprint}/created/{name}"): "create",
    ("POST", "/uploads/{fingerprint}"): "assign",
    ("GET", f"{_PAGE}/headline"): "results",
    ("GET", f"{_PAGE}/findings"): "results",
    ("GET", f"{_PAGE}/report"): "results",
    ("GET", f"{_PAGE}/protocol"): "view",
    ("GET", f"{_PAGE}/history"): "view",
    ("GET", f"{_PAGE}/document"): "view",
    ("GET", f"{_PAGE}/units"): "assign",
    ("POST", f"{_PAGE}/units"): "assign",
    ("GET", f"{_PAGE}/units/{{fingerprint}}"): "assign",
    ("POST", f"{_PAGE}/units/{{fingerprint}}"): "assign",
    ("GET", f"{_PAGE}/assignments/{{once}}"): "assign",
    ("GET", f"{_PAGE}/outcomes"): "record",
    ("POST", f"{_PAGE}/outcomes"): "record",
    ("GET", f"{_PAGE}/outcomes/{{fingerprint}}"): "record",
    ("POST", f"{_PAGE}/outcomes/{{fingerprint}}"): "record",
    ("GET", f"{_PAGE}/close"): "close",
    ("POST", f"{_PAGE}/close"): "close",
    ("GET", f"{_PAGE}/done/{{once}}"): "operate",
    ("GET", f"{_PAGE}/files"): "export",
    ("GET", f"{_PAGE}/export"): "export",
    ("GET", f"{_PAGE}/change"): "amend",
    ("POST", f"{_PAGE}/amend"): "amend",
    ("POST", f"{_PAGE}/adopt"): "amend",
    ("POST", f"{_PAGE}/continue"): "continue",
    ("POST", f"{_PAGE}/sign"): "sign",
    ("POST", f"{_PAGE}/stop"): "abort",
    ("POST", f"{_PAGE}/abort"): "abort",
}
#: All routes of the service, and the permission that each requires.
ROUTES = API | PAGES


def holders(permission: str | None) -> tuple[str, ...]:
    """Return the roles that have a permission; every role if none is required.

    >>> holders("assign"), holders("interim")
    (('enrol', 'operator', 'admin'), ('committee',))
    """
    return tuple(role for role in ROLES if permission is None or permission in GRANTS[role])


def may(token: Token, permission: str | None) -> bool:
    """Return whether a token's role has a permission."""
    return token.role in holders(permission)


def sight(token: Token) -> Sight:
    """Return what a token's role may see of campaigns."""
    return Sight(
        results=may(token, "results"),
        interim=may(token, "interim"),
        seed=may(token, "seed"),
        every_seed=may(token, "every seed"),
    )


def require(token: Token, method: str, route: str) -> None:
    """Refuse a token whose role lacks the permission that a route requires."""
    permission = ROUTES[method, route]
    if not may(token, permission):
        needed = " or ".join(holders(permission))
        raise ProblemError(
            403,
            "forbidden",
            f"this call needs the role {needed}; the token has the role {token.role}.",
        )
