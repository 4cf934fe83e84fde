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
}
