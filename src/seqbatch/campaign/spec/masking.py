"""Masked campaigns: codes instead of action names, and the key that translates them.

A masked campaign uses only codes. When it is created, its actions are shuffled and named A, B, C,
...; their real names and the control are in the key, a separate file. The store holds the key's
fingerprint, which shows whether a key presented later is the original. A campaign whose interim
results are withheld has a key, too, also if it is not masked: it opens the results.
"""

import hashlib
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from string import ascii_uppercase

from seqbatch.campaign.spec.spec import Action, Spec
from seqbatch.errors import InvalidArgumentError
from seqbatch.output_files import sync

#: The maximum length of a key file: enough for every action's name many times over.
LONGEST_KEY = 1_000_000


@dataclass(frozen=True)
class Key:
    """The action behind each code.

    Parameters
    ----------
    campaign
        The campaign's name.
    codes
        The actions by their codes.
    control
        The action that the others are compared with; None if none was declared.
    salt
        Random digits, without which trying all orders of the actions would match the fingerprint.
    """

    campaign: str
    codes: dict[str, str]
    control: str | None
    salt: str

    @property
    def text(self) -> str:
        """The text of the key file."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, sort_keys=True) + "\n"

    @property
    def fingerprint(self) -> str:
        """A hash of the key's text, which the store holds."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def write(self, path: Path) -> None:
        """Write the key to a new file that only its owner may read; never overwrite a file."""
        number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(self.text)
                file.flush()
                os.fsync(number)
            sync(path.parent)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.filename is None:
                error.filename = str(path)
            raise

    @classmethod
    def read(cls, path: str | Path) -> "Key":
        """Read a key file."""
        try:
            with Path(path).open(encoding="utf-8-sig") as file:
                found = json.loads(file.read(LONGEST_KEY))
            return cls(
                campaign=str(found["campaign"]),
                codes={str(code): str(name) for code, name in found["codes"].items()},
                control=None if found["control"] is None else str(found["control"]),
                salt=str(found["salt"]),
            )
        except OSError as error:
            raise InvalidArgumentError(
                "key", "the key file of a masked campaign", f"{path}: {error.strerror}"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InvalidArgumentError(
                "key", "the key file of a masked campaign, as create wrote it", path
            ) from None

    def require_fitting(self, fingerprint: str) -> None:
        """Refuse the key of another campaign, or a changed one."""
        if self.fingerprint != fingerprint:
            raise InvalidArgumentError(
                "key",
                f"the one that was made with the campaign (fingerprint {fingerprint})",
                f"the key of campaign {self.campaign!r} (fingerprint {self.fingerprint})",
            )


def keyed(spec: Spec) -> Key:
    """Return the key of a campaign that is not masked, which opens its withheld results."""
    names = {action.name: action.name for action in spec.actions}
    return Key(spec.name, names, spec.control, secrets.token_hex(32))


def masked(spec: Spec) -> tuple[Spec, Key]:
    """Return a spec that uses only codes, and its key."""
    names = [action.name for action in spec.actions]
    secrets.SystemRandom().shuffle(names)
    codes = dict(zip(_codes(len(names)), names, strict=True))
    key = Key(spec.name, codes, spec.control, secrets.token_hex(32))
    actions = tuple(Action(name=code) for code in codes)
    return spec.model_copy(update={"actions": actions, "control": None}), key


def unmasked(spec: Spec, codes: dict[str, str], control: str | None) -> Spec:
    """Return a masked spec with the actions' names and the control restored."""
    actions = tuple(
        action.model_copy(update={"name": codes[action.name]}) for action in spec.actions
    )
    return spec.model_copy(update={"actions": actions, "control": control})


def _codes(count: int) -> list[str]:
    """Return `count` codes: A to Z, then AA, AB, ...

    >>> _codes(3), _codes(28)[-2:]
    (['A', 'B', 'C'], ['AA', 'AB'])
    """
    made = list(ascii_uppercase)
    for first in ascii_uppercase:
        made += [first + second for second in ascii_uppercase] if len(made) < count else []
    if len(made) < count:
        made = [f"A{number:04d}" for number in range(count)]
    return made[:count]
