# Programs that make code while they run: PyPy, and qemu that translates programs itself.
# real: limit 300
run() {
    local n=200000
    [[ $SIZE == full ]] || n=3000
    pypy3 - $n <<'EOF'
import re, sys, threading
n = int(sys.argv[1])
print(sum(i % 7 for i in range(n)))
sums = []
threads = [threading.Thread(target=lambda k=k: sums.append(sum(i * k % 11 for i in range(n // 4)))) for k in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(sums), len(re.findall(r'(\d)\1', str(3 ** (n // 100)))))
EOF
    qemu-x86_64 /bin/busybox sh -c 'i=0; while [ $i -lt 300 ]; do i=$((i + 1)); done; echo $i; exit 3' || echo "status $?"
    qemu-x86_64 "$(command -v python3)" -S -c "print(sum(i % 7 for i in range($n // 10)))"
    qemu-x86_64 /usr/bin/sort -n <<<$'10\n9\n100' | tr '\n' ' '
}
