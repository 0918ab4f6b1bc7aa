#!/usr/bin/env bash
# Makes the Debian packages cairnd, cairn and cairn-bench of programs that are built already.
#
# Promises  the same programs and the same commit give the same bytes, whoever packs them, when and where
#           nothing of a package is listed twice: man pages and completions come from the programs that are packed
#           writes to OUT only
# Assumes   Debian 12's dpkg-deb, binutils and Python 3; the programs run on this machine; cargo still has their crates' sources
# Not here  signing, and a repository for apt
# Usage     scripts/packages/make.sh PROGRAMS OUT [OPTIONS]      folders: with cairnd, cairn and cairn-bench; for the packages
#           OPTIONS are for dpkg-deb in the place of -Zxz
#           DEBFULLNAME and DEBEMAIL name another maintainer, SOURCE_DATE_EPOCH another time than the commit's
set -euo pipefail
export LC_ALL=C.UTF-8 TZ=UTC
umask 022

stop() {
    echo "packages: $1" >&2
    exit 1
}

(($# >= 2)) || stop "say two folders: scripts/packages/make.sh PROGRAMS OUT"
[[ -d $1 ]] || stop "$1 is no folder: build the programs first (make dist)"
mkdir -p "$2"
programs=$(realpath "$1") out=$(realpath "$2")
shift 2
compression=("${@:--Zxz}")
cd "$(dirname "$0")/../.."
for tool in dpkg-deb objdump strip gzip python3; do
    command -v "$tool" >/dev/null || stop "$tool is missing: apt-get install dpkg binutils gzip python3"
done

# The version: of a commit that is no release, one that is older than the release that comes next.
number=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
version=$number
if [[ -e .git ]] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
    seconds=$(git log -1 --format=%ct)
    [[ $(git describe --tags --exact-match 2>/dev/null) == "v$number" ]] ||
        version=$number~git$(date -u -d "@$seconds" +%Y%m%d.%H%M%S).$commit
    [[ -z $(git --no-optional-locks status --porcelain --untracked-files=no) ]] || version+=+dirty
else
    seconds=$(stat -c %Y Cargo.toml)
fi
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$seconds}
architecture=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-Cairn maintainers} <${DEBEMAIL:-cairn@packages.invalid}>"

work=$out/.tree
rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT

# put FILE PATH [MODE]: a file of the package at hand
put() { install -D -m "${3:-644}" "$1" "$root/$2"; }

# squeeze PATH: what Debian wants compressed, without name and time
squeeze() { gzip -9n "$root/$1"; }

# program NAME: the program of the package at hand, without symbols, once it is known to be of this version
program() {
    [[ -x $programs/$1 ]] || stop "$programs/$1 is not there: build the programs first (make dist)"
    local said
    said=$("$programs/$1" --version) || stop "$programs/$1 does not run here"
    [[ " $said " == *" $number "* ]] || stop "$programs/$1 is \"$said\", and this is $number: build it again (make dist)"
    mkdir -p "$root/usr/bin"
    strip --strip-all --remove-section=.comment -o "$root/usr/bin/$1" "$programs/$1"
    chmod 755 "$root/usr/bin/$1"
}

# completions NAME WORDS...: the scripts that the program prints; WORDS come before the shell's name
completions() {
    local name=$1 shell path
    shift
    for shell in bash zsh fish; do
        case $shell in
        bash) path=usr/share/bash-completion/completions/$name ;;
        zsh) path=usr/share/zsh/vendor-completions/_$name ;;
        fish) path=usr/share/fish/vendor_completions.d/$name.fish ;;
        esac
        mkdir -p "$(dirname "$root/$path")"
        "$programs/$name" "$@" "$shell" >"$root/$path" || stop "$name prints no completions for $shell"
    done
}

# manual SECTION: compresses the pages in the package
manual() {
    [[ -n $(ls "$root/usr/share/man/man$1") ]] || stop "$package wrote no man page"
    gzip -9n "$root/usr/share/man/man$1"/*
}

# libraries PROGRAM: the packages of the shared libraries that it loads, the C library in the version that it asks for
libraries() {
    local libraries library glibc
    libraries=$(objdump -p "$1" | sed -n 's/^ *NEEDED *//p')
    for library in $libraries; do
        case $library in
        libc.so.* | libm.so.* | ld-linux*) ;;
        libgcc_s.so.1) echo -n "libgcc-s1, " ;;
        *) stop "$1 loads $library, and scripts/packages/make.sh does not know which package has it" ;;
        esac
    done
    glibc=$(objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
    echo "libc6 (>= ${glibc#GLIBC_})"
}

