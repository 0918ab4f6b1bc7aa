#!/usr/bin/env bash
# Installs the Debian packages that building, testing and the demo need, and only those that are missing.
#
# Promises  runs apt-get update at most once, and only if something is missing; says what it wants when it is not root
# Assumes   Debian 12 or a relative of it, for the names of the packages
# Not here  the Rust toolchain: cargo must be there (rustup reads rust-toolchain.toml, if there is one)
set -euo pipefail

# Why each is there: fio, libnbd-bin (nbdinfo, nbdcopy), nbdkit and qemu-utils drive and measure the NBD door; QEMU, a kernel and busybox
# make the guests of the VM tests, e2fsprogs and xfsprogs their file systems, and QEMU's storage daemon (qemu-system-common) is another
# server of vhost-user; etcd is the directory of a real cluster; protoc compiles the etcd client's messages; iproute2 makes the network
# namespaces; python3 runs the benchmark; chromium, with a font, shows the reports of studies and measures whether their pictures can be
# read; prometheus has promtool, which checks the metrics; libvirt runs machines on what `cairn disk xml` prints.
packages=(
    make gcc
    fio libnbd-bin nbdkit qemu-utils qemu-system-x86 qemu-system-common
    etcd-server etcd-client protobuf-compiler libprotobuf-dev
    e2fsprogs xfsprogs iproute2 busybox-static linux-image-cloud-amd64 python3
    chromium fonts-dejavu-core
    prometheus
    libvirt-daemon-system libvirt-clients
)

missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $state == installed ]] || missing+=("$package")
done

if ((${#missing[@]} > 0)); then
    if ((EUID != 0)); then
        echo "setup: these packages are missing: ${missing[*]}" >&2
        echo "setup: run as root: apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    echo "setup: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # Without lists (a fresh container image) or with old ones apt knows no versions; then, and only then, it is asked.
    if ! apt-get install -y -qq --no-install-recommends "${missing[@]}" >/tmp/cairn-setup.$$.log 2>&1; then
        apt-get update -qq
        if ! apt-get install -y -qq --no-install-recommends "${missing[@]}" >/tmp/cairn-setup.$$.log 2>&1; then
            cat "/tmp/cairn-setup.$$.log" >&2
            echo "setup: apt-get could not install ${missing[*]}; see above" >&2
            exit 1
        fi
    fi
    rm -f "/tmp/cairn-setup.$$.log"
    # The packages start services where there is an init; the tests start their own members of etcd, their own
    # libvirt, and no Prometheus.
    if command -v systemctl >/dev/null && systemctl is-system-running >/dev/null 2>&1; then
        [[ " ${missing[*]} " == *" etcd-server "* ]] && systemctl disable --now etcd >/dev/null 2>&1 || true
        [[ " ${missing[*]} " == *" prometheus "* ]] && systemctl disable --now prometheus >/dev/null 2>&1 || true
        [[ " ${missing[*]} " == *" libvirt-daemon-system "* ]] && systemctl disable --now libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket libvirtd >/dev/null 2>&1 || true
    fi
fi

if ! command -v cargo >/dev/null && [[ ! -x $HOME/.cargo/bin/cargo ]]; then
    echo "setup: cargo is missing: install Rust 1.95 or newer from https://rustup.rs" >&2
    exit 1
fi
