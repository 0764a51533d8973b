"""The bridge under every CPython from 3.11 on that is found on this machine.

One that is not found by itself, such as that of a virtual environment, can be named in
TPMTLS_PYTHONS (several with a colon between them). It needs tpm2-pytss and cryptography.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tpmtls
from tests.support import tpm
from tests.support.tls import pem

if TYPE_CHECKING:
    from tests.support.swtpm import Swtpm
    from tests.support.tls import Authority

HERE = Path(__file__).parent
SOURCES = Path(tpmtls.__file__).parents[1]
KEYS = {0x81000010: "ecc256:ecdsa-sha256", 0x81000011: "ecc384", 0x81000012: "rsa2048"}


def candidates() -> list[str]:
    named = [Path(item) for item in os.environ.get("TPMTLS_PYTHONS", "").split(":") if item]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*versions.glob("3.1[1-9].*/bin/python3"), Path("/usr/bin/python3")]
    return [sys.executable, *map(str, named), *sorted(map(str, found))]


@pytest.mark.parametrize("python", candidates())
def test_handshakes_under(
    python: str, swtpm: Swtpm, authority: Authority, authority_file: Path, tmp_path: Path
) -> None:
    needs = "import sys, cryptography, tpm2_pytss; sys.exit(sys.version_info < (3, 11))"
    looked = subprocess.run([python, "-c", needs], capture_output=True, text=True, check=False)
    if looked.returncode:
        pytest.skip(f"{python}: {(looked.stderr.splitlines() or ['it is too old'])[-1]}")
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
