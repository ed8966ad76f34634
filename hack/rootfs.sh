#!/bin/sh
# rootfs.sh FOLDER: copies the programs that the node agent's CSI service runs inside its container, with the shared
# libraries that they need, from this Debian system into FOLDER. The Containerfile runs it in a debian:12 stage and
# `make image` on the machine itself, so that both images hold the same files.
set -eu
dest=${1:?folder}
mkdir -p "$dest/usr/bin" "$dest/usr/sbin" "$dest/usr/lib" "$dest/usr/lib64" "$dest/etc" "$dest/tmp" \
  "$dest/proc" "$dest/sys" "$dest/dev" "$dest/run/topolvm" "$dest/registration" "$dest/var/lib/kubelet" "$dest/var/lock"
chmod 1777 "$dest/tmp"
for link in bin sbin lib lib64; do ln -sfn "usr/$link" "$dest/$link"; done

# nsenter: LVM runs in the host's namespaces. blkid, wipefs, mkfs.*: a volume gets its file system.
# dumpe2fs, xfs_io, blockdev, resize2fs, xfs_growfs, findmnt: a volume grows. e2fsck: resize2fs asks for it where a file system is not clean.
programs="nsenter mount umount findmnt blkid wipefs blockdev fsck mke2fs mkfs.ext4 e2fsck fsck.ext4 resize2fs dumpe2fs mkfs.xfs xfs_growfs xfs_io"

copy() { # PATH: with its libraries, to where the path leads
  real=$(readlink -f "$1")
  target="$dest$real"
  [ -e "$target" ] && return 0
  mkdir -p "$(dirname "$target")"
  cp -p "$real" "$target"
}

for name in $programs; do
  path=
  for folder in /usr/sbin /usr/bin /sbin /bin; do
    [ -e "$folder/$name" ] && { path=$folder/$name; break; }
  done
  [ -n "$path" ] || { echo "rootfs.sh: $name is not installed (packages util-linux, mount, e2fsprogs, xfsprogs)" >&2; exit 1; }
  copy "$path"
  real=$(readlink -f "$path")
  home=/usr/$(basename "$(dirname "$path")")
  [ "$real" = "$home/$name" ] || ln -sfn "$(basename "$real")" "$dest$home/$name"
  ldd "$real" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' | while read -r library; do
    copy "$library"
    real_library=$(readlink -f "$library")
    folder=$(dirname "$real_library")
    soname=$(basename "$library")
    [ "$soname" = "$(basename "$real_library")" ] || ln -sfn "$(basename "$real_library")" "$dest$folder/$soname"
    case $library in /lib64/*) ln -sfn "$real_library" "$dest/usr$library" ;; esac
  done
done
cp -p /etc/mke2fs.conf "$dest/etc/mke2fs.conf"
printf 'root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' >"$dest/etc/passwd"
printf 'root:x:0:\nnonroot:x:65532:\n' >"$dest/etc/group"
ln -sfn /proc/mounts "$dest/etc/mtab"
