"""The metric and the objective of a spec, for tests."""


def about(column, *, direction="max", metrics=None, value=None, less_costs=None, **settings):
    """Return the settings of a campaign about one metric, with further metrics beside it."""
    verb = "maximise" if direction == "max" else "minimise"
    money = {"value": value, "less_costs": less_costs}
    return {
        "metrics": {column: settings, **(metrics or {})},
        "objective": {
            verb: column,
            **{name: one for name, one in money.items() if one is not None},
        },
    }
