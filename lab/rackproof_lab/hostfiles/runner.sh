#!/bin/sh
# Runs one node, outside of it, in a mount namespace of its own: all its mounts vanish with it, whoever kills it.
# Arguments: name, node folder, lowerdir, network namespace, python, package path
set -eu
name=$1 dir=$2 lower=$3 netns=$4 python=$5 package=$6
mount --make-rprivate /
# in this namespace only: a pure cgroup2 view, whatever the machine uses; nspawn puts the node's groups below the
# group that this process was started in
umount -l /sys/fs/cgroup 2>/dev/null || :
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
while :; do
  PYTHONPATH=$package "$python" -m rackproof_lab.hardware "$dir"
  rc=0
  # a time namespace per boot: uptime starts at 0, as pyinfra's server.reboot expects
  up=$(cut -d. -f1 /proc/uptime)
  # API_VFS_WRITABLE: /proc/sys/net of the node's own and a /sys that the boot unit may add to.
  # Capabilities and system calls: what docker inside needs. Not CAP_SYSLOG: it would show the machine's log.
  SYSTEMD_NSPAWN_API_VFS_WRITABLE=network unshare --fork --time --boottime "-$up" --monotonic "-$up" \
    systemd-nspawn -q --resolv-conf=off --register=no --keep-unit --boot -D "$dir/root" -M "$name" \
    --network-namespace-path="/run/netns/$netns" --link-journal=no --console=pipe \
    --capability=CAP_NET_ADMIN,CAP_IPC_LOCK,CAP_BPF,CAP_PERFMON \
    --system-call-filter='add_key keyctl request_key bpf' \
    --bind="$dir/docker:/var/lib/docker" --bind="$dir/containerd:/var/lib/containerd" \
    --bind="$dir/containers:/var/lib/containers" \
    --bind-ro="$dir/sim:/run/rackproof-lab" --bind="$dir/rw:/run/rackproof-lab-rw" \
    --bind-ro="$dir/../../standins:/usr/lib/rackproof-lab" </dev/null >> "$dir/console.log" 2>&1 || rc=$?
  echo "$(date +%s) boot ended, exit code $rc" >> "$dir/boots.log"
  [ "$rc" = 133 ] || exit "$rc" # 133: the node asked for a reboot
  sleep "${RACKPROOF_LAB_REBOOT_DELAY:-1}"
done
