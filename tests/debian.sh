#!/usr/bin/env bash
# Run make targets on another Debian: tests/debian.sh SUITE root|user FOLDER 'TARGET [VARIABLE=VALUE]...'...
#
# A base system of the suite is kept in build/debian.  Each run has a layer of its own above it, with
# a clean clone of HEAD in FOLDER of the home directory, and only what a newcomer's machine has.
# How to reach the registries of Debian and of Python is taken from this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$1 who=$2 folder=$3
shift 3

fail() { echo "tests/debian.sh: $*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "needs root, because it mounts and changes the root: sudo make test-debian"
command -v debootstrap >/dev/null || fail "needs debootstrap: sudo apt-get install debootstrap"
[ "$who" = root ] || [ "$who" = user ] || fail "RUN_AS=$who is unknown: use root or user"

mkdir -p build/debian
base=$PWD/build/debian/$suite
if [ ! -d "$base" ]; then
    here=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Release: $here" 'Created-By: Packages' | head -n 1)
    script=/usr/share/debootstrap/scripts/$suite
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # younger than this debootstrap
    rm -rf "$base.part"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,make \
        "$suite" "$base.part" "$mirror" "$script" >"$base.log" || fail "debootstrap failed: see $base.log"
    mv "$base.part" "$base"
fi

run=$(mktemp -d "$base.XXXXXX")
trap 'rm -rf --one-file-system "$run"' EXIT
mkdir "$run/upper" "$run/work" "$run/root"
export base run who folder
export commit=$(git rev-parse HEAD)

inside() {
    root=$run/root
    mount -t overlay -o "lowerdir=$base,upperdir=$run/upper,workdir=$run/work" overlay "$root"
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs /usr/share/ca-certificates \
        /usr/local/share/ca-certificates; do
        [ ! -e "$file" ] || { rm -rf "$root$file" && cp -a "$file" "$root$file"; }
    done
    home=/root
    if [ "$who" = user ]; then
        home=/home/user
        chroot "$root" useradd --create-home user
    fi
    git clone --quiet --no-checkout . "$root$home/$folder"
    git -C "$root$home/$folder" -c advice.detachedHead=false checkout --quiet "$commit"
    chroot "$root" chown -R "$who:" "$home"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    registries=()
    while IFS= read -r variable; do
        registries+=("$variable")
    done < <(env | grep -iE '^(pip_|ssl_cert_|requests_ca_bundle|(https?|no)_proxy)' || true)
    for target; do
        began=$SECONDS
        status=0
        chroot --userspec="$who" --groups= "$root" env -i "${registries[@]}" HOME="$home" PATH=/usr/bin:/bin \
            sh -c 'cd "$1" && eval "make $2"' sh "$home/$folder" "$target" || status=$?
        echo "tests/debian.sh: make $target as $who on $(cat "$root/etc/debian_version"):" \
            "exit code $status after $((SECONDS - began)) s"
        [ $status = 0 ] || exit $status
    done
}
export -f inside
unshare --mount --pid --fork --kill-child bash -euo pipefail -c 'inside "$@"' inside "$@"
