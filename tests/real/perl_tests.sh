# Perl's own tests of the language and of regular expressions: 300 files, of which a part runs here.
# real: limit 300
# real: small-chaos an interpreter's main loop is one indirect jump: a few files only
#
# Left out are tests that need an uninstalled perl (goto_xs, uniprops), fail natively (magic, taint), or take or wait for seconds.
setup() {
    # shellcheck source=tests/real/lib/debian-source
    source "$REAL/lib/debian-source" perl
    # The library of the installed perl in the place of the source's.
    mv lib lib.source
    mkdir lib
    /usr/bin/perl -e 'print map "$_\n", reverse grep m,^/usr/(share/perl|lib),, @INC' | while read -r folder; do
        [[ ! -d $folder ]] || cp -rsf "$folder/." lib/
    done
    mv "$PWD" "$SHARED/perl"
}

run() {
    cd "$SHARED/perl/t"
    local files=(base/*.t)
    if [[ $SIZE == full ]]; then
        files=(base/*.t cmd/*.t op/[be-ln]*.t op/threads.t re/[bknoqs]*.t)
        mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -vE '/(fork|getppid|goto_xs|heredoc|speed.*)\.t$')
    fi
    # Which tests there are and pass; times and numbers of processes differ.
    prove -Q --nocount --nocolor -j1 "${files[@]}" 2>&1 | sed -E 's/, +[0-9]+ wallclock.*//' || echo "prove: $?"
}
