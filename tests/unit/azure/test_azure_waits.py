"""How long a client waits before it asks again."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("after", "expected"), [(0.0, (0.25, 0.5)), (7.0, (7.0, 7.0))])
def test_the_time_that_azure_asks_to_wait_for_is_kept_to(
    after: float, expected: tuple[float, float]
) -> None:
    from ansible.module_utils.azure_errors import AzureError
    from ansible.module_utils.cloud_wait import Deadline

    waited: list[float] = []
    answers = iter([AzureError("rate", "Later.", retriable=True, after=after), None])

    def send() -> str:
        if error := next(answers):
            raise error
        return "done"

    assert Deadline(100, waited.append).attempts(send) == "done"
    assert len(waited) == 1
    assert expected[0] <= waited[0] <= expected[1]


def test_a_time_that_ends_after_the_deadline_is_not_waited_for() -> None:
    from ansible.module_utils.azure_errors import AzureError
    from ansible.module_utils.cloud_wait import Deadline

    def send() -> None:
        raise AzureError("rate", "Later.", retriable=True, after=101.0)

    waited: list[float] = []
    with pytest.raises(AzureError, match="Later"):
        Deadline(100, waited.append).attempts(send)
    assert waited == []
