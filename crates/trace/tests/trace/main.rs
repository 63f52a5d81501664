//! Integration tests of `trace`, one module a subject: containers of all versions, whole and damaged.
#![deny(unsafe_code)]

mod common;
mod container;
mod mutations;
#[expect(unsafe_code, reason = "a pool of wire is made over memory of the test")]
mod pool;
mod recordings;
