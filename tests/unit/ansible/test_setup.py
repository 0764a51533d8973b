"""scripts/setup.sh: what is missing is named, installed or refused, and nothing is done twice."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
# What the script itself calls, besides what it looks for.
TOOLS = [
    *["bash", "cat", "cut", "dirname", "env", "flock", "grep", "id", "mkdir", "rm", "sha256sum"],
    *["gcc", "pkg-config", "swtpm", "tpm2_getcap", "openssl", "curl", "shellcheck"],
    *["chromium", "chromedriver"],
]


class Machine:
    """A copy of the tree's scripts, and a PATH with chosen programs on it."""

    def __init__(self, root, *, user=1000):
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        (root / "scripts").mkdir()
        shutil.copy(PROJECT / "scripts" / "setup.sh", root / "scripts" / "setup.sh")
        (root / "requirements").mkdir()
        for lock in ("control.lock", "dev.lock"):
            (root / "requirements" / lock).write_text(f"# {lock}: nothing\n")
        for tool in TOOLS:
            found = shutil.which(tool)
            if found:
                (self.bin / tool).symlink_to(found)
            else:
                self.program(tool, "exit 0")
        (self.bin / "python3").symlink_to(getattr(sys, "_base_executable", sys.executable))
        self.program("pkg-config", "exit 0")
        self.program("id", f"echo {user}")

    def program(self, name, script):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def remove(self, name):
        (self.bin / name).unlink()

    def offers(self, *packages):
        """A distribution that has these packages and whose installation brings nothing."""
        script = self.root / "scripts" / "setup.sh"
        text = script.read_text().replace("/usr/", f"{self.root}/usr/")
        script.write_text(text.removesuffix("make_venv\n"))  # which is not what this is about
        names = "|".join(packages)
        self.program("apt-cache", f'case "$2" in {names}) echo "Candidate: 1.0" ;; esac')
        self.program("apt-get", "exit 0")
        self.program("sudo", 'shift; exec "$@"')

    def setup(self, purpose="run", path="", **variables):
        environment = {"PATH": f"{path}{self.bin}", "HOME": str(self.root), **variables}
        return subprocess.run(
            [str(self.bin / "bash"), "scripts/setup.sh", purpose],
            cwd=self.root,
            env={**environment, **{k: v for k, v in os.environ.items() if k.startswith("PIP_")}},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def venv(self):
        return self.root / ".venv"


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "tree")


def test_without_swtpm_root_and_sudo_there_is_one_sentence_and_nothing_half_done(machine):
    machine.remove("swtpm")
    machine.program("apt-get", "exit 0")
    done = machine.setup()
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("setup: swtpm (the software TPMs of the local fleet) must be")
    assert done.stderr.rstrip().endswith("apt-get install swtpm")
    assert not machine.venv.exists()


def test_without_a_recent_python_the_remedy_is_named(machine):
    script = machine.root / "scripts" / "setup.sh"
    script.write_text(script.read_text().replace("/usr/bin/python3", str(machine.bin / "python3")))
    machine.program("python3", "exit 1")
    done = machine.setup()
    assert done.returncode == 1
    assert done.stderr == (
        "setup: Python 3.11 or newer is needed and not here; "
        "install one and name it: PYTHON=/path/to/python3 make run\n"
    )
    assert not machine.venv.exists()


def test_without_apt_get_what_is_missing_is_named_with_its_use(machine):
    machine.remove("gcc")
    machine.remove("swtpm")
    done = machine.setup()
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "swtpm (the software TPMs of the local fleet), gcc (compiles tpm2-pytss" in done.stderr


def test_sudo_installs_what_is_missing_after_saying_why(machine):
    machine.remove("swtpm")
    calls = machine.root / "calls"
    machine.program("sudo", f'echo "sudo $*" >>{calls}; [ "$1" = -n ] && shift; exec "$@"')
    machine.program(
        "apt-get",
        f'echo "apt-get $*" >>{calls}; '
        f'case "$*" in *install*) ln -s /bin/true {machine.bin}/swtpm;; esac',
    )
    (machine.bin / "ln").symlink_to(shutil.which("ln"))
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    assert "to be installed: swtpm (the software TPMs of the local fleet)" in done.stderr
    said = calls.read_text()
    assert "apt-get -q install -y --no-install-recommends swtpm\n" in said
    assert "sudo -n apt-get" in said, "without a terminal, sudo must not ask"
    assert (machine.venv / "made-from").exists()


def test_an_installation_that_brings_nothing_is_not_believed(machine):
    machine.remove("swtpm")
    machine.program("sudo", 'shift; exec "$@"')
    machine.program("apt-get", "exit 0")
    done = machine.setup()
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("still not there after the installation: swtpm")


CONTAINERS = ("podman", "runc", "catatonit", "netavark", "aardvark-dns", "iptables")


@pytest.mark.parametrize(
    ("purpose", "wanted"), [("run", ()), ("molecule", CONTAINERS), ("test", CONTAINERS)]
)
def test_containers_are_for_molecule_and_for_the_tests(machine, purpose, wanted):
    machine.offers(*CONTAINERS)
    done = machine.setup(purpose)
    assert done.returncode == (1 if wanted else 0), done.stderr
    for package in CONTAINERS:
        assert (f"{package} (" in done.stderr) == (package in wanted)


@pytest.mark.parametrize("given", [{"CI": "true"}, {"CI": ""}, {}])
def test_a_listening_daemon_is_installed_for_ci_alone(machine, given):
    machine.offers("openssh-server")
    done = machine.setup("test", **given)
    assert ("openssh-server (" in done.stderr) == bool(given.get("CI"))


def test_ci_makes_no_difference_to_a_run(machine):
    machine.offers("openssh-server", "sudo")
    done = machine.setup("run", CI="true")
    assert (done.returncode, "openssh-server" in done.stderr) == (0, False), done.stderr


def test_an_unknown_purpose_is_refused_with_those_that_there_are(machine):
    done = machine.setup("moleclue")
    assert done.returncode == 2
    assert done.stderr == "usage: scripts/setup.sh run [INVENTORY] | molecule | test\n"


def test_the_environment_follows_the_lock_and_is_made_once(machine):
    assert machine.setup().returncode == 0
    assert (machine.venv / "bin" / "python").exists()
    witness = machine.venv / "witness"
    witness.touch()

    again = machine.setup()
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert witness.exists()

    (machine.root / "requirements" / "control.lock").write_text("# another\n")
    changed = machine.setup()
    assert changed.returncode == 0
    assert "making .venv from requirements/control.lock" in changed.stderr
    assert not witness.exists()


def test_the_environment_is_not_made_anew_with_its_own_python(machine):
    """As from make, which puts the environment's programs first."""
    assert machine.setup().returncode == 0
    (machine.root / "requirements" / "control.lock").write_text("# another\n")
    done = machine.setup(path=f"{machine.venv / 'bin'}:")
    assert done.returncode == 0, done.stderr
    assert (machine.venv / "bin" / "pip").exists()


def test_an_environment_made_for_tests_serves_a_run(machine):
    assert machine.setup("test").returncode == 0
    witness = machine.venv / "witness"
    witness.touch()
    assert machine.setup("run").stderr == ""
    assert witness.exists()


def test_an_interrupted_environment_is_made_anew(machine):
    machine.venv.mkdir()
    (machine.venv / "half").touch()
    assert machine.setup().returncode == 0
    assert not (machine.venv / "half").exists()
    assert (machine.venv / "bin" / "pip").exists()
