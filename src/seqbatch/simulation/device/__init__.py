"""Trials on a GPU: drawn, assigned and summed up there, estimated by the policies' own code."""

from seqbatch.simulation.device.backend import DEVICES
from seqbatch.simulation.device.trials import simulate_trials

__all__ = ["DEVICES", "simulate_trials"]
