# Pipes, job control, traps, process substitution, here documents, arrays.
setup() {
    seq 1 5000 >"$SHARED/numbers"
}

run() {
    local total=0 status=0 rounds=400
    [[ $SIZE == full ]] && rounds=4000

    # Arithmetic, arrays, string operations.
    local -A seen=()
    local words=(alpha beta gamma delta)
    for ((i = 0; i < rounds; i++)); do
        local word=${words[i % 4]}
        seen[$word]=$((${seen[$word]:-0} + i))
        total=$(((total * 31 + i) % 1000003))
    done
    printf '%s=%s\n' "${words[0]}" "${seen[alpha]}" "${words[3]^^}" "${seen[delta]}" total "$total"

    # Long and short pipes, PIPESTATUS, SIGPIPE.
    sort -r "$SHARED/numbers" | cut -c1-2 | uniq -c | sort -k1,1n -k2,2 | tail -3
    yes everypath | head -3
    yes | head -1 >/dev/null; echo "status of the parts: ${PIPESTATUS[*]}"

    (set -o pipefail; false | true) || echo "pipefail: $?"

    # Process substitution, both ways.
    diff <(sort "$SHARED/numbers") <(sort -n "$SHARED/numbers") | grep -c '^[<>]' || true
    seq 20 | tee >(wc -l >lines) >(md5sum >sum) >/dev/null
    while [[ ! -s lines || ! -s sum ]]; do sleep 0.01; done
    cat lines sum

    # Job control: groups of their own, stop, continue, wait.
    set -m
    sleep 100 &
    local job=$!
    kill -STOP %1
    while [[ $(ps -o state= -p $job) != T ]]; do sleep 0.01; done
    jobs -s | grep -c Stopped
    kill -CONT %1
    kill -TERM %1
    wait $job || echo "job ended $?"
    set +m
    (exit 3) & (exit 4) & wait -n || status=$?
    echo "one of two: $((status == 3 || status == 4))"
    wait
    coproc UP { while read -r line; do echo "${line^^}"; done; }
    echo "to a coprocess" >&"${UP[1]}"
    read -r line <&"${UP[0]}"; echo "$line"
    eval "exec ${UP[1]}>&-"; wait "$UP_PID"

    # Traps: a signal from outside, in a subshell, on exit, on error.
    trap 'echo "got USR1"' USR1
    kill -USR1 $$
    (trap 'echo "subshell leaves with $?"' EXIT; exit 7) || echo "status $?"
    bash -c 'trap "echo caught TERM; exit 5" TERM; kill -TERM $$; sleep 5' || echo "status $?"
    bash -c 'kill -SEGV $$' 2>/dev/null || echo "status $?"
    bash -c 'ulimit -c 0; kill -ABRT $$; sleep 5' 2>/dev/null || echo "status $?"
    (set +e; trap 'echo "error trap"' ERR; false; true)

    # A wait that a trapped signal interrupts.
    bash -c '
        trap "echo interrupted" USR2
        (sleep 0.2; kill -USR2 $$) &
        sleep 0.6 & wait $!; echo "wait: $?"
        wait'

    # A file descriptor that both ends use, and a here document.
    exec 5<>both; echo written >&5; exec 5>&-
    cat both - <<END
and a here document, $((6 * 7))
END
    select_one() { local IFS=,; read -ra parts <<<"$1"; echo "${parts[1]}"; }
    select_one a,b,c
    (ulimit -n 64; exec -a renamed bash -c 'echo $0; ulimit -n')
    env -i A=1 bash -c 'echo "${A}${B-unset}"'
}
