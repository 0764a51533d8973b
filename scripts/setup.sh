#!/usr/bin/env bash
# Prepare this machine as a control node, and for the local fleet of software TPMs.
#
#   scripts/setup.sh run [INVENTORY]   what `make run` needs, for inventory/INVENTORY
#   scripts/setup.sh molecule          what `make molecule` needs as well: hosts in containers
#   scripts/setup.sh test              what `make test` needs as well; where CI is set, also what is no one's to put on a
#                                      person's machine unasked: an sshd, which listens on every address
#
# Packages of the distribution that are missing are named with the reason for each, then installed through
# apt-get, with sudo unless this is root. Python packages go to .venv, with the hashes of the lock file.
# Where there is nothing to do, it says nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# The environment that may have to be made anew is no place to take Python from.
PATH=${PATH//"$PWD/.venv/bin:"/}

purpose=${1:-run}
inventory=${2:-local}
case $purpose in
  run) lock=requirements/control.lock ;;
  molecule | test) lock=requirements/dev.lock ;;
  *)
    echo "usage: scripts/setup.sh run [INVENTORY] | molecule | test" >&2
    exit 2
    ;;
esac

die() {
  echo "setup: $*" >&2
  exit 1
}

# purposes (run, molecule, test, ci, or an inventory's name) | package | how to see that it is there | needed or optional | why
packages=$(
  cat <<'TABLE'
run|swtpm|have swtpm|needed|the software TPMs of the local fleet
run|libtss2-dev|tss_headers|needed|the TPM software stack, and its headers to build tpm2-pytss
run|pkg-config|have pkg-config|needed|finds those headers
run|gcc|have gcc|needed|compiles tpm2-pytss, which is published as source only
run|python3-venv|python_venv|needed|makes virtual environments
run|python3-dev|python_headers|needed|Python's headers to build tpm2-pytss
vm|qemu-system-x86|have qemu-system-x86_64|optional|emulates a machine with a TPM behind a real kernel
vm molecule|mmdebstrap|have mmdebstrap|optional|makes the roots of machines and containers from the distribution's packages
vm|squashfs-tools|have mksquashfs|optional|packs that root
vm molecule|uidmap|have newuidmap|optional|lets mmdebstrap work without root
vm molecule|openssh-client|have ssh|optional|reaches them
molecule|podman|have podman|optional|runs hosts in containers
molecule|runc|have_daemon runc|optional|starts containers, also where control groups are of two kinds
molecule|catatonit|have catatonit|optional|first process of a container
molecule|netavark|test -x /usr/lib/podman/netavark|optional|joins containers to a network
molecule|aardvark-dns|test -x /usr/lib/podman/aardvark-dns|optional|netavark's other half
molecule|iptables|have_daemon iptables|optional|netavark calls it
test|tpm2-tools|have tpm2_getcap|needed|tests put strangers' keys into a TPM with it
test|openssl|have openssl|needed|tests read certificates and signatures with it
test|curl|have curl|needed|a foreign client for servers with their key in a TPM
test|shellcheck|have shellcheck|needed|checks the shell scripts
test|chromium|have chromium|optional|tests open the report in it
test|chromium-driver|have chromedriver|optional|drives chromium
test|tpm2-abrmd|have_daemon tpm2-abrmd|optional|tests measure over this resource manager too
test|libtss2-tcti-tabrmd0|tabrmd_library|optional|reaches tpm2-abrmd
test|dbus|have dbus-daemon|optional|carries what goes to tpm2-abrmd
ci|openssh-server|have_daemon sshd|optional|tests put hosts of a cloud's fleet behind it
ci|sudo|have sudo|optional|those hosts are measured with it
TABLE
)

