"""Charts as plain values, for tests of what they show."""


def spec(chart):
    """A chart as plain values, its data where they are used."""
    made = chart.to_dict()
    named = made.pop("datasets", {})

    def whole(part):
        if isinstance(part, list):
            return [whole(inner) for inner in part]
        if not isinstance(part, dict):
            return part
        if "name" in part.get("data", {}):
            part = part | {"data": {"values": named[part["data"]["name"]]}}
        return {name: inner if name == "data" else whole(inner) for name, inner in part.items()}

    return whole(made)


def marked(chart, kind, data=None):
    """All layers of a chart with a kind of mark, each with the data that it shows."""
    if isinstance(chart, list):
        return [layer for part in chart for layer in marked(part, kind, data)]
    if not isinstance(chart, dict):
        return []
    data = chart.get("data", data)
    mark = chart.get("mark", {})
    here = [chart | {"data": data}] if isinstance(mark, dict) and mark.get("type") == kind else []
    return here + [layer for part in chart.values() for layer in marked(part, kind, data)]
