//! Integration tests of the command `everypath`: one program with a module a subject, so that the
//! crates below are linked once.
//!
//! Each module runs the product as a user would, in a folder of its own ([`testkit::folder`]), and
//! compares exact numbers. [`BINARY`] is the product of this build.
#![forbid(unsafe_code)]

mod allocations;
mod alone;
mod blocks;
mod bolt;
mod branches;
mod caches;
mod cfiat;
mod children;
mod computed;
mod consumers;
mod costs;
mod counted;
mod counted_contexts;
mod counted_files;
mod counted_libraries;
mod counted_static;
mod counted_targets;
mod counts;
mod coverage;
mod ctl;
mod denied;
mod dependences;
mod derived;
mod descriptors;
mod diff;
mod documented;
mod edited_threads;
mod encoded;
mod far;
mod fetched_names;
mod first_screen;
mod flow;
mod followed;
mod frames;
mod fuzzed_programs;
mod html;
mod in_place;
mod jobs;
mod kept;
mod laid_anew;
mod limits;
mod liveness;
mod llvm;
mod logged;
mod loops;
mod lost;

mod memory;
mod mls;
mod names;
mod numbered_contexts;
mod objects;
mod opmix;
mod order;
mod outsiders;
mod packages;
mod perfetto;
mod pt;
mod python;
mod raptor;
mod raptor_live;
mod refusals;
mod regenerated;
mod regenerated_libraries;
mod regenerated_memory;
mod regenerated_programs;
mod reports;
mod rewrite;
mod runs;
mod schemas;
mod simulators;
mod snapshots;
mod sources;
mod stacks;
mod stepped;
mod tables;
mod thesis;
mod timed;
mod timelines;
mod traced;
mod traces;
mod values;
mod versions;
mod watched;
mod xml;

/// The product of this build.
const BINARY: &str = env!("CARGO_BIN_EXE_everypath");
