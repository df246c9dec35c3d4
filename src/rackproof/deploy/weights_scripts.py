"""Shell programs that bring model weights onto a node, whole or not at all.

POSIX sh; every value is quoted before it gets here, and names that come from a server are checked before use. Nothing
that was there is removed or overwritten by another revision: what is unfinished has a name of its own until it is whole.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from rackproof.deploy.image_scripts import PROGRESS_S, SECRETS
from rackproof.evidence.tools.storage import NETWORK

REVISION = ".rackproof-revision"  # one line
INDEX = "model.safetensors.index.json"
CONTAINER = "rackproof-weights"

TELLS = r"""
die() { printf 'rackproof: %s\n' "$*" >&2; exit 1; }
last() { tail -n 1 "$1" 2>/dev/null | tr -cd '\40-\176' | head -c 400; }  # what others wrote, fit for a terminal
indexed() { grep -oE '"[^"/]+[.]safetensors"' "$index" | tr -d '"' | sort -u; }
# missing: what keeps the directory from being whole; nothing where it is
missing() {
  [ -r "$index" ] || { echo "there is no $index"; return; }
  sum=0
  for name in $(indexed); do
    size=$(stat -L -c %s "$name" 2>/dev/null || echo 0)
    [ "$size" -gt 0 ] || { echo "$name is not there, or empty"; return; }
    sum=$((sum + size))
  done
  total=$(grep -oE '"total_size": *[0-9]+' "$index" | head -n 1 | tr -cd 0-9)
  [ "$sum" -gt 0 ] || { echo "$index names no shard"; return; }
  [ "$sum" -ge "${total:-0}" ] || { echo "the shards have $sum bytes, and their index says $total"; return; }
  for name in *.part .cache/huggingface/download/*.incomplete; do [ ! -e "$name" ] || { echo "$name is unfinished"; return; }; done
}
"""

# A shard says in its header where its last tensor ends: safetensors is 8 bytes of header size, the header, the tensors.
_BEGIN = r"""
free() {
  d=$1
  while [ ! -d "$d" ]; do d=$(dirname "$d"); done
  echo $(($(df -Pk "$d" | awk 'NR == 2 { print $4 }') * 1024))
}
room() {
  left=$(free "$dir")
  [ "$left" -ge "$1" ] || die "$dir has $left bytes free and $1 are still to come ($2); make room (nothing is removed for you)"
}
short() {
  for name in $(indexed); do
    header=$(od -An -tu8 -N8 "$name" | tr -d ' ')
    case $header in ''|*[!0-9]*|?????????????*) echo "$name is no safetensors file"; return ;; esac
    end=$(tail -c +9 "$name" | head -c "$header" | grep -oE '"data_offsets": *\[ *[0-9]+ *, *[0-9]+' |
      awk -F, '$2 + 0 > max { max = $2 + 0 } END { printf "%.0f", max }')
    size=$(stat -L -c %s "$name")
    [ "$size" = $((8 + header + end)) ] || { echo "$name has $size bytes, and its header says $((8 + header + end))"; return; }
  done
}
record() {
  left=$(missing)
  [ -z "$left" ] || die "$dir is not whole: $left"
  left=$(short)
  [ -z "$left" ] || die "$dir is not whole: $left"
  printf '%s\n' "$revision" >"$revision_file.part"
  mv -f "$revision_file.part" "$revision_file"
  echo "rackproof: $dir holds revision $revision, whole"
}
# watch PID: until it ends, say every now and then how much is there; its exit code
watch() {
  n=0
  while kill -0 "$1" 2>/dev/null; do
    sleep 1
    n=$((n + 1))
    [ $((n % every)) != 0 ] || echo "rackproof: $(present) of $bytes bytes, $n s"
  done
  rc=0
  wait "$1" || rc=$?
  return $rc
}
present() { du -sb "$dir" | cut -f 1; }
work=$(mktemp -d)
running=
trap 'rc=$?; [ -z "$running" ] || kill $running 2>/dev/null || :; rm -rf "$work"; finally || :; exit $rc' EXIT
trap 'exit 1' HUP INT TERM
finally() { :; }
mkdir -p "$dir"
cd "$dir"
kind=$(df -PT "$dir" | awk 'NR == 2 { print $2 }')
if [ "$slow" != 1 ] && printf '%s\n' "$kind" | grep -qxE "$network"; then
  die "$dir lies on $kind, which is not local storage; serving.storage: slow says that this is meant"
fi
exec 9>"$dir/.rackproof-lock"
flock -n 9 || die "another deploy is filling $dir"
"""

_HTTP = r"""
command -v curl >/dev/null || die "there is no curl on this node"
cat >"$work/get" <<'RACKPROOF_GET'
set -eu
name=$1
tries=1
while :; do
  have=$(stat -c %s "$name.part" 2>/dev/null || echo 0)
  want=$(awk -v name="$name" '$2 == name { print $1 }' "$work/sizes")
  [ "$have" -le "$want" ] || { rm -f "$name.part"; have=0; }
  [ "$have" != "$want" ] || break
  case $name in */*) mkdir -p "${name%/*}" ;; esac
  rc=0
  code=$(curl -sSfL --proto "=$protocols" --max-redirs 5 --connect-timeout 20 --speed-limit 1024 --speed-time 60 \
    -C "$have" -o "$name.part" -w '%{http_code}' "$url/$name" 2>"$work/$$.err" 9>&-) || rc=$?
  [ $rc != 0 ] || [ "$(stat -c %s "$name.part")" != "$want" ] || break
  case $rc:$code in 0:*|22:429|22:5*) ;; 33:*) rm -f "$name.part" ;; 22:*|3:*|1:*|23:*) echo "$name: $(tail -n 1 "$work/$$.err")" >>"$work/failed"; exit 1 ;; esac
  [ $tries -lt $most ] || { echo "$name: $tries tries, $(tail -n 1 "$work/$$.err")" >>"$work/failed"; exit 1; }
  sleep $((tries * pause))
  tries=$((tries + 1))
