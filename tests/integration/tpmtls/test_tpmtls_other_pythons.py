"""The bridge under every CPython from 3.11 on that is found on this machine.

How others are named is in tests/support/pythons.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tpmtls
from tests.support import tpm
from tests.support.pythons import candidates, skip_unless
from tests.support.tls import pem

if TYPE_CHECKING:
    from tests.support.swtpm import Swtpm
    from tests.support.tls import Authority

HERE = Path(__file__).parent
SOURCES = Path(tpmtls.__file__).parents[1]
KEYS = {0x81000010: "ecc256:ecdsa-sha256", 0x81000011: "ecc384", 0x81000012: "rsa2048"}


@pytest.mark.parametrize("python", candidates())
def test_handshakes_under(
    python: str, swtpm: Swtpm, authority: Authority, authority_file: Path, tmp_path: Path
) -> None:
    skip_unless(python)
    pairs = []
    for handle, algorithm in KEYS.items():
        tpm.put_key(swtpm.tcti, handle, algorithm=algorithm)
        with tpmtls.open(handle, tcti=swtpm.tcti) as key:
            path = tmp_path / f"{handle:x}.crt"
            path.write_bytes(pem(authority.issue(key.public_key), authority.certificate))
        pairs.append(f"{handle:#x}={path}")
    arguments = [HERE / "other_python.py", SOURCES, swtpm.tcti, authority_file, *pairs]
    result = subprocess.run(
        [python, "-X", "dev", *arguments],
        env={**os.environ, "PYTHONMALLOC": "debug", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["handles"] == {f"{handle:#x}": ["TLSv1.2", "TLSv1.3"] for handle in KEYS}, said
