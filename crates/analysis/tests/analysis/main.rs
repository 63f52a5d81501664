//! Integration tests of `analysis`, one module a subject: algorithms against slow definitions, on
//! made and recorded data.
#![deny(unsafe_code)]

mod callgraph;
mod cfiat;
mod common;
mod counts;
mod diff;
mod fold;
mod hostile;
mod large;
mod live;
mod merged;
#[expect(unsafe_code, reason = "a pool of wire is made over memory of the test")]
mod online;
mod paper;
mod properties;
mod raptor;
mod walk;
