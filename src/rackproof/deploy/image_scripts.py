"""Shell programs that bring an image onto a node. POSIX sh; every value is quoted before it gets here."""

from __future__ import annotations

import base64
import json
import shlex
from urllib.parse import urlsplit

from rackproof.baseline_parts import ImageBaseline
from rackproof.registry.credentials import Credentials
from rackproof.registry.reference import HUB, Reference

STATE = "/var/lib/rackproof"  # what a step remembers of one that was cut off
SECRETS = "/run/rackproof"  # memory only, and gone when the step ends
TRIES = 5
PROGRESS_S = 15
CERTIFICATES = {"docker": "docker", "podman": "containers"}  # engine -> its folder in /etc

# free PATH: bytes that are free where PATH (or the folder above it) lies. room BYTES WHY: refuse when it is too little,
# wherever the engine keeps images; what a step that was cut off has already brought is not asked for again.
_COMMON = r"""
die() { printf 'rackproof: %s\n' "$*" >&2; exit 1; }
last() { tail -n 1 "$1" | tr -cd '\40-\176' | head -c 400; }  # what others wrote, fit for a terminal
free() {
  d=$1
  while [ ! -d "$d" ]; do d=$(dirname "$d"); done
  echo $(($(df -Pk "$d" | awk 'NR == 2 { print $4 }') * 1024))
}
stores() {
  if [ "$engine" = podman ]; then podman info --format '{{.Store.GraphRoot}}'; return; fi
  docker info --format '{{.DockerRootDir}}'
  case $(docker info --format '{{.DriverStatus}}') in *io.containerd.snapshotter*) echo /var/lib/containerd ;; esac
}
room() {
  for place in $(stores); do
    left=$(free "$place")
    [ "$left" -ge "$1" ] || die "$place has $left bytes free and the image needs $1 ($2); \
make room (nothing is removed for you), or set image.free_bytes"
  done
}
# adopt NAME: check the architecture of an image that has come, keep the one it replaces under a tag of its own
adopt() {
  got=$($engine image inspect --format '{{.Architecture}}' "$1")
  [ "$got" = "$architecture" ] || die "the image is for $got, this host needs $architecture"
  id=$($engine image inspect --format '{{.Id}}' "$1")
  old=$($engine image inspect --format '{{.Id}}' "$tagged" 2>/dev/null || :)
  if [ -n "$old" ] && [ "$old" != "$id" ]; then
    $engine tag "$old" "$repository:rackproof-previous"
    echo "rackproof: the image that was $tagged before stays, as $repository:rackproof-previous"
  fi
  $engine tag "$1" "$tagged"
}
"""

# The engine keeps layers that are whole, so a pull that is started again goes on where it stopped.
_PULL = r"""
work=$(mktemp -d)
trap 'rc=$?; [ -z "$pulling" ] || kill $pulling 2>/dev/null || :; rm -rf "$work" "$login"; exit $rc' EXIT
trap 'exit 1' HUP INT TERM
pulling=
login=
if [ "$with_login" = 1 ]; then
  umask 077
  mkdir -p "$secrets"
  login=$secrets/docker-$$
  mkdir "$login"
  cat >"$login/config.json"
  DOCKER_CONFIG=$login
  REGISTRY_AUTH_FILE=$login/config.json  # what podman reads, in the same form
  export DOCKER_CONFIG REGISTRY_AUTH_FILE
fi
progress() {
  if [ "$engine" = podman ]; then echo "$(grep -c 'Copying blob' "$work/err" || :) layers begun"; return; fi
  echo "$(grep -c 'Pull complete\|Already exists' "$work/out" || :) of \
$(grep -c 'Pulling fs layer\|Already exists' "$work/out" || :) layers"
}
pull() {
  $engine pull "$reference" >"$work/out" 2>"$work/err" &
  pulling=$!
  n=0
  while kill -0 $pulling 2>/dev/null; do
    sleep 1
    n=$((n + 1))
    [ $((n % every)) != 0 ] || echo "rackproof: $(progress), $n s"
  done
  rc=0
  wait $pulling || rc=$?
  pulling=
  return $rc
}
refused() {
  case $1 in
    *'no space left on device'*) die "the disk of the engine ran full while pulling: make room, then run the deploy again" ;;
    *'verification failed'*|*'content does not match'*|*'failed commit on ref'*'unexpected'*|\
    *'igest did not match'*|*'does not match provided manifest digest'*|*'does not match expected'*)
      die "what the registry sent does not have the pinned digest, and was thrown away: $1" ;;
    *'no matching manifest'*|*'no match for platform'*|*'no image found in '*) die "$reference has no linux/$architecture, which this host needs" ;;
    *'manifest unknown'*|*': not found'*) die "the registry does not have $reference (rackproof image check says more): $1" ;;
    *'certificate'*|*x509:*) die "the registry's certificate is not trusted on this host (image.ca_file): $1" ;;
    *'server gave HTTP response to HTTPS client'*)
      die "the registry has no TLS; the engine of this host must allow that (insecure-registries in daemon.json, or insecure in registries.conf)" ;;
    *unauthorized*|*denied*|*'authentication required'*|*'no basic auth credentials'*)
      die "the registry wants a login: $engine login on the machine that deploys, or on this host" ;;
  esac
}
if ! $engine image inspect "$reference" >/dev/null 2>&1; then
  mkdir -p "$state"
  if [ ! -e "$begun" ]; then
    room "$bytes" "$why"
    : >"$begun"
  fi
  tries=1
  until pull; do
    said=$(last "$work/err")
    refused "$said"
    [ $tries -lt $most ] || die "the pull broke off $most times, now run the deploy again or look at the network: $said"
    echo "rackproof: the pull broke off and is started again ($tries of $most): $said"
    sleep $((tries * pause))
    tries=$((tries + 1))
  done
fi
$engine image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$reference" | grep -q "$pins" ||
  die "the engine does not say that $reference has the pinned digest"
adopt "$reference"
rm -f "$begun"
"""


