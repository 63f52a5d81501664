# CPython's own tests of what a translator can break: threads, signals, children,
# foreign functions, serialisers.
# real: limit 450
# real: small-chaos one module only, because chaos makes the interpreter slow
#
# Left out are tests that wait for seconds (test_siginterrupt_off for 30), or measure time and so fail natively too
# on a busy machine: they are the names in `skip`.
run() {
    local modules='test_threading test_signal test_subprocess test_ctypes test_json test_re test_pickle'
    local skip=() pattern
    [[ $SIZE == full ]] || { modules=test_json; skip=(-m 'test_[a-d]*'); }
    for pattern in '*siginterrupt*' 'test_itimer_*' 'test_setitimer_tiny' '*timeout*' 'test_stress_*' \
        '*_dead' 'test_communicate_repeated_call_after_stdout_close'; do
        skip+=(-i "$pattern")
    done
    mkdir tmp
    local status=0
    /usr/bin/python3 -m test -v --tempdir tmp "${skip[@]}" $modules >log 2>&1 || status=$?
    grep -E '^(FAIL|ERROR):|^(Ran|OK|FAILED)|^(AssertionError|Fatal)' log | sed 's/ in [0-9.]*s//'
    ((status == 0)) || grep -A25 -E '^(FAIL|ERROR):|Fatal' log >&2
    rm -rf tmp log
    return $status
}
