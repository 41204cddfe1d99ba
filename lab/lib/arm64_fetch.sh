# shellcheck shell=bash
# shellcheck disable=SC2154 # what sources this shares
# Fetches what an arm64 machine consists of: its root and its kernel. Nothing is installed on this host.

# apt_of WORK RELEASE: from now on apt knows that release's packages of arm64, and no others.
apt_of() {
    local said
    said=$(private_apt "$1/apt" "$2" arm64) || die "$said"
    export APT_CONFIG=$1/apt/apt.conf
    in_log "$1" apt-get update --error-on=any
}

# fetch_arm64_root WORK: the packages of this system's release.
fetch_arm64_root() {
    local work=$1 archive name
    echo "lab: fetching Debian's arm64 packages"
    apt_of "$work" "$(codename)"
    in_log "$work" apt-get install --yes --download-only "${ARM64_PACKAGES[@]}"
    # Where all programs are in one folder, whichever of the two a package names.
    for name in bin sbin lib; do
        mkdir -p "$work/root/usr/$name"
        ln -s "usr/$name" "$work/root/$name"
    done
    for archive in "$work"/apt/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$archive" |
            tar -x -C "$work/root" --no-same-owner --keep-directory-symlink --exclude='./usr/share/man' \
                --exclude='./usr/share/locale' ||
            die "cannot unpack ${archive##*/}"
    done
    # What the packages' scripts would do at their installation.
    ln -s gawk "$work/root/usr/bin/awk"
    echo 'root:x:0:0:root:/root:/bin/bash' >"$work/root/etc/passwd"
    echo 'root:x:0:' >"$work/root/etc/group"
    echo 'hosts: files' >"$work/root/etc/nsswitch.conf"
    : >"$work/root/etc/resolv.conf"
    mkdir -p "$lab_cache/arm64"
    rm -rf "$arm64_root" "$lab_cache"/arm64/of-*
    mv "$work/root" "$arm64_root" && touch "$(arm64_stamp)" || die "cannot write $arm64_root"
}

# in_log DIR COMMAND...: what it says is only of interest if it fails.
in_log() {
    local log=$1/log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 5 "$log" >&2
        die "failed: $*"
    }
}

# fetch_arm64_kernel WORK 4k|16k: this system's release has it, or the first that has one with such pages.
fetch_arm64_kernel() {
    local work=$1 release meta=linux-image-arm64 image target
    release=$(codename)
    [[ $2 == 4k ]] || meta+=-$2
    [[ $2$release != 16kbookworm ]] || release=trixie
    target=$(cached_kernel "arm64-$2")
    apt_of "$work" "$release"
    image=$(apt-cache depends "$meta" | sed -nE 's/^ *\|?Depends: (linux-image-[0-9][^ ]*)$/\1/p' | head -n 1)
    [[ -n $image ]] || die "Debian $release has no $meta"
    echo "lab: fetching $image"
    download "$work" "$image" || die "cannot fetch $image"
    unpack "$work"
    mkdir -p "$lab_cache/arm64"
    rm -rf "$target"
    mv "$work/kernel" "$target" || die "cannot write $target"
    find_kernel "arm64-$2" || die "the kernel of $image lacks modules that the lab needs"
}

# rust_for_arm64: the library of this Rust for that architecture. rustup has it; Debian has it for its own Rust.
rust_for_arm64() {
    local target=aarch64-unknown-linux-gnu
    [[ ! -d $(rustc --print target-libdir --target "$target") ]] || return 0
    if command -v rustup >/dev/null; then
        rustup target add "$target" || die "rustup cannot add $target"
    else
        die "Rust's library for $target is missing: with rustup, rustup target add $target"
    fi
}
