# Lua, gawk, luajit, Tcl, Ruby, PHP and jq: their loops, their coroutines, their garbage.
# real: limit 240
# real: small-chaos an interpreter's main loop is one indirect jump
setup() {
    python3 "$REAL/../../benches/programs/gen_text.py" 1 >"$SHARED/text"
    head -c 30000 "$SHARED/text" >"$SHARED/text.small"
    cat >"$SHARED/mix.lua" <<'END'
local rounds = tonumber(arg[1])
local function sieve(n)
    local composite, count = {}, 0
    for i = 2, n do
        if not composite[i] then
            count = count + 1
            for j = i * i, n, i do composite[j] = true end
        end
    end
    return count
end
print(sieve(rounds))
local producer = coroutine.wrap(function() for i = 1, rounds // 10 do coroutine.yield(i * i) end end)
local sum = 0
for v in producer do sum = sum + v end
print(sum)
local parts = {}
for i = 1, rounds // 5 do parts[#parts + 1] = string.format("%05x", i * 7919 % 65536) end
table.sort(parts)
print((table.concat(parts):gsub("(%x)%1", "<%1>"):len()))
print(pcall(function() error({}) end))
print(select("#", string.byte(string.rep("x", 200), 1, -1)), math.type(3 // 1), 7.5 // 2)
local object = setmetatable({}, { __index = function(_, k) return k .. "!" end, __gc = function() print("collected") end })
print(object.name); object = nil; collectgarbage()
END
    sed -e 's,rounds // 10,math.floor(rounds / 10),; s,rounds // 5,math.floor(rounds / 5),' \
        -e 's/math.type(3 .. 1), 7.5 .. 2/bit.bxor(12345, 54321)/' "$SHARED/mix.lua" >"$SHARED/jit.lua"
}

run() {
    local text=$SHARED/text rounds=100000
    [[ $SIZE == full ]] || { text=$SHARED/text.small; rounds=2000; }
    lua5.4 "$SHARED/mix.lua" $rounds | sed 's/0x[0-9a-f]*/ADDRESS/'
    gawk -v rounds=$rounds '
        { for (i = 1; i <= NF; i++) count[$i]++ }
        END {
            PROCINFO["sorted_in"] = "@val_num_desc"
            for (word in count) { if (shown++ < 5) print word, count[word]; total += count[word] * length(word) }
            for (i = 0; i < rounds; i++) x = sprintf("%d", (x * 31 + i) % 1000003)
            print total, x, strftime("%F", 1e9, 1), gensub(/(.)(.)/, "\\2\\1", "g", "abcdef")
            "date -u -d @0 +%Y" | getline year; print year
            print "to a co-process" |& "tr a-z A-Z"; close("tr a-z A-Z", "to"); "tr a-z A-Z" |& getline back; print back
        }' "$text"
    for options in -jon -joff -O1; do
        luajit $options "$SHARED/jit.lua" $rounds | sed 's/0x[0-9a-f]*/ADDRESS/'
    done
    luajit -e 'local ffi = require "ffi"
        ffi.cdef[[ int abs(int); void qsort(void *, size_t, size_t, int (*)(const int *, const int *)); ]]
        local a = ffi.new("int[9]", 5, 3, 8, 1, 9, 2, 7, 4, 6)
        ffi.C.qsort(a, 9, 4, function(x, y) return x[0] - y[0] end)
        local s = 0; for i = 0, 8 do s = s * 10 + a[i] end; print(s, ffi.C.abs(-5))'
    tclsh <<<"proc fib n { expr {\$n < 2 ? \$n : [fib [expr {\$n - 1}]] + [fib [expr {\$n - 2}]]} }
        puts [fib 15]; puts [lsort -integer {9 3 7}]; puts [exec echo from a child | tr a-z A-Z]
        set f [after 20 {set done 1}]; vwait done; puts [regsub -all {a(.)} banana {<\\1>}]"
    ruby -e 'require "json"; require "set"; require "digest"
        f = Fiber.new { 3.times { |i| Fiber.yield i }; :done }; p 4.times.map { f.resume }
        p (1..20).each_slice(3).map(&:sum), "hello world".scan(/o\s?/), JSON.parse(%q({"a":[1,2.5,null]}))
        q = Queue.new; t = 4.times.map { |n| Thread.new { 50.times { |i| q << n * i } } }; t.each(&:join); p q.size
        r, w = IO.pipe; pid = fork { r.close; w.puts Process.pid == 0; exit! 4 }; w.close; p r.read; Process.wait pid; p $?.exitstatus
        begin; raise ArgumentError, "x"; rescue => e; p e; ensure; puts "ensured"; end
        h = Hash.new(0); File.read(ARGV[0]).split.each { |x| h[x] += 1 }; p h.max_by(3) { |k, v| [v, k] }; GC.start
        puts Digest::SHA256.hexdigest("x" * 1000); trap("USR1") { puts "USR1" }; Process.kill("USR1", $$); sleep 0.05' "$text"
    php -n -r '$a = []; for ($i = 0; $i < 2000; $i++) { $a[md5((string)$i)] = $i; } ksort($a); echo count($a), key($a), "\n";
        function g($n) { while ($n--) { yield $n => $n ** 2; } } echo array_sum(iterator_to_array(g(50))), "\n";
        try { intdiv(1, 0); } catch (DivisionByZeroError $e) { echo get_class($e), "\n"; }
        echo preg_replace_callback("/\d+/", fn($m) => $m[0] * 2, "a1b22c333"), serialize([1, "x" => [true, null]]), "\n";'
    php -r 'echo PHP_MAJOR_VERSION >= 8 ? "started with its modules\n" : "old\n";'
    jq -n -c '[range(200)] | group_by(. % 7) | map({key: (.[0] | tostring), value: add}) | from_entries'
    jq -R -s 'split("\n") | map(split(" ") | length) | add' "$text"
}
