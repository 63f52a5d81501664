# Builds as users start them: make -j2 with recursive makes, autoconf-like shell, sed, m4, flex-sized awk.
setup() {
    mkdir "$SHARED/project"
    cd "$SHARED/project"
    mkdir lib app
    for n in 1 2 3 4 5 6; do echo "int f$n(int x) { return x * $n; }" >"lib/f$n.c"; done
    printf 'OBJ := $(patsubst %%.c,%%.o,$(wildcard *.c))\nlibf.a: $(OBJ)\n\t@rm -f $@; $(AR) rcsD $@ $^\n%%.o: %%.c\n\t@$(CC) -O1 -c $< -o $@\n' >lib/Makefile
    printf 'int f1(int), f6(int);\nint printf(const char *, ...);\nint main(void) { return printf("%%d\\n", f6(f1(7))) != 3; }\n' >app/main.c
    printf '.DELETE_ON_ERROR:\nall: lib app/app\n\t@echo built\nlib:\n\t@+$(MAKE) -s -C lib\napp/app: app/main.c | lib\n\t@$(CC) -O1 app/main.c lib/libf.a -o $@\ncheck: all\n\t@./app/app\nfail:\n\t@false\n.PHONY: all lib check fail\n' >Makefile
}

run() {
    cp -r "$SHARED/project" . && cd project
    make -s -j2 check
    make -s -j2 all; make -q lib || echo "phony: $?"
    make -s fail 2>/dev/null || echo "make: $?"
    make -n -B lib/Makefile | wc -l
    touch lib/f3.c; make -C lib -n -W f3.c | grep -c f3.o
    cat >configure <<'END'
#!/bin/sh
# What configure scripts do: here documents, sed scripts, tests that compile and fail.
ac_list=
for header in stdio.h nonesuch.h pthread.h; do
    echo "#include <$header>" >conftest.c
    if ${CC-cc} -E conftest.c >/dev/null 2>&1; then ac_list="$ac_list $header"; fi
done
for function in memfd_create nonesuch; do
    printf 'char %s(); int main() { return %s(); }\n' $function $function >conftest.c
    if ${CC-cc} -w -o conftest conftest.c 2>/dev/null; then ac_list="$ac_list $function"; fi
done
rm -f conftest*
sed "s,@list@,$ac_list,; /@none@/d" <<_END >config.h
/* @list@ */
@none@
_END
cat config.h
END
    chmod +x configure && ./configure
    sed -n -e '/f[1-3]/{s/int/long/g;p}' -e '$!N;P;D' lib/*.c | md5sum
}
