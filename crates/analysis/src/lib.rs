//! Events to results. Pure: no files, no clocks, no names.
//!
//! Invariant: every quick algorithm here has a slow, obvious definition beside
//! it (`oracle`), and property tests that hold the two against each other.
#![forbid(unsafe_code)]

pub mod cct;
pub mod forest;
pub mod hot;
pub mod oracle;
pub mod summary;

pub use forest::{Forest, K, NodeId, activations, inv_k, join, kccf, ksf_from_recording};
