# Put before the `run:` scripts of fault files; they run as root on the node, with $FAULT set.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
BACK=/var/lib/rackproof-lab/$FAULT
URL=https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64
mkdir -p "$BACK"

# fetch NAME VERSION...: the packages' files, straight from the lab's repository, whatever apt is told to prefer
fetch() {
  while [ $# -gt 1 ]; do
    curl -fsS -o "$BACK/$1_$2_amd64.deb" "$URL/$1_$2_amd64.deb"
    echo "$BACK/$1_$2_amd64.deb"
    shift 2
  done
}

install_forced() { dpkg -i --force-all "$@" > "$BACK/dpkg.log" 2>&1 || { tail -5 "$BACK/dpkg.log" >&2; return 1; }; }

gpu_packages() {
  dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n' |
    awk '$1 == "ii" && $2 ~ /nvidia|cuda-drivers|nvlink5|nvlsm|nvsdm/ { print $2, $3 }' | sort
}

version_of() { dpkg-query -W -f '${Version}' "$1"; }

# what is installed now, to come back to
remember_packages() {
  [ -e "$BACK/packages" ] || gpu_packages > "$BACK/packages"
  apt-mark showhold > "$BACK/holds"
}

restore_packages() {
  gpu_packages > "$BACK/now"
  gone=$(join -v1 "$BACK/now" "$BACK/packages" | cut -d' ' -f1)
  [ -z "$gone" ] || dpkg --remove --force-all $gone > "$BACK/dpkg.log" 2>&1
  wanted=$(comm -13 "$BACK/now" "$BACK/packages")
  [ -z "$wanted" ] || install_forced $(fetch $wanted)
  while read -r name; do apt-mark hold "$name" > /dev/null; done < "$BACK/holds"
  rm -rf "$BACK"
}

# vLLM images on the node: "repository tag digest" a line
images() { docker images --digests --format '{{.Repository}} {{.Tag}} {{.Digest}}' | grep 'vllm-openai ' || :; }

drop_images() {
  ids=$(docker images --format '{{.Repository}} {{.ID}}' | grep 'vllm-openai ' | cut -d' ' -f2 | sort -u)
  [ -z "$ids" ] || docker rmi -f $ids > /dev/null
}

remember_images() { [ -e "$BACK/images" ] || images > "$BACK/images"; }

restore_images() {
  drop_images
  while read -r repository tag digest; do
    docker pull -q "$repository@$digest" > /dev/null
    [ "$tag" = '<none>' ] || docker tag "$repository@$digest" "$repository:$tag"
  done < "$BACK/images"
  rm -rf "$BACK"
}

keep() { f=$(readlink -f "$1"); mkdir -p "$BACK/files$(dirname "$f")"; cp -a "$f" "$BACK/files$f"; }

put_back() { cp -a "$BACK/files/." /; rm -rf "$BACK"; }
