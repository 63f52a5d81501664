//! The page as text: it holds nothing of the recording that a browser could
//! take for a tag. What it shows is tested in a browser (`crates/cli/tests/cli/html.rs`).

use report::{Report, View};
use trace::{Function, Label, Meta, Mode, Module, Node, Process, Recording, Thread};

const TAG: &str = "</script><script>evil()</script>";

fn recording(calls: &[u64]) -> Recording {
    let function = Function {
        id: 256,
        module: Some(0),
        name: Some(TAG.into()),
        file: Some(TAG.into()),
        ..Function::default()
    };
    let thread = |&count: &u64| Thread {
        nodes: vec![
            Node {
                label: Label::THREAD,
                count: 1,
                ..Node::default()
            },
            Node {
                label: Label(256),
                parent: Some(0),
                depth: 1,
                count,
                ..Node::default()
            },
        ],
        ..Thread::default()
    };
    Recording {
        denied: Vec::new(),
        natives: Vec::new(),
        meta: Meta {
            producer: TAG.into(),
            command: vec![TAG.into()],
            options: vec![("funcs".into(), TAG.into())],
            mode: Mode::Contexts,
            ..Meta::default()
        },
        processes: vec![Process {
            exe: TAG.into(),
            args: vec![TAG.into()],
            modules: vec![Module {
                path: TAG.into(),
                ..Module::default()
            }],
            functions: vec![function],
            threads: calls.iter().map(thread).collect(),
            ..Process::default()
        }],
    }
}

fn page(recording: &Recording) -> Result<String, String> {
    let view = View {
        merged: true,
        ..View::default()
    };
    let mut report = Report::new(recording, &view);
    report.notes = vec![TAG.into()];
    let mut out = Vec::new();
    report::html::write(&report, None, &mut out).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn no_text_of_the_recording_is_a_tag() {
    let page = page(&recording(&[3, 4])).unwrap();
    assert!(!page.contains("evil()</script>"), "{page}");
    // The head, two columns of the tree, one of values; and the scripts.
    assert_eq!(page.matches("<script").count(), 5);
    assert_eq!(page.matches("</script>").count(), 5);
    let title = "<title>'&lt;/script&gt;&lt;script&gt;evil()&lt;/script&gt;' – everypath</title>";
    assert!(page.contains(title), "{page}");
    assert!(!page.contains("{{") && !page.contains("}}</"));
    for outside in ["src=", "@import", "url(", "fetch(", "href=\"http"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_sum_beyond_the_exact_doubles_is_refused() {
    let most = (1 << 53) - 1;
    assert!(page(&recording(&[most])).is_ok());
    let error = page(&recording(&[most, 1])).unwrap_err();
    assert!(
        error.starts_with("9,007,199,254,740,992 calls: "),
        "{error}"
    );
    assert!(error.contains("9007199254740991 (2^53 - 1)"), "{error}");
    let error = page(&recording(&[u64::MAX, u64::MAX])).unwrap_err();
    assert!(error.contains("(2^53 - 1)"), "{error}");
}
