//! Graphs of programs that are built here, and of damaged files.

mod clang;
mod damage;
mod shapes;
