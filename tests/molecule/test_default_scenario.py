"""molecule's scenario ``default``, whole: hosts in containers, measured over SSH with sudo."""

import hashlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SHARED = PROJECT / "molecule" / "shared"
STEPS = [
    *["destroy", "syntax", "create", "prepare"],
    *["check", "converge", "idempotence", "verify", "destroy"],
]
WHOLE_SECONDS = 25 * 60  # five minutes on a quiet machine, the building of the image included
DESTROY_SECONDS = 5 * 60
pytestmark = [
    pytest.mark.molecule,
    pytest.mark.xdist_group("machines"),
    pytest.mark.timeout(WHOLE_SECONDS + 2 * DESTROY_SECONDS),
]


@pytest.fixture(scope="module", autouse=True)
def _containers_run_here():
    check = [str(SHARED / "podman.sh"), "check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(done.stderr.strip().removeprefix("podman.sh: "))


class Molecule:
    """molecule with containers, keys and results apart from those of a user of this checkout."""

    def __init__(self, root):
        self.directory = root / "work"
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "MOLECULE_EPHEMERAL_DIRECTORY": str(root / "state"),
            "TPM_FLEET_BENCH_MOLECULE": str(self.directory),
            "CONTAINERS_CONF": str(SHARED / "containers.conf"),
            "NO_COLOR": "1",
        }

    def run(self, *arguments, seconds):
        """Return status and output; whatever it started is ended if it takes too long."""
        process = subprocess.Popen(
            ["molecule", *arguments],
            cwd=PROJECT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate()
            raise
        return process.returncode, output

    def prefix(self, scenario):
        digest = hashlib.sha256(f"{self.directory}/{scenario}".encode()).hexdigest()
        return f"tfb-{digest[:8]}-{scenario}"

    def left(self, scenario):
        """Containers, networks and processes that carry the scenario's name."""
        podman = ["podman", "ps", "--all", "--format", "{{.Names}}"]
        networks = ["podman", "network", "ls", "--format", "{{.Name}}"]
        lines = [
            line
            for command in (podman, networks)
            for line in subprocess.run(
                command, env=self.environment, capture_output=True, text=True, check=True
            ).stdout.splitlines()
        ]
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                lines.append(process.read_bytes().decode(errors="replace").replace("\0", " "))
            except OSError:  # gone meanwhile
                continue
        return [line for line in lines if self.prefix(scenario) in line]


@pytest.fixture
def molecule(tmp_path):
    molecule = Molecule(tmp_path)
    yield molecule
    if molecule.left("default"):  # after a failure in the middle
        molecule.run("destroy", "--scenario-name=default", seconds=DESTROY_SECONDS)


def test_a_fleet_in_containers_is_measured_like_a_users(molecule):
    status, output = molecule.run("test", seconds=WHOLE_SECONDS)
    assert status == 0, output[-20_000:]
    done = re.findall(r"default > (\w+)\S*:? Executed: (\w+)", output.partition("DETAILS")[2])
    assert done == [(step, "Successful") for step in STEPS]
    assert molecule.left("default") == []
    assert not (molecule.directory / "default").exists()
