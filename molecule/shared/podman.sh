#!/usr/bin/env bash
# Hosts in containers: what they are made of and what joins them.
#
#   podman.sh check           say in one line what keeps containers from running here; status 1 if something does
#   podman.sh image SUITE     have the image of a release (bookworm, trixie, ...; own: this machine's) and print its name
#   podman.sh network NAME    make a network that leads nowhere but to this machine
#
# Images are made of the distribution's packages; no registry is asked. The packages come from this machine's own apt sources, with the release's name in place of its own. The root file
# system is kept as an archive in ${XDG_CACHE_HOME:-~/.cache}/tpm-fleet-bench/containers, by the hash of what it is made
# from, and imported into podman's store under localhost/tpm-fleet-bench-SUITE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export CONTAINERS_CONF=$PWD/containers.conf
export PATH=$PATH:/usr/sbin:/sbin
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tpm-fleet-bench/containers

# program or file | package
parts='podman|podman
runc|runc
catatonit|catatonit
/usr/lib/podman/netavark|netavark
iptables|iptables
newuidmap|uidmap
mmdebstrap|mmdebstrap
ssh|openssh-client'

# What every host has: sshd and sudo, a software TPM and the tools to look into it, and what the agent may need of the
# distribution. No compiler.
host=openssh-server,sudo,iproute2,procps,python3,python3-apt
tpm=swtpm,tpm2-tools,python3-venv,libtss2-dev,python3-tpm2-pytss,python3-cryptography

packages_of() {
  case $1 in
    bullseye) echo "$host" ;; # too old for the agent, and here for that
    *) echo "$host,$tpm" ;;
  esac
}

die() {
  echo "podman.sh: $*" >&2
  exit 1
}

network() {
  local subnet
  # podman chooses a free range, but gives this machine no address in an internal network unless it is told which.
  podman network create --internal --disable-dns "$1" >/dev/null
  subnet=$(podman network inspect --format '{{(index .Subnets 0).Subnet}}' "$1")
  podman network rm "$1" >/dev/null
  podman network create --internal --disable-dns --subnet="$subnet" --gateway="${subnet%.*}.1" "$1"
}

check() {
  local program package scratch name
  while IFS='|' read -r program package; do
    command -v "$program" >/dev/null || die "$program is not there; install it (Debian, Ubuntu: apt-get install $package)"
  done <<<"$parts"
  [ "$(id -u)" -eq 0 ] || die "hosts are reached at their containers' addresses, which takes podman as root; become root first"
  # Having the programs is not enough: try one container on one network.
  scratch=$(mktemp -d)
  name=tpm-fleet-bench-try-$$
  # shellcheck disable=SC2064 # now, not then
  trap "podman network rm --force '$name' >/dev/null 2>&1 || true; rm -rf '$scratch'" EXIT
  mkdir "$scratch/root"
  cp "$(command -v catatonit)" "$scratch/root/init"
  {
    network "$name" &&
      podman run --rm --name="$name" --network="$name" --rootfs "$scratch/root" /init --version
  } >"$scratch/said" 2>&1 || die "podman cannot run a container here: $(tail -n 1 "$scratch/said")"
}

own_release() {
  # shellcheck disable=SC1091 # of this machine
  (. /etc/os-release && echo "${VERSION_CODENAME:-}")
}

# This machine's apt sources for the distribution, rewritten for another release, into a directory.
write_sources() {
  local suite=$1 place=$2 own file
  own=$(own_release)
  [ -n "$own" ] || die "/etc/os-release does not name this machine's release; podman.sh needs a Debian or an Ubuntu"
  for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources /etc/apt/sources.list; do
    [ -s "$file" ] || continue
    # Repositories beside the distribution's own do not know the other release.
    grep -qE "(^|[[:space:]])$own([-/[:space:]]|\$)" "$file" || continue
    sed "s/\\b$own\\b/$suite/g" "$file" >"$place/$(basename "$file")"
  done
  [ -n "$(ls "$place")" ] || die "no apt sources of $own were found in /etc/apt to build the image of $suite from"
}

# This machine's settings of apt that decide whether it reaches a mirror.
apt_options() {
  apt-config dump | grep -E '^Acquire::(https?::|Check-Valid-Until|Check-Date)' | grep -v '""' | sed 's/;$/;/'
}

# How the root file system becomes a host: an account with sudo, an sshd that takes its keys from files given to the
# container.
customise() {
  cat <<'HOOK'
set -eu
root=$1
chroot "$root" useradd --create-home --shell /bin/bash ops
# A locked password would shut out keys as well; this one matches nothing.
chroot "$root" usermod --password '*' ops
echo 'ops ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/ops"
chmod 440 "$root/etc/sudoers.d/ops"
rm -f "$root"/etc/ssh/ssh_host_*
mkdir -p "$root/run/sshd"
: >"$root/etc/resolv.conf"
cat >"$root/etc/ssh/sshd_config" <<'CONFIG'
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
AllowUsers ops
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
Subsystem sftp internal-sftp
CONFIG
HOOK
}

image() {
  local suite=$1 name key archive scratch options=() line
  [ "$suite" != own ] || suite=$(own_release)
  command -v podman >/dev/null || die "podman is not there; install it (Debian, Ubuntu: apt-get install podman)"
  scratch=$(mktemp -d)
  # shellcheck disable=SC2064 # now, not then
  trap "rm -rf '$scratch'" EXIT
  mkdir "$scratch/sources"
  write_sources "$suite" "$scratch/sources"
  customise >"$scratch/customise"
  key=$({ packages_of "$suite" && cat "$scratch/customise" "$scratch"/sources/*; } | sha256sum | cut -c 1-12)
  name=localhost/tpm-fleet-bench-$suite:$key
  archive=$cache/$suite-$key.tar
  mkdir -p "$cache"
  # Two may want it at once: one builds, the other waits.
  exec 9>"$cache/$suite.lock"
  flock 9
  if ! podman image exists "$name"; then
    if [ ! -f "$archive" ]; then
      command -v mmdebstrap >/dev/null || die "mmdebstrap is not there; install it (Debian, Ubuntu: apt-get install mmdebstrap)"
      while read -r line; do options+=("--aptopt=$line"); done < <(apt_options)
      mmdebstrap --quiet --variant=minbase --include="$(packages_of "$suite")" "${options[@]}" \
        --aptopt='APT::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --customize-hook="sh '$scratch/customise' \"\$1\"" \
        "$suite" "$scratch/root.tar" "$scratch"/sources/* >"$scratch/said" 2>&1 ||
        die "the image of $suite could not be built: $(grep -m 1 '^E:' "$scratch/said" || tail -n 1 "$scratch/said")"
      mv "$scratch/root.tar" "$archive"
    fi
    podman import --quiet "$archive" "$name" >"$scratch/said" 2>&1 ||
      die "podman could not import $archive: $(tail -n 1 "$scratch/said")"
  fi
  echo "$name"
}

case ${1:-}/$# in
  check/1) check ;;
  image/2) image "$2" ;;
  network/2) network "$2" ;;
  *)
    echo "usage: podman.sh check | image SUITE | network NAME" >&2
    exit 2
    ;;
esac
