//! Resources at their limits, and files that results go to.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use testkit::folder::Folder;
use testkit::process;

use crate::BINARY;

/// Runs a shell's script with three descriptors open; `$E` is the command.
fn shell(folder: &Folder, script: &str) -> Output {
    let script = format!("E='{BINARY}'; exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; {script}");
    folder.run("bash", &["-c", &script])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn too_little_address_space_is_one_sentence_that_tells_the_way() {
    let folder = Folder::new("limits-space");
    for command in ["run", "contexts", "count", "trace -o t.evp"] {
        let output = shell(
            &folder,
            &format!("ulimit -v 300000; exec $E {command} -- true"),
        );
        assert_eq!(
            text(&output.stderr),
            "everypath: the address space is limited to 292 MB (ulimit -v), and Everypath needs 1024 MB of it; \
             raise the limit, or set it for the program alone: sh -c 'ulimit -v 300000; exec PROGRAM'\n"
        );
        assert_eq!(output.status.code(), Some(125));
    }
    assert!(!folder.file("t.evp").exists(), "nothing ran");
    let doctor = shell(&folder, "ulimit -v 300000; exec $E doctor");
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    assert!(
        text(&doctor.stdout).contains("limited to 292 MB"),
        "{doctor:?}"
    );
    let program = "ulimit -v 300000; exec python3 -c 'print(sum(range(1000)))'";
    let output = folder.run(BINARY, &["contexts", "-q", "--", "sh", "-c", program]);
    assert_eq!(text(&output.stdout), "499500\n", "{output:?}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// The editor takes all processors; where no thread can be made, it does the same with its own. Root has no such limit.
#[test]
fn files_are_edited_without_a_thread_more() {
    let folder = Folder::new("limits-threads");
    let edit = ["rewrite", "/usr/bin/gzip", "--tool", "edges", "-o"];
    let output = folder.run(BINARY, &[&edit[..], &["expected"]].concat());
    assert!(output.status.success(), "{output:?}");
    let script = "cp $E editor; mkdir out; chmod 755 . editor; chmod 777 out; \
        test $(id -u) != 0 || other='setpriv --reuid=65534 --regid=65534 --clear-groups'; \
        exec $other prlimit --nproc=1 ./editor";
    let output = shell(&folder, &format!("{script} {} out/gzip", edit.join(" ")));
    assert!(output.status.success(), "{output:?}");
    let [expected, alone] =
        ["expected", "out/gzip"].map(|name| fs::read(folder.file(name)).unwrap());
    assert!(expected == alone);
}

#[test]
fn too_few_descriptors_are_said_to_be_so() {
    let folder = Folder::new("limits-files");
    // The shell's own, and one for each of what a run needs.
    for (files, sentence) in [
        (
            6,
            "everypath: cannot execute the engine inside the new process (Too many open files (os error 24)); \
             allow more open files (ulimit -n 64)\n",
        ),
        (
            5,
            "everypath: cannot start a process (Too many open files (os error 24))\n",
        ),
    ] {
        let script = format!("ulimit -n {files}; exec $E contexts -- true");
        let output = shell(&folder, &script);
        assert_eq!(text(&output.stderr), sentence);
        assert_eq!(output.status.code(), Some(125));
    }
    let output = shell(&folder, "ulimit -n 8; exec $E contexts -- true");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        text(&output.stderr).contains(" instructions\n"),
        "{output:?}"
    );
}

/// `-o FILE` has what standard output has without it.
#[test]
fn results_go_where_o_says() {
    let folder = Folder::new("limits-output");
    let run = |arguments: &[&str]| {
        let output = folder.run(BINARY, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        text(&output.stdout)
    };
    run(&["contexts", "-q", "-o", "c.evp", "--", "true"]);
    run(&[
        "trace",
        "-q",
        "-o",
        "t.evp",
        "--memory",
        "addresses",
        "--",
        "true",
    ]);
    for command in [
        &["report", "c.evp"][..],
        &["report", "c.evp", "--format", "json"],
        &["report", "t.evp", "--as", "counts", "--format", "csv"],
        &["diff", "c.evp", "c.evp"],
        &["stats", "t.evp"],
        &["caches", "t.evp"],
        &["flow", "/bin/true"],
    ] {
        if command.contains(&"--as") {
            // There it is the recording that was made.
            run(&[command, &["-o", "made.evp"]].concat());
            assert!(run(&["report", "made.evp"]).contains(" instructions executed"));
            continue;
        }
        let printed = run(command);
        assert!(printed.len() > 100, "{command:?}: {printed}");
        assert_eq!(run(&[command, &["-o", "result"]].concat()), "");
        let written = fs::read_to_string(folder.file("result")).unwrap();
        assert_eq!(written, printed, "{command:?}");
        fs::remove_file(folder.file("result")).unwrap();
    }
    run(&["report", "c.evp", "--format", "folded", "-o", "f.gz"]);
    let unpacked = shell(&folder, "gzip -dc f.gz");
    assert_eq!(
        text(&unpacked.stdout),
        run(&["report", "c.evp", "--format", "folded"])
    );

    let before = fs::read(folder.file("c.evp")).unwrap();
    let output = folder.run(BINARY, &["report", "c.evp", "-o", "c.evp"]);
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        text(&output.stderr),
        "everypath: 'c.evp' is a recording's name, and this writes a report; name it otherwise, or say with \
         --as what is to be made\n"
    );
    assert_eq!(fs::read(folder.file("c.evp")).unwrap(), before);
}

/// The process that was started is killed: the program ends with it, as natively, and another
/// process writes what was counted until then.
#[test]
fn counts_are_kept_when_everypath_is_killed() {
    let folder = Folder::new("limits-killed");
    for command in ["contexts", "count"] {
        let file = format!("{command}.evp");
        let script = "echo ready; while :; do :; done";
        let mut child = Command::new(BINARY)
            .args([command, "-q", "-o", &file, "--", "sh", "-c", script])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 6];
        child.stdout.take().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"ready\n");
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let kept = folder.file(&file);
        assert!(
            process::until(|| kept.exists()),
            "{command}: nothing is kept"
        );
        let output = folder.run(BINARY, &["report", &file]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let report = text(&output.stdout);
        assert!(
            report.contains("\nwas killed by SIGKILL after "),
            "{report}"
        );
        assert!(report.contains(" instructions"), "{report}");
    }
}
