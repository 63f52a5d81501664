//! Names of stripped programs, from a server on this machine (`DEBUGINFOD_URLS`).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use testkit::folder::Folder;

use crate::BINARY;

const PROGRAM: &str = r"
__attribute__((noinline)) static int work(int n) { return n < 2 ? n : work(n - 1) + work(n - 2); }
int main(void) { return work(12) != 144; }
";

fn succeed(program: &str, words: &[&str], folder: &Folder) -> String {
    let mut command = Command::new(program);
    let output = command
        .current_dir(folder.path())
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Answers requests for this path with these bytes, and all others with 404, as long as the test runs.
fn serve(path: String, bytes: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut part = [0; 1024];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(read) if read > 0 => request.extend_from_slice(&part[..read]),
                    _ => break,
                }
            }
            let is_it = request.starts_with(format!("GET {path} ").as_bytes());
            let (status, body) = match is_it {
                true => ("200 OK", &bytes[..]),
                false => ("404 Not Found", &b""[..]),
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            // A client may have gone.
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(body));
        }
    });
    port
}

fn contexts(folder: &Folder, servers: &str, tools: &str) -> String {
    let mut command = Command::new(BINARY);
    command.current_dir(folder.path());
    command.args(["contexts", "--", "./prog"]);
    command.env("DEBUGINFOD_URLS", servers).env("PATH", tools);
    command.env("DEBUGINFOD_CACHE_PATH", folder.file("cache"));
    command.env("no_proxy", "127.0.0.1").stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_server_names_the_functions_of_a_stripped_program() {
    let folder = Folder::new("fetched_names");
    folder.program(&["-g", "-O1", "-Wl,--build-id"], "prog", PROGRAM);
    succeed("objcopy", &["--only-keep-debug", "prog", "debug"], &folder);
    succeed("strip", &["prog"], &folder);
    let notes = succeed("readelf", &["-n", "prog"], &folder);
    let id = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "))
        .unwrap();
    let bytes = fs::read(folder.file("debug")).unwrap();
    let port = serve(format!("/buildid/{id}/debuginfo"), bytes);
    let path = std::env::var("PATH").unwrap();
    let servers = format!("http://127.0.0.1:{port}");
    let is_named = |report: &str| {
        report
            .lines()
            .any(|line| line.contains(" work ") && line.contains("prog.c:2"))
    };
    let nameless = contexts(&folder, "", &path);
    assert!(
        !is_named(&nameless) && !folder.file("cache").exists(),
        "{nameless}"
    );
    let without_client = contexts(&folder, &servers, "/nowhere");
    assert!(
        without_client.contains("debuginfod-find cannot be run"),
        "{without_client}"
    );
    let named = contexts(&folder, &servers, &path);
    assert!(is_named(&named), "{named}");
    // From now on the cache has them.
    let named = contexts(&folder, "http://127.0.0.1:1", &path);
    assert!(is_named(&named), "{named}");
}
