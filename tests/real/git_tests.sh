# git's own tests: a thousand shell scripts of short-lived processes, filters, hooks, signals and pipes, of which a part runs here.
# real: limit 300
# real: small-chaos thousands of processes, each of them cold code: one file only
#
# Left out are tests that take or wait for seconds, need a web server, or listen on a port of their own.
setup() {
    # shellcheck source=tests/real/lib/debian-source
    source "$REAL/lib/debian-source" git
    # The installed git is tested; from the source come the tests and their helper.
    make -s -j2 CFLAGS=-O0 NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 NO_OPENSSL=1 NO_PYTHON=1 NO_TCLTK=1 \
        t/helper/test-tool GIT-BUILD-OPTIONS >build.log 2>&1 || { tail build.log >&2; return 1; }
    make -s -C templates
    mkdir -p perl/build
    ln -s /usr/share/perl5 perl/build/lib
    mv "$PWD" "$SHARED/git"
    rm -rf "$SHARED/apt"
}

run() {
    local work=$PWD
    cd "$SHARED/git/t"
    local files=(t0061-*.sh)
    [[ $SIZE != full ]] || files=(t0005-*.sh t0021-*.sh t0061-*.sh t1050-*.sh t1800-*.sh t2021-*.sh t4020-*.sh t4030-*.sh)
    export GIT_TEST_INSTALLED=/usr/bin
    # Which tests there are and pass; times differ.
    prove -Q --nocount --nocolor -j1 --exec /bin/sh "${files[@]}" :: "--root=$work" 2>&1 | sed -E 's/, +[0-9]+ wallclock.*//' || echo "prove: $?"
}
