//! The tests' needs of the machine: Debian packages, the commands by which their absence is
//! seen, and which test modules use which command.
//!
//! Tests never skip by themselves: one whose tool is missing fails. `cargo xtask ci` installs what
//! is missing, and where it cannot, it leaves out the modules of [`MODULES`] by name and counts them.

use std::path::Path;
use std::process::{Command, Stdio};

/// A group of packages.
pub struct Group {
    /// Use of the packages in the tests.
    pub why: &'static str,
    pub packages: &'static [&'static str],
}

/// Debian packages (bookworm), installed by [`crate::install`].
#[rustfmt::skip]
pub const PACKAGES: &[Group] = &[
    Group { why: "compilers of the target programs", packages: &[
        "gcc", "g++", "libc6-dev", "musl-tools", "golang-go",
    ] },
    Group { why: "programs that are run", packages: &[
        "luajit", "lua5.4", "busybox-static", "gawk", "perl", "python3", "sqlite3", "git", "bc", "time",
        "zstd", "xz-utils", "bzip2", "pbzip2", "pigz", "openssl",
    ] },
    Group { why: "real programs of tests/real", packages: &[
        "procps", "make", "curl", "ripgrep", "jq", "tcl", "ruby", "php-cli", "nodejs", "default-jdk-headless",
        "redis-server", "redis-tools", "nginx-light", "postgresql", "ltrace", "ffmpeg", "chromium",
        "pypy3", "qemu-user", "sbcl", "guile-3.0", "gforth", "swi-prolog-nox", "mono-runtime", "mono-mcs",
        "ocaml-nox", "erlang-base", "terser", "rollup", "node-typescript", "python3-venv", "pcre2-utils",
        "dpkg-dev", "zlib1g-dev", "cron", "dbus", "rsyslog", "openssh-server", "openssh-client", "daemon",
        "systemd", "bsdutils", "sudo", "util-linux", "qemu-utils", "python3-greenlet",
    ] },
    Group { why: "independent oracles, and tools to look at failures with", packages: &[
        "binutils", "gdb", "valgrind", "strace", "libc6-dbg", "libxml2-utils", "lcov", "libipt-dev", "uftrace", "afl++", "debuginfod",
    ] },
    Group { why: "compilers and linkers that optimise by profiles", packages: &[
        "bolt-16", "clang-14", "llvm-14", "lld-14",
    ] },
];

/// Stands for the readers of profiles, which come from npm.
pub const CONSUMERS: &str = "the readers of profiles";

/// Stands for namespaces of users, which containers and changed roots may lack.
const USER_NAMESPACES: &str = "namespaces of users";

/// A test module that cannot run without a command or file.
struct Module {
    package: &'static str,
    /// Beginning of the tests' names.
    module: &'static str,
    /// Commands, or files by their absolute path.
    needs: &'static [&'static str],
}

#[rustfmt::skip]
const MODULES: &[Module] = &[
    Module { package: "cli", module: "allocations::", needs: &["chromium", "go", "valgrind"] },
    Module { package: "cli", module: "bolt::", needs: &["/usr/lib/llvm-16/bin/llvm-bolt"] },
    Module { package: "cli", module: "children::process_1_of_a_namespace_waits_for_what_it_inherits", needs: &[USER_NAMESPACES] },
    Module { package: "cli", module: "consumers::", needs: &["callgrind_annotate", "chromium", CONSUMERS] },
    Module { package: "cli", module: "coverage::", needs: &["lcov", "zstd", "gcov"] },
    Module { package: "cli", module: "descriptors::", needs: &["pigz", "pbzip2", "zstd", "xz"] },
    Module { package: "cli", module: "documented::the_screen", needs: &["python3"] },
    Module { package: "cli", module: "fetched_names::", needs: &["debuginfod-find", "objcopy", "strip"] },
    Module { package: "cli", module: "flow::graphs_have_all_that_large", needs: &["clang-14", "ld.lld-14", "/usr/lib/llvm-14/bin/llvm-objdump", "ruby", "ocaml", "gofmt"] },
    Module { package: "cli", module: "fuzzed_programs::a_fuzzer", needs: &["afl-fuzz"] },
    Module { package: "cli", module: "html::", needs: &["chromium", CONSUMERS] },
    Module { package: "cli", module: "llvm::", needs: &["clang-14"] },
    Module { package: "flow", module: "clang::", needs: &["clang-14"] },
    Module { package: "cli", module: "loops::", needs: &["clang-14"] },
    Module { package: "cli", module: "names::", needs: &["gdb"] },
    Module { package: "cli", module: "objects::", needs: &["clang-14"] },
    Module { package: "cli", module: "packages::", needs: &["dpkg-deb", "strip"] },
    Module { package: "cli", module: "perfetto::", needs: &[CONSUMERS, "uftrace"] },
    Module { package: "cli", module: "pt::", needs: &["/usr/include/intel-pt.h"] },
    Module { package: "cli", module: "python::", needs: &["python3"] },
    Module { package: "cli", module: "rewrite::", needs: &["llvm-strip-14", "clang-14", "readelf", "ld.gold", "python3", "git", "gawk", "gdb"] },
    Module { package: "cli", module: "stacks::greenlets", needs: &["/usr/lib/python3/dist-packages/greenlet"] },
    Module { package: "cli", module: "stacks::coroutines_of_real", needs: &["qemu-img", "gofmt"] },
    Module { package: "cli", module: "timelines::", needs: &["uftrace"] },
    Module { package: "cli", module: "traced::", needs: &["strace", "gdb"] },
    Module { package: "cli", module: "versions::", needs: &["clang-14", "python3"] },
    Module { package: "cli", module: "xml::", needs: &["xmllint"] },
    Module { package: "image", module: "symbols::", needs: &["go"] },
];

/// The modules of a crate's integration tests that lack something on this machine.
pub fn missing_for(package: &str, is_unit: bool) -> Vec<String> {
    let modules = MODULES
        .iter()
        .filter(|module| !is_unit && module.package == package)
        .filter(|module| !module.needs.iter().all(|need| is_there(need)));
    modules.map(|module| module.module.to_owned()).collect()
}

/// Whether a command is in the path, or a file exists; [`CONSUMERS`] are the readers of profiles that
/// `tests/consumers/install` fetches.
pub fn is_there(need: &str) -> bool {
    if need == CONSUMERS {
        return Path::new("target/consumers/installed").exists();
    }
    if need == USER_NAMESPACES {
        let words = "--user --map-root-user --pid --fork --mount-proc true";
        let mut unshare = Command::new("unshare");
        let unshare = unshare.args(words.split(' ')).stderr(Stdio::null());
        return unshare.status().is_ok_and(|status| status.success());
    }
    if need.starts_with('/') {
        return Path::new(need).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(need).is_file())
}
