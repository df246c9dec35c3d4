#!/bin/sh
# Lab stand-in for the kernel: the first unit of every boot lays the simulated hardware over /proc, /sys and /dev.
# /run/rackproof-lab is the lab's own folder (read-only, changes live); -rw holds what this boot may change.
S=/run/rackproof-lab RW=/run/rackproof-lab-rw
exec 2> "$RW/boot.log"
mkdir -p "$RW/sysctl"
mount --bind "$S/cmdline" /proc/cmdline
mount --bind "$S/devices" /proc/devices
mount --bind "$S/driver" /proc/driver
# kernel-wide sysctls, which a container must not touch: a file of this boot's own each
while IFS='=' read -r key value; do
  path=/proc/sys/$(echo "$key" | tr . /)
  [ -e "$path" ] || continue
  echo "$value" > "$RW/sysctl/$key"
  mount --bind "$RW/sysctl/$key" "$path"
done < "$S/sysctl"
# sysfs: product name and PCI devices as overlays, because the real folders lack the mount points
mount -t overlay -o "lowerdir=$S/class:/sys/class" overlay /sys/class
mount -t overlay -o "lowerdir=$S/bus:/sys/bus" overlay /sys/bus
mount --bind "$S/pci" /sys/bus/pci/devices
mount -o remount,rw /sys && mkdir -p /sys/module && mount --bind "$RW/module" /sys/module
# as large as on a GPU host; a tmpfs takes memory only for what is in it
mount -o remount,size=256G /dev/shm
/bin/sh "$S/nodes.sh"
exit 0
