//! Events to results. Pure: no files, no clocks; names are compared where two
//! recordings are (`diff`), never found and never shown.
//!
//! Invariant: every quick algorithm here has a slow, obvious definition beside
//! it (`oracle`), and property tests that hold the two against each other.
#![forbid(unsafe_code)]

pub mod activations;
pub mod allocations;
pub mod branch_stats;
pub mod caches;
pub mod callgraph;
pub mod cct;
pub mod cfiat;
pub mod counts;
pub mod dependences;
pub mod diff;
pub mod encoded;
pub mod fold;
pub mod followed;
pub mod forest;
pub mod hot;
pub mod hot_paths;
pub mod launcher;
pub mod merged;
pub mod nesting;
pub mod oracle;
pub mod pack;
pub mod profile;
pub mod raptor;
pub mod regenerate;
mod slabs;
pub mod static_costs;
pub mod summary;
pub mod turns;
pub mod walk;
pub mod without_root;

pub use forest::{
    Forest, K, NodeId, Weight, activations, inv_k, join, kccf, kccf_of_activations,
    ksf_from_recording,
};
