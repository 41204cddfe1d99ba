# shellcheck shell=bash
# Where to run: what the host's own RDMA devices are, and the fabric where none is asked for; for demo
# and compare.

# Whether this host has an RDMA device that programs can open.
has_device() {
    compgen -G '/dev/infiniband/uverbs*' >/dev/null && compgen -G '/sys/class/infiniband/*' >/dev/null
}

# Name and IPv4 address of the first RDMA device that has one: "rxe0 192.0.2.1".
device_and_address() {
    local device netdev address
    for device in /sys/class/infiniband/*; do
        netdev=$(cat "$device/ports/1/gid_attrs/ndevs/0" 2>/dev/null) || continue
        address=$(ip -4 -brief address show dev "$netdev" | awk '{ sub("/.*", "", $3); print $3 }')
        [[ -n $address ]] && echo "${device##*/} $address" && return
    done
    return 1
}

# Chooses a fabric: this host's device, else soft-hca, whose command is $1, else the lab. Sets chosen to
# its name and, if another one would have come before, instead to the reason why not.
choose_fabric() {
    local report problems
    chosen=device instead=''
    if has_device; then
        ! device_and_address >/dev/null || return 0
        instead="this host's RDMA device has no IPv4 address"
    elif compgen -G '/sys/class/infiniband/*' >/dev/null; then
        instead="this host's RDMA device has no file in /dev/infiniband"
    fi
    chosen=soft-hca
    ! report=$("$1" doctor 2>&1) || return 0
    chosen=lab
    problems=$(sed -n 's/^problem *//p' <<<"$report" | paste -s -d '|' | sed 's/|/, and /g')
    instead+="${instead:+, and }soft-hca does not work here: ${problems:-${report:-no word from $1}}"
    instead=${instead//$'\n'/ }
}
