"""Calls made up from the schema, right and wrong: none may fail the service.

``python -m tests.service.fuzzing 5000`` makes that many and says what was found.
"""

import contextlib
import sys
import tempfile
from collections import Counter
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.running import OUTCOMES, UNITS, running

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def fuzz(service, cases: int) -> Counter:
    """Make at least so many calls, right and wrong ones to every route; count the answers."""
    headers = {"Authorization": f"Bearer {service.token('admin')}"}
    raw = service.get("/v1/openapi.json").json()
    # The token is right in every call: that others open nothing has tests of its own.
    del raw["components"]["securitySchemes"]
    for methods in raw["paths"].values():
        for described in methods.values():
            described.pop("security", None)
    schema = schemathesis.openapi.from_dict(raw)
    schema.config.update(base_url=service.url)
    operations = [found.ok() for found in schema.get_all_operations()]
    counts: Counter = Counter()
    turn = 0
    while (left := cases - sum(counts.values())) > 0:
        for operation in operations:
            for mode in GenerationMode:
                each = max(left // (2 * len(operations)), 1)
                _fuzz_one(operation, mode, each, headers, counts, turn)
        turn += 1
    return counts


def _fuzz_one(operation, mode, examples, headers, counts, turn) -> None:
    @seed(turn)
    @given(
        case=operation.as_strategy(generation_mode=mode),
        there=strategies.sampled_from([True, True, False]),
    )
    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=False,
        phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def called(case, there):
        # A name that is made up is hardly ever there, and then little is tried.
        if "name" in (case.path_parameters or {}) and there and mode.is_positive:
            case.path_parameters["name"] = "spring"
        # A first report may take long on a busy machine; what takes too long is refused anyway.
        response = case.call(headers=headers, timeout=150)
        counts[response.status_code] += 1
        # A body that is too long or too slow is refused, too, which that check does not know.
        refused = response.status_code in (408, 413)
        checks = CHECKS if refused else [*CHECKS, negative_data_rejection]
        case.validate_response(response, checks=checks)

    # Some routes have nothing that could be wrong.
    with contextlib.suppress(Unsatisfiable):
        called()


def main() -> None:
    """Fuzz a service of its own."""
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "campaigns.db") as service:
        service.campaign()
        service.post("/v1/campaigns/spring/assignments", {"units": UNITS})
        service.post("/v1/campaigns/spring/outcomes", {"outcomes": OUTCOMES})
        counts = fuzz(service, cases)
        print(f"{sum(counts.values()):,} calls: {dict(sorted(counts.items()))}")
        for name in service.store.names():
            assert service.get(f"/v1/campaigns/{name}").status_code == 200


if __name__ == "__main__":
    main()