done
if [ -s "$work/sums" ]; then
  wanted=$(awk -v name="$name" '{ n = $2; sub(/^[*]?([.]\/)?/, "", n) } n == name { print $1 }' "$work/sums")
  got=$(sha256sum "$name.part" | cut -d ' ' -f 1)
  if [ "$got" != "$wanted" ]; then
    rm -f "$name.part"
    echo "$name: what the mirror sent has the sha256 $got, and its SHA256SUMS says $wanted" >>"$work/failed"
    exit 1
  fi
fi
mv -f "$name.part" "$name"
RACKPROOF_GET
# ask NAME FILE: fetch a small file whole; its HTTP status in $status
ask() { status=$(curl -sSL --proto "=$protocols" --max-redirs 5 --connect-timeout 20 --max-time 300 -o "$2" -w '%{http_code}' "$url/$1" 2>"$work/err") ||
  die "$url does not answer: $(last "$work/err")"; }
export work url protocols most pause
ask "$revision_file" "$work/revision"
if [ "$status" = 200 ]; then
  read -r theirs <"$work/revision" || :
  [ "$theirs" = "$revision" ] || die "the mirror holds revision $theirs, and $revision is wanted"
fi
ask SHA256SUMS "$work/sums"
if [ "$status" = 200 ]; then
  awk '{ n = $2; sub(/^[*]?([.]\/)?/, "", n); print n }' "$work/sums" | grep -v '^SHA256SUMS$\|^[.][^./]' >"$work/names" || :
elif [ "$status" = 404 ]; then
  : >"$work/sums"
  [ -n "$files" ] || die "the mirror offers no SHA256SUMS, so weights.files must name what belongs to the model beside its shards"
  ask "$index" "$work/index"
  [ "$status" = 200 ] || die "the mirror answers $status for $index"
  { printf '%s\n' $files "$index"; grep -oE '"[^"/]+[.]safetensors"' "$work/index" | tr -d '"'; } | sort -u >"$work/names"
else die "the mirror answers $status for SHA256SUMS"; fi
! grep -vE '^[A-Za-z0-9_][A-Za-z0-9_+-]*([.][A-Za-z0-9_+-]+)*(/[A-Za-z0-9_][A-Za-z0-9_+-]*([.][A-Za-z0-9_+-]+)*)*$' "$work/names" >"$work/odd" ||
  die "the mirror lists a file whose name cannot be used: $(head -n 1 "$work/odd" | tr -cd '\40-\176')"
bytes=0 left=0
: >"$work/sizes"
: >"$work/todo"
while read -r name; do
  status=$(curl -sSIL --proto "=$protocols" --max-redirs 5 --connect-timeout 20 --max-time 60 -o "$work/head" \
    -w '%{http_code}' "$url/$name" 2>"$work/err" </dev/null) || die "$url does not answer: $(last "$work/err")"
  [ "$status" = 200 ] || die "the mirror answers $status for $name"
  size=$(tr -d '\r' <"$work/head" | awk -F': *' 'tolower($1) == "content-length" { size = $2 } END { print size }')
  case $size in ''|*[!0-9]*) die "the mirror does not tell the size of $name" ;; esac
  echo "$size $name" >>"$work/sizes"
  bytes=$((bytes + size))
  if [ -e "$name" ]; then
    there=$(stat -L -c %s "$name")
    [ "$there" = "$size" ] || die "$dir/$name has $there bytes and the mirror's has $size: move it away if it is not wanted"
  else
    echo "$name" >>"$work/todo"
    left=$((left + size - $(stat -c %s "$name.part" 2>/dev/null || echo 0)))
  fi
