//! Integration tests of `report`: goldens that hold input and output together, and the page of `--html`.
#![forbid(unsafe_code)]

mod diff;
mod goldens;
mod html;
mod notation;
mod schema;
