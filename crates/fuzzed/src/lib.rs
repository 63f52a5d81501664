//! Fuzz targets without libFuzzer: each is a function, which the tests here call.
//!
//! Fuzzing needs a nightly compiler, so targets are built by hand, and one that nothing builds soon does not compile. This crate has
//! the name and the macro of `libfuzzer-sys`.
#![forbid(unsafe_code)]

/// Makes a function `target` of a fuzz target.
#[macro_export]
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:block) => {
        pub fn target($bytes: &[u8]) $body
    };
}
