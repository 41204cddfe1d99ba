# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # run declares what the parts share
# Shared by the lab's host-side scripts: messages, quoting, places, packages.

# Statuses of the lab itself, next to those of the command (as env(1) and
# timeout(1) use them).
readonly STATUS_TIME_LIMIT=124
readonly STATUS_LAB=125
readonly STATUS_OUTPUT_CLOSED=141

lab_cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/rdma-by-example/lab

die() {
    echo "lab: $*" >&2
    exit "$STATUS_LAB"
}

# The arguments as words that any sh reads back unchanged.
quote() {
    local word words=
    for word; do
        words+=" '${word//\'/\'\\\'\'}'"
    done
    printf '%s' "${words# }"
}

# Prints the Debian packages that the lab needs and that are not there, one per line.
missing_packages() {
    command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86
    busybox_static >/dev/null || echo busybox-static
    PATH=$PATH:/usr/sbin:/sbin command -v rdma >/dev/null || echo iproute2
    compgen -G '/usr/lib/*/libibverbs/librxe-*.so' >/dev/null || echo ibverbs-providers
    compgen -G '/usr/lib/*/librdmacm.so.1' >/dev/null || echo librdmacm1
}

# The path of a statically linked busybox: it runs where no library is.
busybox_static() {
    local path
    for path in /bin/busybox /usr/bin/busybox; do
        if [[ -x $path ]] && ! ldd "$path" >/dev/null 2>&1; then
            echo "$path"
            return
        fi
    done
    return 1
}
