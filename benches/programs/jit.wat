(module
  (memory 4)
  (func $fib (export "fib") (param i32) (result i32)
    (if (result i32) (i32.lt_s (local.get 0) (i32.const 2))
      (then (local.get 0))
      (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
  (func (export "mix") (param $n i32) (result i32) (local $i i32) (local $at i32) (local $x i32)
    (loop $again
      (local.set $at (i32.and (i32.mul (local.get $i) (i32.const 7919)) (i32.const 262140)))
      (local.set $x (i32.add (i32.mul (local.get $x) (i32.const 31)) (i32.load (local.get $at))))
      (i32.store (local.get $at) (local.get $x))
      (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
    (local.get $x)))