# papers CRATE: licence, changes, and the notices of the crates that are in the program
papers() {
    local doc=usr/share/doc/$package
    put packaging/debian/copyright "$doc/copyright"
    put CHANGELOG.md "$doc/CHANGELOG.md"
    cat >"$root/$doc/changelog" <<EOF
$package ($version) unstable; urgency=medium

  * What changed for users is in CHANGELOG.md.gz.

 -- $maintainer  $(date -u -d "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')
EOF
    python3 -B scripts/packages/licences.py "$1" >"$root/$doc/licences.txt" || stop "the licences of what is in $package are not told"
    local file
    for file in changelog CHANGELOG.md licences.txt; do squeeze "$doc/$file"; done
}

# pack: control files and the package
pack() {
    local size script
    mkdir -p "$root/DEBIAN"
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort | xargs -d '\n' md5sum) >"$root/DEBIAN/md5sums"
    (cd "$root" && find etc -type f -printf '/%p\n' 2>/dev/null | sort) >"$root/DEBIAN/conffiles" || true
    [[ -s $root/DEBIAN/conffiles ]] || rm "$root/DEBIAN/conffiles"
    for script in postinst prerm postrm; do
        [[ ! -e packaging/debian/$package.$script ]] || put "packaging/debian/$package.$script" "DEBIAN/$script" 755
    done
    # As dpkg counts: each file in whole KiB, one for everything else.
    size=$(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%s\n' -o -printf '1\n' |
        awk '{ kib += $1 == 1 ? 1 : int(($1 + 1023) / 1024) } END { print kib }')
    {
        sed "s/@LIBRARIES@/$(libraries "$root/usr/bin/$package")/" "packaging/debian/$package.control" |
            sed "/^Package: /a Version: $version\nArchitecture: $architecture\nMaintainer: $maintainer\nInstalled-Size: $size\nSection: admin\nPriority: optional"
    } >"$root/DEBIAN/control"
    find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    # One thread: how xz cuts its input depends on their number.
    dpkg-deb --root-owner-group --threads-max=1 "${compression[@]}" --build "$root" "$out/${package}_${version}_$architecture.deb" >/dev/null ||
        stop "dpkg-deb does not build $package"
    echo "packages: $out/${package}_${version}_$architecture.deb"
}

begin() {
    package=$1 root=$work/$1
    mkdir -p "$root"
}

rm -f "$out"/{cairnd,cairn,cairn-bench}_*.deb

begin cairnd
program cairnd
mkdir -p "$root/usr/share/man/man8"
"$programs/cairnd" --print-manual >"$root/usr/share/man/man8/cairnd.8" || stop "cairnd prints no man page"
manual 8
completions cairnd --print-completions
put packaging/systemd/cairnd.service lib/systemd/system/cairnd.service
put packaging/udev/62-cairn.rules lib/udev/rules.d/62-cairn.rules
put packaging/udev/is-cairn-device usr/lib/cairn/is-cairn-device 755
put packaging/needrestart/cairnd.conf etc/needrestart/conf.d/cairnd.conf
put packaging/debian/cairnd.toml etc/cairn/cairnd.toml
put packaging/debian/cairnd.README.Debian usr/share/doc/cairnd/README.Debian
put packaging/cairnd.toml usr/share/doc/cairnd/examples/cairnd.toml
for page in docs/operating/*.md; do put "$page" "usr/share/doc/cairnd/operating/$(basename "$page")"; done
papers cairnd
pack

begin cairn
program cairn
mkdir -p "$root/usr/share/man/man1"
"$programs/cairn" manual "$root/usr/share/man/man1"
manual 1
completions cairn completions
papers cairn-cli
pack

begin cairn-bench
program cairn-bench
mkdir -p "$root/usr/share/man/man1"
"$programs/cairn-bench" manual "$root/usr/share/man/man1"
manual 1
completions cairn-bench completions
papers cairn-bench
pack
