//! Tests of the product and of this crate's tools that are ordinary test functions, a module a
//! subject; those that are long lists of jobs are in `tests/parts`.
#![forbid(unsafe_code)]

mod gates;
mod growth;
mod instructions;
mod kills;
mod options;
mod oracle;
mod soak;
