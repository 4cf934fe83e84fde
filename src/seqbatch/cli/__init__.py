"""The command line: parse, call, print."""

import gc
import signal
import sys

#: The exit code of a command whose output could not be written.
UNWRITTEN = 4


def main() -> None:
    """Run the command line, or report which package is missing."""
    try:
        from seqbatch.cli.app import app
    except KeyboardInterrupt:
        print("seqbatch: interrupted before anything was done.", file=sys.stderr)
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "seqbatch":
            raise
        sys.exit(
            f"seqbatch: the command line needs {error.name}, which is not installed. "
            "Install seqbatch again with its dependencies."
        )
    # Let a stop signal end the program like an exit, which removes temporary files.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        app()
    except OSError as error:
        # Messages of commands are handled before; this is about printing their results.
        sys.stdout = None
        print(
            f"seqbatch: the output could not be written ({error.strerror}). The command may have "
            "been carried out; check the campaign's status.",
            file=sys.stderr,
        )
        sys.exit(UNWRITTEN)
    finally:
        # Skip the garbage collection at exit: with PyTorch it takes half a second.
        gc.freeze()
