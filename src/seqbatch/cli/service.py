"""The commands of the service: serve, and tokens."""

import os
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from seqbatch.cli.campaign import Where
from seqbatch.cli.console import Json, Visible, dump, kindly, say, show
from seqbatch.cli.messages import STORE, command
from seqbatch.document import Table
from seqbatch.errors import InvalidArgumentError, StoreError

if TYPE_CHECKING:
    from seqbatch.storage.tokens import Token

app = typer.Typer(cls=Visible, help="Manage the tokens of the service.", no_args_is_help=True)

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def serve(
    store: Where = STORE,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=64, help="Number of processes; more than one needs a PostgreSQL store."
        ),
    ] = 1,
    proxy: Annotated[
        list[str] | None,
        typer.Option(help="The address or network of a proxy to trust; repeat for several."),
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option(help="Limit to set, such as rate=50; repeat for several.")
    ] = None,
    log_format: Annotated[str, typer.Option(help="Format of the log: text or json.")] = "text",
    log_level: Annotated[
        str,
        typer.Option(help="What to log: debug, info (every call), warning (failures) or error."),
    ] = "warning",
) -> None:
    """Serve campaigns and plans over HTTP.

    Example: seqbatch serve --store campaigns.db
    """
    with kindly(extra="service"):
        import uvicorn

        from seqbatch.service import Settings
        from seqbatch.service import app as service
        from seqbatch.service.call_log import FORMAT, LEVEL, start_log
        from seqbatch.service.connections import protocol

        settings = Settings().changed(limit or [])
        start_log(kind=log_format, level=log_level)
        proxies = [_address(each) for each in proxy or ()]
        _look(store, workers)
        say(f"Dashboard and API: http://{host}:{port}", to_errors=True)
        with TemporaryDirectory(prefix="seqbatch-") as folder:
            # Workers are separate processes, configured by environment variables.
            os.environ[service.STORE] = store
            os.environ[service.SETTINGS] = settings.as_text()
            os.environ[service.FOLDER] = folder
            os.environ[FORMAT], os.environ[LEVEL] = log_format, log_level
            uvicorn.run(
                "seqbatch.service.app:from_environment",
                factory=True,
                host=host,
                port=port,
                workers=workers,
                http=cast("Any", protocol(settings)),
                # Any other client could send another address than its own.
                proxy_headers=bool(proxies),
                forwarded_allow_ips=proxies,
                server_header=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=60,
                # A worker that is slow on a busy machine must not count as dead. One that dies
                # during a health check is replaced after this many seconds.
                timeout_worker_healthcheck=15,
                log_config=None,
                access_log=False,
            )


def _address(text: str) -> str:
    """Return the address or network of a proxy; refuse anything else."""
    try:
        return str(ip_network(text)) if "/" in text else str(ip_address(text))
    except ValueError:
        raise InvalidArgumentError(
            "proxy", "an IP address or a network, such as 10.0.0.7 or 10.0.0.0/24", repr(text)
        ) from None


def _look(store: str, workers: int) -> None:
    """Refuse a store that cannot be served; explain how to create a token if there is none."""
    from seqbatch.storage import open_store, tokens
    from seqbatch.storage.stores import UNREACHABLE

    base = open_store(store, wait_for_server=True)
    try:
        if workers > 1 and base.files:
            raise InvalidArgumentError(
                "workers", "1 with an SQLite store", workers,
                "An SQLite file allows one change at a time, so more processes would wait for each "
                "other. For several processes, use a PostgreSQL store.",
            )  # fmt: skip
        known = any(t.state(datetime.now(UTC)) == "active" for t in tokens.listed(base))
    except StoreError as error:
        if error.code != UNREACHABLE:
            raise
        say(f"{error} Calls are answered with 503 until then.", to_errors=True)
        return
    finally:
        base.close()
    if not known:
        say("There is no active token yet. To create one:", to_errors=True)
        words = ("create", "YOUR-NAME", "--role", "admin")
        say(f"  {command(*words, store=store, group='token')}", to_errors=True)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the token; it is recorded with each event.")],
    role: Annotated[str, typer.Option(help="Role: viewer, enrol, operator, committee or admin.")],
    campaign: Annotated[
        list[str] | None,
        typer.Option(help="Campaign it gives access to; repeat for several (default: all)."),
    ] = None,
    expires: Annotated[
        str, typer.Option(help="When it expires: 12h, 90d, 8w, a date or never.")
    ] = "90d",
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Create a token; it is shown once, and only its hash is stored.

    Example: seqbatch token create shop --role operator --campaign spring --expires 90d
    """
    with kindly(as_json=as_json, extra="service"):
        from seqbatch.storage import open_store, tokens

        base = open_store(store)
        try:
            until = _until(expires, datetime.now(UTC))
            secret, token = tokens.create(
                base, name, role=role, campaigns=tuple(campaign or ()), expires=until
            )
            unknown = sorted(set(token.campaigns) - set(base.names()))
        finally:
            base.close()
    if as_json:
        dump({"token": secret, **asdict(token)})
        return
    print(secret, flush=True)
    whose = ", ".join(token.campaigns) or "all campaigns"
    expiry = (
        f"expires {token.expires[:16].replace('T', ' ')} UTC" if token.expires else "never expires"
    )
    say(f"Token {token.name}: {token.role} for {whose}; {expiry}.", to_errors=True)
    if unknown:
        say(f"No such campaign yet: {', '.join(unknown)}.", to_errors=True)
    say("It is not shown again: store it where you keep secrets.", to_errors=True)


@app.command("list")
def list_tokens(store: Where = STORE, as_json: Json = False) -> None:
    """List the tokens, without their secrets."""
    with kindly(as_json=as_json, extra="service"):
        from seqbatch.storage import open_store, tokens

        base = open_store(store, create=False)
        found = tokens.listed(base)
        label = base.label
        base.close()
    if as_json:
        dump([asdict(token) for token in found])
        return
    columns = ("name", "begins with", "role", "campaigns", "created", "expires", "state")
    show(Table(f"Tokens of {label}", columns, [_row(token) for token in found], words=columns))


def _row(token: "Token") -> tuple[str, ...]:
    state = token.state(datetime.now(UTC))
    whose = ", ".join(token.campaigns) or "all"
    made, expires = token.created[:10], token.expires[:10] or "never"
    return token.name, token.id, token.role, whose, made, expires, state


@app.command()
def revoke(
    name: Annotated[
        str, typer.Argument(help="Name of the token, or the characters it begins with.")
    ],
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Revoke a token; services stop accepting it within a few seconds.

    Example: seqbatch token revoke shop
    """
    with kindly(as_json=as_json, extra="service"):
        from seqbatch.storage import open_store, tokens

        base = open_store(store, create=False)
        try:
            token = tokens.revoke(base, name)
        finally:
            base.close()
    if as_json:
        dump(asdict(token))
    else:
        say(f"Token {token.name} ({token.id}...) has been revoked since {token.revoked}.")


def _until(text: str, now: datetime) -> datetime | None:
    """Return when a token expires: after a duration, on a date, or never."""
    if text == "never":
        return None
    if text[:-1].isdigit() and text[-1:] in _UNITS and len(text) < 8:
        return now + timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgumentError(
            "expires", "a time such as 12h, 90d, 8w or 2030-01-31, or never", repr(text)
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
