//! Tables of functions and basic blocks at the end of a report, of a compiled program:
//! prog4 of the IHPP paper (listing 4.13), whose counters follow from its source.

use testkit::folder::Folder;

use crate::BINARY;

const PROG4: &str = include_str!("../../../../tests/programs/contexts_prog4.c");

fn everypath(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.run(BINARY, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A row of a table: name, address, counter, and the lines below.
struct Row<'a> {
    name: &'a str,
    address: u64,
    counter: u64,
    code: Vec<&'a str>,
}

/// The table with this title.
fn table<'a>(report: &'a str, title: &str) -> Vec<Row<'a>> {
    let head = format!("-----\n{title}\n-----\n");
    let (_, table) = report
        .split_once(&head)
        .unwrap_or_else(|| panic!("{report}"));
    let mut rows: Vec<Row> = Vec::new();
    for line in table.lines().take_while(|line| *line != "-----") {
        if let Some((name, rest)) = line.split_once(" addr: 0x") {
            let (address, counter) = rest.split_once(" counter: ").unwrap();
            rows.push(Row {
                name,
                address: u64::from_str_radix(address, 16).unwrap(),
                counter: counter.parse().unwrap(),
                code: Vec::new(),
            });
        } else if !line.is_empty() && line != "Disassembly:" {
            rows.last_mut().unwrap().code.push(line.trim_start());
        }
    }
    assert!(rows.is_sorted_by_key(|row| row.address));
    rows
}

fn sum(rows: &[Row], prefix: &str) -> u64 {
    let own = rows.iter().filter(|row| row.name.starts_with(prefix));
    own.map(|row| row.counter).sum()
}

/// Executions of blocks on a line.
fn on_line<'a>(rows: &'a [Row], line: u32) -> Vec<&'a Row<'a>> {
    let at = format!(" at {line},");
    rows.iter().filter(|row| row.name.contains(&at)).collect()
}

fn check_blocks(report: &str) {
    let functions = table(report, "All functions");
    let counters: Vec<(&str, u64)> = functions.iter().map(|f| (f.name, f.counter)).collect();
    assert_eq!(counters, [("p()", 5), ("foo()", 2)]);
    let blocks = table(report, "All basic blocks");
    assert_eq!(sum(&blocks, "{p+0 at 7,"), 5);
    assert_eq!(sum(&blocks, "{foo+0 at 12,"), 2);
    let [turn] = on_line(&blocks, 21)[..] else {
        panic!("{report}");
    };
    // The call's column in the source.
    let column = PROG4.lines().nth(20).unwrap().find("p(1)").unwrap() + 1;
    assert!(
        turn.name.ends_with(&format!(",{column}}}")),
        "{}",
        turn.name
    );
    assert_eq!(turn.counter, 3);
    assert_eq!(turn.code.last(), Some(&"call p"));
    // The comparison at the end of the loop is executed once more than its body.
    let most = on_line(&blocks, 20).iter().map(|row| row.counter).max();
    assert_eq!(most, Some(4));
    let back = format!("jle {}", turn.name);
    let goes_back = |row: &&Row| row.code.last() == Some(&&*back);
    assert_eq!(blocks.iter().filter(goes_back).count(), 1);
    let recursion = blocks
        .iter()
        .find(|row| row.code.last() == Some(&"call foo"));
    assert_eq!(recursion.unwrap().counter, 1);
    // A function's instructions are those of its blocks, each below its name.
    let of_foo: Vec<&str> = blocks
        .iter()
        .filter(|row| row.name.starts_with("{foo+"))
        .flat_map(|row| row.code.iter().copied())
        .collect();
    let is_code = |line: &&str| !line.starts_with('{');
    let shown: Vec<&str> = functions[1].code.iter().copied().filter(is_code).collect();
    assert_eq!(shown, of_foo);
}

#[test]
fn counters_of_blocks_follow_from_the_source() {
    let folder = Folder::new("tables");
    folder.program(&["-g", "-O0"], "prog4", PROG4);
    let modes: [&[&str]; 3] = [
        &["--mode", "intra", "-k", "100", "--slabs"],
        &["--mode", "intra", "--roll-loops"],
        &["--mode", "inter", "-k", "2", "--slabs"],
    ];
    for mode in modes {
        let record = [
            "contexts", "-q", "-o", "run.evp", "--funcs", "foo,p", "--", "./prog4",
        ];
        let record = [&record[..1], mode, &record[1..]].concat();
        everypath(&folder, &record);
        for format in ["text", "report"] {
            let tables = ["--funcs-disasm", "--blocks-disasm", "--show-blocks"];
            let report = [&["report", "run.evp", "--format", format], &tables[..]].concat();
            check_blocks(&everypath(&folder, &report));
        }
    }
}

