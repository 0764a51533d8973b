#!/bin/sh
# Runs as root inside a fresh Debian root file system, as a hook of mmdebstrap, with these files beside it:
# guest-init, initramfs-init, ssh_host_ed25519_key and authorized_keys. It makes that root the guest's, and leaves the
# kernel and the initial file system of the guest in /boot.
set -eu
here=$(dirname "$0")

# --- accounts: one that the fleet logs in with, and one that may do nothing
useradd --create-home --shell /bin/bash --groups tss bench
useradd --create-home --shell /bin/bash outsider
for user in bench outsider; do
  # A locked password would shut out keys as well, since sshd goes without PAM; this one matches nothing.
  usermod --password '*' "$user"
  install -d -m 700 -o "$user" -g "$user" "/home/$user/.ssh"
  install -m 600 -o "$user" -g "$user" "$here/authorized_keys" "/home/$user/.ssh/authorized_keys"
done
echo 'bench ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/bench
chmod 440 /etc/sudoers.d/bench

# --- sshd
rm -f /etc/ssh/ssh_host_*
install -m 600 "$here/ssh_host_ed25519_key" /etc/ssh/ssh_host_ed25519_key
cat >/etc/ssh/sshd_config <<'CONFIG'
HostKey /etc/ssh/ssh_host_ed25519_key
AllowUsers bench outsider
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
Subsystem sftp internal-sftp
CONFIG

# --- how many commands the TPM has been given, counted outside; prints one number
cat >/usr/local/bin/tpm-commands <<'SCRIPT'
#!/bin/sh
exec busybox nc 10.0.2.100 7
SCRIPT
chmod 755 /usr/local/bin/tpm-commands

# --- first process
install -m 755 "$here/guest-init" /sbin/guest-init

# --- kernel: taken out of its package, not installed, so that no boot loader or initramfs generator comes along
work=$(mktemp -d)
cd "$work"
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-/ { print $2; exit }')
apt-get -q download "$kernel"
dpkg -x ./linux-image-*.deb kernel
release=$(ls kernel/lib/modules)
depmod --basedir kernel "$release"
cp "kernel/boot/vmlinuz-$release" /boot/vmlinuz

# --- initial file system: busybox, and the modules between the kernel and the root file system
mkdir -p initrd/bin initrd/dev initrd/proc initrd/sys initrd/newroot initrd/layers initrd/modules
cp /bin/busybox initrd/bin/
install -m 755 "$here/initramfs-init" initrd/init
for module in virtio_pci virtio_blk virtio_net squashfs overlay; do
  modprobe --dirname kernel --set-version "$release" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >paths
while read -r path; do
  cp "$path" initrd/modules/
  basename "$path" >>initrd/modules/order
done <paths
(cd initrd && find . | cpio --quiet -o -H newc) >/boot/initrd

cd /
rm -rf "$work"
