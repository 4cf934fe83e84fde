"""How many batches, how large, at what cost: the first question of every experiment."""

from seqbatch.planning.plan import plan, replan
from seqbatch.planning.result import Candidate, Plan, Row, Sensitivity
from seqbatch.planning.sample import Sample

__all__ = ["Candidate", "Plan", "Row", "Sample", "Sensitivity", "plan", "replan"]
