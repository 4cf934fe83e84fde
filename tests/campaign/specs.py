"""The metric and the objective of a spec, for tests."""


def about(column, *, direction="max", metrics=None, **settings):
    """Return the settings of a campaign about one metric, with further metrics beside it."""
    verb = "maximise" if direction == "max" else "minimise"
    return {
        "metrics": {column: settings, **(metrics or {})},
        "objective": {verb: column},
    }
