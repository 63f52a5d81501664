//! Tools that the tests share: build a target program, run it in every mode, and
//! count its instructions and contexts by single-stepping it.
//!
//! - [`directive`] reads the `// build:` and `// run:` lines of a program;
//! - [`program`] discovers `tests/programs`, [`build`] compiles one on demand;
//! - [`run`] runs a command to its end and compares two [`run::Outcome`]s;
//! - [`mode`] is the table of modes a program runs in;
//! - [`real`] runs the scripts of `tests/real`, real programs, in every mode;
//! - [`paper`] reads the expected forests beside the programs of the paper;
//! - [`product`] reads what the product's reports say of a program;
//! - [`pool`] runs a list of jobs two at a time, [`jobs`] makes a part of the tests of it;
//! - [`scope`] says how much of a part is run, [`ledger`] keeps what was compared;
//! - [`folder`] is a folder for one test of the product, [`sample`] a recording to show;
//! - [`tree`] is a forest of calling contexts as text, and its comparison;
//! - [`terminal`] is a terminal with a shell that has job control, [`process`] a look at what runs;
//! - [`soak`] makes random programs of seeds and compares their runs;
//! - [`instances`] makes random instances of instructions and compares what they leave;
//! - [`sweep`] crosses kernel interfaces with classes of instructions;
//! - [`kills`] kills traced programs, and who traces them, at random moments;
//! - [`oracle`] steps a program with ptrace and counts instructions and
//!   calling contexts by the definitions, slowly and obviously.
//!
//! Invariant: nothing here depends on the engine. A test program is an
//! ordinary program, the product is an ordinary command, and the oracle reads
//! nothing that the product wrote; so that agreement between them means
//! something.
//!
//! This crate never knows how the translator works, which probes exist, or
//! what a pool or container looks like.
#![forbid(unsafe_code)]

pub mod build;
pub mod directive;
pub mod folder;
pub mod instances;
pub mod jobs;
pub mod kills;
pub mod ledger;
pub mod mode;
pub mod oracle;
pub mod paper;
pub mod pool;
pub mod process;
pub mod product;
pub mod program;
pub mod real;
pub mod run;
pub mod sample;
pub mod scope;
pub mod soak;
pub mod suite;
pub mod sweep;
pub mod terminal;
pub mod tree;
pub mod zstd;
