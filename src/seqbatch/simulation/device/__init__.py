"""Simulation on a GPU: units are drawn, assigned and summed there; policies estimate as usual."""

from seqbatch.simulation.device.backend import DEVICES
from seqbatch.simulation.device.trials import simulate_trials

__all__ = ["DEVICES", "simulate_trials"]
