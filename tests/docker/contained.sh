#!/bin/sh
# Runs a command as a container would, on a machine without a container engine: on its own network with nothing but
# loopback, on a root file system that nobody can write, with a /tmp of its own, as a user without name or rights.
#
#   contained.sh FOLDER PYTHON_HOME [LOCKED] COMMAND…
#
# FOLDER is what stays writable (a volume; "" for none). PYTHON_HOME is the interpreter's folder, LOCKED the folder above
# it that only its owner may enter ("" for none). Wants root; `exec`s, so that COMMAND gets the caller's signals.
set -eu

if [ "${CONTAINED:-}" != 1 ]; then
  CONTAINED=1 exec unshare --mount --net --ipc --propagation private "$0" "$@"
fi
volume=$1 python_home=$2 locked=$3
shift 3

ip link set lo up
if [ -n "$locked" ]; then
  mount -t tmpfs -o mode=0755,size=1m tmpfs /mnt
  mkdir /mnt/python
  mount --bind "$python_home" /mnt/python
  mount -t tmpfs -o mode=0755,size=1m tmpfs "$locked"
  mkdir -p "$python_home"
  mount --bind /mnt/python "$python_home"
  mount -o remount,ro "$locked"
fi
mount -t tmpfs -o "mode=1777,size=64m,nosuid,nodev,${TMP_OPTIONS:-exec}" tmpfs /tmp
[ -z "$volume" ] || mount --bind "$volume" "$volume"
mount -o remount,bind,ro /
unset CONTAINED TMP_OPTIONS
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