have() { command -v "$1" >/dev/null 2>&1; }
have_daemon() { PATH=$PATH:/usr/sbin have "$1"; }
tabrmd_library() { PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep libtss2-tcti-tabrmd >/dev/null; }
tss_headers() { have pkg-config && pkg-config --exists tss2-esys tss2-tctildr tss2-mu tss2-rc; }
python_venv() { [ -n "$python" ] && "$python" -c 'import venv, ensurepip' 2>/dev/null; }
python_headers() {
  [ -n "$python" ] && "$python" -c 'import os, sysconfig as s, sys
sys.exit(not os.path.exists(os.path.join(s.get_path("include"), "Python.h")))' 2>/dev/null
}
recent() { have "$1" && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# The first Python that is recent enough and can make virtual environments; else one that a package would complete.
find_python() {
  local candidate
  python=
  for candidate in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    recent "$candidate" || continue
    python=$candidate
    if python_venv && python_headers; then return; fi
  done
  python=
  if recent /usr/bin/python3; then python=/usr/bin/python3; fi
  [ -n "$python" ] || die "Python 3.11 or newer is needed and not here; install one and name it: PYTHON=/path/to/python3 make $purpose"
}

# Whether a package with these purposes is to be there.
wanted() {
  local for_
  for for_ in $1; do
    case $for_ in
      run | "$purpose" | "$inventory") return 0 ;;
      ci) [ "$purpose" != test ] || [ -z "${CI:-}" ] || return 0 ;;
      *) [ "$purpose" != test ] || return 0 ;;
    esac
  done
  return 1
}

# Names of the missing packages to `missing`, with the reasons printed.
find_missing() {
  local for_ package test need why
  missing=()
  reasons=
  while IFS='|' read -r for_ package test need why; do
    wanted "$for_" || continue
    # shellcheck disable=SC2086 # a command with its argument
    if $test; then continue; fi
    if [ "$need" = optional ] && ! offered "$package"; then
      if [ "$1" = tell ]; then echo "setup: $package ($why) is not offered by this system; what needs it is skipped" >&2; fi
      continue
    fi
    missing+=("$package")
    reasons+="$package ($why), "
  done <<<"$packages"
}

# Ubuntu's chromium is a stub for a snap, which a test cannot drive; only a real package counts.
offered() {
  if [[ $1 == chromium* ]] && grep -qx 'ID=ubuntu' /etc/os-release; then return 1; fi
  have apt-cache && apt-cache policy "$1" 2>/dev/null | grep 'Candidate: [0-9]' >/dev/null
}

install_missing() {
  local sudo=()
  have apt-get || die "there is no apt-get here to install what is missing; install the like of these by hand, then run again: ${reasons%, }"
  if [ "$(id -u)" -ne 0 ]; then
    have sudo || die "${reasons%, } must be installed, and this is neither root nor is there a sudo; ask an administrator for: apt-get install ${missing[*]}"
    sudo=(sudo)
    [ -t 0 ] || sudo+=(-n)
  fi
  echo "setup: to be installed: ${reasons%, }" >&2
  echo "setup: ${sudo[*]} apt-get install ${missing[*]}" >&2
  { "${sudo[@]}" apt-get -q update && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends "${missing[@]}"; } >&2 ||
    die "apt-get could not install: ${missing[*]}; its message is above"
}

# What the virtual environment was made from. One made for tests serves a run as well: dev.lock contains control.lock.
fingerprint() { { "$python" -c 'import sys; print(sys.version)' && cat "$1"; } | sha256sum | cut -d ' ' -f 1; }

make_venv() {
  local made wanted
  wanted=$(fingerprint "$lock")
  made=$(cat .venv/made-from 2>/dev/null || true)
  if [ "$made" = "$wanted" ]; then return; fi
  if [ "$purpose" = run ] && [ "$made" = "$(fingerprint requirements/dev.lock)" ]; then return; fi
  echo "setup: making .venv from $lock ($("$python" --version); a minute or two the first time)" >&2
  rm -rf .venv
  "$python" -m venv .venv
  .venv/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --requirement "$lock" ||
    die "pip could not install what $lock lists; its message is above. Is the package index within reach?"
  echo "$wanted" >.venv/made-from
}

mkdir -p .cache
exec 9>.cache/setup.lock
if have flock; then flock 9; fi

find_python
find_missing tell
if [ ${#missing[@]} -gt 0 ]; then
  install_missing
  find_python
  find_missing quiet
  [ ${#missing[@]} -eq 0 ] || die "still not there after the installation: ${missing[*]}"
fi
make_venv
