//! Far branches: to 32-bit code they fault, and a trace of others can be read. Selectors of gs in memory fault, too.

use std::process::Output;

use testkit::folder::Folder;

use crate::BINARY;

const FLAGS: [&str; 2] = ["-O1", "-no-pie"];

/// Branches to 32-bit code by four instructions, and by a selector of the local table. The handler
/// says what it sees and goes on behind the instruction.
const TO_32_BITS: &str = r#"
#define _GNU_SOURCE
#include <asm/ldt.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
static struct { uint32_t offset; uint16_t selector; } __attribute__((packed)) pointer;
static uint64_t stack;
extern char behind[], at[];
static void handler(int signal, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    printf("signal %d code %d address %p cs %x err %llx trap %llx at %d pushed %d\n", signal, info->si_code, info->si_addr,
        (unsigned)(g[REG_CSGSFS] & 0xffff), g[REG_ERR], g[REG_TRAPNO], *(unsigned char *)g[REG_RIP], (int)(stack - g[REG_RSP]));
    g[REG_RIP] = g[REG_RBX];
    g[REG_RSP] = stack;
}
#define TRY(code) asm volatile("sub $128, %%rsp; mov %%rsp, %0; lea 1f(%%rip), %%rbx; " code "; 1: add $128, %%rsp" \
    : "=m"(stack) : "a"((uint64_t)pointer.selector), "c"(&pointer) : "rbx", "rdx", "memory", "cc")
int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = handler, .sa_flags = SA_SIGINFO}, 0);
    struct user_desc code = {.entry_number = 1, .limit = 0xfffff, .seg_32bit = 1, .contents = 2, .limit_in_pages = 1, .useable = 1};
    int has_local = !syscall(SYS_modify_ldt, 1, &code, sizeof code);
    for (int round = 0; round < 2; round++) {
        pointer.selector = round && has_local ? 0xf : 0x23;
        pointer.offset = 0x10000000;
        TRY("push %%rax; push $0x10000000; lretq");
        TRY("push $0x2b; push %%rsp; pushfq; push %%rax; push $0x10000000; iretq");
        TRY("ljmpl *(%%rcx)");
        TRY("lcalll *(%%rcx)");
    }
    return 7;
}
"#;

/// First byte of the branch, and how much was pushed before it.
const SEEN: [(u8, i32); 4] = [(0x48, 16), (0x48, 40), (0xFF, 0), (0xFF, 0)];

fn everypath(folder: &Folder, arguments: &[&str]) -> Output {
    folder.run(BINARY, arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_branch_to_32_bit_code_faults_and_is_told_once() {
    let folder = Folder::new("far-32");
    folder.program(&FLAGS, "wide", TO_32_BITS);
    let expected: String = SEEN
        .into_iter()
        .chain(SEEN)
        .map(|(byte, pushed)| {
            format!(
                "signal 11 code 128 address (nil) cs 33 err 0 trap d at {byte} pushed {pushed}\n"
            )
        })
        .collect();
    let ways: [&[&str]; 5] = [
        &["run"],
        &["contexts", "-q"],
        &["contexts", "-q", "--mode", "intra"],
        &["count", "-q"],
        &["trace", "-q", "-o", "wide.evp"],
    ];
    for way in ways {
        let output = everypath(&folder, &[way, &["--", "./wide"]].concat());
        let said = text(&output.stderr);
        assert_eq!(text(&output.stdout), expected, "{way:?}: {said}");
        assert_eq!(output.status.code(), Some(7), "{way:?}: {said}");
        assert_eq!(
            said,
            "everypath: the program branches to 32-bit code (selector 0x23), which Everypath cannot run; \
             the branch faults (SIGSEGV)\n",
            "{way:?}"
        );
    }
    sound(&folder, "wide.evp");
}

fn sound(folder: &Folder, file: &str) {
    let verified = everypath(folder, &["verify", file]);
    assert!(
        verified.status.success(),
        "{}{}",
        text(&verified.stdout),
        text(&verified.stderr)
    );
}

/// A near call that is returned from by `lretq`.
const RETURNS: &str = r#"
asm("by_far: pop %rcx; push $0x33; push %rcx; lretq");
extern void by_far(void);
int main(void) {
    for (int i = 0; i < 3; i++) asm volatile("sub $128, %%rsp; call by_far; add $128, %%rsp" ::: "rcx", "memory");
}
"#;

#[test]
fn a_trace_says_where_a_far_branch_went() {
    let folder = Folder::new("far-trace");
    folder.program(&FLAGS, "returns", RETURNS);
    let output = everypath(
        &folder,
        &["trace", "-q", "-o", "far.evp", "--", "./returns"],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    sound(&folder, "far.evp");
    let dump = text(&everypath(&folder, &["dump", "far.evp"]).stdout);
    let lines: Vec<&str> = dump.lines().collect();
    let branches: Vec<usize> = (0..lines.len())
        .filter(|&at| lines[at].starts_with("# far branch, to "))
        .collect();
    assert_eq!(branches.len(), 3);
    for at in branches {
        assert!(lines[at - 1].contains("ret far"), "{}", lines[at - 1]);
        assert!(lines[at + 1].contains("add rsp,"), "{}", lines[at + 1]);
    }
}

/// Two loads of gs that natively succeed.
const LOADS: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>
static struct { uint32_t offset; uint16_t selector; } __attribute__((packed)) far = {1, 0};
static void handler(int signal, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    printf("signal %d code %d at %d\n", signal, info->si_code, info->si_addr == (void *)g[REG_RIP]);
    g[REG_RIP] = g[REG_RBX];
}
int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    sigaction(SIGILL, &(struct sigaction){.sa_sigaction = handler, .sa_flags = SA_SIGINFO}, 0);
    asm volatile("lea 1f(%%rip), %%rbx; lgs (%0), %%eax; 1:" : : "c"(&far) : "rax", "rbx", "memory");
    asm volatile("lea 1f(%%rip), %%rbx; mov %%gs:(%0), %%gs; 1:" : : "c"(&far.selector) : "rbx", "memory");
    return 7;
}
"#;

#[test]
fn selectors_of_gs_in_memory_are_illegal() {
    let folder = Folder::new("far-gs");
    folder.program(&FLAGS, "prog", LOADS);
    for mode in ["run", "contexts", "count", "trace"] {
        let output = everypath(&folder, &[mode, "-q", "-o", "run.evp", "--", "./prog"]);
        assert_eq!(output.status.code(), Some(7), "{mode}: {output:?}");
        let each = "signal 4 code 2 at 1\n";
        assert_eq!(text(&output.stdout), each.repeat(2), "{mode}");
    }
}
