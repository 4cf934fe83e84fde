"""Resumable runs of many tasks in parallel, identified by a fingerprint."""

from __future__ import annotations

import copyreg
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from seqbatch.engine import Engine, as_completed, open_engine
from seqbatch.errors import InvalidArgumentError
from seqbatch.output_files import atomically

if TYPE_CHECKING:
    import polars as pl


# ----------------------------------------------------------------------
# A digest of what defines a run: its values, and the code that a user wrote for it.
#
# A run goes on only as it was declared. An edited policy under the same name and with the same
# parameters would otherwise be answered by what the old one did.


Update = Callable[[bytes], None]
PLAIN = bool | int | float | complex | str | bytes | np.generic
#: Arrays that their type, shape and bytes describe; others, such as masked ones, hold more.
ARRAYS = (np.ndarray, np.memmap)


def fingerprint(value: object) -> str:
    """Return a digest that differs whenever any field, element or byte of `value` differs.

    It walks dataclasses, mappings, sequences, arrays and functions. Other objects count by their
    class and what they would be pickled as: of a plain class its attributes. Of classes that
    are not this package's the code counts: the text of an imported module, and the methods of a
    class in a script or a notebook, whose other lines may change. Functions and methods of your
    own code count with the global names that they use: values, helper functions, and what those
    use in turn. A library counts by its name and version.

    Raises
    ------
    InvalidArgumentError
        Where something in it cannot be told from its like, such as a lock or an open connection,
        where a function uses a variable that is not set yet, or where it is nested too deeply.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        _digest(value, digest.update)
    except RecursionError:
        raise InvalidArgumentError(
            "the settings of a run", "nested less deeply than Python's recursion limit",
            "deeply nested objects", "Use a flat list or array instead.",
        ) from None  # fmt: skip
    return digest.hexdigest()


def _digest(value: object, update: Update, within: tuple[object, ...] = ()) -> None:
    kind = type(value)
    # The type and the closing bracket keep ((1,), 2) apart from (1, (2,)), and 1 from 1.0.
    update(f"{kind.__module__}.{kind.__qualname__}(".encode())
    if value is None or isinstance(value, PLAIN):
        update(repr(value).encode())
    elif any(value is whole for whole in within):
        # A function that calls itself, or an object that is a part of itself.
        update(b"again")
    elif isinstance(value, GlobalValue):
        update(value.digest(within))
    elif isinstance(value, np.ndarray) and type(value) in ARRAYS and not value.dtype.hasobject:
        update(f"{value.dtype}{value.shape}".encode())
        update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Set):
        # In an order that does not depend on the process.
        _digest(sorted(map(fingerprint, value)), update)
    elif isinstance(value, type):
        update(value.__qualname__.encode())
        _digest_class(value, update, within)
    else:
        _digest_class(kind, update, (*within, value))
        for part in _parts(value, within):
            _digest(part, update, (*within, value))
    update(b")")


def _parts(value: object, within: tuple[object, ...]) -> Sequence[object]:
    """Return what an object is made of; errors name it by what it is within."""
    if _plain(value):
        return _elements(value)
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_consts
    if isinstance(value, FunctionType):
        return (*_own_parts(value), _globals_of([value]))
    if type(value).__module__.startswith("numba.") and hasattr(value, "py_func"):
        # Compiled: what it is pickled as has an id that is new in every process.
        return value.py_func, getattr(value, "targetoptions", None)
    try:
        return _pickled(value)
    except RecursionError:
        raise
    except Exception as error:
        if parts := _elements(value):
            return parts
        raise InvalidArgumentError(
            " in ".join(_named(each) for each in (value, *reversed(within)) if not _plain(each)),
            "comparable by its content, because a run can be resumed only with the same settings",
            f"an object that cannot be serialised ({error})",
            "Create it in the method or function that uses it, instead of storing it.",
        ) from error


def _elements(value: object) -> Sequence[object]:
    """Return what a container holds, or the attributes of another object."""
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if isinstance(value, Sequence):
        return value
    return _attributes(type(value), getattr(value, "__dict__", {}))


def _attributes(kind: type, own: Mapping[str, object]) -> list[object]:
    """Return attributes by name, less what was computed of the others and kept."""
    # It is not there before it is asked for.
    kept = [name for name in own if isinstance(getattr(kind, name, None), cached_property)]
    return [part for name in sorted(own.keys() - kept) for part in (name, own[name])]


def _pickled(value: object) -> list[object]:
    """Return what an object would be made from again in another process.

    Attributes alone would not do: those in slots, the seed of a `random.Random` and what a partial
    function is given are not among them.
    """
    kind = type(value)
    reducer = copyreg.dispatch_table.get(kind)
    reduced = reducer(value) if reducer else value.__reduce_ex__(2)
    if isinstance(reduced, str):
        # Found by its name: a function of C, or one that is kept with its results.
        return [getattr(value, "__module__", None), reduced, *_elements(value)]
    make, given, *rest = reduced
    state, items = (rest[0], rest[1:3]) if rest else (None, [])
    # The class itself is taken in already.
    made_from = list(given[1:]) if getattr(make, "__name__", "") == "__newobj__" else [make, given]
    states = state if isinstance(state, tuple) else (state,)
    for each in states:
        made_from += _attributes(kind, each) if type(each) is dict else [each]
    return [*made_from, *(list(each) for each in items if each is not None)]


def _own_parts(function: FunctionType) -> tuple[object, ...]:
    """Return what a function is made of, without the global names that it uses."""
    return function.__code__, function.__defaults__, function.__kwdefaults__, _held(function)


def _held(function: FunctionType) -> list[object]:
    """Return what a function uses of the variables of the one around it."""
    held = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held.append(cell.cell_contents)
        except ValueError:
            raise InvalidArgumentError(
                f"{name} in {_named(function)}", "set before the run starts",
                "a variable without a value",
                "Assign it above the call, or pass it as an argument.",
            ) from None  # fmt: skip
    return held


@dataclass(frozen=True)
class GlobalValue:
    """The value of a global name.

    One that cannot be compared, such as a lock or a connection, counts by its type: unlike what a
    policy or an environment keeps, it is shared by all code of its module.
    """

    value: object

    def digest(self, within: tuple[object, ...]) -> bytes:
        """Return the digest of the value."""
        digest = hashlib.blake2b(digest_size=16)
        try:
            _digest(self.value, digest.update, within)
        except InvalidArgumentError:
            return _named(self.value).encode()
        return digest.digest()


def _globals_of(functions: Sequence[FunctionType]) -> list[tuple[str, object]]:
    """Return the global names that functions use, and those that helper functions use in turn."""
    found: dict[str, object] = {}
    waiting = [each for each in functions if _by_user(each.__module__)]
    while waiting:
        function = waiting.pop()
        for key, value in _names_used(function):
            if key in found:
                continue
            inner = _inner(value)
            home = getattr(inner, "__module__", None) or ""
            if isinstance(value, ModuleType):
                found[key] = _library(value.__name__)
            elif isinstance(inner, FunctionType) and _by_user(home):
                found[key] = [GlobalValue(part) for part in _own_parts(inner)]
                waiting.append(inner)
            elif callable(inner) and hasattr(inner, "__qualname__") and not _by_user(home):
                found[key] = (*_library(home), inner.__qualname__)
            else:
                found[key] = GlobalValue(value)
    return sorted(found.items(), key=lambda item: item[0])


def _names_used(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the global names in a function's code, and the names in modules of the user's."""
    names = {name for name in _names_in(function.__code__) if not name.startswith("__")}
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield f"{function.__module__}.{name}", value
        if isinstance(value, ModuleType) and _by_user(value.__name__):
            for inside in names & vars(value).keys():
                yield f"{value.__name__}.{inside}", vars(value)[inside]


