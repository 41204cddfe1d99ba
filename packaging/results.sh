# Sourced by the tests: a line for each, and the counts at the end.
# shellcheck shell=bash

# expect NAME COMMAND...: the command has to end well; what it says is shown only if it does not.
expect() {
    local name=$1 said
    shift
    if said=$("$@" 2>&1 </dev/null); then
        echo "ok      $name"
    else
        echo "FAILED  $name (status $?)"
        echo "    ${said//$'\n'/$'\n    '}"
    fi
}

# skip NAME WHY
skip() {
    echo "skipped $1: $2"
}

# Adds up the lines in the file $1, with the last line that ./check counts; fails if a test has.
summary() {
    awk '
        /^ok      / { passed++ } /^FAILED  / { failed++ } /^skipped / { skipped++ }
        END {
            printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
            exit failed > 0 || passed == 0
        }' "$1"
}
