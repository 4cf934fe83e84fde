"""The command line: parse, call, print."""

import gc
import sys


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
            'Install it with: pip install "seqbatch[campaign,lab]"'
        )
    try:
        app()
    finally:
        # Skip the garbage collection at exit: with PyTorch it takes half a second.
        gc.freeze()
