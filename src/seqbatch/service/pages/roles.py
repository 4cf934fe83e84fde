"""Who may open which page and press which button: one table of all of them."""

_CAMPAIGN = "/campaigns/{name}"
#: The least role that a page asks for; those that are open ask for none.
NEEDED: dict[tuple[str, str], str | None] = {
    ("GET", "/static/{file}"): None,
    ("GET", "/sign-in"): None,
    ("POST", "/sign-in"): None,
    ("POST", "/sign-out"): "viewer",
    ("GET", "/"): "viewer",
    ("GET", _CAMPAIGN): "viewer",
    ("GET", "/plan"): "viewer",
    ("GET", "/plan/answer"): "viewer",
    ("GET", "/new"): "admin",
    ("POST", "/new"): "admin",
    ("GET", "/new/{fingerprint}"): "admin",
    ("POST", "/new/{fingerprint}"): "admin",
    ("POST", "/new/{fingerprint}/review"): "admin",
    ("POST", "/new/{fingerprint}/create"): "admin",
    ("GET", "/new/{fingerprint}/created/{name}"): "admin",
}