def _names_in(code: CodeType) -> set[str]:
    """Return the names in a function's code and in that of functions within it."""
    inner = [_names_in(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)


def _inner(value: object) -> Any:
    """Return the function that a compiled or decorated one was made from."""
    return inspect.unwrap(value) if callable(value) else value


def _by_user(home: str) -> bool:
    """Say whether a module is the user's: a script, a notebook, or a file that is not installed."""
    if home.partition(".")[0] in {"seqbatch", "numpy", *sys.stdlib_module_names}:
        return False
    file = getattr(sys.modules.get(home), "__file__", None) or ""
    return not {"site-packages", "dist-packages"} & {*Path(file).parts}


def _library(home: str) -> tuple[str, str]:
    """Return a module's name, and the version of its package."""
    package = sys.modules.get(home.partition(".")[0])
    return home, str(getattr(package, "__version__", ""))


def _plain(value: object) -> bool:
    """Say whether a value has no name of its own: it only holds others."""
    return type(value) in (tuple, list, dict)


def _named(value: object) -> str:
    """Return what a user calls an object: a function by its name, others by their class."""
    named = value if isinstance(value, FunctionType) else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _digest_class(kind: type, update: Update, within: tuple[object, ...]) -> None:
    """Take in the code of a class and of its bases, as far as a user wrote it."""
    if any(kind is whole for whole in within):
        return
    for base in kind.__mro__:
        home = base.__module__
        if home.partition(".")[0] in {"seqbatch", "numpy", *sys.stdlib_module_names}:
            continue
        try:
            # Not of a script or a notebook, which hold more than their classes.
            text = "" if home == "__main__" else inspect.getsource(sys.modules[home])
        except (OSError, TypeError, KeyError):
            text = ""
        _digest(text or _methods(base), update)
        methods = [_inner(_accessed(part)) for part in vars(base).values()]
        functions = [each for each in methods if isinstance(each, FunctionType)]
        _digest(_globals_of(functions), update, (*within, kind))


def _methods(kind: type) -> list[tuple[str, object]]:
    """Return the code and the plain values that stand in a class."""
    found = []
    for name, part in sorted(vars(kind).items()):
        if code := getattr(_accessed(part), "__code__", None):
            found.append((name, code))
        elif isinstance(part, PLAIN) and not name.startswith("__"):
            found.append((name, part))
    return found


def _accessed(part: object) -> object:
    """Return the function of a property, a class method or a static method."""
    inner = getattr(part, "fget", None) or getattr(part, "func", None)
    return inner or getattr(part, "__func__", part)


# ----------------------------------------------------------------------
# Runs of many independent tasks: in parallel, with progress, resumable, to the same bits.
#
# Each finished task is one Parquet file in a folder, written whole or not at all. A run that was
# killed finds them and does only what is missing; at the end they are joined in the order of the
# tasks. The result does not depend on which process did what, or when.


Row = dict[str, Any]
#: The meaning of the parts of a folder.
FORMAT = 2


class Task(Protocol):
    """A unit of work: a name that no other task of the run has, and what to do."""

    @property
    def name(self) -> str:
        """A short name, fit for a file."""

    def __call__(self) -> list[Row]:
        """Do it; return rows of the table."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come, for whoever shows it."""

    done: int
    total: int
    resumed: int


Report = Callable[[Progress], None]


def run_tasks(
    tasks: Sequence[Task],
    *,
    out: Path,
    declaration: object,
    columns: Mapping[str, Any] | None = None,
    jobs: int = 1,
    engine: str | Engine = "local",
    report: Report | None = None,
) -> pl.DataFrame:
    """Do what is not done yet, and return the table of all tasks.

    Parameters
    ----------
    tasks
        What to do, in the order of the table.
    out
        The folder of the run. It holds ``parts/`` while the run goes on and ``results.parquet`` in
        the end.
    declaration
        What defines the run: dataclasses, arrays, plain values and classes of a user's own, told
        apart by :func:`~seqbatch.simulation.resumable_tasks.fingerprint`. A folder with results of
        a different run, or of another version of this package, is refused.
    columns
        Types of columns that single tasks may leave empty.
    jobs, engine
        How many processes to use, and whose; see :func:`seqbatch.engine.open_engine`.
    report
        Called after every task.
    """
    import polars as pl
    from threadpoolctl import threadpool_limits

    parts = out / "parts"
    about = {"seqbatch": version("seqbatch"), "format": FORMAT}
    text = json.dumps({**about, "declaration": fingerprint(declaration)}) + "\n"
    _refuse_other(out, parts, text)
    missing = [task for task in tasks if not _whole(_part(parts, task.name))]
    resumed = len(tasks) - len(missing)
    tell = report or (lambda _: None)
    tell(Progress(resumed, len(tasks), resumed))
    # What runs in this process changes the number of threads for as long as it runs.
    with (
        threadpool_limits(1),
        open_engine(engine if missing else "local", jobs=jobs) as opened,
        closing(as_completed(opened, _performed, missing)) as results,
    ):
        # Not before: an engine that is refused leaves no folder behind.
        _claim(out, parts, text)
        for done, (place, rows) in enumerate(results, start=resumed + 1):
            table = pl.DataFrame(rows, schema_overrides=columns)
            _write(table, _part(parts, missing[place].name))
            tell(Progress(done, len(tasks), resumed))
    table = pl.concat([pl.read_parquet(_part(parts, task.name)) for task in tasks])
    _write(table, out / "results.parquet")
    return table


def _performed(task: Task) -> list[Row]:
    """Run a task with one BLAS thread: sums must not depend on how many there are."""
    from threadpoolctl import threadpool_limits

    # Not undone: other tasks may be running in threads of the same worker.
    threadpool_limits(1)
    return task()


def _refuse_other(out: Path, parts: Path, text: str) -> None:
    """Make sure that what the folder holds, if anything, belongs to this very run."""
    file = out / "run.json"
    # A run that failed before its first result does not keep others out of the folder.
    started = parts.is_dir() and any(_whole(part) for part in parts.iterdir())
    if started and file.exists() and file.read_text(encoding="utf-8") != text:
        raise InvalidArgumentError(
            "out",
            "an empty folder, or that of an interrupted run with the same settings",
            f"{out}, which holds a different run",
            "A run can be resumed only with the same settings, the same code and the same version "
            "of seqbatch. For anything else, use another folder, or remove this one.",
        )


def _claim(out: Path, parts: Path, text: str) -> None:
    """Make the folder, and say in it which run it belongs to."""
    parts.mkdir(parents=True, exist_ok=True)
    with atomically(out / "run.json") as partial:
        partial.write_text(text, encoding="utf-8")


def _whole(part: Path) -> bool:
    """Say whether a part is there and complete: Parquet files end in their mark."""
    if part.suffix != ".parquet" or not part.exists() or part.stat().st_size < 8:
        return False
    with part.open("rb") as file:
        file.seek(-4, os.SEEK_END)
        return file.read() == b"PAR1"


def _part(parts: Path, name: str) -> Path:
    # Names may hold slashes and anything else that a user calls an environment.
    digest = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
    return parts / f"{digest}.parquet"


def _write(table: pl.DataFrame, path: Path) -> None:
    with atomically(path) as partial:
        table.write_parquet(partial)
