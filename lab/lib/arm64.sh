# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # what sources this shares
# arm64: Debian's packages of that architecture, unpacked into a folder. It is the machine's root, and what
# programs for it are linked with.

# What the machine and the tests run, and what programs are built with.
readonly ARM64_PACKAGES=(
    base-files bash coreutils dash debianutils diffutils findutils gawk grep hostname mount netbase procps
    sed util-linux
    busybox-static gcc iproute2 libc-bin
    ibverbs-providers ibverbs-utils infiniband-diags perftest rdma-core rdmacm-utils
    python3-pyverbs
    libc6-dev libibverbs-dev librdmacm-dev
)

# The folder.
arm64_root=$lab_cache/arm64/root

# Prints the file that says that all of it is there. A change of this file unpacks anew.
arm64_stamp() {
    echo "$lab_cache/arm64/of-$(cksum <"${BASH_SOURCE[0]}" | tr ' ' -)"
}

# Prints what is missing on this host to run such a machine, one per line.
missing_for_arm64() {
    command -v qemu-system-aarch64 >/dev/null || echo qemu-system-arm
    busybox_static >/dev/null || echo busybox-static
}

# Prints what is missing to build for it.
missing_to_build_for_arm64() {
    command -v aarch64-linux-gnu-gcc >/dev/null || echo gcc-aarch64-linux-gnu
    dpkg-query --show libc6-dev-arm64-cross >/dev/null 2>&1 || echo libc6-dev-arm64-cross
}

# for_arm64: sets what cargo, pkg-config and bindgen need to build for arm64.
for_arm64() {
    local target=aarch64-unknown-linux-gnu libraries=$arm64_root/usr/lib/aarch64-linux-gnu
    export CARGO_BUILD_TARGET=$target
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-Clink-arg=--sysroot=$arm64_root"
    export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
    export BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu="--sysroot=$arm64_root"
    export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR=$arm64_root
    export PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$arm64_root/usr/share/pkgconfig
}
