#!/bin/sh
# Evidence of every GPU node of a cluster: the DaemonSet beside this file, and the log of each of its pods as one file.
#
#   NAMESPACE=rackproof IMAGE=registry.example/busybox@sha256:... examples/kubernetes/collect.sh evidence NONCE
#   rackproof judge --nonce NONCE --inventory inventories/gb300.py evidence
#
# Pods are privileged and share the node's process ids: the namespace must allow that.
set -eu
folder=${1:?usage: collect.sh FOLDER NONCE} nonce=${2:?usage: collect.sh FOLDER NONCE}
here=$(dirname "$0")
k() { kubectl --namespace "${NAMESPACE:-default}" "$@"; }
mkdir "$folder" "$folder.log"
rackproof probe --nonce "$nonce" > "$folder.log/probe.sh"
trap 'k delete daemonset/rackproof-probe configmap/rackproof-probe --ignore-not-found --wait=false > /dev/null' EXIT
k create configmap rackproof-probe --from-file=probe.sh="$folder.log/probe.sh" --dry-run=client --output=yaml | k apply -f -
if [ -n "${IMAGE:-}" ]; then
  k set image --local --filename="$here/daemonset.yaml" probe="$IMAGE" --output=yaml | k apply -f -
else
  k apply -f "$here/daemonset.yaml"
fi
k rollout status daemonset/rackproof-probe --timeout="${PROBE_SECONDS:-300}s" ||
  echo "some pods are not done: their logs are judged as what they are" >&2
k get pods --selector=app=rackproof-probe \
  --output=jsonpath='{range .items[*]}{.metadata.name}{" "}{.spec.nodeName}{"\n"}{end}' > "$folder.log/pods"
while read -r pod node; do
  [ -z "$node" ] || k logs "$pod" --container=probe > "$folder/$node.txt" < /dev/null ||
    { echo "no log of $pod on $node" >&2; rm -f "$folder/$node.txt"; }
done < "$folder.log/pods"
