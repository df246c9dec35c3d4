"""Package managers: the one place that knows apt from dnf.

A step that installs packages is a script that calls the shell functions below; both managers define all of them, with the
same guarantees: a lock held by somebody else is waited for, what an interrupted run left behind is repaired, lists that
cannot be fetched are an error, nothing is asked, and a version that is wanted is found in the repositories at hand or named
as missing before anything changes.

    refresh                     fetch the lists of all repositories
    want VERSION NAME...        note a package at a version, by the first of its names that is offered at it; apt: also
                                VERSION~24.04, as AMD marks what is built for a release of Ubuntu
    also NAME...                note packages at whatever version is offered
    drop NAME...                note packages to be removed in the same go
    headers                     note the kernel headers of the running kernel and of the one that boots next
    signed_modules PREFIX       note PREFIX-KERNEL for both of them
    go                          install and remove what was noted
    rebuilt VERSION NAME...     dnf only: let packages build their modules again where a kernel has none of the version
    pin VERSION PACKAGE NAME... keep the NAMEs at the version; PACKAGE is apt's pin package, or "-"
    stream NAME                 enable a module stream
    at_least VERSION NAME       refuse where the newest that is offered is older
    install NAME..., mend       install now; finish what was left half installed
    kernel_arguments WORD...    add to the command line of the next boots
"""

from __future__ import annotations

from dataclasses import dataclass

LOCK_S = 600  # how long to wait for another process that holds a lock of the package manager

# apt-get as a deploy needs it: waits for every lock (DPkg::Lock::Timeout covers one of three), repairs what an
# interrupted dpkg left behind, fails when a list cannot be fetched (it would go on with old lists), never asks.
APT = f"""\
apt() {{
  waited=0
  while :; do
    rc=0
    out=$(DEBIAN_FRONTEND=noninteractive apt-get -y -q -o APT::Update::Error-Mode=any \
      -o DPkg::Lock::Timeout={LOCK_S} -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
      "$@" 2>&1) || rc=$?
    case $rc:$out in
      0:*) printf '%s\\n' "$out"; return 0 ;;
      *'dpkg was interrupted'*) repair || return 1 ;;
      *'Could not get lock'*|*'Unable to lock'*|*'Unable to acquire the dpkg'*)
        if [ $waited -ge {LOCK_S} ]; then
          printf 'rackproof: another process has held the package lock for {LOCK_S} s\\n%s\\n' "$out" >&2; return 1
        fi
        sleep 5; waited=$((waited + 5)) ;;
      *) printf '%s\\n' "$out" >&2; return $rc ;;
    esac
  done
}}
repair() {{
  waited=0
  while ! out=$(DEBIAN_FRONTEND=noninteractive dpkg --configure -a --force-confdef --force-confold 2>&1); do
    case $out in *lock*) ;; *) printf '%s\\n' "$out" >&2; return 1 ;; esac
    [ $waited -lt {LOCK_S} ] || {{ printf '%s\\n' "$out" >&2; return 1; }}
    sleep 5; waited=$((waited + 5))
  done
}}
# apt keeps a list that it refused, and asks only for a newer one: a mirror that goes back to what it had has none.
refresh() {{ apt update || {{ rm -f /var/lib/apt/lists/partial/*Release*; return 1; }}; }}
install() {{ apt install --no-install-recommends --allow-downgrades --allow-change-held-packages "$@"; }}
mend() {{ repair; apt -f install; }}
versions() {{ apt-cache madison "$1" 2>/dev/null | awk -F '|' '{{ gsub(/ /, "", $2); print $2 }}'; }}
offered() {{ [ -z "$(versions "$1")" ] || echo "$1"; }}
exact() {{
  found=$(versions "$1" | awk -v want="$2" '{{ plain = $0; sub(/^[0-9]+:/, "", plain); rest = substr(plain, length(want) + 1) }}
    index(plain, want) == 1 && rest ~ /^(-|~[0-9]+[.][0-9]+$)/ {{ print; exit }}')
  [ -z "$found" ] || echo "$1=$found"
}}
drop() {{ for n do noted="$noted $n-"; done; }}
go() {{ install $noted; noted=; }}
pin() {{ [ "$2" = - ] || install "$2"; }}
stream() {{ :; }}
headers_of() {{ echo "linux-headers-$1"; }}
kernel_arguments() {{
  file=/etc/default/grub.d/90-rackproof.cfg
  command -v update-grub >/dev/null || {{ echo 'rackproof: there is no update-grub: add to the kernel command line by hand:' "$*" >&2; return 1; }}
  mkdir -p "${{file%/*}}"
  printf 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX %s"\\n' "$*" >"$file.new" && mv -f "$file.new" "$file"
  update-grub >/dev/null 2>&1
}}
"""

