#!/usr/bin/env bash
# Run a command with the PgBouncer of another Debian first on the path: tests/pgbouncer.sh SUITE COMMAND...
#
# Its packages, with all their libraries, are unpacked in build/debian; nothing of them is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$1
shift

fail() { echo "tests/pgbouncer.sh: $*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "needs root, because debootstrap does: sudo make test-pgbouncer"

root=$PWD/build/debian/$suite-pgbouncer
if [ ! -d "$root" ]; then
    here=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Release: $here" 'Created-By: Packages' | head -n 1)
    script=/usr/share/debootstrap/scripts/$suite
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # younger than this debootstrap
    rm -rf "$root.part" "$root.packages"
    mkdir -p "$root.part"
    debootstrap --download-only --variant=minbase --include=pgbouncer "$suite" "$root.packages" "$mirror" "$script" \
        >"$root.log" || fail "debootstrap failed: see $root.log"
    for package in "$root.packages"/var/cache/apt/archives/*.deb; do
        dpkg-deb --extract "$package" "$root.part"
    done
    rm -rf "$root.packages"
    mkdir "$root.part/path"
    cat >"$root.part/path/pgbouncer" <<'END'
#!/bin/sh
root=$(dirname "$(dirname "$(readlink -f "$0")")")
loader=$(echo "$root"/usr/lib/*/ld-linux-*.so.*)
libraries=$(dirname "$loader")
exec "$loader" --library-path "$libraries:$libraries/systemd" "$root/usr/sbin/pgbouncer" "$@"
END
    chmod +x "$root.part/path/pgbouncer"
    mv "$root.part" "$root"
fi

export PATH=$root/path:$PATH
pgbouncer --version | head -n 1
exec "$@"
