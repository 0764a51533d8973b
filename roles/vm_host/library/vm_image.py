#!/usr/bin/python
"""Ansible module: the guest's kernel, initial file system and root image, built once and kept."""

from __future__ import annotations

import fcntl
import hashlib
import json
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: vm_image
short_description: Build a Debian guest for QEMU, or find the one built from the same inputs
description:
  - The root file system is made by mmdebstrap from Debian's packages and packed into a squashfs.
    Nothing is installed on this machine.
  - SSH keys are made with it. The private keys are in the cache, which only its owner can read.
options:
  cache:
    description: Directory that keeps images by the hash of their inputs.
    type: path
    required: true
  files:
    description: Directory of the files that turn a Debian root into the guest's.
    type: path
    required: true
  suite:
    description: Debian release, by code name.
    type: str
    default: bookworm
  packages:
    description: Packages beyond what Debian itself needs.
    type: list
    elements: str
    required: true
  mirror:
    description:
      - Address of a Debian mirror. Empty - this machine's own apt sources where it is a Debian,
        else mmdebstrap's default.
    type: str
    default: ""
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Build the image
  vm_image:
    cache: /home/user/.cache/tpm-fleet-bench/vm
    files: /path/to/roles/vm_host/files
    packages: [openssh-server, sudo]
"""

RETURN = r"""
directory:
  description: Holds vmlinuz, initrd, root.squashfs, id_ed25519 and ssh_host_ed25519_key.pub.
  type: str
  returned: always
"""

PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "mksquashfs": "squashfs-tools",
    "ssh-keygen": "openssh-client",
}
SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
# Of this machine's apt: how it reaches a mirror, and whether it takes one that is frozen in time.
APT_OPTION = re.compile(r"Acquire::(https?::|Check-Valid-Until|Check-Date)")
LEFT_OUT = ("man", "doc", "info", "locale", "lintian")


def release() -> dict[str, str]:
    """What os-release says of this machine."""
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.replace('"', "").split("=", 1) for line in lines if "=" in line)


def sources(suite: str) -> dict[str, str]:
    """This machine's apt sources, by file name, with the suite's name in place of its own."""
    here = release()
    own = here.get("VERSION_CODENAME", "")
    if here.get("ID") != "debian" or not own:
        return {}
    return {
        path.name: path.read_text().replace(own, suite)
        for path in map(Path, SOURCES)
        if path.is_file()
    }


def apt_options(module: AnsibleModule) -> list[str]:
    """This machine's settings of apt that decide whether it reaches a mirror."""
    if module.get_bin_path("apt-config") is None:
        return []
    _, text, _ = module.run_command(["apt-config", "dump"])
    lines = (line.strip().rstrip(";") for line in text.splitlines())
    return [line for line in lines if APT_OPTION.match(line) and not line.endswith('""')]


