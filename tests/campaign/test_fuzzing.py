"""Five hundred damaged files and specs: each ends in an answer or in a refusal."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.campaign.fuzzing import Examiner, cases

pytestmark = pytest.mark.slow

#: `make torture` tries a hundred times as many.
CASES = 80


def test_no_file_and_no_spec_ends_in_a_traceback(tmp_path):
    examiner = Examiner(tmp_path)

    @settings(max_examples=CASES, suppress_health_check=list(HealthCheck), database=None)
    @given(cases)
    def examine(case):
        examiner.examine(case)

    try:
        examine()
        assert examiner.cases >= CASES
        # Both kinds of ends were reached, each often.
        assert 0.1 < examiner.refused / examiner.cases < 0.99
    finally:
        examiner.close()
