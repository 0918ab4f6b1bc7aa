#!/usr/bin/env bash
# Tries the Debian packages where nothing is installed yet: installs, runs, upgrades, removes and purges them.
#
# Promises  packing twice gives the same bytes, from different folders too
#           in a fresh root the packages install, serve a disk, leave a running daemon alone when they are installed again,
#           and leave nothing but data, accounts and dpkg's own notes when they are purged
#           every failure is one line that begins with "packages:"; FOLDER is all that is written to
# Assumes   root, Debian 12, iproute2; neither systemd nor the network (the root has a loopback of its own)
# Usage     scripts/packages/try.sh PROGRAMS FOLDER      with cairnd, cairn and cairn-bench; emptied first
set -euo pipefail
export LC_ALL=C.UTF-8 PATH=$PATH:/usr/sbin:/sbin
here=$(realpath "$(dirname "$0")")

stop() {
    echo "packages: $1" >&2
    [[ -z ${2:-} || ! -s $2 ]] || sed 's/^/    /' "$2" >&2
    exit 1
}

# step WHAT COMMAND...: says what was being done where the command fails, and then what it said
step() {
    local what=$1
    shift
    "$@" >"$folder/said" 2>&1 || stop "$what failed" "$folder/said"
}

inside() { chroot "$root" "$@"; }

# as_daemon COMMAND...: as the unit runs it: user and groups, locked memory, the folder of its sockets. Begin it with &: it becomes that
as_daemon() {
    install -d -o "$(inside id -u cairn)" -g "$(inside id -g cairn)" -m 0751 "$root/run/cairn"
    # Where root may not lift it either (a container), the daemon makes do.
    ulimit -l unlimited 2>/dev/null || true
    exec chroot "$root" setpriv --reuid=cairn --regid=cairn --groups=disk "$@"
}

# listing: all of the root but what dpkg and adduser note of their work
listing() {
    (cd "$root" && find . -xdev -path ./proc -prune -o -path ./dev -prune -o -printf '%y %m %u %g %p %l\n') |
        grep -vE ' \./(var/lib/dpkg/(info|status|status-old|lock|lock-frontend|available|triggers/.*|updates)|var/log/dpkg.log|var/log/alternatives.log|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?|run/adduser) ?$' |
        sort
}

pack() {
    # Compressed a little: xz takes ten times as long, and is not what is tried.
    local quick=(-Zgzip -z1)
    "$here/make.sh" "$programs" "$folder/first" "${quick[@]}" >"$folder/said" 2>&1 || stop "they cannot be made" "$folder/said"
    (cd / && umask 077 && TZ=Asia/Tokyo "$here/make.sh" "$programs" "$folder/second" "${quick[@]}") >"$folder/said" 2>&1 ||
        stop "they cannot be made a second time" "$folder/said"
    local deb
    for deb in "$folder"/first/*.deb; do
        cmp -s "$deb" "$folder/second/${deb##*/}" || stop "${deb##*/} has other bytes when it is made again"
    done
    echo "packages: made twice, the same bytes: $(cd "$folder/first" && echo *.deb)"
}

# Accounts, files with their owners, and what comes from the programs' own declarations.
look() {
    local account program owner
    account=$(inside getent passwd cairn) || stop "there is no user cairn"
    [[ $account == *:/var/lib/cairn:/usr/sbin/nologin ]] || stop "the user is $account"
    owner=$(inside stat -c '%U:%G %a' /var/lib/cairn)
    [[ $owner == "cairn:cairn 750" ]] || stop "/var/lib/cairn is $owner, not cairn:cairn 750"
    step "checking the files (dpkg --verify)" inside dpkg --verify cairnd cairn cairn-bench
    [[ ! -s $folder/said ]] || stop "files are not as they were packed" "$folder/said"
    [[ -z $(find "$root/etc/systemd" -name 'cairnd*' 2>/dev/null) ]] || stop "installing enabled the service"
    for program in cairnd cairn cairn-bench; do
        step "$program --version" inside "$program" --version
        grep -qE "^cairn.* [0-9]+\.[0-9]+\.[0-9]+" "$folder/said" || stop "$program tells no version" "$folder/said"
        step "the completions of $program" inside bash -ec ". /usr/share/bash-completion/completions/$program; complete -p $program"
    done
    for page in cairnd.8 cairn.1 cairn-disk-create.1 cairn-bench.1 cairn-bench-load.1 cairn-bench-calc.1; do
        zcat "$root/usr/share/man/man${page##*.}/$page.gz" 2>/dev/null | grep -q '^\.TH' || stop "there is no man page $page"
    done
    step "cairnd --check-config with the packaged configuration" inside cairnd --check-config
}