/// A stub between a call and the function, as linkers of some systems make them (listing
/// 4.16), and a program that calls through it.
const STUBS: &str = r#"
int value;
__attribute__((noinline)) void real(int n) { value += n; }
void stub(int n);
__asm__(".text\n.type stub, @function\nstub:\n jmp .Lsecond\n .p2align 4\n.Lsecond:\n jmp real\n .p2align 4\n");
int main(int argc, char **argv) {
    for (int i = 0; i < argc + 2; i++)
        stub(i);
    return value - 3;
}
"#;

/// Contexts of functions hold no code: it is that of the file, if it is still the same.
#[test]
fn code_of_functions_is_that_of_their_files() {
    let folder = Folder::new("tables-code");
    folder.program(&["-g", "-O1", "-fno-inline"], "prog", STUBS);
    let record = ["contexts", "-q", "-o", "run.evp", "--funcs", "main,real"];
    everypath(&folder, &[&record[..], &["--", "./prog"]].concat());
    let tables = ["report", "run.evp", "--format", "text", "--funcs-disasm"];
    let report = everypath(&folder, &tables);
    let functions = table(&report, "All functions");
    let of = |name: &str| functions.iter().find(|row| row.name == name).unwrap();
    assert_eq!(of("real()").counter, 3);
    let (address, last) = of("real()")
        .code
        .last()
        .unwrap()
        .split_once("    ")
        .unwrap();
    assert_eq!(last, "ret");
    assert!(u64::from_str_radix(address, 16).unwrap() > of("real()").address);
    let calls: Vec<&str> = of("main()")
        .code
        .iter()
        .copied()
        .filter(|l| l.contains(" call "))
        .collect();
    let [call] = calls[..] else {
        panic!("{report}")
    };
    let (_, way) = call.split_once("call ").unwrap();
    let steps: Vec<&str> = way.split(" --> ").collect();
    assert_eq!(
        (steps[0], steps.len(), steps[2]),
        ("stub", 3, "jmp real"),
        "{way}"
    );
    // A branch back within the function, by how far behind its start it goes.
    let back = of("main()").code.iter().any(|line| line.contains(" main+"));
    assert!(back, "{report}");

    // Another file in its place.
    folder.program(&["-g", "-O0"], "prog", PROG4);
    let report = everypath(&folder, &tables);
    let why = "is not the file that ran: its build id is another.)";
    assert_eq!(report.matches(why).count(), 2, "{report}");
}

/// Stubs between the selected functions are in no recorded block: listing 4.16, with two jumps.
#[test]
fn calls_of_blocks_name_the_jumps_that_lead_on() {
    let folder = Folder::new("tables-stubs");
    folder.program(&["-g", "-O1", "-fno-inline"], "prog", STUBS);
    let record = [
        "contexts", "-q", "-o", "run.evp", "--mode", "intra", "-k", "2",
    ];
    let record = [&record[..], &["--funcs", "main,real", "--", "./prog"]].concat();
    everypath(&folder, &record);
    let call = |form: &str, table: &str| {
        let report = [
            "report", "run.evp", "--forest", "kccf", "--format", form, table,
        ];
        let report = everypath(&folder, &report);
        let call = report.lines().find(|line| line.contains("call prog+0x"));
        let call = call.unwrap_or_else(|| panic!("{report}")).to_owned();
        call.replace("&gt;", ">")
    };
    for form in ["text", "report", "xml"] {
        for table in ["--blocks-disasm", "--funcs-disasm"] {
            let call = call(form, table);
            let steps: Vec<&str> = call.split(" --> ").collect();
            assert_eq!(steps.len(), 3, "{form} {table}: {call}");
            assert!(steps[1].starts_with("jmp prog+0x"), "{call}");
            assert!(steps[2].starts_with("jmp {real+0 at 3,"), "{call}");
        }
    }
    // A file that is not the one that ran says nothing.
    folder.program(&["-g", "-O0"], "prog", PROG4);
    assert!(!call("text", "--blocks-disasm").contains("-->"));
}

#[test]
fn counters_of_functions_are_their_calls() {
    let folder = Folder::new("tables-functions");
    folder.program(&["-g", "-O0"], "prog4", PROG4);
    let options = ["--format", "text", "--report", "out.txt", "--show-funcs"];
    let options = [&["contexts", "--funcs", "main,foo,p"], &options[..]].concat();
    everypath(&folder, &[&options[..], &["--", "./prog4"]].concat());
    let report = std::fs::read_to_string(folder.file("out.txt")).unwrap();
    let functions = table(&report, "All functions");
    let counters: Vec<(&str, u64)> = functions.iter().map(|f| (f.name, f.counter)).collect();
    assert_eq!(counters, [("p()", 5), ("foo()", 2), ("main()", 1)]);
    assert!(functions.iter().all(|function| function.code.is_empty()));
}
