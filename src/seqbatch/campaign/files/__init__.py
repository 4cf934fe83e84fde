"""Read and write files of units and outcomes: all code that knows file formats."""