# A cluster of one host, as an administrator would make it, on files.
run() {
    cat >>"$root/etc/cairn/cairnd.toml" <<'TOML'

[[disk_group]]
cache = "/var/lib/cairn/cache"
capacity = ["/var/lib/cairn/capacity"]
cache_size = "256MiB"
capacity_size = "1GiB"
TOML
    as_daemon cairnd >"$folder/cairnd.log" 2>&1 &
    daemon=$!
    local end=$((SECONDS + 30))
    until inside cairn --timeout 2 cluster status >"$folder/said" 2>&1; do
        kill -0 "$daemon" 2>/dev/null || stop "cairnd ended by itself" "$folder/cairnd.log"
        ((SECONDS < end)) || stop "cairnd does not answer within 30 s" "$folder/cairnd.log"
        sleep 0.2
    done
    step "cairn policy create" inside cairn policy create one-copy --ftt 0
    step "cairn disk create" inside cairn disk create vm-1 --size 64MiB --policy one-copy
    step "cairn disk show" inside cairn --output json disk show vm-1
    grep -q '"vm-1"' "$folder/said" || stop "the disk is not shown" "$folder/said"
    step "writing to the disk and reading it back" inside cairn-bench load "nbd+unix:///vm-1?socket=/run/cairn/nbd.sock" \
        --read 0 --ramp 0 --time 1 --destructive --verify
    step "cairn health" inside cairn health
    inside /usr/lib/cairn/is-cairn-device /var/lib/cairn/cache || stop "is-cairn-device does not know a cache device"
    inside /usr/lib/cairn/is-cairn-device /var/lib/cairn/capacity || stop "is-cairn-device does not know a capacity device"
    ! inside /usr/lib/cairn/is-cairn-device /usr/bin/cairnd || stop "is-cairn-device takes anything for a device of Cairn"
}

purge() {
    step "dpkg --remove" inside dpkg --remove cairn-bench cairn cairnd
    [[ -e $root/etc/cairn/cairnd.toml ]] || stop "removing took the configuration, which purging does"
    [[ -z $(find "$root/usr" "$root/lib/systemd/system" -name '*cairn*') ]] ||
        stop "removing left $(find "$root/usr" -name '*cairn*' | head -1)"
    step "dpkg --purge" inside dpkg --purge cairn-bench cairn cairnd
}

in_namespaces() {
    root=$1 folder=$2 daemon=
    ip link set lo up || stop "ip cannot set up the loopback of a network namespace"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for node in null zero full random urandom; do
        touch "$root/dev/$node"
        mount --bind "/dev/$node" "$root/dev/$node"
    done
    listing >"$folder/before"
    mkdir "$root/debs"
    cp "$folder"/first/*.deb "$root/debs"
    step "dpkg --install in a fresh root" inside sh -c 'dpkg --install /debs/*.deb'
    step "dpkg --audit" inside dpkg --audit
    look
    run
    step "dpkg --install beside a running daemon" inside sh -c 'dpkg --install /debs/*.deb'
    kill -0 "$daemon" 2>/dev/null || stop "installing again ended the running daemon" "$folder/cairnd.log"
    step "cairn disk show after installing again" inside cairn disk show vm-1
    kill -TERM "$daemon"
    wait "$daemon" || stop "cairnd ended with code $? when it was told to end" "$folder/cairnd.log"
    rm -rf "$root/debs.kept"
    mv "$root/debs" "$root/debs.kept"
    purge
    [[ -e $root/var/lib/cairn/host.json && -e $root/var/lib/cairn/capacity ]] || stop "purging took data"
    rm -rf "$root/var/lib/cairn"
    step "dpkg --install for the second time" inside sh -c 'dpkg --install /debs.kept/*.deb'
    purge
    rm -rf "$root/debs.kept"
    listing >"$folder/after"
    diff "$folder/before" "$folder/after" >"$folder/said" || stop "something is left after purging, or is gone" "$folder/said"
    echo "packages: installed, run, installed again, removed and purged in a fresh root"
}

if [[ ${1:-} == --in-namespaces ]]; then
    in_namespaces "$2" "$3"
    exit
fi
(($# == 2)) || stop "say two folders: scripts/packages/try.sh PROGRAMS FOLDER"
((EUID == 0)) || stop "a root of its own is made: run this as root"
[[ -d $1 ]] || stop "$1 is no folder: build the programs first"
programs=$(realpath "$1")
for tool in dpkg unshare chroot setpriv ip python3; do
    command -v "$tool" >/dev/null || stop "$tool is missing: scripts/setup.sh installs what tests need"
done
mkdir -p "$2"
folder=$(realpath "$2")
rm -rf "$folder"/{first,second,root}
pack
# What the packages depend on, less each other.
mapfile -t depends < <(for deb in "$folder"/first/*.deb; do dpkg-deb --field "$deb" Depends; done | tr ',' '\n' | awk '{ print $1 }' | sort -u)
step "making a fresh root" python3 -B "$here/base-root.py" "$folder/root" "${depends[@]}"
# Processes, mounts and the network are its own, and gone with it.
unshare --mount --net --pid --fork --kill-child "$0" --in-namespaces "$folder/root" "$folder" || exit 1
rm -rf "$folder/root"
