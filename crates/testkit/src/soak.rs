//! Random programs, run natively and translated, for as long as one likes.
//!
//! Problem: the programs of `tests/programs` show what somebody thought of.
//!
//! Approach: [`generate`] makes an assembly program of a seed, from the tables of
//! [`forms`] (instructions) and the kinds of [`chunks`] (control flow, copied and
//! rewritten code); `frame.S` is what they share: threads, alarms, faults, and a
//! digest of all registers, flags and memory, which is what a program prints.
//! [`check`] runs one natively twice and in every mode, [`reduce`] makes a
//! small program of one that differs.
//!
//! Invariant: what a program prints depends on its text alone, never on
//! addresses, on the time or on which thread is first. A program whose two native
//! runs differ is the generator's fault and says nothing.
//!
//! Limits: what is not in the tables is not tested; programs are some thousand
//! instructions long and make few system calls; memory of threads is apart.

pub mod check;
mod chunks;
pub mod forms;
pub mod generate;
mod operands;
pub mod random;
pub mod reduce;
pub mod source;
