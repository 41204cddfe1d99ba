# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # run declares what the parts share
# One machine: its initramfs, its run, its exit status.

# write_orders TREE NAME VARIABLE=VALUE...: what host.sh reads. The command's
# script is read from standard input.
write_orders() {
    local tree=$1 name=$2 share
    shift 2
    mkdir -p "$tree/lab"
    printf '%s\n' "LAB_NAME=$name" LAB_DEVICES= LAB_WATCH=no LAB_WAIT_FOR_GO=no LAB_LOSS=0 \
        LAB_MAC= LAB_ADDRESS= LAB_SOFT_HCA= "LAB_MARKER=$(quote "$marker")" "$@" \
        >"$tree/lab/config"
    {
        for share in "${sources[@]}"; do
            echo "ro,cache=loose $share"
        done
        for share in "${shares[@]}"; do
            echo "rw,cache=mmap $share"
        done
    } >"$tree/lab/shares"
    {
        echo "export PATH=$(quote "$PATH") HOME=$(quote "${HOME:-/root}") USER=root LANG=C"
        echo 'export LAB_SCRATCH=/run/lab TMPDIR=/run/lab'
        ((${#environment[@]} == 0)) || echo "export $(quote "${environment[@]}")"
        echo "cd $(quote "$PWD") 2>/dev/null || { echo 'lab: the current directory is not visible here' >&2; exit 125; }"
        cat
    } >"$tree/lab/command"
}

# Sets share_arguments, the QEMU arguments for what a machine of another architecture sees of this
# repository, and for --share-rw.
make_share_arguments() {
    local index=0 share
    share_arguments=()
    for share in "${sources[@]}"; do
        share_argument "$share" ,readonly=on
    done
    for share in "${shares[@]}"; do
        share_argument "$share"
    done
}

# share_argument DIRECTORY [OPTION]: one more.
share_argument() {
    share_arguments+=(
        -fsdev "local,id=share$index,path=$1,security_model=none,multidevs=remap${2:-}"
        -device "virtio-9p-pci,fsdev=share$index,mount_tag=share$index")
    # Where the machine has the host's own files, it is there already.
    [[ $arch == x86_64 ]] || mkdir -p "$arm64_root$1" || die "cannot create $arm64_root$1"
    ((++index))
}

one_host_event() {
    case $2 in
    status) status=$3 ;;
    drained) drained=yes ;;
    failed) failure=${*:3} ;;
    esac
    [[ -z $failure && (-z $status || -z $drained) ]] || tell host stop
}

run_one_host() {
    local network=veth names=("${MODULES_BASE[@]}" "${MODULES_NETWORK[@]}")
    if [[ $modules == yes ]]; then
        names+=("${MODULES_OPTIONAL[@]}" "${MODULES_RDMA[@]}")
    else
        network=loopback
    fi
    echo "exec $(quote "${command[@]}")" |
        write_orders "$work/tree" host "LAB_NETWORK=$network" "LAB_DEVICES=$devices"
    build_modules "$work/tree" "${names[@]}"
    build_initramfs "$work/tree" "$work/host.initrd"
    make_share_arguments

    open_events
    start_machine host '' "${share_arguments[@]}"

    status='' drained='' failure=''
    if ! follow one_host_event; then
        stop_machines
        time_is_up
    fi
    wait # for the last output
    if [[ -z $status ]]; then
        explain host
        die "${failure:-the virtual machine ended without an exit status}"
    fi
    exit "$status"
}
