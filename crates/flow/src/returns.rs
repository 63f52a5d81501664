//! Functions that do not return.
//!
//! Functions of libraries are known by their names, functions of the file only by names that the C standard
//! reserves: gawk has an `err` of its own, which returns. Another function of the file does not return if no way
//! from its entry comes to a return, to a jump that is not known, or to a function that returns. What is not
//! known returns: a way too much in a graph does no harm, one that is missing does.

/// Names of functions that never return.
const NAMES: [&str; 44] = [
    "_Exit",
    "_Unwind_Resume",
    "_ZSt10unexpectedv",
    "_ZSt16__throw_bad_castv",
    "_ZSt17__throw_bad_allocv",
    "_ZSt19__throw_logic_errorPKc",
    "_ZSt20__throw_length_errorPKc",
    "_ZSt20__throw_out_of_rangePKc",
    "_ZSt21__throw_runtime_errorPKc",
    "_ZSt24__throw_invalid_argumentPKc",
    "_ZSt24__throw_out_of_range_fmtPKcz",
    "_ZSt25__throw_bad_function_callv",
    "_ZSt28__throw_bad_array_new_lengthv",
    "_ZSt9terminatev",
    "__assert",
    "__assert_fail",
    "__assert_perror_fail",
    "__chk_fail",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_call_unexpected",
    "__cxa_deleted_virtual",
    "__cxa_pure_virtual",
    "__cxa_rethrow",
    "__cxa_throw",
    "__cxa_throw_bad_array_new_length",
    "__fortify_fail",
    "__libc_fatal",
    "__libc_start_call_main",
    "__libc_start_main",
    "__longjmp_chk",
    "__stack_chk_fail",
    "_exit",
    "_longjmp",
    "abort",
    "err",
    "errx",
    "exit",
    "longjmp",
    "pthread_exit",
    "quick_exit",
    "siglongjmp",
    "verr",
    "verrx",
];

/// Whether a function of this file with this name never returns.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with('_') && is_known(name)
}

/// Whether an imported function with this name never returns.
pub(crate) fn is_known(name: &str) -> bool {
    let name = name.split('@').next().unwrap_or(name);
    NAMES.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(NAMES.is_sorted());
        assert!(is_known("abort") && is_known("exit@GLIBC_2.2.5") && !is_known("atexit"));
    }
}
