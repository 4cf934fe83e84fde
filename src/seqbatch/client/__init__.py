"""The Python clients of the HTTP service, synchronous and asynchronous; see docs/service.md."""

from seqbatch.client.async_client import AsyncClient, AsyncRemoteCampaign
from seqbatch.client.calls import AssignedAnswer, NoAnswerError, RecordedAnswer, ServiceError
from seqbatch.client.sync_client import Client, RemoteCampaign

__all__ = [
    "AssignedAnswer", "AsyncClient", "AsyncRemoteCampaign", "Client", "NoAnswerError",
    "RecordedAnswer", "RemoteCampaign", "ServiceError",
]  # fmt: skip
