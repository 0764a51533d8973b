"""Build the wheels that go to the hosts, once, and print where they are.

    python3 scripts/wheels.py agent           the agent's own, rebuilt when its source changed
    python3 scripts/wheels.py dependencies    what it needs, by requirements/agent.lock

Each prints one line of JSON. ``dependencies`` builds for the Python and the architecture that it
runs on, and for the tpm2-tss library installed there; where the control node is not like the hosts,
run it on a machine that is, with ``--output DIRECTORY``, and set ``bench_agent_wheelhouse`` to a
copy of that directory. It needs the standard library and pip;
``agent`` needs build and setuptools too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
CACHE = PROJECT / ".cache"
ARCHIVE = "wheels.tar"


class Failure(Exception):
    """Something a user can mend; the text says how."""


def tag() -> str:
    """The Python and the architecture that wheels built here fit, for instance ``cp311-x86_64``."""
    return f"cp{sys.version_info.major}{sys.version_info.minor}-{platform.machine()}"


def digest(files: list[Path], root: Path) -> str:
    """SHA-256, in hexadecimal, over the names and contents of files."""
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(
            f"{file.relative_to(root)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode()
        )
    return total.hexdigest()


def run(command: list[str], what: str) -> None:
    """Run a command; its output is shown only if it fails."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failure(f"{what} failed:\n{(done.stdout + done.stderr).strip()}")


def into_place(built: Path, place: Path) -> None:
    """Move a finished directory to its name in the cache, unless another process was quicker."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        built.rename(place)
    except OSError as error:
        if {file.name for file in built.iterdir()} - {file.name for file in place.glob("*")}:
            raise Failure(f"{place} could not be written: {error.strerror}.") from error


def pinned(wheel: Path) -> str:
    """The line of a requirements file that this wheel and no other satisfies."""
    name, version = wheel.name.split("-")[:2]
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


def agent(project: Path, cache: Path) -> dict[str, object]:
    """Build the agent's wheel, or find the one that was built from the same source.

    Args:
        project: Directory of the agent's ``pyproject.toml``.
        cache: Directory that keeps wheels by the hash of their source.

    Returns:
        ``path`` and ``sha256`` of the wheel, and whether it was ``built`` now.

    Raises:
        Failure: There is no package there, or it does not build.
    """
    manifest = project / "pyproject.toml"
    if not manifest.is_file():
        raise Failure(f"{project} holds no agent: {manifest} is missing.")
    source = [
        manifest,
        *(f for f in (project / "src").rglob("*") if f.suffix in {".py", ".typed", ".json"}),
    ]
    place = cache / "agent" / digest(source, project)[:16]
    built = not place.is_dir()
    if built:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            copy = Path(scratch) / "source"
            for file in source:
                target = copy / file.relative_to(project)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
            wheel = ["--wheel", "--no-isolation", "--outdir", f"{scratch}/wheel", str(copy)]
            run([sys.executable, "-m", "build", *wheel], "Building the agent's wheel")
            into_place(Path(scratch) / "wheel", place)
    (path,) = place.glob("*.whl")
    return {
        "path": str(path),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "built": built,
    }


def dependencies(lock: Path, cache: Path, output: Path | None) -> dict[str, object]:
    """Build wheels of everything in a lock file, or find those that were built from it.

    The files that pip takes are checked against the lock's hashes. The wheels get a requirements
    file of their own with their own hashes, since a wheel built here is not among the lock's files.

    Args:
        lock: Requirements with hashes.
        cache: Directory that keeps wheelhouses by Python, architecture and hash of the lock.
        output: Where to put the wheels instead of the cache.

    Returns:
        ``directory`` of the wheels, the ``tag`` they fit, the ``sha256`` of their requirements, and
        whether they were ``built`` now.

    Raises:
        Failure: A wheel does not build; the text is pip's. Or something else is at ``output``.
    """
    place = output or cache / "wheelhouse" / tag() / digest([lock], lock.parent)[:16]
    built = not (place / ARCHIVE).is_file()
    if built:
        if not output:
            shutil.rmtree(place, ignore_errors=True)  # of an earlier version of this script
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            wheels = Path(scratch) / "wheels"
            wheels.mkdir()
            options = ["--disable-pip-version-check", "--quiet", "--no-deps", "--require-hashes"]
            what = ["--requirement", str(lock), "--wheel-dir", str(wheels)]
            run([sys.executable, "-m", "pip", "wheel", *options, *what], "Building dependencies")
            text = "".join(pinned(wheel) for wheel in sorted(wheels.glob("*.whl")))
            (wheels / "requirements.txt").write_text(text)
            made = {"tag": tag(), "sha256": hashlib.sha256(text.encode()).hexdigest()}
            (wheels / "wheelhouse.json").write_text(json.dumps(made) + "\n")
            with tarfile.open(wheels / ARCHIVE, "w") as archive:  # one file to copy, not one each
                for file in [*wheels.glob("*.whl"), wheels / "requirements.txt"]:
                    archive.add(file, file.name)
            into_place(wheels, place)
    made = json.loads((place / "wheelhouse.json").read_text())
    return {"directory": str(place), **made, "built": built}


def main() -> int:
    """Parse the arguments, build, print one line of JSON."""
    parser = argparse.ArgumentParser(description="Build the wheels that go to the hosts.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("agent", "dependencies"):
        command = commands.add_parser(name)
        command.add_argument("--cache", type=Path, default=CACHE)
    commands.choices["agent"].add_argument("--project", type=Path, default=PROJECT / "agent")
    commands.choices["dependencies"].add_argument(
        "--lock", type=Path, default=PROJECT / "requirements" / "agent.lock"
    )
    commands.choices["dependencies"].add_argument("--output", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.command == "agent":
            made = agent(arguments.project.resolve(), arguments.cache.resolve())
        else:
            output = arguments.output.resolve() if arguments.output else None
            made = dependencies(arguments.lock.resolve(), arguments.cache.resolve(), output)
    except Failure as failure:
        print(f"wheels: {failure}", file=sys.stderr)
        return 1
    print(json.dumps(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
