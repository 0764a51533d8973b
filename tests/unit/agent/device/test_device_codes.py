"""Response codes by name and meaning."""

from __future__ import annotations

import pytest

from tpmbench.device import codes


@pytest.mark.parametrize(
    ("code", "name", "status"),
    [
        (0x2CA, "TPM_RC_TYPE (parameter 2)", "unsupported"),
        (0x143, "TPM_RC_COMMAND_CODE", "unsupported"),
        (0x184, "TPM_RC_VALUE (handle 1)", "unsupported"),
        (0x2C4, "TPM_RC_VALUE (parameter 2)", "unsupported"),
        (0x0A6, "TPM_RC_CURVE", "unsupported"),
        (0x085, "TPM_RC_HIERARCHY", "blocked"),
        (0x9A2, "TPM_RC_BAD_AUTH (session 1)", "blocked"),
        (0x98E, "TPM_RC_AUTH_FAIL (session 1)", "blocked"),
        (0x921, "TPM_RC_LOCKOUT", "blocked"),
        (0x907, "TPM_RC_LOCALITY", "blocked"),
        (0x142, "TPM_RC_COMMAND_SIZE", "transport-limit"),
        (0x902, "TPM_RC_OBJECT_MEMORY", "error"),
        (0x14B, "TPM_RC_NV_SPACE", "error"),
        (0x1CB + 0x20, "TPM_RC_EXT_MU (parameter 1)", "unsupported"),
        (0x0AC, "TPM_RC_ONE_SHOT_SIGNATURE", "unsupported"),
        (0x1AB, "TPM_RC_EXT_MU (handle 1)", "unsupported"),
        (0x7FF, "unknown response code 0x7ff", "error"),
        (0xA0006, "unknown response code 0xa0006", "error"),
        (0, "unknown response code 0x0", "error"),
    ],
)
def test_a_code_has_a_name_and_a_meaning(code: int, name: str, status: str) -> None:
    assert codes.name(code) == name
    assert codes.status(code) == status


def test_every_code_leads_to_a_row() -> None:
    seen = {codes.status(code) for code in range(0x1000)}
    assert seen == {"unsupported", "blocked", "transport-limit", "error"}
    assert all(codes.name(code) for code in range(0x1000))