done <"$work/names"
room $left "of $bytes that the mirror has"
if [ -s "$work/todo" ]; then
  xargs -n 1 -P "$parallel" sh "$work/get" <"$work/todo" &
  running=$!
  watch $running || die "not everything came: $(last "$work/failed"); run the deploy again to go on"
  running=
fi
record
"""

_RSYNC = r"""
command -v rsync >/dev/null || die "there is no rsync on this node"
copy() { rsync -rtL --partial-dir=.rackproof-partial --timeout=120 --exclude='.*' "$@" "$url/" "$dir/" 9>&-; }
copy --dry-run --stats >"$work/stats" 2>"$work/err" || die "$url does not answer: $(last "$work/err")"
left=$(awk -F': ' '/^Total transferred file size/ { gsub(/[^0-9]/, "", $2); print $2 }' "$work/stats")
bytes=$(awk -F': ' '/^Total file size/ { gsub(/[^0-9]/, "", $2); print $2 }' "$work/stats")
room "$left" "of $bytes that the mirror has"
tries=1
while :; do
  copy >"$work/out" 2>"$work/err" &
  running=$!
  rc=0
  watch $running || rc=$?
  running=
  [ $rc != 0 ] || break
  case $rc in 10|12|30|35) ;; *) die "rsync ended with $rc: $(last "$work/err")" ;; esac
  [ $tries -lt $most ] || die "the copy broke off $most times; run the deploy again to go on: $(last "$work/err")"
  sleep $((tries * pause))
  tries=$((tries + 1))
done
record
"""

# huggingface_hub is in the pinned image, so nothing is installed on the node. It goes on where it stopped by itself.
_HUGGINGFACE = r"""
finally() { $engine rm -f "$container" >/dev/null 2>&1 || :; rm -rf "$token"; }
token=
$engine rm -f "$container" >/dev/null 2>&1 || :  # of a deploy that was cut off
image=$($engine image inspect --format '{{.Id}}' "$reference" 2>/dev/null) ||
  image=$($engine image inspect --format '{{.Id}}' "$tagged" 2>/dev/null) || die "the pinned image is not on this node yet"
set -- --rm --name "$container" --network host --pull never --entrypoint python3 -v "$dir:/weights" \
  -e HF_HOME=/tmp/huggingface -e HF_HUB_DISABLE_TELEMETRY=1 -e HF_HUB_DISABLE_PROGRESS_BARS=1
[ "$engine" = docker ] || set -- "$@" --security-opt label=disable  # SELinux would hide the directory from podman's container
[ -z "$endpoint" ] || set -- "$@" -e "HF_ENDPOINT=$endpoint"
if [ "$with_token" = 1 ]; then
  mkdir -p -m 700 "$secrets"
  token=$secrets/huggingface-$$
  (umask 077 && cat >"$token")
  set -- "$@" -v "$token:/run/secrets/huggingface:ro" -e HF_TOKEN_PATH=/run/secrets/huggingface
fi
here=$(present)
room $((bytes > here ? bytes - here : 0)) "of $bytes by the recipe"
$engine run "$@" "$image" -c "$program" "$repository" "$revision" >"$work/out" 2>&1 9>&- &
running=$!
watch $running || die "the download ended early; run the deploy again to go on: $(last "$work/out")"
running=
record
"""
_PROGRAM = (
    "import sys\nfrom huggingface_hub import snapshot_download\n"
    "snapshot_download(sys.argv[1], revision=sys.argv[2], local_dir='/weights')"
)


def fetch_http(values: Mapping[str, object]) -> str:
    return assigned(values) + TELLS + _BEGIN + _HTTP


def fetch_rsync(values: Mapping[str, object]) -> str:
    return assigned(values) + TELLS + _BEGIN + _RSYNC


def fetch_huggingface(values: Mapping[str, object]) -> str:
    more = {"program": _PROGRAM, "container": CONTAINER, "secrets": SECRETS}
    return assigned({"engine": "docker", **values, **more}) + TELLS + _BEGIN + _HUGGINGFACE


def common(directory: str, revision: str, slow: bool, bytes_: int) -> dict[str, object]:
    """What every way of fetching needs to know."""
    return {
        "dir": directory, "revision": revision, "revision_file": REVISION, "index": INDEX, "slow": int(slow),
        "bytes": bytes_, "network": NETWORK, "every": PROGRESS_S, "most": 5, "pause": 5, "parallel": 4,
    }  # fmt: skip


def assigned(values: Mapping[str, object]) -> str:
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())
