"""A learner's file: a NumPy archive of plain arrays, with a JSON header."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqbatch.archive import comes_back, flatten, unflatten
from seqbatch.core.arrays import AnyArray
from seqbatch.errors import InvalidArgumentError, LearnerFileError
from seqbatch.output_files import atomically
from seqbatch.policies import Policy, registry

FORMAT = 4


@dataclass(frozen=True)
class LearnerFile:
    """What a file holds.

    Parameters
    ----------
    header
        Plain values: the format, the policy and its parameters, and where the learner is.
    arrays
        The arrays of the state and of what is kept beside it, by name.
    """

    header: dict[str, Any]
    arrays: dict[str, AnyArray]

    @classmethod
    def of(
        cls, policy: Policy, place: Mapping[str, Any], kept: Mapping[str, Any], *, begun: Any
    ) -> LearnerFile:
        """Return the file of a learner; refuse a state that could not be read back.

        Parameters
        ----------
        policy
            The learner's policy.
        place
            Where the learner is, in plain values.
        kept
            The policy's `state`, and what is kept beside it.
        begun
            The state before the first unit, which has the structure of any other.
        """
        arrays: dict[str, AnyArray] = {}
        values: dict[str, Any] = {}
        flatten("state", kept["state"], arrays, values)
        if not comes_back("state", begun, arrays, values):
            raise InvalidArgumentError(
                "state",
                "of the same structure as the state returned by begin",
                type(kept["state"]).__name__,
            )
        for name, part in kept.items():
            flatten(name, part, arrays, values)
        return cls({"format": FORMAT, **identity(policy), **place, "values": values}, arrays)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file completely or not at all."""
        header = np.frombuffer(json.dumps(self.header).encode(), dtype=np.uint8)
        # An open file, because NumPy would append .npz to a path.
        with atomically(path) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, header=header, **self.arrays)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> LearnerFile:
        """Read a file, and refuse one of another format."""
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != FORMAT:
            raise LearnerFileError(
                f"{path}: must be of format {FORMAT}; received format {header['format']}. "
                "Read it with the version of seqbatch that wrote it.",
                code="other-format",
            )
        return cls(header, arrays)

    def policy(self, path: str | os.PathLike[str], given: Policy | None) -> Policy:
        """Return the policy that was saved; one that is not of this package must be given."""
        policy = given or self._own_policy(path)
        found = json.loads(json.dumps(identity(policy)))
        if any(found[name] != self.header[name] for name in found):
            raise LearnerFileError(
                f"{path}: must be loaded with the policy it was saved with, "
                f"{self.header['policy']} with {self.header['parameters']}; received {policy!r}.",
                code="other-policy",
            )
        return policy

    def _own_policy(self, path: str | os.PathLike[str]) -> Policy:
        name = self.header["policy"]
        ours = self.header["module"].startswith("seqbatch.policies.")
        if not ours or name not in registry.kinds():
            raise LearnerFileError(
                f"{path}: was saved with the policy {name}, which is not part of seqbatch. Pass it "
                f"as Learner.load(path, policy={name}(...)).",
                code="unknown-policy",
            )
        return registry.make(name, **self.header["parameters"])

    def kept(self, like: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was kept, with the structure of what a new learner keeps."""
        values = self.header["values"]
        return {name: unflatten(name, part, self.arrays, values) for name, part in like.items()}


def identity(policy: Policy) -> dict[str, Any]:
    """Return the identity of a policy for a file's header: module, name and parameters."""
    parameters = registry.describe(policy)
    kind = parameters.pop("kind")
    try:
        json.dumps(parameters)
    except TypeError as error:
        raise InvalidArgumentError(
            "policy", "one whose parameters are numbers, strings or tuples of these", str(error)
        ) from None
    return {"module": type(policy).__module__, "policy": kind, "parameters": parameters}


@contextmanager
def refusing_others(path: str | os.PathLike[str]) -> Iterator[None]:
    """Refuse any file that no learner wrote, whatever reading it raises."""
    try:
        yield
    except (FileNotFoundError, PermissionError, LearnerFileError):
        raise
    # NotImplementedError: a damaged file may name a compression that does not exist.
    except (
        OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError, NotImplementedError,
    ) as error:  # fmt: skip
        raise LearnerFileError(
            f"{path}: must be a file that Learner.save wrote; reading it failed with "
            f"{type(error).__name__}: {error}.",
            code="not-a-learner",
        ) from error
