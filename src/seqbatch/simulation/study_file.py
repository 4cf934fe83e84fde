"""The TOML file of a study: reads its parts by name or dotted path, and writes them."""

import importlib
import inspect
import json
import math
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqbatch import environments, policies
from seqbatch.environments import Environment, Restricted
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import KINDS, GridRule
from seqbatch.output_files import atomically
from seqbatch.policies import History, Policy
from seqbatch.simulation.line import Line

#: What a file declares, in the order in which it is written.
KEYS = (
    "seed", "trials", "horizons", "batches", "grid", "method", "device", "learn_last",
    "environments", "policies", "measures",
)  # fmt: skip
#: Those that are tables of objects with a kind.
GROUPS = KEYS[-3:]
#: The most numbers of an array that a file holds.
MOST_NUMBERS = 10_000

# ----------------------------------------------------------------------
# Reading.


def read(path: Path) -> dict[str, Any]:
    """Return the arguments of the study that a file declares."""
    declared = _declared(path)
    # Your classes may be in a module next to the file, as for a script.
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    made = dict(declared)
    for name, make in zip(GROUPS, (_environment, _policy, _made), strict=True):
        group = declared.get(name, {})
        made[name] = {key: make(f"{name}.{key}", parts) for key, parts in group.items()}
    if "grid" in declared:
        made["grid"] = _grid("grid", declared["grid"])
    return made