def pull(
    image: ImageBaseline, room_bytes: int, room_source: str, with_login: bool = False, pause_s: int = 5,
    engine: str = "docker",
) -> str:  # fmt: skip
    """Pull by digest, verify, tag. With `with_login` docker's config.json comes on standard input."""
    pins = "\\|".join(f"@{digest}$" for digest in (image.index, image.platform) if digest)
    values = {
        **_names(image, engine), "reference": image.reference, "pins": pins, "bytes": room_bytes, "why": room_source,
        "state": STATE, "begun": f"{STATE}/pull-{image.index[7:19]}", "secrets": SECRETS, "with_login": int(with_login),
        "most": TRIES, "every": PROGRESS_S, "pause": pause_s,
    }  # fmt: skip
    return _assigned(values) + _COMMON + _PULL


def login_file(reference: Reference, given: Credentials) -> str:
    """What docker's config.json says for one registry."""
    key = "https://index.docker.io/v1/" if reference.registry == HUB else reference.registry
    if given.is_token:
        return json.dumps({"auths": {key: {"identitytoken": given.secret}}})
    auth = base64.b64encode(f"{given.user}:{given.secret}".encode()).decode()
    return json.dumps({"auths": {key: {"auth": auth}}})


# The archive itself is never changed or copied. Docker's own image store reads no OCI layout without manifest.json, so
# that is sent ahead of it: a tar of one member without the two blocks of zeros that would end it.
_LOAD = r"""
if [ -d "$archive" ]; then stream() { tar -C "$archive" -cf - .; }
elif [ "$(head -c 2 "$archive" | od -An -tx1 | tr -d ' ')" = 1f8b ]; then stream() { gzip -dc "$archive"; }
else stream() { cat "$archive"; }; fi
work=$(mktemp -d)
trap 'rc=$?; rm -rf "$work"; exit $rc' EXIT
trap 'exit 1' HUP INT TERM
present() { for name in $names; do if $engine image inspect "$name" >/dev/null 2>&1; then echo "$name"; return; fi; done; }
found=$(present)
if [ -z "$found" ]; then
  room "$bytes" "$why"
  echo "rackproof: importing $archive"
  if [ -n "$manifest" ]; then
    printf %s "$manifest" >"$work/manifest.json"
    size=$(wc -c <"$work/manifest.json")
    { tar -C "$work" --format=ustar -cf - manifest.json | head -c $((512 + (size + 511) / 512 * 512)); stream; }
  else stream; fi | $engine load >"$work/out" 2>&1 || die "$engine load refused $archive: $(last "$work/out")"
  found=$(present)
  [ -n "$found" ] || die "$archive was loaded and is another image: none of $names came of it"
fi
adopt "$found"
"""


def load(
    image: ImageBaseline, archive: str, names: list[str], manifest: str, room_bytes: int, room_source: str,
    engine: str = "docker",
) -> str:  # fmt: skip
    """`docker load` an archive, and find the image that has one of these ids. `manifest`: a manifest.json, or ""."""
    values = {
        **_names(image, engine), "archive": archive, "names": " ".join(names), "manifest": manifest, "bytes": room_bytes,
        "why": room_source,
    }  # fmt: skip
    return _assigned(values) + _COMMON + _LOAD


def _names(image: ImageBaseline, engine: str) -> dict[str, object]:
    tagged = f"{image.repository}:{image.tag}"
    return {"engine": engine, "repository": image.repository, "tagged": tagged, "architecture": image.architecture}


def _assigned(values: dict[str, object]) -> str:
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())


def ca_path(repository: str, engine: str = "docker") -> str:
    """Where the engine looks for the CA of a registry."""
    host = urlsplit(f"//{repository}").netloc
    return f"/etc/{CERTIFICATES[engine]}/certs.d/{host}/rackproof-ca.crt"
