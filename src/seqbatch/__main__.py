"""Run the command line as `python -m seqbatch`."""

from seqbatch.cli import main

if __name__ == "__main__":
    main()