def _declared(path: Path) -> dict[str, Any]:
    try:
        declared = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidArgumentError("spec", "a TOML file", f"{path}, which does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError("spec", "a TOML file", f"{path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgumentError("spec", "valid TOML", f"{path}: {error}") from None
    for name in ("environments", "policies", "horizons"):
        if not declared.get(name):
            raise InvalidArgumentError("spec", f"a file that declares {name}", str(path))
    if unknown := sorted(set(declared) - set(KEYS)):
        raise InvalidArgumentError(
            "spec", f"composed of {', '.join(KEYS)}", f"{', '.join(unknown)} in {path}"
        )
    for name in GROUPS:
        group = declared.get(name, {})
        if not isinstance(group, dict):
            raise InvalidArgumentError(name, "tables with a kind", repr(group))
        for key, parts in group.items():
            if not isinstance(parts, dict):
                raise InvalidArgumentError(f"{name}.{key}", "a table with a kind", repr(parts))
    return declared


def _environment(where: str, parts: dict[str, Any]) -> Environment:
    """Build an environment, which may have another one inside.

    `eligible` is the share of units that may get each action.
    """
    own = {key: value for key, value in parts.items() if key != "eligible"}
    if isinstance(own.get("environment"), dict):
        own["environment"] = _environment(f"{where}.environment", own["environment"])
    inside: Environment = _made(where, own, environments, Environment)
    if "eligible" not in parts:
        return inside
    if not isinstance(parts["eligible"], list):
        raise InvalidArgumentError(f"{where}.eligible", "a list of shares", parts["eligible"])
    if len(parts["eligible"]) != inside.actions:
        rule = f"a list of {inside.actions} shares, one per action"
        raise InvalidArgumentError(f"{where}.eligible", rule, parts["eligible"])
    return Restricted(inside, parts["eligible"])


def _policy(where: str, parts: dict[str, Any]) -> Policy | Line:
    own = {key: value for key, value in parts.items() if key != "grid"}
    policy: Policy = _made(where, own, policies, Policy)
    return Line(policy, _grid(f"{where}.grid", parts["grid"])) if "grid" in parts else policy


def _grid(where: str, parts: object) -> Any:
    """Build a rule for grids: one of ours by its kind, or a class that a dotted path names."""
    if not isinstance(parts, dict):
        raise InvalidArgumentError(where, "a table with a kind", repr(parts))
    if _is_path(parts.get("kind")):
        return _made(where, parts)
    return _called(GridRule, where, parts)


def _made(where: str, parts: Mapping[str, Any], module: Any = None, protocol: Any = None) -> Any:
    """Build an object from its parameters and its `kind`, a name in the module or a dotted path."""
    parameters = {
        name: _made(f"{where}.{name}", value)
        if isinstance(value, dict) and "kind" in value
        else value
        for name, value in parts.items()
    }
    kind = parameters.pop("kind", None)
    if not isinstance(kind, str):
        raise InvalidArgumentError(f"{where}.kind", "a name or a dotted path", repr(kind))
    found = _found(kind, module, where, protocol)
    # Checked before the call: a dotted path can name any callable.
    if not (isinstance(found, type) and (protocol is None or _keeps(protocol, found))):
        rule = "a class" + ("" if protocol is None else f" that is a {protocol.__name__.lower()}")
        raise InvalidArgumentError(f"{where}.kind", rule, kind)
    return _called(found, where, parameters)


def _is_path(kind: object) -> bool:
    return isinstance(kind, str) and kind not in KINDS and bool(re.search("[.:]", kind))


def _found(kind: str, module: Any, where: str, protocol: Any) -> Any:
    names = [] if module is None else module.__all__
    if kind in names:
        return getattr(module, kind)
    path, _, name = kind.replace(":", ".").rpartition(".")
    try:
        return getattr(importlib.import_module(path), name)
    except (ImportError, AttributeError, ValueError) as error:
        kinds = {name: getattr(module, name) for name in names}
        known = [n for n, k in kinds.items() if isinstance(k, type) and _keeps(protocol, k)]
        rule = " or ".join(
            [*([f"one of {', '.join(known)},"] if known else []), "the dotted path of a class"]
        )
        # Without a dot nothing was imported.
        received = f"{kind!r} ({error})" if path else repr(kind)
        raise InvalidArgumentError(f"{where}.kind", rule, received) from error


def _keeps(protocol: Any, kind: type) -> bool:
    """Return whether a class has the members of a protocol and is not the protocol itself."""
    needed = [name for name in vars(protocol) if not name.startswith("_")]
    own = {*dir(kind), *getattr(kind, "__dataclass_fields__", ()), *_annotated(kind)}
    return not getattr(kind, "_is_protocol", False) and all(name in own for name in needed)


def _annotated(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name in getattr(base, "__annotations__", ())}


def _called(make: Callable[..., Any], where: str, parameters: Mapping[str, Any]) -> Any:
    try:
        return make(**parameters)
    except TypeError as error:
        known = ", ".join(inspect.signature(make).parameters)
        # Python's message without the name of a function that the user never wrote.
        wrong = str(error).partition("() ")[2] or str(error)
        rule = f"parameters of {make.__name__} ({known})"
        raise InvalidArgumentError(where, rule, wrong) from None
    except InvalidArgumentError as error:
        # Name the policy or environment that is wrong.
        name = f"{where}.{error.name}"
        raise InvalidArgumentError(name, error.rule, error.received, error.advice) from None


# ----------------------------------------------------------------------
# Writing.


def write(study: Any, path: Path) -> Path:
    """Write a study as a file that `read` reads; refuse parts that a file cannot state."""
    usual = inspect.signature(type(study)).parameters
    own = {key: getattr(study, key) for key in KEYS if key not in GROUPS}
    stated = {
        key: _plain(key, value)
        for key, value in own.items()
        if not _same(value, usual[key].default)
    }
    if study.batches:
        # They replace its number.
        stated.get("grid", {}).pop("batches", None)
    lines = [f"{key} = {_toml(value)}" for key, value in stated.items()]
    for group in GROUPS:
        for name, part in getattr(study, group).items():
            where = f"{group}.{name}"
            lines += ["", f"[{group}.{_key(name)}]"]
            lines += [f"{_key(key)} = {_toml(value)}" for key, value in _table(where, part).items()]
    text = "\n".join(lines) + "\n"
    with atomically(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path


def _table(where: str, part: object) -> dict[str, Any]:
    """Return an object as its kind and its parameters, as far as they differ from the defaults."""
    if isinstance(part, Line):
        return {**_table(where, part.policy), "grid": _plain(f"{where}.grid", part.rule)}
    if isinstance(part, GridRule):
        return _parameters(where, part)
    return {"kind": _kind(where, type(part)), **_parameters(where, part)}


def _kind(where: str, kind: type) -> str:
    """Return a class's name in this package, or else the shortest dotted path that finds it."""
    for module in (environments, policies):
        if getattr(module, kind.__name__, None) is kind:
            return str(kind.__name__)
    parts = kind.__module__.split(".")
    for end in range(1, len(parts) + 1):
        path = ".".join(parts[:end])
        if path != "__main__" and getattr(sys.modules.get(path), kind.__name__, None) is kind:
            return f"{path}.{kind.__name__}"
    raise InvalidArgumentError(
        where,
        "of a class that can be imported by its name",
        f"{kind.__module__}.{kind.__qualname__}",
        "Put the class into a module, for example next to the file, and import it from there.",
    )


def _parameters(where: str, part: object) -> dict[str, Any]:
    """Return what an object was made with: a data class's fields, or a model's parameters."""
    if is_dataclass(part) and not isinstance(part, type):
        given = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
    elif hasattr(part, "get_params"):
        given = part.get_params(deep=False)
    elif getattr(part, "__dict__", {}):
        raise InvalidArgumentError(
            where, "a data class, or an object with get_params()", repr(part),
            "A file states an object by its parameters.",
        )  # fmt: skip
    else:
        given = {}
    usual = inspect.signature(type(part)).parameters
    stated = {name: _plain(f"{where}.{name}", value) for name, value in given.items()}
    return {
        name: value
        for name, value in stated.items()
        if name not in usual or not _same(given[name], usual[name].default)
    }


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and repr(value) == repr(default)


def _plain(where: str, value: Any) -> Any:
    """Return a value as TOML can state it; parts become tables with a kind."""
    if isinstance(value, np.generic | np.ndarray):
        if value.size > MOST_NUMBERS:
            rule = f"of at most {MOST_NUMBERS:,} numbers to be written to a file"
            advice = "Make it in a class, in a module next to the file."
            raise InvalidArgumentError(where, rule, f"{value.size:,} numbers", advice)
        value = value.tolist()
    if isinstance(value, History):
        # Policies read it from plain values.
        value = value.plain()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{where}.{key}", part) for key, part in value.items()}
    if isinstance(value, Sequence):
        return [_plain(where, part) for part in value]
    if callable(value) and not hasattr(value, "fit"):
        rule = "a number, text, list or object with parameters, to be written to a file"
        raise InvalidArgumentError(where, rule, repr(value))
    return _table(where, value)


def _toml(value: Any) -> str:
    """Return a value as TOML.

    >>> _toml({"kind": "A", "of": [1, 2.5], "yes": True})
    '{kind = "A", of = [1, 2.5], yes = true}'
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # The strings of JSON are basic strings of TOML, but for one control character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        stated = {key: part for key, part in value.items() if part is not None}
        return "{" + ", ".join(f"{_key(key)} = {_toml(own)}" for key, own in stated.items()) + "}"
    return "[" + ", ".join(map(_toml, value)) + "]"


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _toml(name)
