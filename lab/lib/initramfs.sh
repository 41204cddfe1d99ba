# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # run declares what the parts share
# The initramfs: busybox, the kernel modules, and what one machine has to do.

# unpack_module FILE TARGET: distributions compress modules in various ways.
unpack_module() {
    case $1 in
    *.ko) cp "$1" "$2" ;;
    *.xz) xz -dc "$1" >"$2" ;;
    *.zst) zstd -dcq "$1" >"$2" ;;
    *.gz) gzip -dc "$1" >"$2" ;;
    esac || die "cannot unpack ${1##*/}"
}

# build_modules DIR NAME...: the modules and the order to load them.
build_modules() {
    local tree=$1 file name
    shift
    mkdir -p "$tree/lab/modules"
    module_files "$kernel_modules" "$@" >"$tree/files"
    while IFS= read -r file; do
        name=${file##*/}
        name=${name%%.ko*}.ko
        unpack_module "$kernel_modules/$file" "$tree/lab/modules/$name"
        echo "$name"
    done <"$tree/files" >"$tree/lab/modules.order"
    rm "$tree/files"
}

# build_initramfs TREE TARGET: the caller has put config, command and shares into TREE/lab.
build_initramfs() {
    local tree=$1 busybox
    busybox=$(busybox_static)
    mkdir -p "$tree"/{bin,dev,proc,sys,host}
    if [[ $arch == arm64 ]]; then
        cp "$arm64_root/bin/busybox" "$tree/bin/busybox"
    else
        cp "$busybox" "$tree/bin/busybox"
    fi
    ln -s busybox "$tree/bin/sh"
    cp "$lab_dir/guest/init" "$tree/init"
    chmod 755 "$tree/init"
    cp "$lab_dir/guest/"*.sh "$tree/lab/"
    (cd "$tree" && find . | "$busybox" cpio -o -H newc 2>/dev/null) >"$2" ||
        die "cannot build the initramfs"
    rm -r "$tree"
}
