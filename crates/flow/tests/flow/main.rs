//! Graphs of programs that are built here, and of damaged files.

mod damage;
mod shapes;
