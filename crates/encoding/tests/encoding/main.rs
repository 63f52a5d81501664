//! The paper's figures, and contexts of random call graphs against lists of all their paths.

mod figures;
mod random;
