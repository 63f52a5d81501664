//! Integration tests of `image`, one module a subject: binaries that are compiled here, whole and damaged.
#![forbid(unsafe_code)]

mod common;
mod damage;
mod lines;
mod select;
mod symbols;
