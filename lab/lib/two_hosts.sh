# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # run declares what the parts share
# Two machines, joined by a virtual Ethernet link: server and client.

# The virtual network card computes checksums and cuts packets itself, so that
# a capture shows what a real link would carry.
readonly PLAIN_CARD=csum=off,guest_csum=off,gso=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,mrg_rxbuf=off,romfile=

# prepare SIDE COMMAND rxe|soft-hca ADDRESS VARIABLE=VALUE...
prepare() {
    local side=$1 line rdma=() names=("${MODULES_BASE[@]}" "${MODULES_NETWORK[@]}")
    line=$(quote /bin/sh -c "$2")
    if [[ $3 == rxe ]]; then
        names+=("${MODULES_OPTIONAL[@]}" "${MODULES_RDMA[@]}")
    else
        # The modules would take the port of RoCE.
        line="env XDG_RUNTIME_DIR=/run/lab $(quote "$soft_hca" run "--roce=$4" --) $line"
        rdma=("LAB_SOFT_HCA=$(quote "$soft_hca")")
    fi
    set -- "LAB_ADDRESS=$4" "${rdma[@]}" "${@:5}"
    echo "exec $line" |
        write_orders "$work/$side.tree" "$side" LAB_NETWORK=link "LAB_LOSS=$loss" "$@"
    build_modules "$work/$side.tree" "${names[@]}"
    build_initramfs "$work/$side.tree" "$work/$side.initrd"
}

two_hosts_event() {
    local side=$1
    case $2 in
    listening) let_client_start ;;
    status)
        # A server that ended without listening is no reason to wait.
        [[ $side != server ]] || let_client_start
        side_status[$side]=$3
        # First, in time, of the statuses that are not 0.
        ((status != 0)) || status=$3
        ;;
    drained) drained+=("$side") ;;
    failed) failure="$side: ${*:3}" ;;
    esac
    if [[ -n $failure || ${#side_status[@]}${#drained[@]} == 22 ]]; then
        tell server stop
        tell client stop
    fi
}

let_client_start() {
    [[ $started == yes ]] || tell client go
    started=yes
}

# A machine that ended without a status will not send another event.
two_hosts_alive() {
    local side
    for side in server client; do
        [[ -n ${side_status[$side]:-} ]] || kill -0 "${machine_pids[$side]}" 2>/dev/null || return 1
    done
}

# link_arguments SIDE MAC: QEMU arguments for one end of the link.
link_arguments() {
    local end=off
    [[ $1 != server ]] || end=on
    printf '%s\n' -netdev "stream,id=link,server=$end,addr.type=unix,addr.path=$work/link" \
        -device "virtio-net-pci,netdev=link,mac=$2,$PLAIN_CARD"
}

# start_side SIDE MAC QEMU_ARGUMENT...
start_side() {
    local side=$1 label='' arguments
    [[ $labels == no ]] || label="$side| "
    mapfile -t arguments < <(link_arguments "$1" "$2")
    shift 2
    start_machine "$side" "$label" "${share_arguments[@]}" "${arguments[@]}" "$@"
}

run_two_hosts() {
    local status=0 failure='' started=no side running=() capture=() drained=()
    local -A side_status=()
    qemu-system-x86_64 -netdev help 2>/dev/null | grep -qx stream || die "--two-hosts needs QEMU 7.2 or later"
    open_events
    prepare server "$server" "$server_on" 10.9.0.1 LAB_MAC=02:00:00:00:00:01 LAB_WATCH=yes
    prepare client "$client" "$client_on" 10.9.0.2 LAB_MAC=02:00:00:00:00:02 LAB_WAIT_FOR_GO=yes
    make_share_arguments
    if [[ -n $pcap ]]; then
        capture=(-object "filter-dump,id=capture,netdev=link,file=$work/pcap")
    fi
    start_side server 02:00:00:00:00:01 "${capture[@]}"
    # The client's end connects once, so the server's must be there.
    until [[ -S $work/link ]] || ! kill -0 "${machine_pids[server]}" 2>/dev/null; do
        sleep 0.05
    done
    start_side client 02:00:00:00:00:02

    follow two_hosts_event two_hosts_alive
    case $? in
    0) wait ;; # for the last output
    *) stop_machines ;;
    esac
    [[ -z $pcap ]] || cp "$work/pcap" "$pcap" || die "cannot write $pcap"
    for side in server client; do
        [[ -n ${side_status[$side]:-} ]] || running+=("$side")
    done
    if ((${#running[@]} == 0)); then
        [[ $labels == no ]] ||
            echo "lab: server status ${side_status[server]}, client status ${side_status[client]}"
        exit "$status"
    fi
    [[ -n $failure ]] || ((SECONDS < deadline)) || time_is_up "still running: ${running[*]}"
    for side in "${running[@]}"; do
        explain "$side"
    done
    die "${failure:-the virtual machine of the ${running[*]} ended without an exit status}"
}
