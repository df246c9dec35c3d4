#!/bin/sh
# Evidence of a nodeset by ClusterShell: the probe goes in by standard input, nothing is copied to a node.
#
#   examples/clush/collect.sh evidence NONCE 'root@rack1-tray[01-18]'
#   rackproof judge --nonce NONCE --inventory inventories/gb300.py evidence
set -eu
folder=${1:?usage: collect.sh FOLDER NONCE NODESET} nonce=${2:?usage: collect.sh FOLDER NONCE NODESET}
nodes=${3:?usage: collect.sh FOLDER NONCE NODESET}
user= at=$nodes
case $nodes in *@*) user=${nodes%%@*} at=${nodes#*@} ;; esac
mkdir "$folder" "$folder.log"
# shellcheck disable=SC2086
rackproof probe --nonce "$nonce" ${PROBE_OPTIONS:-} > "$folder.log/probe.sh"
clush -w "$at" ${user:+-l "$user"} --outdir="$folder" --errdir="$folder.log" --quiet -S \
  -u "${PROBE_SECONDS:-120}" sh -s < "$folder.log/probe.sh" > /dev/null ||
  echo "some nodes failed: their files, where there are any, are judged as what they are" >&2
