"""Settings that all tests share."""

from hypothesis import settings

# The same examples every time, however busy the machine: a red test must mean a wrong program.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
