"""Real experiments in waves, as a state machine whose every step is kept and can be replayed."""

from seqbatch.campaign.campaign import Campaign

__all__ = ["Campaign"]
