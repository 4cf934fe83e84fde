"""The tests, which read what is printed at 80 columns, whatever the terminal they run in."""

import os

os.environ["COLUMNS"] = "80"
