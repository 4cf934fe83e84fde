"""Run the code blocks of a documentation page, and return their output.

Blocks of a page run in order in one new folder:

- ``python`` runs in a new module; a plain block right after it shows its output.
- ``console`` holds commands after ``$``, each followed by its output. A command without shown
  output may print anything, and ``...`` matches any text. ``# exit 1`` sets the exit code.
- any block with a title, as in ``toml title="spec.toml"``, is written to the file of that name;
  later blocks can import it if it is a module.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
EXIT = re.compile(r"# exit (\d+)$")


@dataclass(frozen=True)
class Shown:
    """A part of a page that shows output, and what was really printed."""

    start: int
    end: int
    text: str
    printed: str

    @property
    def true(self) -> bool:
        """Whether the page shows what was printed."""
        checker = doctest.OutputChecker()
        return self.text == self.printed or (
            "..." in self.text and checker.check_output(self.text, self.printed, doctest.ELLIPSIS)
        )


def examples(text: str) -> list[tuple[str, str | None]]:
    """Return each Python block with the plain block that follows it at once, if any."""
    blocks = list(FENCE.finditer(text))
    return [
        (block[3], after[3] if after else None)
        for block, after in zip(blocks, _outputs(text, blocks), strict=True)
        if block[1] == "python"
    ]


def run(text: str, folder: Path) -> Iterator[Shown]:
    """Run a page's blocks; yield every part that shows output."""
    blocks = list(FENCE.finditer(text))
    with contextlib.chdir(folder), importable(folder):
        for block, after in zip(blocks, _outputs(text, blocks), strict=True):
            if block[2]:
                Path(block[2]).write_text(block[3], encoding="utf-8")
            if block[1] == "python":
                printed = run_python(block[3])
                if after:
                    yield Shown(after.start(3), after.end(3), after[3], printed)
            elif block[1] == "console":
                yield from _console(block)


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let blocks import modules of the folder, and forget them afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def run_python(code: str) -> str:
    """Run a block in a module of its own; return what it printed."""
    module = types.ModuleType("shown")
    sys.modules["shown"] = module
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "<shown>", "exec"), module.__dict__)
    finally:
        del sys.modules["shown"]
    return printed.getvalue()


def _outputs(text: str, blocks: list[re.Match[str]]) -> list[re.Match[str] | None]:
    """Return, for each block, the plain one that follows with nothing between."""
    return [
        after if after and not after[1] and not text[block.end() : after.start()].strip() else None
        for block, after in zip_longest(blocks, blocks[1:])
    ]


def _console(block: re.Match[str]) -> Iterator[Shown]:
    offset = block.start(3)
    for command in COMMAND.finditer(block[3]):
        wanted = EXIT.search(command[1])
        code, printed = run_command(command[1])
        assert code == (int(wanted[1]) if wanted else 0), f"{command[1]}: {code}\n{printed}"
        if command[2]:
            yield Shown(offset + command.start(2), offset + command.end(2), command[2], printed)


def run_command(line: str) -> tuple[int, str]:
    """Run a command: seqbatch's here, which is quick, others in a shell."""
    words = shlex.split(line, comments=True)
    if words[0] != "seqbatch":
        # `python` is the one that runs the tests.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            line, shell=True, capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
        return done.returncode, done.stdout + done.stderr
    from seqbatch.cli.app import app

    environment = {name: None for name in os.environ if name.startswith("SEQBATCH_STORE")}
    result = CliRunner().invoke(app, words[1:], catch_exceptions=False, env=environment)
    lines = [text.rstrip() for text in result.output.splitlines()]
    return result.exit_code, "".join(f"{text}\n" for text in lines)
