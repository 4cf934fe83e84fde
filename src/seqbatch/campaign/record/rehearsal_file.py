"""A rehearsal as a file: its numbers, the spec that was rehearsed, and a hash of both."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqbatch.campaign.record.events import canonical, digest
from seqbatch.campaign.spec.spec import Spec
from seqbatch.errors import InvalidArgumentError

#: Settings that a rehearsal does not depend on.
OWN = {"seed"}
#: The most bytes of a rehearsal's file.
LONGEST = 1 << 24
RULE = "the .json file of a rehearsal"


def design_of(spec: Spec) -> str:
    """Return a hash of a spec as declared, without its seed."""
    return digest(canonical(spec.model_dump(mode="json", exclude=OWN)).encode())


@dataclass(frozen=True, eq=False)
class RehearsalFile:
    """The numbers of a rehearsal.

    Parameters
    ----------
    data
        All of them, as plain values.
    """

    data: Mapping[str, Any]

    @property
    def campaign(self) -> str:
        """The name of the rehearsed campaign."""
        return str(self.data["campaign"])

    @property
    def design(self) -> str:
        """The hash of the rehearsed spec."""
        return str(self.data["design"])

    @property
    def hash(self) -> str:
        """The hash of all numbers."""
        return digest(canonical(dict(self.data)).encode())

    def plain(self) -> dict[str, Any]:
        """Return the numbers with their hash."""
        return {**self.data, "hash": self.hash}

    @classmethod
    def read(cls, path: str | Path) -> "RehearsalFile":
        """Read the JSON file of a rehearsal; refuse another file, and a changed one."""
        try:
            if Path(path).stat().st_size > LONGEST:
                raise InvalidArgumentError("rehearsal", RULE, path)
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidArgumentError("rehearsal", RULE, path, f"{error.strerror}.") from None
        except (ValueError, RecursionError):
            plain = None
        return cls.of(plain, path)

    @classmethod
    def of(cls, plain: Any, received: Any) -> "RehearsalFile":
        """Return the numbers from their plain values; refuse other values, and changed ones."""
        needed = {"campaign", "design", "hash", "truths", "seed", "campaigns"}
        if not isinstance(plain, dict) or not needed <= set(plain):
            raise InvalidArgumentError("rehearsal", RULE, received)
        # The document's sections follow from the numbers.
        made = cls(
            {name: own for name, own in plain.items() if name not in ("hash", "title", "sections")}
        )
        if made.hash != plain["hash"]:
            raise InvalidArgumentError(
                "rehearsal", "a file as the rehearsal wrote it",
                f"{received}, which was changed since", "Rehearse again.",
            )  # fmt: skip
        return made

    def require(self, design: str, what: str) -> None:
        """Refuse a rehearsal of another spec."""
        if self.design != design:
            raise InvalidArgumentError(
                "rehearsal", f"a rehearsal of {what}",
                f"one of another spec (of campaign {self.campaign})",
                "A changed spec behaves differently: rehearse it again.",
            )  # fmt: skip
