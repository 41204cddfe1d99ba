# shellcheck shell=bash
# shellcheck disable=SC2154 # the script that reads this has them
# Two hosts over ssh, for demo and compare: connects to them, looks at what is there, copies the
# programs and finds the addresses. Nothing is left on them, however it ends. localhost is this machine,
# without ssh.
#
# The script that reads this has die, has_device, device_and_address, the functions of shell.sh, and these:
#   server_host client_host   the hosts, as ssh has them
#   ssh                       an array: ssh and its options
#   soft_hca                  yes: in a fabric with a link; no: with the hosts' own devices
#   address client_address    empty to have them found
#   stage_more                if it is a function, it puts more into the folder that is copied

# What a host does as long as our end of the connection is there. What runs in the folder ends when
# nobody reads its output any more.
# shellcheck disable=SC2016 # on the host
readonly HOLD='
umask 077
dir=$(mktemp -d "${TMPDIR:-/tmp}/rdma-by-example.XXXXXX") || exit
trap "rm -rf \"$dir\"" EXIT
trap "exit 1" HUP INT TERM
mkdir "$dir/stage" "$dir/run" || exit
echo "$dir|$(uname -s) $(uname -m)|$SSH_CONNECTION"
cat >/dev/null
running() {
    ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n "s|.*/proc/\([0-9]*\)/exe -> $dir/.*|\1|p"
}
waited=0
while [ -n "$(running)" ]; do
    [ "$waited" -lt 50 ] || kill -9 $(running) 2>/dev/null
    sleep 0.1
    waited=$((waited + 1))
done
'

work='' children=() inputs=()
declare -A host folder machine connection before

leave_hosts() {
    local input child end=$((SECONDS + 10))
    ignore_signals
    for input in "${inputs[@]}"; do
        exec {input}>&-
    done
    for child in "${children[@]}"; do
        while ((SECONDS < end)) && kill -0 "$child" 2>/dev/null; do sleep 0.05; done
        kill "$child" 2>/dev/null || true
    done
    [[ -z $work ]] || rm -rf "$work"
}

# Starts a command that goes on until hosts are left: keep NAME COMMAND... Its output is in files.
keep() {
    local name=$1 input
    shift
    mkfifo "$work/$name.input"
    "$@" <"$work/$name.input" >"$work/$name.output" 2>"$work/$name.errors" &
    children+=($!)
    exec {input}>"$work/$name.input"
    inputs+=("$input")
}

# Waits for a line of the last command that was kept; fails if it ends without.
await_output() {
    until [[ -s $work/$1.output ]]; do
        kill -0 "${children[-1]}" 2>/dev/null || [[ -s $work/$1.output ]] || return
        sleep 0.05
    done
}

# The words before a command line for SIDE's host: by SIDE.
by() {
    if [[ ${host[$1]} == localhost ]]; then
        echo sh -c
    else
        echo "${ssh[@]}" -o ControlPath="$work/$1.ssh" -o ControlMaster=no -o BatchMode=yes -T "${host[$1]}"
    fi
}

# on SIDE COMMAND: runs a command line in the folder of the programs on a side's host.
on() {
    local command=()
    read -r -a command < <(by "$1")
    "${command[@]}" "cd $(quoted "${folder[$1]}/stage") && export XDG_RUNTIME_DIR=$(quoted "${folder[$1]}/run") && $2"
}

connect() {
    local side=$1 first said hint=''
    local command=("${ssh[@]}" -T -o ConnectTimeout=10 -o ClearAllForwardings=yes
        -o ControlMaster=yes -o ControlPath="$work/$side.ssh" "${host[$side]}")
    [[ ${host[$side]} != localhost ]] || command=(env SSH_CONNECTION= sh -c)
    keep "$side" "${command[@]}" "$HOLD"
    if ! await_output "$side"; then
        said=$(grep -v '^ *$' "$work/$side.errors" | tail -n 3 | tr -d '\r' | paste -s -d ' ')
        case $said in
        *'Host key verification failed'* | *'IDENTIFICATION HAS CHANGED'*)
            hint="; is its key the right one? Connect once by hand: ${ssh[*]} ${host[$side]}"
            ;;
        *'Permission denied'*) hint="; it has to take a key of yours: see ssh-copy-id" ;;
        esac
        die "cannot use the host ${host[$side]}: ${said:-${command[0]} has ended without a word}$hint"
    fi
    read -r first <"$work/$side.output"
    IFS='|' read -r "folder[$side]" "machine[$side]" "connection[$side]" <<<"$first"
    local own
    own="$(uname -s) $(uname -m)"
    [[ ${machine[$side]} == "$own" ]] ||
        die "${host[$side]} is another kind of machine, ${machine[$side]}; the programs that are built here" \
            "are for $own. Build there as well, and start each side by hand"
}

