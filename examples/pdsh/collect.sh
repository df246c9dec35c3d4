#!/bin/sh
# Evidence of a nodeset by pdsh. It gives nodes no standard input, so the folder has to be one that all nodes see.
#
#   examples/pdsh/collect.sh evidence NONCE 'rack1-tray[01-18]'
#   rackproof judge --nonce NONCE --inventory inventories/gb300.py evidence
set -eu
folder=${1:?usage: collect.sh FOLDER NONCE NODESET} nonce=${2:?usage: collect.sh FOLDER NONCE NODESET}
nodes=${3:?usage: collect.sh FOLDER NONCE NODESET}
mkdir "$folder" "$folder.log"
folder=$(cd "$folder" && pwd)
# shellcheck disable=SC2086
rackproof probe --nonce "$nonce" ${PROBE_OPTIONS:-} > "$folder.log/probe.sh"
# Each node writes its own file: pdsh puts the node's name before every line it passes on.
pdsh -R ssh -w "$nodes" -u "${PROBE_SECONDS:-120}" \
  "sh '$folder.log/probe.sh' > '$folder/'\"\$(hostname)\".txt" 2> "$folder.log/pdsh.err" ||
  echo "some nodes failed: their files, where there are any, are judged as what they are" >&2
