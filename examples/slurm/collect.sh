#!/bin/sh
# Evidence of every node of an allocation: one task a node runs the same probe and leaves one file.
#
#   salloc --nodes=18 --exclusive examples/slurm/collect.sh evidence NONCE
#   rackproof judge --nonce NONCE --inventory inventories/gb300.py evidence
#
# The folder has to be one that all nodes see. PROBE_OPTIONS=--sudo lets the probe use `sudo -n` for what needs root.
set -eu
folder=${1:?usage: collect.sh FOLDER NONCE} nonce=${2:?usage: collect.sh FOLDER NONCE}
mkdir "$folder" "$folder.log"
folder=$(cd "$folder" && pwd)
# shellcheck disable=SC2086
rackproof probe --nonce "$nonce" ${PROBE_OPTIONS:-} > "$folder.log/probe.sh"
# --no-kill and --wait=0: a node that fails must not end the tasks of the others. --kill-on-bad-exit=0 for the same reason.
srun --nodes="${SLURM_JOB_NUM_NODES:?run this in an allocation}" --ntasks-per-node=1 --no-kill --wait=0 \
  --kill-on-bad-exit=0 --output="$folder/%N.txt" --error="$folder.log/%N.err" sh "$folder.log/probe.sh" ||
  echo "some tasks failed: their files are judged as what they are" >&2