def fingerprint(module: AnsibleModule, mirrors: dict[str, str]) -> str:
    """SHA-256, in hexadecimal, over everything that the image is made from."""
    given = module.params
    files = sorted(path for path in Path(given["files"]).iterdir() if path.is_file())
    # Where the files lie says nothing about the image; another checkout finds the same one.
    maker = [
        word.replace(given["files"], "")
        for word in debootstrap(module, Path("/"), [given["mirror"]])
    ]
    inputs = {
        "commands": [maker, pack(Path("/"))],
        "mirrors": mirrors,
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def make_keys(module: AnsibleModule, directory: Path, name: str) -> None:
    """Two pairs of SSH keys: the machine's own, and the one to log in with."""
    for file, comment in (("ssh_host_ed25519_key", "guest"), ("id_ed25519", name)):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f"]
        module.run_command([*command, str(directory / file)], check_rc=True)


def debootstrap(module: AnsibleModule, directory: Path, mirrors: list[str]) -> list[str]:
    """The command that writes the guest's root as a tar archive to its standard output."""
    given = module.params
    uploads = [
        *((path, path.name) for path in sorted(Path(given["files"]).iterdir())),
        (directory / "ssh_host_ed25519_key", "ssh_host_ed25519_key"),
        (directory / "id_ed25519.pub", "authorized_keys"),
    ]
    hooks = [
        'mkdir "$1/build"',
        *(f"upload '{path}' /build/{name}" for path, name in uploads),
        'chroot "$1" sh /build/customise.sh',
        *(f"download /boot/{name} '{directory / name}'" for name in ("vmlinuz", "initrd")),
        'rm -rf "$1/build" "$1/boot/vmlinuz" "$1/boot/initrd"',
    ]
    return [
        "mmdebstrap",
        "--variant=minbase",
        "--quiet",
        "--aptopt=APT::Install-Recommends false",
        *(f"--aptopt={option}" for option in apt_options(module)),
        *(f"--dpkgopt=path-exclude=/usr/share/{place}/*" for place in LEFT_OUT),
        f"--include={','.join(given['packages'])}",
        *(f"--customize-hook={hook}" for hook in hooks),
        given["suite"],
        "-",
        *mirrors,
    ]


def pack(directory: Path) -> list[str]:
    """The command that packs that archive; lz4 is what the emulated processor unpacks soonest."""
    root = str(directory / "root.squashfs")
    return ["mksquashfs", "-", root, "-tar", "-comp", "lz4", "-noappend", "-quiet", "-no-progress"]


def build(module: AnsibleModule, directory: Path, mirrors: dict[str, str]) -> None:
    """Make everything in an empty directory."""
    given = module.params
    make_keys(module, directory, "tpm-fleet-bench")
    places = []
    for name, text in mirrors.items():
        places.append(str(directory / name))
        (directory / name).write_text(text)
    if given["mirror"]:
        places = [given["mirror"]]
    with (directory / "build.log").open("w+") as log:
        maker = subprocess.Popen(
            debootstrap(module, directory, places),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        packed = subprocess.run(
            pack(directory), stdin=maker.stdout, stdout=subprocess.DEVNULL, stderr=log, check=False
        )
        maker.stdout.close()
        if maker.wait() or packed.returncode:
            log.seek(0)
            words = [line.strip() for line in log if line.strip()]
            errors = [line for line in words if line.startswith(("E:", "mksquashfs:", "FATAL"))]
            module.fail_json(
                msg=f"The guest's image could not be built from Debian {given['suite']}: "
                f"{(errors or words or ['it said nothing'])[0]}. Is a Debian mirror within reach?",
                log=words[-30:],
            )
    for place in mirrors:
        (directory / place).unlink()
    (directory / "ssh_host_ed25519_key").unlink()  # it is in the image, where it is needed


def check(module: AnsibleModule) -> None:
    """Refuse where the image cannot be built."""
    if platform.machine() != "x86_64":
        module.fail_json(
            msg=f"The guest is an x86-64 machine and is built on one; this is {platform.machine()}."
        )
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            module.fail_json(
                msg=f"{program} is not installed here; it is needed to build the guest's image "
                f"(Debian, Ubuntu: apt-get install {package})."
            )


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "cache": {"type": "path", "required": True},
            "files": {"type": "path", "required": True},
            "suite": {"type": "str", "default": "bookworm"},
            "packages": {"type": "list", "elements": "str", "required": True},
            "mirror": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    cache = Path(module.params["cache"])
    mirrors = {} if module.params["mirror"] else sources(module.params["suite"])
    place = cache / fingerprint(module, mirrors)[:16]
    if place.is_dir():
        module.exit_json(changed=False, directory=str(place))
    if module.check_mode:
        module.exit_json(changed=True, directory=str(place))
    check(module)
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Several machines may be started at once: one of them builds, the others wait.
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.is_dir():
            module.exit_json(changed=False, directory=str(place))
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            made = Path(scratch) / "image"
            made.mkdir(mode=0o700)
            build(module, made, mirrors)
            made.rename(place)
    module.exit_json(changed=True, directory=str(place))


if __name__ == "__main__":
    main()
