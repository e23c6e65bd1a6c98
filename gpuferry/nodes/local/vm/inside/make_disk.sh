#!/bin/bash
# Makes /image/system.qcow2 from /build/root.tar: GPT, an EFI system partition, ext4. Needs no loop device, so it runs in an
# ordinary container. SYSTEM_GIB is the disk's size.
set -euo pipefail

esp_first=2048 esp_sectors=262144 root_first=$((2048 + 262144))
root_mib=$((SYSTEM_GIB * 1024 - 200))
root_id=$(cat /proc/sys/kernel/random/uuid)
esp_id=$(od -An -N4 -tx4 /dev/urandom | tr -d ' ' | tr a-f A-F)
root=/build/root disk=/build/disk.raw esp=/build/esp

mkdir -p "$root" "$esp/EFI/BOOT" "$esp/EFI/debian" /image
tar --numeric-owner --xattrs -xpf /build/root.tar -C "$root"

mkdir -p "$root/boot/efi" "$root/boot/grub" "$root/data"
# A missing disk must not keep SSH from starting, but what is there is mounted before anything starts.
wait=nofail,x-systemd.before=local-fs.target,x-systemd.device-timeout=60s
cat >"$root/etc/fstab" <<EOF
UUID=$root_id / ext4 errors=remount-ro 0 1
UUID=${esp_id:0:4}-${esp_id:4} /boot/efi vfat umask=0077 0 2
/dev/disk/by-id/virtio-data /data ext4 nodev,nosuid,$wait 0 2
EOF
# The first kernel's installation or removal replaces this file by Debian's own (update-grub).
cat >"$root/boot/grub/grub.cfg" <<EOF
search --no-floppy --fs-uuid --set=root $root_id
linux /vmlinuz root=UUID=$root_id ro $(sed -n 's/^GRUB_CMDLINE_LINUX="\(.*\)"$/\1/p' "$root/etc/default/grub")
initrd /initrd.img
boot
EOF

# Signed by Microsoft (shim) and Debian (GRUB), at the path that firmware tries without being told.
cp "$root/usr/lib/shim/shimx64.efi.signed" "$esp/EFI/BOOT/BOOTX64.EFI"
cp "$root/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" "$esp/EFI/BOOT/grubx64.efi"
cat >"$esp/EFI/debian/grub.cfg" <<EOF
search.fs_uuid $root_id root
set prefix=(\$root)/boot/grub
configfile \$prefix/grub.cfg
EOF

truncate -s "${SYSTEM_GIB}G" "$disk"
sfdisk -q "$disk" <<EOF
label: gpt
start=$esp_first, size=$esp_sectors, type=U
start=$root_first, size=$((root_mib * 2048)), type=L
EOF
mkfs.vfat -F 32 -s 1 -n EFI -i "$esp_id" --offset "$esp_first" "$disk" "$((esp_sectors / 2))" >/dev/null
mcopy -s -i "$disk@@$((esp_first * 512))" "$esp/EFI" ::
# Without the features that the GRUB of Debian 12 cannot read. Inode tables are zero already; left to the guest, initialising
# them would keep its disk busy for minutes.
mke2fs -q -t ext4 -L system -U "$root_id" -O ^metadata_csum_seed,^orphan_file \
    -E "offset=$((root_first * 512)),lazy_itable_init=0,lazy_journal_init=0" -d "$root" "$disk" "${root_mib}M"
qemu-img convert -O qcow2 "$disk" /image/system.qcow2
rm -rf /build
