"""The HTTP service for campaigns and plans, a thin layer over the library."""

from seqbatch.service.app import make_app
from seqbatch.service.call_limits import Settings

__all__ = ["Settings", "make_app"]
