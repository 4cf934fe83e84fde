"""Console output of all commands: tables, progress bars, error messages and exit codes."""

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as Grid
from rich.text import Text
from typer.core import TyperGroup

from seqbatch.cli.messages import About, in_options, remedy_commands
from seqbatch.display import visible
from seqbatch.document import Document, Facts, Heading, Table, part_lines
from seqbatch.errors import CampaignStateError, InvalidFileError, SeqbatchError

if TYPE_CHECKING:
    from seqbatch.simulation import Progress as Done

#: A pipe has no width: unless COLUMNS is set, tables are as wide as needed.
UNBOUNDED = not sys.stdout.isatty() and "COLUMNS" not in os.environ
console = Console(width=200 if UNBOUNDED else None)
errors = Console(stderr=True, soft_wrap=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

#: Exit codes: something was found; bad usage or input; not possible in this state; interrupted.
FOUND, BAD_INPUT, WRONG_STATE, INTERRUPTED = 1, 2, 3, 130


#: What the system says about a disk that takes no more.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


@contextmanager
def kindly(
    *, as_json: bool = False, extra: str = "campaign", about: About | None = None
) -> Iterator[None]:
    """Turn the package's errors into a message and an exit code.

    Parameters
    ----------
    as_json
        Whether to print the error as JSON, too.
    extra
        The extra to install if a module is missing.
    about
        The campaign that remedies refer to.
    """
    try:
        yield
    except (SeqbatchError, OSError) as error:
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
            # Errors about files name them; this one is about the output of the command.
            raise
        if as_json:
            dump(plain_error(error, about))
        complain_of(error, about)
        wrong = WRONG_STATE if isinstance(error, CampaignStateError) else BAD_INPUT
        raise typer.Exit(wrong) from None
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "seqbatch":
            raise
        complain(
            f"this command needs {error.name}, which is not installed. Install it with: "
            f'pip install "seqbatch[{extra}]"'
        )
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        errors.print("seqbatch: interrupted; run the same command again to resume.")
        raise typer.Exit(INTERRUPTED) from None


#: The options of the running command as typed, by their names in the library.
_typed: dict[str, str] = {}


def spoken(error: Exception, about: About | None = None) -> str:
    """Return an error's text, with options as they are typed: ``--draw`` for ``draw=True``."""
    text = str(error)
    if isinstance(error, SeqbatchError):
        words = partial(in_options, about=about)
        text = error.refusal.text(words, lambda name: _typed.get(name, name))
    elif isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return "\n".join([text, *getattr(error, "__notes__", ())])


def _pasted(error: Exception, about: About | None) -> list[str]:
    """Return the commands of an error's remedies."""
    return remedy_commands(error.remedies, about) if isinstance(error, SeqbatchError) else []


def complain_of(error: Exception, about: About | None = None) -> None:
    """Print an error, and the commands that would help."""
    complain(spoken(error, about))
    for line in _pasted(error, about):
        # Commands are not wrapped, so they can be pasted.
        _print_red(f"  {line}", whole=True)


class Visible(TyperGroup):
    """A group of commands whose usage errors are shown like all other errors."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command to run, and remember how its options are typed."""
        found = super().resolve_command(ctx, _joined(args))
        if found[1] is not None:
            _typed.clear()
            for parameter in found[1].get_params(ctx):
                if parameter.opts[0].startswith("--") and parameter.name:
                    _typed[parameter.name] = parameter.opts[0]
            _untyped(found[1].get_params(ctx))
        return found

    def get_params(self, ctx: Any) -> Any:
        """Return the options before the command."""
        return _untyped(super().get_params(ctx))

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the arguments before the command."""
        with _usage():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Parse the command's arguments and run it."""
        with _usage():
            return super().invoke(ctx)


#: An option that takes an amount, with a number; and the units that may follow it.
AMOUNT = re.compile(r"--(value|mean|spread|cost|smallest-lift|base-rate|zeros)[ =](.*=)?[\d.,]+")
UNIT = re.compile(r"[A-Z]{3}|[€$£%]|kr|pp|points?")


def _joined(args: list[str]) -> list[str]:
    """Join the words of an option's value, which may be typed without quotes.

    >>> _joined(["--dedupe", "newest-by", "updated", "--json"])
    ['--dedupe', 'newest-by updated', '--json']
    >>> _joined(["--value", "12", "EUR", "--cost=mail=0.08", "EUR"])
    ['--value', '12 EUR', '--cost=mail=0.08 EUR']
    """
    made: list[str] = []
    for word in args:
        column = made[-2:] == ["--dedupe", "newest-by"] and not word.startswith("-")
        unit = UNIT.fullmatch(word) and any(
            AMOUNT.fullmatch(" ".join(made[-many:])) for many in (1, 2)
        )
        if column or unit:
            made[-1] += f" {word}"
        else:
            made.append(word)
    return made


def _untyped(parameters: Any) -> Any:
    """Hide the type of options that take no value."""
    for parameter in parameters:
        if getattr(parameter, "is_bool_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


@contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Usage errors of every library (click, typer) have this method.
        if hasattr(error, "format_message"):
            said = visible(error.format_message(), lines=True)
            error.format_message = lambda: said
        raise


def complain(text: str) -> None:
    """Print an error message."""
    # Lines are not wrapped in a pipe.
    _print_red(f"seqbatch: {text}", whole=not errors.is_terminal)


def _print_red(text: str, *, whole: bool) -> None:
    for line in visible(text, lines=True).split("\n"):
        errors.print(line, style="red", markup=False, highlight=False, soft_wrap=whole)


def dump(value: Any, *, to_errors: bool = False) -> None:
    """Print JSON for scripts, with terminal control characters escaped."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    if not text.replace("\n", "").isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)
    print(text, file=sys.stderr if to_errors else sys.stdout)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def plain_error(error: Exception, about: About | None = None) -> dict[str, Any]:
    """Return an error for scripts."""
    lines = [spoken(error, about), *(f"  {line}" for line in _pasted(error, about))]
    made: dict[str, Any] = {"error": type(error).__name__, "message": "\n".join(lines)}
    if isinstance(error, SeqbatchError):
        made |= {
            "code": error.code, "field": error.field or None,
            "remedies": [remedy.plain() for remedy in error.remedies],
        }  # fmt: skip
    if isinstance(error, InvalidFileError):
        made["problems"] = error.plain_problems()
    return made


@contextmanager
def progress(title: str) -> Iterator[Callable[["Done"], None]]:
    """Show a progress bar with the time left, on a terminal only."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=errors, disable=not sys.stderr.isatty(), speed_estimate_period=3600
    ) as bar:
        task = bar.add_task(escape(visible(title)), total=None)

        def report(done: "Done") -> None:
            bar.update(task, total=done.total, completed=done.done)

        yield report


@contextmanager
def waiting(doing: str) -> Iterator[None]:
    """Show what is being done if it takes longer than a second, on a terminal only."""
    shown = errors.status(escape(visible(doing)))
    timer = Timer(1.0, shown.start)
    if errors.is_terminal:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        shown.stop()


@contextmanager
def advancing(doing: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar if the work takes longer than a second, on a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"))
    bar = Progress(*columns, console=errors, transient=True)
    task = bar.add_task(escape(visible(doing)), total=1.0)
    timer = Timer(1.0, bar.start)
    if errors.is_terminal:
        timer.start()
    try:
        yield lambda share: bar.update(task, completed=share)
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        # Stopping a bar that was never started would print an empty line.
        if bar.live.is_started:
            bar.stop()


@contextmanager
def counting() -> Iterator[Callable[[str, int], None]]:
    """Show what is being done and the number of rows so far, on a terminal only."""
    columns = (TextColumn("{task.description}"), TextColumn("{task.completed:,} rows"))
    with Progress(*columns, console=errors, disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("", total=None)

        def report(doing: str, rows: int) -> None:
            bar.update(task, description=doing, completed=rows)

        yield report


def say(text: str, *, to_errors: bool = False) -> None:
    """Print a line for people."""
    tell = errors if to_errors else console
    tell.print(visible(text), markup=False, highlight=False)


def say_next(command: str | None, *, to_errors: bool = False) -> None:
    """Print the next command on one line, ready to be pasted."""
    if command is not None:
        say_whole(f"Next: {command}", to_errors=to_errors)


def say_whole(text: str, *, to_errors: bool = False) -> None:
    """Print a line with a command, which is not wrapped, so that it can be pasted."""
    tell = errors if to_errors else console
    tell.print(visible(text), markup=False, highlight=False, soft_wrap=True)


def say_read_as(how: str) -> None:
    """Print how a file was read if that is unusual, to stderr."""
    if how:
        say(f"seqbatch: {how}.", to_errors=True)


def say_files(files: Iterable[object]) -> None:
    """Print the written files, one per line without wrapping."""
    for file in files:
        print(visible(str(file)))


def present(document: Document) -> None:
    """Print the first section of a document, with its tables but without pictures."""
    for part in document.first.parts:
        if isinstance(part, Table):
            show(part)
        if isinstance(part, Facts | Heading):
            console.print()
        for line in part_lines(part):
            console.print(visible(line), markup=False, highlight=False, soft_wrap=UNBOUNDED)


def show(table: Table, *, as_json: bool = False) -> None:
    """Print a table, or JSON; on a narrow terminal the table is split into several."""
    if as_json:
        named = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        dump(named)
        return
    table = replace(
        table, title=visible(table.title), columns=tuple(visible(head) for head in table.columns),
        words=tuple(visible(head) for head in table.words),
    )  # fmt: skip
    cells = table.cells()
    least, most = _bounds(table, cells)
    for place, part in enumerate(_parts(least, table.keys)):
        widths = _widths([least[n] for n in part], [most[n] for n in part])
        title = f"{table.title} (continued)" if place else table.title
        # Names and reasons are shown literally: brackets in them are not markup.
        printed = Grid(title=Text(title, style="table.title"), title_justify="left")
        for n, width in zip(part, widths, strict=True):
            head = table.columns[n]
            side: Any = "left" if head in table.words else "right"
            printed.add_column(Text(head), justify=side, width=width, overflow="fold")
        for row in cells:
            printed.add_row(*(Text(row[n]) for n in part))
        console.print(printed)


def _bounds(table: Table, cells: list[list[str]]) -> tuple[list[int], list[int]]:
    """Return the minimum and maximum width of each column.

    Numbers are never wrapped, since half of one would read as another number. Text may wrap
    between words, and within long words.
    """
    least, most = [], []
    names = sum(head in table.words for head in table.columns[: table.keys])
    # The key columns, which every part repeats, must leave room for others.
    longest_word = 2 * console.width // (5 * max(names, 1))
    for n, head in enumerate(table.columns):
        column = [row[n] for row in cells]
        longest = max(map(cell_len, column), default=0)
        parts = [part for text in column for part in text.split()]
        broken = min(max(map(cell_len, parts), default=1), longest_word)
        needed = broken if head in table.words else longest
        least.append(max(needed, *(cell_len(part) for part in head.split())))
        most.append(max(longest, cell_len(head)))
    return least, most


def _parts(least: list[int], keys: int) -> list[list[int]]:
    """Return the columns of each part: the keys, and as many others as fit."""
    parts = [list(range(keys))]
    for n in range(keys, len(least)):
        together = [*parts[-1], n]
        if _room(together) < sum(least[k] for k in together) and len(parts[-1]) > keys:
            parts.append(list(range(keys)))
        parts[-1].append(n)
    return parts


def _widths(least: list[int], most: list[int]) -> list[int]:
    """Divide the width evenly; wider columns get what narrow ones do not need."""
    widths, spare = list(least), max(_room(least) - sum(least), 0)
    order = sorted(range(len(least)), key=lambda n: most[n] - least[n])
    for place, n in enumerate(order):
        more = min(most[n] - least[n], spare // (len(order) - place))
        widths[n] += more
        spare -= more
    return widths


def _room(columns: Sequence[int]) -> int:
    """Return the number of characters available for these columns, without borders and spaces."""
    return console.width - 3 * len(columns) - 1