# dnf 4 waits for ever unless told not to. An rpm that was killed leaves two versions of a package in its database.
DNF = f"""\
run_dnf() {{
  waited=0 mended=
  while :; do
    rc=0
    out=$(LC_ALL=C dnf -y -q --setopt=exit_on_lock=True --setopt=skip_if_unavailable=False "$@" 2>&1) || rc=$?
    case $rc:$mended:$out in
      0:*) printf '%s\\n' "$out"; return 0 ;;
      *'already locked by '*|*'transaction lock on'*)
        if [ $waited -ge {LOCK_S} ]; then
          printf 'rackproof: another process has held the package lock for {LOCK_S} s\\n%s\\n' "$out" >&2; return 1
        fi
        sleep 5; waited=$((waited + 5)) ;;
      *::*'is a duplicate'*|*::*'rpmdb open failed'*) mended=1; repair || return 1 ;;
      *) printf '%s\\n' "$out" >&2; return $rc ;;
    esac
  done
}}
repair() {{
  rpm -qa >/dev/null 2>&1 || rpm --rebuilddb
  # More versions than one are right for kernels and keys alone.
  twice=$(rpm -qa --qf '%{{NAME}}.%{{ARCH}}\\n' | grep -v -e '^kernel' -e '^gpg-pubkey' | LC_ALL=C sort | uniq -d)
  [ -z "$twice" ] || LC_ALL=C dnf -y -q remove --duplicates
}}
refresh() {{ run_dnf makecache --refresh; }}
install() {{ run_dnf --setopt=install_weak_deps=False --allowerasing install "$@"; }}
mend() {{ repair; }}
versions() {{
  LC_ALL=C dnf -q -C --disableplugin=versionlock repoquery --available --qf '%{{evr}}\\n' "$1" 2>/dev/null | grep . | sort -u
}}
offered() {{ [ -z "$(versions "$1")" ] || echo "$1"; }}
exact() {{
  found=$(versions "$1" | awk -v want="$2" '{{ plain = $0; sub(/^[0-9]+:/, "", plain) }} index(plain, want "-") == 1 {{ print; exit }}')
  [ -z "$found" ] || echo "$1-$found"
}}
dropped=
drop() {{ dropped="$dropped $*"; }}
go() {{
  # A module is built by its package's script, and rpm puts packages in order by their dependencies alone.
  first=
  for n in $noted; do case $n in kernel-devel-*|kernel-64k-devel-*) first="$first $n" ;; esac; done
  [ -z "$first" ] || install $first
  [ -z "$dropped" ] || run_dnf remove $dropped
  install $noted  # a version that is named is gone back to as well
  noted= dropped=
}}
pin() {{
  want=$1; shift 2
  dnf -q versionlock list >/dev/null 2>&1 || run_dnf install 'dnf-command(versionlock)'
  locks=
  for n do
    spec=$(exact "$n" "$want")
    [ -n "$spec" ] || {{ echo "rackproof: no repository of this host offers $n at version $want" >&2; return 1; }}
    locks="$locks $spec"
  done
  dnf -q -C versionlock delete "$@" >/dev/null 2>&1 || :  # there may be none
  run_dnf versionlock add $locks
}}
# rpm calls a package installed before its script has run, and never runs again one that failed or was interrupted.
rebuilt() {{
  want=$1 lacking=; shift
  for k in $(kernels); do
    [ "$(modinfo -k "$k" -F version nvidia 2>/dev/null)" = "$want" ] || lacking=1
  done
  [ -n "$lacking" ] || return 0
  again=
  for n do again="$again $(exact "$n" "$want")"; done
  run_dnf reinstall $again
}}
stream() {{ run_dnf module reset "${{1%%:*}}" && run_dnf module enable "$1"; }}
headers_of() {{
  case $1 in *+64k) echo "kernel-64k-devel-${{1%+64k}}" ;; *) echo "kernel-devel-$1" ;; esac
}}
kernel_arguments() {{
  command -v grubby >/dev/null || {{ echo 'rackproof: there is no grubby: add to the kernel command line by hand:' "$*" >&2; return 1; }}
  grubby --update-kernel=ALL --args="$*"
}}
"""