# Copies the folder of the programs to a host and looks whether they can run there.
copy() {
    local side=$1 said missing problems
    # Harder compression takes longer than it saves, except on slow networks.
    tar -C "$work/stage" -cf - . | gzip -1 | on "$side" 'tar -xzf -' ||
        die "cannot copy the programs to ${host[$side]}:${folder[$side]}"
    # What ldd does. A library cannot be started.
    # shellcheck disable=SC2016 # on the host
    said=$(on "$side" 'for program in ./rust/*; do
            [ "${program%.so}" = "$program" ] || continue
            LD_TRACE_LOADED_OBJECTS=1 "$program" || exit
        done' 2>&1) ||
        die "the programs do not run on ${host[$side]}: $(tail -n 1 <<<"$said")"
    missing=$(sed -n 's/^\s*\(\S*\) => not found.*/\1/p' <<<"$said" | sort -u | paste -s -d ' ')
    case $missing in
    '') ;;
    *librdmacm* | *libibverbs*)
        die "${host[$side]} has no $missing: apt-get install libibverbs1 librdmacm1 ibverbs-providers"
        ;;
    *) die "${host[$side]} has no $missing, which the programs need" ;;
    esac
    if grep -q 'version .* not found' <<<"$said"; then
        die "${host[$side]} has older libraries than the programs need, which have to be built where the" \
            "older ones are: $(grep -m 1 'version .* not found' <<<"$said")"
    fi
    [[ $soft_hca == yes ]] || return 0
    said=$(on "$side" './rust/soft-hca doctor' 2>&1) && return
    problems=$(sed -n 's/^problem *//p' <<<"$said" | paste -s -d '|' | sed 's/|/, and /g')
    die "soft-hca does not work on ${host[$side]}: ${problems:-$said}"
}

# The address of a host's own device.
device_address() {
    local found
    found=$(on "$1" "bash -c $(quoted "$(declare -f has_device device_and_address)
        has_device || exit 3
        device_and_address")") || {
        (($? != 3)) || die "${host[$1]} has no RDMA device; with --soft-hca it needs none"
        die "${host[$1]} has no RDMA device with an IPv4 address"
    }
    echo "${found#* }"
}

# Of the server, the address that ssh has for it, or this machine if it is here.
soft_hca_address() {
    local words=() found
    if [[ ${host[server]} != localhost ]]; then
        read -r -a words <<<"${connection[server]}"
        found=${words[2]:-}
    else
        read -r -a words <<<"${connection[client]}"
        found=${words[0]:-}
    fi
    case $found in
    '' | 127.* | ::1 | *%*)
        die "ssh does not tell which address the client has to use for the server (it uses" \
            "'${found:-none}'); name it with --address"
        ;;
    esac
    echo "$found"
}

# Finds out whether RoCE's packets would pass, and the client's own address.
look_at_the_way() {
    local word own other input
    local port="UDP port 4791" taken="by a fabric of soft-hca or by the kernel's Soft-RoCE (module rdma_rxe)"
    keep answer on server "exec ./rust/harness-agent --answer $address"
    await_output answer ||
        die "${host[server]} cannot use $port: $(cat "$work/answer.errors")"
    read -r word own <"$work/answer.output"
    case $word in
    taken) die "$port of $address on ${host[server]} is taken, $taken" ;;
    foreign)
        die "$address is no address of ${host[server]}: addresses are translated on the way, and RoCE's" \
            "packets do not pass then; if it has another one that the client reaches, name it with --address"
        ;;
    esac
    read -r word own other < <(on client "./rust/harness-agent --ask $address ${client_address:+--own $client_address}")
    input=${inputs[-1]}
    exec {input}>&-
    unset 'inputs[-1]'
    wait "${children[-1]}" || true
    case $word in
    reached) client_address=$own ;;
    taken) die "$port of $own on ${host[client]} is taken, $taken" ;;
    foreign) die "$own is no address of ${host[client]}" ;;
    translated)
        die "the address $own is $other at the other end: addresses are translated between the hosts, and" \
            "RoCE's packets do not pass then"
        ;;
    silent)
        if grep -q '^asked' "$work/answer.output"; then
            die "$port is blocked on the way back: what $address on ${host[server]} sends does not reach" \
                "$own on ${host[client]}. Its firewall has to let this port in"
        fi
        die "$port is blocked: what $own on ${host[client]} sends does not reach $address on ${host[server]}." \
            "The firewall there has to let this port in"
        ;;
    *) die "${host[client]} cannot use $port, or has no way to $address" ;;
    esac
}

