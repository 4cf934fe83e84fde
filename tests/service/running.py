"""A service on loopback in a thread of this process, and tokens of every role."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn

from seqbatch.campaign import Campaign
from seqbatch.service import Settings, make_app
from seqbatch.service.connections import protocol
from seqbatch.storage import open_store, tokens
from tests.campaign.specs import about

SPEC = {
    "name": "spring",
    "seed": 7,
    "actions": ["none", "mail"],
    "grid": {"sizes": [4, 4]},
    **about("visit", range=[0, 1]),
    "features": {"numeric": {"age": "raw"}},
}
UNITS = [{"unit": name, "age": age} for name, age in zip("abcd", (31, 45, 28, 60), strict=True)]
OUTCOMES = [{"unit": name, "visit": place % 2} for place, name in enumerate("abcd")]


@dataclass
class Running:
    """A service, its store, and how to call it as somebody."""

    client: httpx.Client
    url: str
    store: Any
    secrets: dict[str, str] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def token(self, name: str, *, role: str | None = None, **options: Any) -> str:
        with self.lock:
            if name not in self.secrets:
                made, _ = tokens.create(self.store, name, role=role or name, **options)
                self.secrets[name] = made
            return self.secrets[name]

    def call(self, method: str, path: str, *, role: str = "admin", key: str = "", **options: Any):
        headers = {"authorization": f"Bearer {self.token(role)}", **options.pop("headers", {})}
        if key:
            headers["idempotency-key"] = key
        return self.client.request(method, path, headers=headers, **options)

    def get(self, path: str, **options: Any):
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any):
        return self.call("POST", path, json=body, **options)

    def campaign(self, **changes: Any) -> Campaign:
        return Campaign.create({**SPEC, **changes}, store=self.store, who="ann")


@contextmanager
def serving(app, **options):
    """Serve an application at a free port; yield its address."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="error", lifespan="on", server_header=False,
        http=protocol(app.state.settings), **{"proxy_headers": False, **options},
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)


@contextmanager
def running(url, *, folder=None, server=None, **limits):
    store = open_store(url)
    with (
        serving(make_app(store, Settings(**limits), folder=folder), **server or {}) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield Running(client, address, store)
    store.close()