_COMMON = """\
noted=
want() {
  version=$1; shift
  for n do
    spec=$(exact "$n" "$version")
    [ -z "$spec" ] || { noted="$noted $spec"; return 0; }
  done
  echo "rackproof: no repository of this host offers $* at version $version; of $1 there is: $(versions "$1" | head -n 5 | tr '\\n' ' ')" >&2
  return 1
}
also() { noted="$noted $*"; }
at_least() {
  newest=$(versions "$2" | sed 's/^[0-9]*://; s/[-+~].*//' | sort -V | tail -n 1)
  [ "$(printf '%s\\n' "$1" "${newest:-0}" | sort -V | head -n 1)" = "$1" ] || {
    echo "rackproof: $2 must be $1 or newer, and the repositories of this host offer ${newest:-none}" >&2; return 1
  }
}
# kernels: the one that runs, and the newest that can be booted
kernels() {
  { uname -r
    ls -d /lib/modules/*/modules.dep 2>/dev/null | cut -d / -f 4 | while read -r k; do
      if [ -e "/boot/vmlinuz-$k" ] || [ -e "/lib/modules/$k/vmlinuz" ]; then echo "$k"; fi
    done | sort -V | tail -n 1
  } | awk '!seen[$0]++'
}
headers() {
  for k in $(kernels); do
    h=$(headers_of "$k")
    if [ -n "$(offered "$h")" ]; then noted="$noted $h"
    else echo "rackproof: no package $h: a module built by DKMS needs headers of kernel $k" >&2; fi
  done
}
signed_modules() {
  for k in $(kernels); do
    [ -n "$(offered "$1-$k")" ] || { echo "rackproof: no package $1-$k: there is no signed module for kernel $k" >&2; return 1; }
    noted="$noted $1-$k"
  done
}
# Cloud images leave out kernel modules that the fabric daemon needs.
extra_modules() {
  for k in $(kernels); do [ -z "$(offered "linux-modules-extra-$k")" ] || noted="$noted linux-modules-extra-$k"; done
}
"""


# A signing key is trusted by its fingerprint, however it was fetched.
_KEY = """\
t=$(mktemp -d); trap 'rm -rf "$t"' EXIT
file=$t/key
{fetch}
found=$(gpg --homedir "$t" --batch --no-tty --with-colons --show-keys "$t/key" 2>/dev/null |
  awk -F: '$1 == "pub" {{p = 1}} $1 == "fpr" && p {{print $10; p = 0}}')
if [ "$found" != '{fingerprint}' ]; then
  echo "rackproof: the key at {url} has fingerprint '$found', wanted {fingerprint}: not trusted" >&2; exit 1
fi
mkdir -p "$(dirname {keyring})"
case $(head -c 5 "$t/key") in
  -----) cp "$t/key" "$t/armoured" ;;
  *) gpg --homedir "$t" --batch --no-tty --enarmor <"$t/key" | sed 's/ARMORED FILE/PUBLIC KEY BLOCK/' >"$t/armoured" ;;
esac
install -m 644 "$t/armoured" {keyring}.new && mv -f {keyring}.new {keyring}
"""