# The index of an address in the table of GIDs of a host's device, among those of RoCE v2.
gid_index() {
    local gid found script
    [[ $2 == *.*.*.* ]] || { echo 1 && return; }
    # shellcheck disable=SC2046,SC2183 # the four numbers
    gid=$(printf ':ffff:%02x%02x:%02x%02x' $(tr . ' ' <<<"$2"))
    # shellcheck disable=SC2016 # on the host
    script='cd "${SYSFS_PATH:-/sys}/class/infiniband" && grep -il "$0" */ports/1/gids/* |
        while read -r file; do grep -l v2 "${file%%/gids/*}/gid_attrs/types/${file##*/}"; done'
    found=$(on "$1" "${before[$1]}sh -c $(quoted "$script") $gid" 2>/dev/null | head -n 1)
    found=${found##*/}
    echo "${found:-1}"
}

# Joins each host to its fabric, until the hosts are left.
start_fabrics() {
    local side own
    for side in server client; do
        own=$address
        [[ $side == server ]] || own=$client_address
        before[$side]="./rust/soft-hca run --fabric demo --roce=$own -- "
        keep "$side.fabric" on "$side" "exec ${before[$side]}sh -c 'echo ready; exec cat'"
        await_output "$side.fabric" || die "${host[$side]}: $(cat "$work/$side.fabric.errors")"
        [[ ! -s $work/$side.fabric.errors ]] ||
            die "${host[$side]}: $(cat "$work/$side.fabric.errors")"
    done
}

# example_programs BIN WORD...: the programs of the examples that are among the words, or of all if none
# is, a line each.
example_programs() {
    local bin=$1 word example program all=() named=()
    while read -r example _; do
        all+=("$example")
        for word in "${@:2}"; do
            [[ $word != "$example" ]] || named+=("$example")
        done
    done < <("$bin/harness" demo --list)
    ((${#named[@]} > 0)) || named=("${all[@]}")
    for example in "${named[@]}"; do
        for program in "$bin/$example" "$bin/$example"-{server,client}; do
            [[ ! -x $program ]] || echo "$program"
        done
    done
}

# check_hosts: ends the script unless two different hosts are named.
check_hosts() {
    [[ $server_host != localhost || $client_host != localhost ]] ||
        die "both hosts are this one; --two-hosts makes two of it"
    [[ $server_host != "$client_host" ]] ||
        die "both hosts are $server_host; a pair needs two, and --two-hosts makes two of this one"
}

# use_hosts PROGRAM...: everything up to the point where "$work/on" SIDE COMMAND runs a command line on
# a side's host, in a folder with rust/PROGRAM and what else is in "$work/stage".
use_hosts() {
    local side program
    before=([server]='' [client]='')
    host=([server]=$server_host [client]=$client_host)
    # Signals are ignored until the trap that removes the folder is set.
    ignore_signals
    work=$(mktemp -d)
    trap leave_hosts EXIT
    heed_signals
    mkdir -p "$work/stage/rust"
    for program; do
        strip --strip-debug -o "$work/stage/rust/${program##*/}" "$program" 2>/dev/null ||
            cp "$program" "$work/stage/rust/"
    done
    if declare -F stage_more >/dev/null; then stage_more "$work/stage"; fi
    for side in server client; do connect "$side"; done
    for side in server client; do copy "$side"; done
    if [[ $soft_hca == yes ]]; then
        [[ -n $address ]] || address=$(soft_hca_address)
        look_at_the_way
        start_fabrics
    else
        [[ -n $address ]] || address=$(device_address server)
        [[ -n $client_address ]] || client_address=$(device_address client)
    fi
    {
        echo '#!/usr/bin/env bash'
        declare -p host folder before ssh work
        declare -f quoted by on
        # shellcheck disable=SC2016 # when it runs
        echo 'on "$1" "exec ${before[$1]}sh -c $(quoted "$2")"'
    } >"$work/on"
    chmod +x "$work/on"
}

# run_on_hosts HARNESS COMMAND [ARGUMENT...]: does not come back.
run_on_hosts() {
    local status=0 run=("$1" "$2" --bin-dir rust --server-host server --client-host client
        --ssh ../on --remote-dir . --address "$address" --client-address "$client_address"
        --fabric-name "$([[ $soft_hca == no ]] || echo 'soft-hca on ')two hosts, $(
            )$server_host ($address) and $client_host ($client_address)")
    [[ $soft_hca == no ]] || run+=(--on-soft-hca)
    if [[ $2 == demo ]]; then
        run+=(--gid-index "$(gid_index server "$address")"
            --client-gid-index "$(gid_index client "$client_address")")
    fi
    cd "$work/stage" || exit
    attend "${run[@]}" "${@:3}" || status=$?
    exit "$status"
}
