# Language systems with collectors, code generators and stacks of their own: SBCL, Guile, Gforth, SWI-Prolog, Mono, OCaml, Erlang.
# real: limit 300
setup() {
    cd "$SHARED"
    cat >a.lisp <<'EOF'
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(compile 'fib)
(print (fib 24))
(let ((l nil)) (dotimes (i 300000) (push (make-array 10 :initial-element i) l) (when (zerop (mod i 5000)) (setf l nil))) (print (length l)))
(handler-case (car (the list (read-from-string "5"))) (error (e) (print (type-of e))))
(terpri)
(sb-ext:exit :code 3)
EOF
    cat >a.scm <<'EOF'
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(display (fib 22)) (newline)
(display (call/cc (lambda (k) (for-each (lambda (x) (if (> x 3) (k x))) '(1 2 3 4 5)) 0))) (newline)
EOF
    cat >a.fs <<'EOF'
: fib dup 2 < if else dup 1 - recurse swap 2 - recurse + then ;
24 fib . cr bye
EOF
    cat >a.pl <<'EOF'
:- initialization(main).
nrev([], []).
nrev([H|T], R) :- nrev(T, RT), append(RT, [H], R).
main :-
    numlist(1, 300, L), nrev(L, R), R = [X|_], writeln(X),
    catch(atom_length(_, _), E, (print_message(silent, E), writeln(caught))),
    halt(2).
EOF
    cat >a.cs <<'EOF'
using System;
using System.Collections.Generic;
using System.Threading;
class A {
    static int Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }
    static void Main() {
        Console.WriteLine(Fib(25));
        var threads = new List<Thread>();
        int sum = 0;
        for (int i = 0; i < 4; i++) {
            int k = i;
            var thread = new Thread(() => {
                for (int j = 0; j < 20000; j++) {
                    var a = new int[50];
                    a[j % 50] = k;
                    Interlocked.Add(ref sum, a[j % 50]);
                }
            });
            thread.Start();
            threads.Add(thread);
        }
        foreach (var thread in threads) thread.Join();
        Console.WriteLine(sum);
        try { string x = null; Console.WriteLine(x.Length); } catch (NullReferenceException) { Console.WriteLine("null"); }
        try { int z = 0; Console.WriteLine(1 / z); } catch (DivideByZeroException) { Console.WriteLine("div"); }
        GC.Collect();
        Environment.Exit(5);
    }
}
EOF
    cat >a.ml <<'EOF'
let rec fib n = if n < 2 then n else fib (n-1) + fib (n-2);;
print_int (fib 22); print_newline ();;
(try ignore (List.hd []) with Failure s -> print_endline s);;
let rec deep n = 1 + deep (n+1);;
(try print_int (deep 0) with Stack_overflow -> print_endline "overflow");;
EOF
    cat >a.erl <<'EOF'
-module(a). -export([main/0]).
fib(0)->0; fib(1)->1; fib(N)->fib(N-1)+fib(N-2).
main() ->
    S = self(),
    [spawn(fun() -> S ! {K, fib(18 + K)} end) || K <- lists:seq(1, 6)],
    io:format("~p~n", [lists:sort([receive X -> X end || _ <- lists:seq(1, 6)])]),
    halt(4).
EOF
    mcs a.cs
    erlc a.erl
}

run() {
    sbcl --script "$SHARED/a.lisp" || echo "status $?"
    guile --no-auto-compile "$SHARED/a.scm"
    gforth "$SHARED/a.fs"
    swipl "$SHARED/a.pl" </dev/null || echo "status $?"
    mono "$SHARED/a.exe" || echo "status $?"
    ocaml "$SHARED/a.ml"
    erl -noshell -pa "$SHARED" -s a main || echo "status $?"
}