# Whether a repository offers NAME=VERSION..., with lists of its own, so that the host's are as they were when this fails.
_APT_OFFERS = """\
[ -s {keyring} ] || {{ echo 'rackproof: cannot go back: {keyring} is gone; nothing was changed' >&2; exit 1; }}
chmod 755 "$t"; mkdir -p "$t/lists/partial" "$t/parts"
printf %s {source} >"$t/parts/rackproof.sources"
own="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$t/parts -o Dir::State::lists=$t/lists"
own="$own -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Update::Error-Mode=any"
said=$(apt-get -q $own update 2>&1) || {{
  printf 'rackproof: cannot go back: its repository does not answer; nothing was changed\\n%s\\n' "$said" >&2; exit 1
}}
has() {{ apt-cache $own madison "$1" | awk -F '|' '{{print $2}}' | grep -qE "^ *([0-9]+:)?$2-"; }}
"""
_DNF_OFFERS = """\
[ -s {keyring} ] || {{ echo 'rackproof: cannot go back: {keyring} is gone; nothing was changed' >&2; exit 1; }}
mkdir -p "$t/repos"
printf %s {source} >"$t/repos/rackproof.repo"
own="-q --setopt=reposdir=$t/repos --setopt=cachedir=$t/cache --setopt=skip_if_unavailable=False --disableplugin=versionlock"
said=$(dnf $own makecache 2>&1) || {{
  printf 'rackproof: cannot go back: its repository does not answer; nothing was changed\\n%s\\n' "$said" >&2; exit 1
}}
has() {{ [ -n "$(dnf $own repoquery --available "$1-$2" 2>/dev/null)" ]; }}
"""

# The key may have been replaced on the host, or by the vendor; then the one by fingerprint is fetched.
_SOUND_KEY = """\
if [ -e {keyring} ] && command -v gpg >/dev/null; then
  known=$(gpg --batch --no-tty --with-colons --show-keys {keyring} 2>/dev/null | awk -F: '$1 == "fpr" {{print $10; exit}}')
  if [ "$known" != '{fingerprint}' ]; then (
{fetch}) || exit 1; fi
fi
"""


@dataclass(frozen=True)
class Manager:
    """A package manager: shell functions for steps, and what has another name or form with it."""

    name: str
    functions: str
    fetch: str  # shell command that loads a file with nothing but what is there; {url} and {file} to be filled in
    offers: str  # shell text that defines `has NAME VERSION`; {keyring} and {source} to be filled in, $t is a folder
    gpg: tuple[str, ...]  # packages of which one has gpg, the smallest first

    @property
    def prelude(self) -> str:
        return self.functions + _COMMON

    def key_script(self, url: str, fingerprint: str, keyring: str) -> str:
        """Fetch a signing key and keep it, armoured, if it is the one with this fingerprint."""
        fetch = self.fetch.format(url=url, file="$file")
        return _KEY.format(fetch=fetch, url=url, fingerprint=fingerprint, keyring=keyring)

    def sound_key(self, url: str, fingerprint: str, keyring: str) -> str:
        """Fetch a signing key again where the one that was kept has another fingerprint by now."""
        return _SOUND_KEY.format(fingerprint=fingerprint, keyring=keyring, fetch=self.key_script(url, fingerprint, keyring))


MANAGERS = {
    "apt": Manager(
        "apt", APT, "/usr/lib/apt/apt-helper download-file '{url}' \"{file}\" >/dev/null", _APT_OFFERS, ("gpg", "gnupg")
    ),
    "dnf": Manager(
        "dnf",
        DNF,
        "curl -fsSL --retry 2 --max-time 120 -o \"{file}\" '{url}'",
        _DNF_OFFERS,
        ("gnupg2", "gnupg2-minimal"),
    ),
}
