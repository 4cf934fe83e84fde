"""Campaigns and plans over HTTP: it holds no logic of its own, and calls what the library has."""

from seqbatch.service.app import make_app
from seqbatch.service.call_limits import Settings

__all__ = ["Settings", "make_app"]
