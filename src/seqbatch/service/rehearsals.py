"""Rehearsals that take several calls: finished parts are kept, and the next call goes on."""

import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqbatch.campaign import Rehearsal, rehearse
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.steps.create import NO_STORE
from seqbatch.campaign.steps.earlier import Sources
from seqbatch.service import long_calls
from seqbatch.service.call_limits import Settings
from seqbatch.simulation import Progress

#: Seconds after which a call answers how far the rehearsal has come.
SLICE = 5.0


class PausedError(Exception):
    """Ends a call's work on a rehearsal, which has come so far."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress


@dataclass(frozen=True)
class RehearsalQuestion:
    """A requested rehearsal.

    Parameters
    ----------
    owner
        Who asks: nobody else's parts are used.
    spec, truths, campaigns, seed
        See :func:`~seqbatch.campaign.rehearse`.
    units
        The units, and their fingerprint; None if they are made from the spec's features.
    sources
        Where to find an earlier campaign that the spec names.
    """

    owner: str
    spec: Spec
    truths: Sequence[Mapping[str, Any]]
    campaigns: int
    seed: int = 0
    units: tuple[Source, str] | None = None
    sources: Sources = NO_STORE

    @property
    def fingerprint(self) -> str:
        """What tells it from other rehearsals."""
        spec, units = self.spec.model_dump(mode="json"), self.units and self.units[1]
        said = [self.owner, spec, list(self.truths), self.campaigns, self.seed, units]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


class Rehearsals:
    """The rehearsals under way.

    Parameters
    ----------
    folder
        The folder of their parts, shared by all workers.
    settings
        How long they are kept.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings

    def go_on(
        self, asked: RehearsalQuestion, progress: long_calls.Progress
    ) -> Rehearsal | Progress:
        """Rehearse for a few seconds; return the rehearsal, or how far it has come.

        Parameters
        ----------
        asked
            The rehearsal; the same one goes on where it was.
        progress
            Called after each part; it raises an error to end the call.
        """
        began: list[float] = []

        def report(done: Progress) -> None:
            progress(done.done / done.total)
            # Preparation does not count, and every call does at least one part.
            began.append(time.monotonic())
            if len(began) > 1 and done.done < done.total and began[-1] > began[0] + SLICE:
                raise PausedError(done)

        try:
            return rehearse(
                asked.spec,
                units=None if asked.units is None else asked.units[0],
                truths=asked.truths,
                campaigns=asked.campaigns,
                seed=asked.seed,
                parts=self._folder / asked.fingerprint,
                report=report,
                sources=asked.sources,
            )
        except PausedError as paused:
            return paused.progress

    def forget(self) -> None:
        """Delete those that have not been asked for in a while."""
        for own in self._folder.glob("*"):
            newest = max((path.stat().st_mtime for path in own.rglob("*")), default=0.0)
            if time.time() - newest >= self._settings.upload_seconds:
                shutil.rmtree(own, ignore_errors=True)
