# shellcheck shell=bash
# shellcheck disable=SC2154 # the script that reads this has die
# The functions that demo, compare, learn and two_hosts share: signals that end a script, words for other shells,
# and the folder to build in.

attends=no attended='' heard=no ended_by=0

# heed_signals: a signal that ends the script ends the attended command first, if there is one.
heed_signals() {
    trap 'end_by 130' INT
    trap 'end_by 143' TERM
    trap 'end_by 129' HUP
}

# ignore_signals: for work that must not be interrupted, such as a trap of EXIT.
ignore_signals() {
    trap '' INT TERM HUP
}

# end_by STATUS: for the traps of signals.
end_by() {
    [[ $attends == yes ]] || exit "$1"
    heard=yes ended_by=$1
    [[ -z $attended ]] || kill "$attended" 2>/dev/null || true
}

# attend COMMAND...: runs the command and returns its status, or that of the signal that has ended it. The command
# runs in the background, because a shell runs its traps only after a command in the foreground has ended.
attend() {
    local status
    attends=yes attended=''
    "$@" &
    attended=$!
    # A signal that came before `attended` was set has killed nothing yet.
    ((ended_by == 0)) || kill "$attended" 2>/dev/null || true
    while :; do
        status=0 heard=no
        wait "$attended" || status=$?
        # A signal ends the wait, and the command may still run. If the command ended at the same time, bash may
        # have lost its end, and a second wait would not return.
        [[ $heard == yes ]] || break
        kill -0 "$attended" 2>/dev/null || break
    done
    attends=no
    ((ended_by == 0)) || status=$ended_by
    return "$status"
}

# quoted WORD: prints the word quoted for a shell.
quoted() {
    printf "'%s'" "${1//\'/\'\\\'\'}"
}

# need_target: ends the script if the folder to build in cannot be written.
need_target() {
    local target=${CARGO_TARGET_DIR:-target}
    mkdir -p "$target" 2>/dev/null && [[ -w $target ]] ||
        die "cannot write to $(readlink -m "$target"), where the programs are built; CARGO_TARGET_DIR can name" \
            "another folder"
}
