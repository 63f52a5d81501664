//! The editor's library on damaged files.

mod damage;
