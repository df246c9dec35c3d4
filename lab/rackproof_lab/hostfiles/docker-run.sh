#!/bin/sh
# Lab: docker for a unit that serves. Leaves out the capabilities that this machine's own container does not have, since
# no engine can give those away, and limits that need one of them; all else goes to the real docker as it was said.
bounding=$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)
has() { [ $((0x$bounding >> $1 & 1)) = 1 ]; }
n=$#
while [ "$n" -gt 0 ]; do
  word=$1; shift; n=$((n - 1))
  if [ "$word" = --cap-add ]; then
    value=$1; shift; n=$((n - 1))
    case $value in
      IPC_LOCK) bit=14 ;; SYS_PTRACE) bit=19 ;; SYS_RESOURCE) bit=24 ;; *) bit= ;;
    esac
    if [ -z "$bit" ] || has "$bit"; then set -- "$@" "$word" "$value"; fi
  elif [ "$word" = --ulimit ] && ! has 24; then shift; n=$((n - 1))
  else set -- "$@" "$word"; fi
done
exec /run/rackproof-lab-docker "$@"
